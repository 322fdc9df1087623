package router

import (
	"net/http"
	"sync"

	"github.com/kvwitness/kvwitness/engine/api"
)

// abort hands an abort on to every instance that is up, since any of them may have
// a half of the request. The answer is the worst of theirs.
func (r *Router) abort(w http.ResponseWriter, req *http.Request) {
	raw, e := api.ReadBody(w, req)
	if e == nil {
		_, e = api.ParseAbort(raw)
	}
	if e != nil {
		api.WriteError(w, e)
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	worst := &refusal{status: http.StatusOK}
	for _, i := range r.all() {
		if i.info.Load() == nil {
			continue
		}
		wg.Go(func() {
			f := r.tell(req, i, raw)
			mu.Lock()
			defer mu.Unlock()
			if f.status > worst.status {
				worst = f
			}
		})
	}
	wg.Wait()
	if worst.status == http.StatusOK {
		w.WriteHeader(http.StatusOK)
		return
	}
	worst.write(w)
}

// tell sends an abort to one instance.
func (r *Router) tell(req *http.Request, to *instance, raw []byte) *refusal {
	resp, err := r.forward(req.Context(), req, to, raw)
	switch {
	case err == nil:
		return readRefusal(resp, to)
	case req.Context().Err() != nil: // the client has left
		return &refusal{status: http.StatusBadGateway}
	}
	return r.down(to)
}
