package cuda

// Copies reports whether a call copied memory.
func (r *Record) Copies() bool {
	return r.Kind == Copy || r.Kind == CopyPeer || r.Kind == CopyUnfollowed
}

// Copies tells copies from calls of the driver's own functions within them. It is for one
// goroutine.
type Copies struct {
	last, before map[uint32]Record // of each thread; before are those of when there were too many
}

// New reports whether a call is a copy of its own: it did not enclose the one before it of
// its thread, of the same memory.
func (c *Copies) New(r *Record) bool {
	before, done := c.last[r.TID]
	if !done {
		before, done = c.before[r.TID]
	}
	if c.last == nil || len(c.last) >= MaxThreads {
		c.last, c.before = map[uint32]Record{}, c.last
	}
	c.last[r.TID] = *r
	enclosed := done && r.Entered <= before.Entered && before.T <= r.T
	return !enclosed || r.Base != before.Base || r.Other != before.Other || r.Bytes != before.Bytes
}
