package scheduler

import (
	"fmt"
	"slices"
)

// Protection is one check that stands between a fault and a leak.
type Protection uint8

const (
	// PoolGate refuses to start with a context that the pool cannot hold, here or
	// on a peer, or lowers the limit when told to.
	PoolGate Protection = iota
	// AdmissionReject ends a rejected request at the door, before anything is held.
	AdmissionReject
	// HandoffCompare compares what arrived with what was owed.
	HandoffCompare
	// DrainBeforeRelease keeps pages back until every writer and reader has drained.
	DrainBeforeRelease
	// PageTags checks generation handed out = generation written, before and after
	// a read, and at the source of a transfer.
	PageTags
	// HandoffDigest compares a digest of the bytes as they are sent with one of the
	// bytes that are owed, as they lie at the receiver.
	HandoffDigest
	// DomainInKey keys the prefix cache by domain.
	DomainInKey
	// DropLateWork drops results and chunks of a request that has ended.
	DropLateWork
	// WrittenFirst lets only fully written pages enter the cache, be hit in it, or
	// be the source of a transfer.
	WrittenFirst
	// SingleRelease refuses to end a reference twice.
	SingleRelease
	// LayoutCheck refuses a peer whose pages do not mean the same bytes.
	LayoutCheck
	// NumProtections counts them.
	NumProtections
)

var protectionNames = [NumProtections]string{
	"pool-gate", "admission-reject", "handoff-compare", "drain-before-release", "page-tags", "handoff-digest",
	"domain-in-key", "drop-late-work", "written-first", "single-release", "layout-check",
}

func (p Protection) String() string {
	if p >= NumProtections {
		return fmt.Sprintf("protection(%d)", uint8(p))
	}
	return protectionNames[p]
}

// ParseProtection finds a protection by its name.
func ParseProtection(name string) (Protection, error) {
	if i := slices.Index(protectionNames[:], name); i >= 0 {
		return Protection(i), nil
	}
	return 0, fmt.Errorf("no protection is named %q: want one of %q", name, protectionNames)
}

// Protections says which are on: protections[PageTags].
type Protections [NumProtections]bool

// AllProtections is how an engine runs.
func AllProtections() Protections {
	var p Protections
	for i := range p {
		p[i] = true
	}
	return p
}

// Without is p with some switched off.
func (p Protections) Without(off ...Protection) Protections {
	for _, o := range off {
		p[o] = false
	}
	return p
}
