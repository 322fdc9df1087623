package gather

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	"go.yaml.in/yaml/v3"
)

// Bounds of a deployment.
const (
	MaxEngines = 256
	maxFile    = 1 << 20
)

// Deployment says what there is. In a file it is YAML of these names.
type Deployment struct {
	Router   string   `yaml:"router"`
	Sidecar  string   `yaml:"sidecar"`
	Engines  []Engine `yaml:"engines"`
	KeyFiles []string `yaml:"key_files"` // of two tenants; one of its own for each
	// SidecarTokenFile and what follows are files; "": none, and the system's authorities.
	SidecarTokenFile string `yaml:"sidecar_token_file"`
	SidecarCertFile  string `yaml:"sidecar_cert_file"` // shown to a sidecar that asks for one
	SidecarKeyFile   string `yaml:"sidecar_key_file"`
	CAFile           string `yaml:"ca_file"`
	API              string `yaml:"api"` // completions or chat
	Model            string `yaml:"model"`
}

// Engine is one of a deployment.
type Engine struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"`
	Role string `yaml:"role"` // prefill, decode, unified; "": as it says itself
}

// ErrDeployment is wrapped by what is wrong with a deployment.
var ErrDeployment = errors.New("deployment")

// ErrLive is returned where traffic would go beyond loopback without leave.
var ErrLive = errors.New("traffic of the gate can provoke a real leak: on anything but loopback allow it with --allow-live")

// Load reads a deployment's file.
func Load(path string) (d Deployment, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrDeployment, err)
	}
	if info.Size() > maxFile {
		return d, fmt.Errorf("%w: %s is longer than %d bytes", ErrDeployment, path, maxFile)
	}
	in, err := os.Open(path)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrDeployment, err)
	}
	defer in.Close()
	dec := yaml.NewDecoder(in)
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("%w: read %s: %w", ErrDeployment, path, err)
	}
	return d, nil
}

// Check refuses what cannot be asked.
func (d *Deployment) Check() error {
	if len(d.Engines) > MaxEngines {
		return fmt.Errorf("%w: %d engines, at most %d", ErrDeployment, len(d.Engines), MaxEngines)
	}
	for _, e := range d.Engines {
		if _, known := roles[e.Role]; !known {
			return fmt.Errorf("%w: the role of %s is %q: want prefill, decode or unified", ErrDeployment, e.URL, e.Role)
		}
	}
	if d.API != "" && d.API != "completions" && d.API != "chat" {
		return fmt.Errorf("%w: api %q: want completions or chat", ErrDeployment, d.API)
	}
	return nil
}

// target is where traffic goes: the router, else the only engine.
func (d *Deployment) target() string {
	switch {
	case d.Router != "":
		return d.Router
	case len(d.Engines) == 1 && d.Engines[0].Role != "prefill" && d.Engines[0].Role != "decode":
		return d.Engines[0].URL
	}
	return ""
}

// local reports whether a URL is of this machine.
func local(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
}
