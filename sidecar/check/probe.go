package check

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/probe"
)

// startLimit is how long a probe may take to say hello.
const startLimit = 2 * time.Minute

// Probe are the needs of the probe's executable: that it is there, of this build,
// and can watch.
func (m *Machine) Probe(ctx context.Context, version string) []Need {
	path, err := probe.Find()
	if err != nil {
		return []Need{unmet("probe", "install "+probe.Command+" beside this command", "%v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	said := strings.TrimSpace(strings.TrimPrefix(string(out), probe.Command))
	found := met("probe", "%s %s", path, said)
	switch {
	case err != nil:
		found = unmet("probe", "install "+probe.Command+" anew", "%s: %v", path, err)
	case said != version:
		found = unmet("probe", "install both commands from one build", "%s is %s, this command %s", path, said, version)
	}
	if found.State != Met {
		return []Need{found}
	}
	return []Need{found, m.starts(ctx, path)}
}

// starts lets a probe load its programs, and watch nobody.
func (m *Machine) starts(ctx context.Context, path string) Need {
	const name = "programs load"
	if len(probe.Missing(m.Permitted, false)) > 0 {
		return unknown(name, "see rights", "a probe has not the rights to try")
	}
	var stderr bytes.Buffer
	child, err := probe.Start(ctx, probe.StartConfig{Path: path, Match: []string{"command=" + nobody}, Stderr: &stderr})
	if err != nil {
		return unmet(name, "see what it says; kvwitness-probe/README.md lists what it needs", "%v %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := child.Close(); err != nil {
		return unmet(name, "see what it says", "%v", err)
	}
	return met(name, "a probe was started, said hello and ended")
}

// nobody is a text that no command line holds.
const nobody = "kvwitness check: no such process \x01"
