package gather

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/gate"
	"github.com/kvwitness/kvwitness/test/attach"
)

func TestADeploymentIsReadStrictly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.yaml")
	for text, good := range map[string]bool{
		"router: http://127.0.0.1:1\nengines:\n  - {name: p, url: \"http://127.0.0.1:2\", role: prefill}\nkey_files: [a, b]\n": true,
		"routers: x\n":                        false,
		"engines: 7\n":                        false,
		"a: " + strings.Repeat("x", maxFile):  false,
		"engines: [{url: x, port: 3}]":        false,
		"":                                    false,
		"engines: [{url: x, role: \"chef\"}]": true, // Check refuses it
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Load(path)
		if (err == nil) != good || err != nil && !errors.Is(err, ErrDeployment) {
			t.Errorf("%.40q: %v", text, err)
		}
		if strings.Contains(text, "chef") && !errors.Is(d.Check(), ErrDeployment) {
			t.Errorf("%.40q is allowed", text)
		}
	}
}

func TestOnlyThisMachineIsLocal(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:8000": true, "http://[::1]:1": true, "http://localhost:1": true, "http://127.1.2.3": true,
		"http://10.0.0.1:1": false, "http://localhost.example.com": false, "https://example.com": false, "http://0.0.0.0:1": false, "::": false,
	} {
		if local(url) != want {
			t.Errorf("%s: %v", url, !want)
		}
	}
}

func TestTrafficGoesToTheRouterOrTheOnlyEngine(t *testing.T) {
	for want, d := range map[string]Deployment{
		"http://r": {Router: "http://r", Engines: []Engine{{URL: "http://e"}}},
		"http://e": {Engines: []Engine{{URL: "http://e", Role: "unified"}}},
		"":         {Engines: []Engine{{URL: "http://e", Role: "decode"}}},
	} {
		if got := d.target(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A sidecar that answers nonsense, or not, witnesses nothing, and says why.
func TestASidecarThatCannotBeAskedWitnessesNothing(t *testing.T) {
	engine := httptest.NewServer(attach.SGLang("null", 2048, 1024, 16))
	defer engine.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[1]")) },
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		side := httptest.NewServer(answer)
		p, err := Look(t.Context(), Config{
			Deployment: Deployment{Sidecar: side.URL, Engines: []Engine{{URL: engine.URL, Role: "unified"}}},
			Traffic:    true, Budget: 1000, Timeout: time.Minute, Patience: time.Second, Rand: rand.New(rand.NewPCG(1, 1)),
		})
		side.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.Witness == nil || p.Witness.Problem == "" {
			t.Errorf("%s: %+v", name, p.Witness)
		}
		transfer, err := gate.Select("transfer")
		if err != nil {
			t.Fatal(err)
		}
		if r := gate.Decide(transfer, p); r.Exit() != 4 {
			t.Errorf("%s: exit status %d", name, r.Exit())
		}
	}
}
