package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/test/attach"
)

func serve(t *testing.T, a *attach.Answers) string {
	t.Helper()
	web := httptest.NewServer(a)
	t.Cleanup(web.Close)
	return web.URL
}

func TestGateRefusesThePoolOfTheIncidentAndSaysHowToMendIt(t *testing.T) {
	const million = 1048576
	small := serve(t, attach.SGLang("prefill", 681280, million, 64))
	twice := serve(t, attach.SGLang("prefill", 2*million, million, 64))
	decode := serve(t, attach.SGLang("decode", 2*million, million, 64))
	silent := serve(t, &attach.Answers{})
	junit := filepath.Join(t.TempDir(), "gate.xml")
	kvwitness(t, "gate", "pool", "--prefill", small, "--decode", "d0="+decode, "--junit", junit).
		expect(t, statusFound, "FAIL       pool.context  prefill-0", "a pool of 681280 tokens and a context of 1048576 tokens", "mend: ", "PASS       pool.context  d0")
	text, err := os.ReadFile(junit)
	if err != nil || !strings.Contains(string(text), `failures="3"`) {
		t.Errorf("%v: %s", err, text)
	}
	kvwitness(t, "gate", "pool", "--prefill", twice, "--decode", decode, "--json").expect(t, statusFine, `"status": "pass"`)
	kvwitness(t, "gate", "pool", "--prefill", twice, "--decode", silent).expect(t, statusUnchecked, "UNCHECKED  pool.context  decode-1", "there is no such endpoint")
	deployment := file(t, "d.yaml", "engines:\n  - {name: p, url: \""+twice+"\", role: prefill}\n  - {name: d, url: \""+decode+"\", role: decode}\n")
	kvwitness(t, "gate", "pool", "--file", deployment).expect(t, statusFine, "pool.peer_context  d for p")
}

func TestGateAndCanarySayWhatIsWrongWithTheirUse(t *testing.T) {
	kvwitness(t, "gate", "everything").expect(t, statusError, `no section "everything"`)
	kvwitness(t, "gate", "pool", "--file", file(t, "d.yaml", "engine: x\n")).expect(t, statusError, "engine", "deployment")
	kvwitness(t, "gate", "pool", "--prefill", "ftp://x").expect(t, statusError, "want http://HOST:PORT")
	kvwitness(t, "gate", "admission", "--router", "http://192.0.2.1:1").expect(t, statusError, "--allow-live")
	kvwitness(t, "gate", "pool").expect(t, statusUnchecked, "none was named")
	kvwitness(t, "canary", "http://127.0.0.1:1", "--key-file", file(t, "k", "one")).expect(t, statusError, "2 to 16")
	kvwitness(t, "canary", "http://127.0.0.1:1", "--lengths", "160", "--api", "verse").expect(t, statusError, "completions or chat")
	kvwitness(t, "canary", "http://127.0.0.1:1", "--lengths", "160", "--sharing", "0", "--timeout", "2s").expect(t, statusUnchecked, "not checked: ")
	kvwitness(t, "canary", "http://127.0.0.1:1", "--salts=false", "--lengths", "160").expect(t, statusError, "one tenant")
}
