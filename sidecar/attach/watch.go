package attach

import "errors"

// DefaultMaxProcesses is how many processes are watched at a time.
const DefaultMaxProcesses = 1024

// Watch follows which processes match. It is for one goroutine.
type Watch struct {
	Proc  Proc
	Rules []Rule
	// Self is a process that is never watched: its own command line holds the
	// rules, and so may match one.
	Self int
	// MaxProcesses bounds those that are watched; 0: the default.
	MaxProcesses int
	// Started and Ended are told of each; Started may refuse one.
	Started func(Process) error
	Ended   func(Process)

	watched map[int]Process
	known   map[int]uint64 // processes that do not match, by their start
	refused uint64
}

// Refused counts processes that matched and are not watched: there were too
// many, or Started refused them.
func (w *Watch) Refused() uint64 { return w.refused }

// Watched are the processes that are watched now.
func (w *Watch) Watched() map[int]Process { return w.watched }

// Scan lists all processes and tells of those that are new and those that are
// gone.
func (w *Watch) Scan() error {
	pids, err := w.Proc.list()
	if err != nil {
		return err
	}
	here := make(map[int]bool, len(pids))
	for _, pid := range pids {
		here[pid] = true
	}
	for pid, p := range w.watched {
		if start, err := w.Proc.start(pid); !here[pid] || err != nil || start != p.Start {
			w.end(p)
		}
	}
	for pid := range w.known {
		if !here[pid] {
			delete(w.known, pid)
		}
	}
	var failed error
	for _, pid := range pids {
		if _, watched := w.watched[pid]; watched {
			continue
		}
		if start, seen := w.known[pid]; seen {
			if now, err := w.Proc.start(pid); err != nil || now == start {
				continue
			}
		}
		failed = errors.Join(failed, w.Find(pid))
	}
	return failed
}

func (w *Watch) end(p Process) {
	delete(w.watched, p.PID)
	w.Ended(p)
}

// Find looks at one process, which has just begun to run a program, and tells of
// it if it matches. One that is watched already and runs another program now is
// told as ended.
func (w *Watch) Find(pid int) error {
	if pid == w.Self {
		return nil
	}
	p, err := w.Proc.Look(pid)
	if err != nil {
		return nil // it has ended
	}
	if w.watched == nil {
		w.watched, w.known = map[int]Process{}, map[int]uint64{}
	}
	delete(w.known, pid)
	for _, r := range w.Rules {
		if r.Matches(&p) {
			p.Rule = r.String()
			break
		}
	}
	old, watched := w.watched[pid]
	switch {
	case watched && p.Rule != "" && old.Start == p.Start && old.Exe == p.Exe:
		return nil
	case watched:
		w.end(old)
	}
	if p.Rule == "" {
		w.known[pid] = p.Start
		return nil
	}
	limit := w.MaxProcesses
	if limit <= 0 {
		limit = DefaultMaxProcesses
	}
	if len(w.watched) >= limit {
		w.refused++
		return nil
	}
	if err := w.Started(p); err != nil {
		w.refused++
		return err
	}
	w.watched[pid] = p
	return nil
}
