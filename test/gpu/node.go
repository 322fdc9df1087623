//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
	"github.com/kvwitness/kvwitness/test/live"
)

// every is how often the driver is asked.
const every = 200 * time.Millisecond

// node is a sidecar, and an engine that only speaks: its memory is held by a process
// beside it.
type node struct {
	ctx     context.Context
	gpu     device
	dir     string // of the engine's sockets
	sidecar *live.Process
	ends    []func()
}

func newNode(ctx context.Context, s settings, gpu device, times uint32) (*node, error) {
	dir, err := os.MkdirTemp("", "kvg")
	if err != nil {
		return nil, err
	}
	n := &node{ctx: ctx, gpu: gpu, dir: dir, ends: []func(){func() { os.RemoveAll(dir) }}}
	n.sidecar, err = live.Start(filepath.Join(s.bin, "kvwitness"), "watching", "sidecar", "--engines", "engine=;instance=engine",
		"--events-dir", dir, "--listen", "127.0.0.1:0", "--gpus", "required", "--gpu-every", every.String(), "--gpu-library", gpu.library())
	if err != nil {
		n.close()
		return nil, err
	}
	n.ends = append(n.ends, n.sidecar.Kill)
	if err := n.engine(times); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *node) close() {
	for _, end := range slices.Backward(n.ends) {
		end()
	}
}

// engine starts the engine, whose pool takes so many times what is claimed.
func (n *node) engine(times uint32) error {
	pid, end, err := n.gpu.hold(held)
	if err != nil {
		return err
	}
	n.ends = append(n.ends, end)
	p, err := publish.New(n.ctx, publish.Config{Identity: publish.Identity{Instance: "engine", Epoch: 1, Now: now}, Dir: n.dir})
	if err != nil {
		return err
	}
	n.ends = append(n.ends, func() { _ = p.Close(context.WithoutCancel(n.ctx)) })
	pool, err := p.PoolEvents("kv", lifecycle.PoolSpec{Pages: claimed / mib * times, PageTokens: 16, PageBytes: mib, PIDs: []int64{int64(pid)}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(n.ctx)
	var using sync.WaitGroup
	using.Go(func() { use(ctx, pool) })
	n.ends = append(n.ends, func() { stop(); using.Wait() })
	return nil
}

// use has an engine say that it uses its pool.
func use(ctx context.Context, pool *publish.Pool) {
	page := []kvcache.Run{{First: 1, Count: 1}}
	for req := kvcache.Req(1); ctx.Err() == nil; req++ {
		pool.Reserved(kvcache.At{Now: now()}, req, page)
		pool.Released(kvcache.At{Now: now()}, req, page)
		time.Sleep(20 * time.Millisecond)
	}
}

func now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // the kernel always has this clock
	return ts.Nano()
}

// get is what the sidecar answers; empty where it does not.
func (n *node) get(path string) string {
	resp, err := http.Get(n.sidecar.Said["url"] + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

func (n *node) findings() string { return n.get("/api/v1/findings") }

// instance is what the sidecar says of its engine's memory.
type instance struct {
	Held    uint64 `json:"held_bytes"`
	Unknown string
}

func (n *node) instance() instance {
	var s struct {
		GPUs struct {
			State     string
			Instances []instance
		}
	}
	if err := json.Unmarshal([]byte(n.get("/api/v1/state")), &s); err != nil {
		return instance{Unknown: err.Error()}
	}
	for _, i := range s.GPUs.Instances {
		return i
	}
	return instance{Unknown: "the driver: " + s.GPUs.State}
}

// settle lets the driver be asked some more times.
func (n *node) settle() {
	const samples = 10
	time.Sleep(samples * every)
}

// costs asks the driver some times, and says how long that took and what it cost.
func (r *report) costs(s settings, gpu device) error {
	const samples = 50
	c, err := nvml.Start(nvml.StartConfig{Path: filepath.Join(s.bin, nvml.Command), Library: gpu.library(), Every: every / 2, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	var took []time.Duration
	var last *nvml.Sample
	for range samples {
		if last, err = c.Next(); err != nil {
			break
		}
		took = append(took, time.Duration(last.Ended-last.Begun))
	}
	if last != nil && last.State == nvml.OK {
		for i := range last.Devices {
			d := &last.Devices[i]
			r.say("device %s %q: %s, processes %s, whole: %t, bytes of %s", d.UUID, d.Name, d.State, d.Listed, d.Whole(), numbers(d.Used, d.Total))
		}
	}
	_, ended := c.Close()
	r.until("the driver answers", func() (bool, string) {
		return err == nil && last.State == nvml.OK && ended == nil, fmt.Sprintf("%v, %v, driver %s", err, ended, cmp.Or(last, &nvml.Sample{}).Driver)
	})
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return err
	}
	slices.Sort(took)
	if len(took) > 0 {
		cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		r.say("a sample takes %s, at most %s, of %d; all of them %s of a processor, with its start", took[len(took)/2], took[len(took)-1], len(took), cpu)
	}
	return nil
}

func numbers(used, total *uint64) string {
	if used == nil || total == nil {
		return "no number"
	}
	return fmt.Sprintf("%d of %d", *used, *total)
}
