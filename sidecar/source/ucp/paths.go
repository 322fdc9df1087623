package ucp

import "fmt"

// Bounds of what is remembered.
const (
	MaxProcesses = 4096
	MaxWorkers   = 1 << 10 // of one process, and addresses of them
	MaxEndpoints = 1 << 14 // of one process
)

// Paths is what is known of the workers and endpoints of processes. It is for one
// goroutine.
type Paths struct {
	processes map[uint32]*process
	// told are the processes that asked for the address of a worker of theirs.
	told      map[ID]map[uint32]bool
	forgotten uint64
}

type process struct {
	unseen    string // why not all that it moves is seen; "": it is
	around    string // the same, for as long as it lives
	ends      bool   // it is seen when requests are over
	workers   map[uint64]map[ID]bool
	ids       int
	endpoints map[uint64]*Endpoint
	requests  map[uint64]pending
}

// Endpoint is an endpoint of a process.
type Endpoint struct {
	Process  uint32
	Endpoint uint64 // its address in the process
	Worker   uint64
	to       ID
	nowhere  string // why it is not known where it leads
	waiting  []outstanding
	moves    uint64
}

// NewPaths returns an empty Paths.
func NewPaths() *Paths {
	return &Paths{processes: map[uint32]*process{}, told: map[ID]map[uint32]bool{}}
}

// Forgotten counts what was beyond a limit.
func (ps *Paths) Forgotten() uint64 { return ps.forgotten }

// unattached is of a process of which the probe has not said yet that all of its UCX
// is attached to.
const unattached = "it has just loaded UCX"

// of is a process; nil: there are too many.
func (ps *Paths) of(pid uint32) *process {
	p := ps.processes[pid]
	if p == nil && len(ps.processes) < MaxProcesses {
		p = &process{unseen: unattached, workers: map[uint64]map[ID]bool{}, endpoints: map[uint64]*Endpoint{}, requests: map[uint64]pending{}}
		ps.processes[pid] = p
	}
	if p == nil {
		ps.forgotten++
	}
	return p
}

// Attached takes in whether what a process moves is seen; why: it is not. ends: it is
// seen when requests are over.
func (ps *Paths) Attached(pid uint32, why string, ends bool) {
	if p := ps.of(pid); p != nil {
		p.unseen, p.ends = why, ends
	}
}

// Bypassed takes in that a process has a way around puts and gets.
func (ps *Paths) Bypassed(pid uint32) {
	if p := ps.of(pid); p != nil {
		p.around = "UCX gave it, or its GPU, a way to write by itself"
	}
}

// Told takes in the address of a worker.
func (ps *Paths) Told(w *Worker) {
	p := ps.of(w.PID)
	if p == nil || w.Flags != 0 {
		return
	}
	ids := p.workers[w.Worker]
	if ids[w.ID] {
		return
	}
	if p.ids >= MaxWorkers {
		ps.forgotten++ // endpoints that were made from it lead nowhere that is known
		return
	}
	if ids == nil {
		ids = map[ID]bool{}
		p.workers[w.Worker] = ids
	}
	ids[w.ID] = true
	p.ids++
	if ps.told[w.ID] == nil {
		ps.told[w.ID] = map[uint32]bool{}
	}
	ps.told[w.ID][w.PID] = true
}

// Made takes in an endpoint, and returns it.
func (ps *Paths) Made(m *Made) *Endpoint {
	p := ps.of(m.PID)
	if p == nil {
		return nil
	}
	if len(p.endpoints) >= MaxEndpoints && p.endpoints[m.Endpoint] == nil {
		ps.forgotten++
		p.around = fmt.Sprintf("it has more than %d endpoints of UCX", MaxEndpoints)
		return nil
	}
	e := &Endpoint{Process: m.PID, Endpoint: m.Endpoint, Worker: m.Worker, to: m.ID}
	switch {
	case !m.ByAddress:
		e.nowhere = "an endpoint of UCX was made from the address of a socket, and not of a worker"
	case m.Flags != 0:
		e.nowhere = "the address from which an endpoint of UCX was made could not be read"
	}
	p.endpoints[m.Endpoint] = e
	return e
}

// Ended takes in that an endpoint or a worker is no more, and a worker's endpoints
// with it. each is told of the endpoints.
func (ps *Paths) Ended(a *About, each func(endpoint uint64)) {
	p := ps.processes[a.PID]
	if p == nil {
		return
	}
	drop := func(endpoint uint64) {
		delete(p.endpoints, endpoint)
		each(endpoint)
	}
	switch a.What {
	case KindEndpointGone:
		drop(a.ID)
	case KindWorkerGone:
		ps.forgetWorker(a.PID, p, a.ID)
		for at, e := range p.endpoints {
			if e.Worker == a.ID {
				drop(at)
			}
		}
	}
}

func (ps *Paths) forgetWorker(pid uint32, p *process, worker uint64) {
	ids := p.workers[worker]
	delete(p.workers, worker)
	p.ids -= len(ids)
	for id := range ids {
		for _, others := range p.workers {
			if others[id] {
				return // told of two, by a process that tells what it likes
			}
		}
		delete(ps.told[id], pid)
		if len(ps.told[id]) == 0 {
			delete(ps.told, id)
		}
	}
}

// Gone forgets a process.
func (ps *Paths) Gone(pid uint32) {
	p := ps.processes[pid]
	if p == nil {
		return
	}
	for worker := range p.workers {
		ps.forgetWorker(pid, p, worker)
	}
	delete(ps.processes, pid)
}

// Distrust forgets where endpoints lead, and what waits: records were lost. Those
// that are made anew are known again.
func (ps *Paths) Distrust() {
	for _, p := range ps.processes {
		clear(p.endpoints)
		clear(p.requests)
	}
}

// Find is the endpoint of a process; nil: it was not seen to be made.
func (ps *Paths) Find(pid uint32, endpoint uint64) *Endpoint {
	if p := ps.processes[pid]; p != nil {
		return p.endpoints[endpoint]
	}
	return nil
}

// Of are the endpoints of a process.
func (ps *Paths) Of(pid uint32, each func(*Endpoint)) {
	if p := ps.processes[pid]; p != nil {
		for _, e := range p.endpoints {
			each(e)
		}
	}
}

// Uses reports whether a process has UCX, as far as is known.
func (ps *Paths) Uses(pid uint32) bool { return ps.processes[pid] != nil }

// Blind is why what a process moves by UCX is not all seen; "": it is, or it has no
// UCX.
func (ps *Paths) Blind(pid uint32) string {
	p := ps.processes[pid]
	switch {
	case p == nil:
		return ""
	case p.around != "":
		return p.around
	}
	return p.unseen
}

// Leads is the process of this node that an endpoint leads to; else it is said why
// that is not known. nil is an endpoint that was not seen to be made.
func (ps *Paths) Leads(e *Endpoint) (pid uint32, why string) {
	if e == nil {
		return 0, "an endpoint of UCX was made unseen, before the witness was there or while records were lost: let it be made anew"
	}
	if e.nowhere != "" {
		return 0, e.nowhere
	}
	owners := ps.told[e.to]
	switch len(owners) {
	case 0:
		return 0, "an endpoint of UCX leads to another node, or to a worker whose address was asked for before the witness was there: let that process start anew"
	case 1:
	default:
		return 0, "several processes of this node tell the address that an endpoint of UCX leads to"
	}
	for pid = range owners {
	}
	return pid, ""
}
