package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// statusLeft is what the counter says of a client that left.
const statusLeft = 499

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	s.generate(w, r, completionForm{}, (*Body).completionPrompt)
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	s.generate(w, r, chatForm{}, (*Body).chatPrompt)
}

// promptOf reads the prompt of a body.
type promptOf func(*Body, model.Vocabulary) ([]model.Token, *Error)

// generate answers one request.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, f form, prompt promptOf) {
	b, req, e := s.request(w, r, prompt)
	if e == nil && s.stopping.Load() {
		e = failure(http.StatusServiceUnavailable, scheduler.ErrStopping)
	}
	if e != nil {
		s.refuse(w, f, e)
		return
	}
	a, err := s.worker.Submit(*req)
	if err != nil {
		s.refuse(w, f, failure(http.StatusServiceUnavailable, err))
		return
	}
	id := b.RID
	if id == "" {
		id = f.prefix() + strconv.FormatUint(uint64(a.Req), 10)
	}
	tenant, _ := s.cfg.Keys.Tenant(r) // who has been let in above
	s.running.add(a, owner{tenant, id})
	defer s.running.remove(a)
	rep := reply{
		form: f, id: id, model: s.cfg.Model,
		created: time.Now().Unix(), prompt: len(req.Prompt), usage: b.StreamOptions != nil && b.StreamOptions.IncludeUsage,
	}
	status := 0
	if b.Stream {
		status = rep.stream(r.Context(), w, a)
	} else {
		status = rep.plain(r.Context(), w, a)
	}
	if status == statusLeft {
		s.worker.Leave(a)
	}
	s.requests.WithLabelValues(f.name(), strconv.Itoa(status)).Inc()
}

func (s *Server) refuse(w http.ResponseWriter, f form, e *Error) {
	WriteError(w, e)
	s.requests.WithLabelValues(f.name(), strconv.Itoa(e.Status)).Inc()
}

// request reads what is asked for, and by whom.
func (s *Server) request(w http.ResponseWriter, r *http.Request, prompt promptOf) (*Body, *worker.Request, *Error) {
	tenant, e := s.cfg.Keys.Tenant(r)
	if e != nil {
		return nil, nil, e
	}
	raw, e := ReadBody(w, r)
	if e != nil {
		return nil, nil, e
	}
	b, e := ParseBody(raw)
	if e != nil {
		return nil, nil, e
	}
	req := &worker.Request{Domain: s.cfg.Keys.Domain(tenant, b.CacheSalt)}
	if b.Temperature != nil {
		req.Temperature = *b.Temperature
	}
	if b.Seed != nil {
		req.Seed = uint64(*b.Seed)
	}
	if req.Prompt, e = prompt(b, s.worker.Config().Model); e != nil {
		return nil, nil, e
	}
	if req.MaxTokens, e = b.maxTokens(); e != nil {
		return nil, nil, e
	}
	if req.Stops, e = b.stops(); e != nil {
		return nil, nil, e
	}
	if err := model.CheckStops(req.Stops); err != nil {
		return nil, nil, refuseParam("stop", err.Error())
	}
	if req.Drill, e = s.drill(r); e != nil {
		return nil, nil, e
	}
	return b, req, s.handoff(b, req)
}

// drill of this request alone.
func (s *Server) drill(r *http.Request) (scheduler.Drill, *Error) {
	name := r.Header.Get(DrillHeader)
	if name == "" {
		return scheduler.NoDrill, nil
	}
	if !s.worker.Config().AllowRequestDrill {
		return 0, Refuse(http.StatusForbidden, "drill_not_allowed", "drills by header are not allowed here: start the engine with --allow-request-drill")
	}
	d, err := scheduler.ParseDrill(name)
	if err != nil {
		return 0, Refuse(http.StatusBadRequest, "", "%v", err)
	}
	return d, nil
}

// handoff fills in the other half of a disaggregated request.
func (s *Server) handoff(b *Body, req *worker.Request) *Error {
	if s.worker.Config().Role == scheduler.Unified {
		return nil
	}
	if b.BootstrapRoom == 0 || b.BootstrapRoom > math.MaxInt64 {
		return refuseParam("bootstrap_room", "a prefill or decode engine takes requests from a router")
	}
	req.Room = b.BootstrapRoom
	if s.worker.Config().Role == scheduler.Prefill {
		if _, _, err := net.SplitHostPort(b.BootstrapDecode); err != nil {
			return refuseParam("bootstrap_decode", "want decode's control address")
		}
		req.Peers = []scheduler.Peer{scheduler.Peer(b.BootstrapDecode)}
		return nil
	}
	peers, err := s.cfg.Peers(net.JoinHostPort(b.BootstrapHost, strconv.Itoa(b.BootstrapPort)))
	if err != nil {
		return failure(http.StatusServiceUnavailable, fmt.Errorf("finding prefill: %w", err))
	}
	req.Peers = peers
	return nil
}

// read waits for more of an answer; left: nobody waits for it any more.
func read(ctx context.Context, a *worker.Answer) (text []byte, end *worker.End, left bool) {
	text, end, err := a.Read(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, nil, true
	}
	return text, end, false
}
