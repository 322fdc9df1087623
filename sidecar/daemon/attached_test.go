package daemon

import (
	"encoding/binary"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/test/attach"
)

// storedUnder is a batch of one block that was stored under a salt.
func storedUnder(salt string) []byte {
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1.5)
	b = msgp.AppendArrayHeader(msgp.AppendArrayHeader(b, 1), 8)
	b = msgp.AppendInt(msgp.AppendArrayHeader(msgp.AppendString(b, "BlockStored"), 1), 7)
	b = msgp.AppendInt(msgp.AppendArrayHeader(msgp.AppendNil(b), 1), 101)
	b = msgp.AppendString(msgp.AppendNil(msgp.AppendInt(b, 1)), "GPU")
	b = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(b, 1), "cache_salt"), salt)
	return msgp.AppendInt(b, 0)
}

// Promise: an SGLang that nothing was changed in is seen by its endpoints, its KV
// events and its log, and what they give away is found.
func TestAnUnchangedEngineIsSeenByAllThatItTells(t *testing.T) {
	pub := zmtp.NewPub(zmtp.Config{})
	defer pub.Close()
	events, err := pub.Bind(t.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(attach.SGLang("prefill", 681280, 1048576, 64))
	defer web.Close()
	log := filepath.Join(t.TempDir(), "sglang.log")
	if err := os.WriteFile(log, []byte("ReqTimeStats(rid=old, bootstrap_room=5, input_len=3)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tb := newTable(t, "engines: [{name: prefill-0, url: \""+web.URL+"\", kv_events: \""+events+"\", log: \""+log+"\"}]\npoll: 50ms\n")
	waitFor(t, "the capacity inversion", func() bool { return strings.Contains(tb.get("/api/v1/findings"), "capacity_inversion") })
	if body := tb.get("/healthz"); !strings.Contains(body, `"ok"`) {
		t.Errorf("an engine without a stream that answers is not seen: %s", body)
	}
	seq := uint64(0)
	waitFor(t, "the crossing", func() bool {
		for _, salt := range []string{"tenant-a", "tenant-b"} {
			pub.Publish(nil, binary.BigEndian.AppendUint64(nil, seq), storedUnder(salt))
			seq++
		}
		return strings.Contains(tb.get("/api/v1/findings"), "tenant_crossing")
	})
	out, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = out.WriteString("Deferred KV release for room 77 timed out\nReqTimeStats(rid=new, bootstrap_room=6, input_len=3)\n")
	_ = out.Close()
	waitFor(t, "the log's lines", func() bool {
		s := tb.get("/api/v1/state")
		return strings.Contains(s, `"deferred_release":1`) && strings.Contains(s, `"time_stats":2`)
	})
	if all := tb.get("/api/v1/findings"); strings.Contains(all, `"blind"`) || !strings.Contains(all, `"prefill-0/kv"`) {
		t.Errorf("findings: %s", all)
	}
	m := tb.get("/metrics")
	for _, line := range []string{`kvwitness_log_lines_total{engine="prefill-0",line="deferred_release"} 1`, `kvwitness_kv_event_crossings_total{engine="prefill-0"}`, `kvwitness_kv_events_total{engine="prefill-0",event="bad"} 0`} {
		if !strings.Contains(m, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if all := tb.get("/api/v1/verdicts") + tb.get("/api/v1/findings") + tb.out.String(); strings.Contains(all, "tenant-a") || strings.Contains(all, `"old"`) {
		t.Errorf("a salt, or a request of before, is in what is said: %s", all)
	}
}

// Promise: a log, which knows no page size, says nothing of the pools of an engine that
// says them itself: what becomes of the pages is judged by the engine's own.
func TestWhatALogSaysOfPoolsLeavesThoseOfTheStreamAlone(t *testing.T) {
	dir, log := shortDir(t), filepath.Join(t.TempDir(), "vllm.log")
	if err := os.WriteFile(log, []byte("GPU KV cache size: 32 tokens, Maximum concurrency for 64 tokens per request: 0.50x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tb := newTable(t, "engines: [{name: i, instance: i, log: \""+log+"\"}]\nevents_dir: "+dir+"\n")
	findings := func(inst string) func() bool {
		return func() bool { return strings.Contains(tb.get("/api/v1/findings"), `"inst":"`+inst+`"`) }
	}
	waitFor(t, "what the log's pool cannot hold", findings("i/log"))
	publisher(t, dir, "i")
	waitFor(t, "what the stream's pool cannot hold", findings("i"))
}
