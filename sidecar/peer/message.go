package peer

import (
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
)

const (
	// Version of the protocol.
	Version = 1
	// MaxInstances is how many instances a node may call its own.
	MaxInstances = 64
	// maxNode is the longest name of a node.
	maxNode = lifecycle.MaxID
	// nonceBytes is the length of what a side makes up to be sure of the other.
	nonceBytes = 32
)

// greeting is how a side begins. The one who dials answers the server's.
type greeting struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	Nonce   []byte `json:"nonce"`
	Proof   []byte `json:"proof,omitempty"` // that the one who dials has the token
}

// welcome is how a server takes one in.
type welcome struct {
	Proof []byte `json:"proof,omitempty"` // that the server has the token
}

// standing says how far a stream is.
type standing struct {
	Instance string `json:"instance"`
	State    string `json:"state"`
}

func (g *greeting) check() error {
	switch {
	case g.Version != Version:
		return fmt.Errorf("%w: it speaks version %d, this one %d", errVersion, g.Version, Version)
	case !nameAllowed(g.Node, maxNode) || len(g.Nonce) != nonceBytes || len(g.Proof) > nonceBytes:
		return fmt.Errorf("%w: a greeting without a name or a nonce", ErrFrame)
	}
	return nil
}

// nameAllowed reports whether a name can be one: printable, and of bounded length.
func nameAllowed(name string, limit int) bool {
	if name == "" || len(name) > limit {
		return false
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return false
		}
	}
	return true
}

func parse[T any](f frame, want kind) (v T, err error) {
	if f.kind != want {
		return v, fmt.Errorf("%w: a frame of kind %d, want %d", ErrFrame, f.kind, want)
	}
	if err := json.Unmarshal(f.content, &v); err != nil {
		return v, fmt.Errorf("%w: a frame of kind %d that cannot be read", ErrFrame, f.kind)
	}
	return v, nil
}

// parseList reads a list of instances.
func parseList(f frame, want kind) ([]string, error) {
	names, err := parse[[]string](f, want)
	if err != nil {
		return nil, err
	}
	if len(names) > MaxInstances {
		return nil, fmt.Errorf("%w: %d instances, at most %d", ErrFrame, len(names), MaxInstances)
	}
	for _, name := range names {
		if !nameAllowed(name, lifecycle.MaxID) {
			return nil, fmt.Errorf("%w: an instance with an impossible name", ErrFrame)
		}
	}
	return names, nil
}

func parseStanding(f frame) (inst string, state subscribe.State, err error) {
	s, err := parse[standing](f, kindStanding)
	if err != nil {
		return "", 0, err
	}
	for state := subscribe.Waiting; state <= subscribe.Live; state++ {
		if state.String() == s.State {
			return s.Instance, state, nil
		}
	}
	return "", 0, fmt.Errorf("%w: a stream in an unknown state", ErrFrame)
}

// parseTimes reads n times.
func parseTimes(f frame, want kind, n int) (times [2]int64, err error) {
	if f.kind != want || len(f.content) != 8*n {
		return times, fmt.Errorf("%w: a frame of kind %d with %d bytes", ErrFrame, f.kind, len(f.content))
	}
	for i := range n {
		times[i] = int64(binary.BigEndian.Uint64(f.content[8*i:]))
	}
	return times, nil
}

// asJSON fills a frame with v, which can always be written.
func asJSON(v any) func([]byte) []byte {
	return func(dst []byte) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			return dst // an empty frame, which the other side refuses
		}
		return append(dst, text...)
	}
}

func asTimes(times ...int64) func([]byte) []byte {
	return func(dst []byte) []byte {
		for _, t := range times {
			dst = binary.BigEndian.AppendUint64(dst, uint64(t))
		}
		return dst
	}
}
