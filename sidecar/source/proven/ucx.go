package proven

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/source/ucp"
	"github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// ucxRecord takes in a record of the UCX probe. What UCX moves is seen of the same
// way as what is posted to devices: it hands it to these, or to shared memory or TCP.
func (s *State) ucxRecord(b []byte) {
	record, err := ucp.Decode(b)
	if err != nil {
		s.stats.Malformed++
		return
	}
	switch r := record.(type) {
	case ucp.Worker:
		s.ucx.Told(&r)
		s.review(r.PID)
	case ucp.Made:
		if e := s.ucx.Made(&r); e != nil {
			s.placeable(e.Process, e.Endpoint)
		}
		s.review(r.PID)
	case ucp.About:
		s.ucxAbout(&r)
	case ucp.Region:
		g := verbs.Region{Head: verbs.Head{PID: r.PID}, MR: r.Handle, Addr: r.Addr, Bytes: r.Bytes, DMABuf: r.Device}
		if s.paths.Register(&g) {
			s.memory(&g, lifecycle.RegionRegistered)
		}
	case ucp.Moved:
		s.put(&r)
	case ucp.Flushed:
		s.ucx.Flush(&r, s.putOver)
	case ucp.Done:
		s.ucx.Done(&r, s.putOver)
	}
}

func (s *State) ucxAbout(r *ucp.About) {
	switch r.What {
	case ucp.KindRegionGone:
		if g, last := s.paths.Deregister(r.PID, r.ID); last {
			s.memory(&g, lifecycle.RegionDeregistered)
		}
	case ucp.KindBypass:
		s.ucx.Bypassed(r.PID)
		s.review(r.PID)
	case ucp.KindEndpointGone, ucp.KindWorkerGone:
		s.ucx.Ended(r, func(endpoint uint64) { s.placeable(r.PID, endpoint) })
	}
}

func (s *State) ofEndpoint(e *ucp.Endpoint) channel {
	on := channel{pid: e.Process, id: e.Endpoint}
	on.to, on.why = s.ucx.Leads(e)
	return on
}

// put takes in what a call put or got.
func (s *State) put(r *ucp.Moved) {
	s.stats.Posted++
	on := channel{pid: r.PID, id: r.Endpoint}
	e := s.ucx.Find(r.PID, r.Endpoint)
	on.to, on.why = s.ucx.Leads(e)
	if r.Flags != 0 {
		s.cut(r.PID, &on, "UCX was handed a list, or what could not be read, which is not followed")
		return
	}
	if e != nil {
		s.ucx.Move(e, r)
	}
	how := lifecycle.Posted
	switch {
	case r.Returned.Failed():
		how = lifecycle.Errored
	case r.Op == ucp.Get && r.Returned.AtOnce():
		how = lifecycle.OK
	}
	s.extent(&moving{channel: on, Extent: extentOf(ucp.Extent{Remote: r.Remote, Local: r.Local, Bytes: r.Bytes, Op: r.Op}), outcome: how})
}

func (s *State) putOver(e *ucp.Endpoint, x ucp.Extent, ok bool) {
	how := lifecycle.Errored
	if ok {
		how = lifecycle.OK
	}
	s.extent(&moving{channel: s.ofEndpoint(e), Extent: extentOf(x), outcome: how})
}

func extentOf(x ucp.Extent) verbs.Extent {
	op := verbs.OpWrite
	if x.Op == ucp.Get {
		op = verbs.OpRead
	}
	return verbs.Extent{Remote: x.Remote, Local: x.Local, Bytes: x.Bytes, Op: op}
}
