package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/kvwitness/kvwitness/sidecar/probe"
)

const chart = deploy + "helm/kvwitness/"

// rendered are the chart's manifests by kind, rendered by Go's own templates with the
// few functions of Helm that the chart uses. Helm itself is not run here.
func rendered(t *testing.T, change func(values map[string]any)) map[string]map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chart+"values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(values)
	}
	functions := template.FuncMap{
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"nindent": func(n int, text string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
		},
		"indent": func(n int, text string) string {
			return strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
		},
		"quote": func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"join": func(by string, all []any) string {
			return strings.Join(slices.Collect(func(yield func(string) bool) {
				for _, v := range all {
					if !yield(fmt.Sprint(v)) {
						return
					}
				}
			}), by)
		},
	}
	files, err := filepath.Glob(chart + "templates/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d templates: %v", len(files), err)
	}
	all := map[string]map[string]any{}
	for _, path := range files {
		parsed, err := template.New(filepath.Base(path)).Option("missingkey=error").Funcs(functions).Parse(read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Name": "kvw"}, "Files": chartFiles{t}}); err != nil {
			t.Fatal(err)
		}
		var manifest map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &manifest); err != nil {
			t.Fatalf("%s: %v\n%s", path, err, out.String())
		}
		if manifest != nil {
			all[manifest["kind"].(string)] = manifest
		}
	}
	return all
}

// chartFiles are those of the chart, as templates ask for them.
type chartFiles struct{ t *testing.T }

// Get is the text of one.
func (f chartFiles) Get(name string) string { return read(f.t, chart+name) }

// at follows keys and indices into a manifest.
func at(t *testing.T, v any, keys ...any) any {
	t.Helper()
	for _, k := range keys {
		switch k := k.(type) {
		case string:
			v = v.(map[string]any)[k]
		case int:
			v = v.([]any)[k]
		}
		if v == nil {
			t.Fatalf("there is no %v of %v", k, keys)
		}
	}
	return v
}

// Promise: the chart's pod has no rights, no token of the API and bounds, and its
// settings are those that the sidecar takes.
func TestTheChartGivesNoRightsAndSettingsThatAreAccepted(t *testing.T) {
	all := rendered(t, func(values map[string]any) {
		values["alertmanagers"] = []any{"http://a:9093", "http://b:9093"}
		values["serviceMonitor"].(map[string]any)["enabled"] = true
	})
	want := []string{"ConfigMap", "DaemonSet", "NetworkPolicy", "Service", "ServiceMonitor"}
	if kinds := slices.Sorted(maps.Keys(all)); !slices.Equal(kinds, want) {
		t.Fatalf("kinds %v", kinds)
	}
	pod := at(t, all["DaemonSet"], "spec", "template", "spec")
	container := at(t, pod, "containers", 0)
	for _, c := range []struct {
		got, want any
	}{
		{pod.(map[string]any)["automountServiceAccountToken"], false},
		{at(t, pod, "securityContext", "runAsNonRoot"), true},
		{at(t, container, "securityContext", "capabilities", "drop", 0), "ALL"},
		{container.(map[string]any)["securityContext"].(map[string]any)["allowPrivilegeEscalation"], false},
		{at(t, container, "securityContext", "readOnlyRootFilesystem"), true},
		{at(t, container, "resources", "limits", "memory"), "512Mi"},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	text, err := yaml.Marshal(all["DaemonSet"])
	if err != nil || strings.Contains(string(text), "privileged: true") || strings.Contains(string(text), "add:") || strings.Contains(string(text), "hostPID") {
		t.Errorf("it asks for rights: %v\n%s", err, text)
	}
	path := filepath.Join(t.TempDir(), "kvwitness.yaml")
	write(t, path, at(t, all["ConfigMap"], "data", "kvwitness.yaml").(string))
	cmd := exec.CommandContext(t.Context(), bin(t, "kvwitness"), "config", "--config", path)
	cmd.Env = append(os.Environ(), "KVWITNESS_NODE=n", "KVWITNESS_ALERT_LABELS="+at(t, container, "env", 1, "value").(string))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "http://a:9093,http://b:9093") || !strings.Contains(string(out), "cluster=example,model=example-70b") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Promise: only the probe's container has capabilities, each with its reason, and only
// those that it names itself; none is privileged; and the sidecar waits for both helpers
// where they connect. The rules that the chart brings are those of the dashboards.
func TestHelpersHaveContainersAndOnlyTheProbeHasRights(t *testing.T) {
	for _, old := range []bool{false, true} {
		all := rendered(t, func(values map[string]any) {
			values["probe"].(map[string]any)["enabled"] = true
			values["probe"].(map[string]any)["kernelBefore66"] = old
			values["nvml"].(map[string]any)["enabled"] = true
			values["prometheusRule"].(map[string]any)["enabled"] = true
		})
		pod := at(t, all["DaemonSet"], "spec", "template", "spec")
		if pod.(map[string]any)["hostPID"] != true {
			t.Error("the probe does not see the node's processes")
		}
		settings := at(t, all["ConfigMap"], "data", "kvwitness.yaml").(string)
		for n, name := range []string{"sidecar", "probe", "nvml"} {
			c := at(t, pod, "containers", n).(map[string]any)
			secure := at(t, c, "securityContext").(map[string]any)
			if c["name"] != name || at(t, c, "resources", "limits", "memory") == nil || secure["privileged"] != nil || secure["readOnlyRootFilesystem"] != true {
				t.Errorf("container %d: %v", n, c)
			}
			added, _ := at(t, secure, "capabilities").(map[string]any)["add"].([]any)
			if want := capabilities(name, old); fmt.Sprint(added) != fmt.Sprint(want) {
				t.Errorf("%s has %v, want %v", name, added, want)
			}
			if name != "sidecar" {
				socket, _ := strings.CutPrefix(at(t, c, "args", 0).(string), "--connect=")
				if !strings.Contains(settings, "_socket: "+socket+"\n") {
					t.Errorf("%s connects to %s, where nobody waits: %s", name, socket, settings)
				}
			}
		}
		if groups := at(t, all["PrometheusRule"], "spec", "groups").([]any); len(groups) == 0 {
			t.Error("no rules")
		}
	}
}

// Promise: where a secret with a certificate is named, the sidecar is told of its files
// where they are mounted, and who asks it, kubelet and Prometheus, asks by HTTPS.
func TestTheChartsSecretMakesItHTTPS(t *testing.T) {
	all := rendered(t, func(values map[string]any) {
		values["tlsSecret"] = "kvw-tls"
		values["serviceMonitor"].(map[string]any)["enabled"] = true
	})
	pod := at(t, all["DaemonSet"], "spec", "template", "spec")
	container := at(t, pod, "containers", 0)
	if at(t, container, "livenessProbe", "httpGet", "scheme") != "HTTPS" || at(t, all["ServiceMonitor"], "spec", "endpoints", 0, "scheme") != "https" {
		t.Error("somebody asks in the clear")
	}
	where := ""
	for _, m := range at(t, container, "volumeMounts").([]any) {
		if at(t, m, "name") == "tls" {
			where = at(t, m, "mountPath").(string)
		}
	}
	for _, v := range at(t, pod, "volumes").([]any) {
		if at(t, v, "name") == "tls" && at(t, v, "secret", "secretName") != "kvw-tls" {
			t.Errorf("another secret is mounted: %v", v)
		}
	}
	settings := at(t, all["ConfigMap"], "data", "kvwitness.yaml").(string)
	for key, file := range map[string]string{"listen_cert_file": "tls.crt", "listen_key_file": "tls.key"} {
		if where == "" || !strings.Contains(settings, key+": "+where+"/"+file+"\n") {
			t.Errorf("%s is not %s in %q: %s", key, file, where, settings)
		}
	}
}

// capabilities are those that a container is given.
func capabilities(container string, oldKernel bool) (all []any) {
	if container != "probe" {
		return nil
	}
	for _, c := range probe.Rights {
		if !c.Old || oldKernel {
			all = append(all, strings.TrimPrefix(c.Name, "CAP_"))
		}
	}
	return all
}

// Promise: the schema knows every value that there is, and refuses all others.
func TestTheChartsSchemaRefusesUnknownKeys(t *testing.T) {
	var values, schema map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chart+"values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(read(t, chart+"values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var same func(path string, values, schema map[string]any)
	same = func(path string, values, schema map[string]any) {
		known, isClosed := schema["properties"].(map[string]any)
		if !isClosed {
			return // a map of the user's own
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s lets in unknown keys", path)
		}
		for key, value := range values {
			of, ok := known[key].(map[string]any)
			if !ok {
				t.Errorf("the schema does not know %s%s", path, key)
				continue
			}
			if inner, nested := value.(map[string]any); nested {
				same(path+key+".", inner, of)
			}
		}
		for key := range known {
			if _, there := values[key]; !there {
				t.Errorf("values.yaml does not show %s%s", path, key)
			}
		}
	}
	same("", values, schema)
}
