package config

import (
	"reflect"
	"testing"
)

// Whatever the text, what is taken can be followed, and is the same when it is
// written and read again.
func FuzzEngines(f *testing.F) {
	f.Add("prefill-0=http://127.0.0.1:30001, decode-0=http://[::1]:30002;instance=::1:4711;replay=ipc:///run/d.replay")
	f.Add("a=;instance=x;events=ipc:///x")
	f.Add("=;=;,,a=http://u:p@h")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseEngines(text)
		if err != nil {
			return
		}
		if len(all) > MaxEngines {
			t.Fatalf("%d engines", len(all))
		}
		again := ""
		for i, e := range all {
			if !nameAllowed(e.Name) || e.URL == "" && e.Instance == "" {
				t.Fatalf("%+v", e)
			}
			if i > 0 {
				again += ","
			}
			again += e.String()
		}
		if got, err := ParseEngines(again); err != nil || !reflect.DeepEqual(got, all) {
			t.Fatalf("%q becomes %q, %v", text, again, err)
		}
	})
}
