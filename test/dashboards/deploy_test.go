package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = root + "/deploy/"

// exposure is the most that systemd's analysis may give the unit, of 100. It calls
// up to 40 OK.
const exposure = "20"

func TestTheUnitIsHardened(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatalf("this test needs systemd-analyze (Debian: systemd): %v", err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--offline=yes", "--threshold="+exposure, deploy+"systemd/kvwitness.service").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), " OK ") {
		t.Errorf("it does not say OK:\n%s", out)
	}
}

func TestTheSettingsThatAreDeployedAreAccepted(t *testing.T) {
	for _, path := range []string{"systemd/kvwitness.yaml", "compose/kvwitness.yaml"} {
		out, err := exec.CommandContext(t.Context(), bin(t, "kvwitness"), "config", "--config", deploy+path).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

func TestPromtoolAcceptsTheScrapeConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(absolute(t, root+"/dashboards/rules"), filepath.Join(dir, "rules")); err != nil {
		t.Fatal(err)
	}
	for _, targets := range []string{"prometheus/targets.yml", "compose/targets.yml"} {
		write(t, filepath.Join(dir, "prometheus.yml"), read(t, deploy+"prometheus/prometheus.yml"))
		write(t, filepath.Join(dir, "targets.yml"), read(t, deploy+targets))
		run(t, "promtool", "check", "config", filepath.Join(dir, "prometheus.yml"))
	}
}

func TestAmtoolAcceptsTheRoutes(t *testing.T) {
	run(t, "amtool", "check-config", deploy+"alertmanager/alertmanager.yml", deploy+"alertmanager/receivers.example.yml")
}

// Promise: evidence of wrong data goes to the pager and nothing else does.
func TestAlertsGoToWhomTheyConcern(t *testing.T) {
	for _, c := range []struct {
		file, labels, receivers string
	}{
		{"alertmanager.yml", "alertname=KVWitnessStaleRead severity=page kind=stale_read", "page"},
		{"alertmanager.yml", "alertname=KVWitnessDoubleHold severity=ticket kind=double_hold", "ticket"},
		{"alertmanager.yml", "alertname=KVWitnessDown severity=ticket", "ticket"},
		{"alertmanager.yml", "alertname=KVWitnessFoundInShadow severity=none kind=stale_read", "shown"},
		{"alertmanager.yml", "alertname=KVWitnessWatchdog severity=none", "heartbeat"},
		{"receivers.example.yml", "alertname=KVWitnessStaleRead severity=page", "pagerduty,slack"},
		{"receivers.example.yml", "alertname=KVWitnessDown severity=ticket", "slack"},
		{"receivers.example.yml", "alertname=KVWitnessWatchdog severity=none", "shown"},
	} {
		args := append([]string{"config", "routes", "test", "--config.file=" + deploy + "alertmanager/" + c.file}, strings.Fields(c.labels)...)
		said := strings.Split(strings.TrimSpace(run(t, "amtool", args...)), "\n")
		if got := said[len(said)-1]; got != c.receivers { // a warning comes before
			t.Errorf("%s in %s goes to %s, want %s", c.labels, c.file, got, c.receivers)
		}
	}
}

// service is what of a compose file is looked at.
type service struct {
	Volumes     []string
	Command     []string
	Environment map[string]string
	Privileged  bool
	Ports       []string
	CapAdd      []string `yaml:"cap_add"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
}

// No container engine is needed for what this holds; that the services work
// together needs one.
func TestComposeNamesOnlyWhatIsThereAndGivesNoRights(t *testing.T) {
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal([]byte(read(t, deploy+"compose/compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sidecar", "prometheus", "alertmanager", "grafana"} {
		s, there := file.Services[name]
		if !there {
			t.Errorf("there is no %s", name)
		}
		if s.Privileged || s.CapAdd != nil || s.Ports != nil || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s has rights, or ports beyond loopback: %+v", name, s)
		}
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join(deploy, "compose", from)); err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
			}
		}
		for _, arg := range s.Command {
			if at, listens := strings.CutPrefix(arg, "--web.listen-address="); listens && !strings.HasPrefix(at, "127.0.0.1:") {
				t.Errorf("%s listens at %s", name, at)
			}
		}
	}
	if at := file.Services["grafana"].Environment["GF_SERVER_HTTP_ADDR"]; at != "127.0.0.1" {
		t.Errorf("grafana listens at %q", at)
	}
}

// What Grafana is told to load must be where compose puts it.
func TestGrafanaIsProvisionedWithTheDashboards(t *testing.T) {
	var file struct {
		Providers []struct{ Options struct{ Path string } }
	}
	if err := yaml.Unmarshal([]byte(read(t, deploy+"grafana/provisioning/dashboards/kvwitness.yml")), &file); err != nil {
		t.Fatal(err)
	}
	compose := read(t, deploy+"compose/compose.yml")
	if len(file.Providers) != 1 || !strings.Contains(compose, "../../dashboards/grafana:"+file.Providers[0].Options.Path+":ro") {
		t.Errorf("compose does not put the dashboards at %+v", file.Providers)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
