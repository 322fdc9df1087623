package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// gpus are what the driver says of this node's GPUs, and what is made of it.
type gpus struct {
	required bool
	keeper   *nvml.Keeper
	owners   *nvml.Owners // of the keeper's goroutine
	openings *openings
	src      *intake.Source

	mu      sync.Mutex
	account nvml.Account
}

// askDriver begins with the driver, unless it is not to be asked.
func (d *Daemon) askDriver(c *config.GPUs, log *slog.Logger) {
	if c.Mode != config.GPUsAuto && c.Mode != config.GPUsRequired {
		return
	}
	d.gpus = &gpus{
		required: c.Mode == config.GPUsRequired,
		openings: newOpenings(d.node),
		owners:   nvml.NewOwners(nvml.OwnersConfig{Proc: c.Proc, Allow: c.Allow, Node: d.node, Local: c.Proc == "/proc"}),
		// It holds nobody back: what the driver says holds from when it is taken.
		src: d.in.Open("", func() intake.Standing { return intake.Away }),
	}
	d.gpus.keeper = nvml.NewKeeper(nvml.KeeperConfig{
		Start: nvml.StartConfig{Library: c.Library, Socket: c.Socket, Every: c.Every, Deadline: c.Deadline}, Log: log, Sampled: d.sampled,
	})
}

// run asks until ctx ends.
func (g *gpus) run(ctx context.Context) {
	if g == nil {
		return
	}
	g.keeper.Run(ctx)
	g.src.Close()
}

// opened takes note of what opens memory; it is for the judge.
func (g *gpus) opened(f *lifecycle.Fact) {
	if g != nil {
		g.openings.note(f)
	}
}

// sampled hands the facts of a sample to the judge.
func (d *Daemon) sampled(s *nvml.Sample) {
	claims, open := d.gpuClaims(context.Background())
	account, facts := d.gpus.owners.Take(s, claims, open)
	d.gpus.mu.Lock()
	d.gpus.account = account
	d.gpus.mu.Unlock()
	if len(facts) > 0 {
		d.gpus.src.Interject(0, facts...)
	}
}

// missing says why the driver does not tell, where it must; empty: it does.
func (g *gpus) missing() string {
	if g == nil || !g.required {
		return ""
	}
	if s := g.keeper.Status(); s.State != nvml.OK {
		return fmt.Sprintf("gpus: %s", s.Line())
	}
	return ""
}

// reading is how the GPUs stand, for the metrics.
func (g *gpus) reading(r *metrics.Reading) {
	if g == nil {
		return
	}
	status := g.keeper.Status()
	g.mu.Lock()
	defer g.mu.Unlock()
	r.GPUs = &metrics.GPUs{Driver: status, Shares: g.account.Shares, Capacity: map[string]float64{}}
	for _, i := range g.account.Instances {
		if tokens, _, ok := g.openings.capacity(i.Instance, i.Most); ok {
			r.GPUs.Capacity[i.Instance] = tokens
		}
	}
	if r.Covered == nil {
		r.Covered = map[lifecycle.Src]map[string]bool{}
	}
	known := map[string]bool{}
	for _, i := range g.account.Instances {
		known[i.Instance] = i.Seen && status.State == nvml.OK
	}
	r.Covered[lifecycle.NVML] = known
}

// GPUsState is how the driver stands, and whose the memory is.
type GPUsState struct {
	State     string              `json:"state"`
	Call      string              `json:"call,omitzero"` // of the driver, that State is about
	Remedy    string              `json:"remedy,omitzero"`
	Problem   string              `json:"problem,omitzero"` // why no process can be told
	Age       float64             `json:"sample_age_seconds,omitzero"`
	Driver    string              `json:"driver,omitzero"`
	Private   string              `json:"confidential_computing,omitzero"`
	Starts    uint64              `json:"helper_starts"`
	Stuck     int                 `json:"helpers_that_hang"`
	Devices   []DeviceState       `json:"devices"`
	Instances []InstanceVRAMState `json:"instances"`
}

// DeviceState is a GPU or a MIG instance, and the bytes that are used of it.
type DeviceState struct {
	UUID   string            `json:"uuid"`
	Parent string            `json:"gpu,omitzero"`
	State  string            `json:"state"`
	Listed string            `json:"processes"` // how they were read
	Total  *uint64           `json:"total_bytes,omitzero"`
	Used   map[string]uint64 `json:"used_bytes,omitzero"` // by whose it is, where that is known
}

// InstanceVRAMState is what is known of an instance's memory on GPUs.
type InstanceVRAMState struct {
	Instance string `json:"instance"`
	Held     uint64 `json:"held_bytes"`
	Unknown  string `json:"unknown,omitzero"` // why nothing is concluded
	// Capacity is how many tokens its pools could hold at most, if they had all of its
	// GPUs that others do not hold; Context is what it declares, where that is more.
	Capacity float64 `json:"capacity_tokens,omitzero"`
	Context  int64   `json:"context_beyond_tokens,omitzero"`
}

func (g *gpus) state() *GPUsState {
	if g == nil {
		return nil
	}
	status := g.keeper.Status()
	g.mu.Lock()
	account := g.account
	g.mu.Unlock()
	s := &GPUsState{
		State: status.State.String(), Call: status.Call, Remedy: status.State.Remedy(), Problem: account.Problem,
		Starts: status.Starts, Stuck: status.Stuck, Devices: []DeviceState{}, Instances: []InstanceVRAMState{},
	}
	for _, i := range account.Instances {
		one := InstanceVRAMState{Instance: i.Instance, Held: i.Held, Unknown: i.Why}
		if tokens, context, ok := g.openings.capacity(i.Instance, i.Most); ok {
			if one.Capacity = tokens; float64(context) > tokens {
				one.Context = context
			}
		}
		s.Instances = append(s.Instances, one)
	}
	if status.Last == nil {
		return s
	}
	s.Age = time.Duration(now() - status.Last.Ended).Seconds()
	s.Driver, s.Private = status.Last.Driver, status.Last.Confidential
	for i := range status.Last.Devices {
		d := &status.Last.Devices[i]
		one := DeviceState{UUID: d.UUID, Parent: d.Parent, State: d.State.String(), Listed: d.Listed.String(), Total: d.Total}
		for _, share := range account.Shares {
			if share.UUID == d.UUID && share.Known {
				one.Used = map[string]uint64{}
				for c := range nvml.NumClass {
					one.Used[c.String()] = share.Bytes[c]
				}
			}
		}
		s.Devices = append(s.Devices, one)
	}
	for _, gpu := range status.GPUs { // what was there once
		if !slices.ContainsFunc(s.Devices, func(d DeviceState) bool { return d.UUID == gpu.UUID }) {
			s.Devices = append(s.Devices, DeviceState{UUID: gpu.UUID, State: gpu.State.String(), Listed: nvml.Unread.String()})
		}
	}
	return s
}
