package follow

import (
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// Whatever an engine calls itself, an endpoint that it names is followed with both
// its sockets or not at all.
func FuzzAnswers(f *testing.F) {
	f.Add("i", "ipc:///x")
	f.Add("", "ipc://i.events")
	f.Add("10.0.0.1:4711", "ipc:///run/kvwitness/10.0.0.1:4711.events")
	f.Fuzz(func(t *testing.T, instance, events string) {
		f := Follower{}
		if to, err := f.discovered(&engineinfo.Info{Instance: instance, Events: events}); err == nil && to.events != "" && to.replay == "" {
			t.Fatalf("%+v", to)
		}
	})
}
