package scheduler

import (
	"fmt"
	"strings"
)

// Drill is a fault that is switched on on purpose, to prove that the alert fires.
type Drill uint8

const (
	NoDrill Drill = iota
	RejectedHandoff
	EarlyRelease
	LateChunk
	DoubleRelease
	UnwrittenCache
	SaltDrop
	LayoutMismatch
	StalePull
	LyingEngine
	numDrills
)

// DrillSpec describes a drill.
type DrillSpec struct {
	Drill Drill
	Name  string
	// Roles whose process commits the fault; the protections are off wherever the
	// drill is switched on, so switch it on on both sides of a pair.
	Roles []Role
	// In names the part of the engine that commits it.
	In string
	// Off are the protections that would stop it: each of them alone does.
	Off []Protection
	// PerRequest: one request can be drilled alone.
	PerRequest bool
	// Fault in one sentence.
	Fault string
}

var drills = [numDrills - 1]DrillSpec{
	{
		RejectedHandoff, "rejected-handoff",
		[]Role{Prefill, Decode},
		"scheduler",
		[]Protection{PoolGate, AdmissionReject, HandoffCompare, PageTags, HandoffDigest},
		true,
		"a prompt that the prefill pool cannot hold is rejected, yet stays admitted as one placeholder token; one page is sent, completion carries no length, decode reads all it had reserved",
	},
	{
		EarlyRelease, "early-release",
		[]Role{Decode},
		"scheduler, kvcache",
		[]Protection{DrainBeforeRelease, PageTags},
		true,
		"decode gives up on a running transfer, tells nobody, and frees pages that are still being written",
	},
	{
		LateChunk, "late-chunk",
		[]Role{Prefill},
		"scheduler",
		[]Protection{PageTags, DropLateWork},
		true,
		"prefill says failed and drained, and sends a chunk afterwards",
	},
	{
		DoubleRelease, "double-release",
		[]Role{Unified, Prefill, Decode},
		"scheduler, kvcache",
		[]Protection{PageTags, SingleRelease},
		true,
		"a request's references are ended twice, so that a page is handed to two requests",
	},
	{
		UnwrittenCache, "unwritten-cache",
		[]Role{Unified, Prefill},
		"scheduler, kvcache",
		[]Protection{PageTags, WrittenFirst},
		true,
		"pages enter the prefix cache when they are reserved, and are hit before they are written",
	},
	{
		SaltDrop, "salt-drop",
		[]Role{Unified, Prefill, Decode},
		"scheduler, kvcache",
		[]Protection{DomainInKey},
		true,
		"the domain does not reach the prefix cache's key, so that tenants share pages",
	},
	{
		LayoutMismatch, "layout-mismatch",
		[]Role{Prefill, Decode},
		"transfer",
		[]Protection{HandoffDigest, LayoutCheck},
		false,
		"the two sides lay out a page differently, and the bytes land where they mean something else",
	},
	{
		StalePull, "stale-pull",
		[]Role{Prefill},
		"scheduler",
		[]Protection{PageTags, WrittenFirst},
		true,
		"pages are offered to the peer before the forward pass has written them",
	},
	{
		LyingEngine, "lying-engine",
		[]Role{Prefill, Decode},
		"scheduler",
		[]Protection{HandoffCompare, PageTags, HandoffDigest},
		true,
		"prefill sends one page and claims them all; decode believes it",
	},
}

// Drills lists all drills. The caller may keep and change what it gets.
func Drills() []DrillSpec {
	out := drills
	return out[:]
}

// Spec describes d; the zero DrillSpec for NoDrill.
func (d Drill) Spec() DrillSpec {
	if d == NoDrill || d >= numDrills {
		return DrillSpec{}
	}
	return drills[d-1]
}

func (d Drill) String() string {
	if d == NoDrill {
		return "none"
	}
	return d.Spec().Name
}

// ParseDrill finds a drill by its name; "" and "none" are NoDrill.
func ParseDrill(name string) (Drill, error) {
	if name == "" || name == "none" {
		return NoDrill, nil
	}
	var names []string
	for _, s := range drills {
		if s.Name == name {
			return s.Drill, nil
		}
		names = append(names, s.Name)
	}
	return NoDrill, fmt.Errorf("no drill is named %q: want one of %s", name, strings.Join(names, ", "))
}
