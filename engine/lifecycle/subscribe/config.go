package subscribe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// Defaults of a [Config].
const (
	DefaultAnswerTimeout = 5 * time.Second
	DefaultStreamTimeout = 5 * time.Second
	DefaultRetryMin      = 100 * time.Millisecond
	DefaultRetryMax      = 5 * time.Second
	// DefaultSnapshotBytes bounds one snapshot: a million pages, each with a key
	// of its own, take less than half of it.
	DefaultSnapshotBytes = 512 << 20
)

// ErrConfig is returned for a configuration that nothing can be followed with.
var ErrConfig = errors.New("unusable configuration of a lifecycle subscription")

// Config says whom to follow. Zero fields mean their defaults.
type Config struct {
	// Instance is the engine that is followed, and Node where it runs: both are
	// set on every fact, whatever it says.
	Instance, Node string
	// Endpoint and ReplayEndpoint are the engine's; Dir is where they lie by
	// default.
	Endpoint, ReplayEndpoint, Dir string
	// AnswerTimeout is how long the next message of an answer may take.
	AnswerTimeout time.Duration
	// StreamTimeout is how long the stream may say nothing before the engine is
	// taken to be away. It says something each second.
	StreamTimeout time.Duration
	// RetryMin and RetryMax bound the wait before a snapshot is asked for again.
	RetryMin, RetryMax time.Duration
	// SnapshotBytes bounds what is taken for one snapshot.
	SnapshotBytes int
	// Socket bounds the sockets; see zmtp.Config. CheckPeer in it judges the
	// process that serves an IPC endpoint, by default by its user.
	Socket zmtp.Config
	// Sleep stands in for time in tests; it returns early with the context's error.
	Sleep func(context.Context, time.Duration) error
}

func (c *Config) complete() error {
	if c.Instance == "" || len(c.Instance) > lifecycle.MaxID {
		return fmt.Errorf("%w: an instance of %d bytes, want 1 to %d", ErrConfig, len(c.Instance), lifecycle.MaxID)
	}
	if c.Dir == "" {
		c.Dir = stream.DefaultDir()
	}
	if c.Endpoint == "" || c.ReplayEndpoint == "" {
		events, replay, err := stream.Endpoints(c.Dir, c.Instance)
		if err != nil {
			return err
		}
		if c.Endpoint == "" {
			c.Endpoint = events
		}
		if c.ReplayEndpoint == "" {
			c.ReplayEndpoint = replay
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.AnswerTimeout, DefaultAnswerTimeout},
		{&c.StreamTimeout, DefaultStreamTimeout},
		{&c.RetryMin, DefaultRetryMin},
		{&c.RetryMax, DefaultRetryMax},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.SnapshotBytes <= 0 {
		c.SnapshotBytes = DefaultSnapshotBytes
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	c.Socket.Limits = zmtp.Limits{FrameBytes: stream.MaxBatchBytes, MessageBytes: stream.MaxBatchBytes + 1024, Frames: 4}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
