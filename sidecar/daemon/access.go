package daemon

import (
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/serve"
)

// accessOf is who may ask the sidecar, and how.
func accessOf(d *Daemon, files *config.ListenFiles, token string) (a serve.Access, err error) {
	a.Token = token
	if *files == (config.ListenFiles{}) {
		return a, nil
	}
	a.Certificates, err = credentials.New(credentials.Config{Files: credentials.Files(*files), Of: "the listener's", Protocols: serve.Protocols, Log: d.log})
	return a, err
}
