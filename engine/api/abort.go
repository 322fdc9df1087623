package api

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/kvwitness/kvwitness/engine/worker"
)

// MaxRIDBytes bounds the name that a client gives its request.
const MaxRIDBytes = 256

// running are the requests that are being answered: whose they are, and by which
// name they can be aborted.
type running struct {
	mu sync.Mutex
	by map[*worker.Answer]owner
}

type owner struct{ tenant, rid string }

func (r *running) add(a *worker.Answer, o owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[*worker.Answer]owner{}
	}
	r.by[a] = o
}

func (r *running) remove(a *worker.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, a)
}

// of finds a tenant's requests: all of them, or those of one name.
func (r *running) of(tenant string, b *AbortBody) (out []*worker.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a, o := range r.by {
		if o.tenant == tenant && (b.All || o.rid == b.RID) {
			out = append(out, a)
		}
	}
	return out
}

// AbortBody is what SGLang's /abort_request takes: the name of one request, which
// is the id of its answer, or all.
type AbortBody struct {
	RID string `json:"rid"`
	All bool   `json:"abort_all"`
}

// ParseAbort reads the body of an abort.
func ParseAbort(raw []byte) (*AbortBody, *Error) {
	var b AbortBody
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, Refuse(http.StatusBadRequest, "invalid_json", "the body is not a JSON object of the expected form")
	}
	if b.RID == "" && !b.All || len(b.RID) > MaxRIDBytes {
		return nil, refuseParam("rid", "want 1 to 256 bytes, or abort_all")
	}
	return &b, nil
}

// abort ends requests of the tenant that asks, and nobody else's. A transfer that
// runs for one of them runs to its end, and its pages wait for it. As in SGLang, a
// name that is not known, or not any more, is no error.
func (s *Server) abort(w http.ResponseWriter, r *http.Request) {
	tenant, e := s.cfg.Keys.Tenant(r)
	var raw []byte
	if e == nil {
		raw, e = ReadBody(w, r)
	}
	var b *AbortBody
	if e == nil {
		b, e = ParseAbort(raw)
	}
	if e != nil {
		WriteError(w, e)
		return
	}
	for _, a := range s.running.of(tenant, b) {
		s.worker.Abort(a, "an abort was asked for")
	}
	w.WriteHeader(http.StatusOK)
}
