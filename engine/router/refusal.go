package router

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/kvwitness/kvwitness/engine/api"
)

// maxRefusal bounds what is read of an answer that is not handed on as it comes.
const maxRefusal = 64 << 10

// refusal is an answer that is an error.
type refusal struct {
	status int
	body   []byte
	later  string    // Retry-After
	from   *instance // nil: nobody's
	// again: nothing comes of the request there, and another may do it.
	again bool
}

func (f *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if f.later != "" {
		w.Header().Set("Retry-After", f.later)
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body)
}

func readRefusal(resp *http.Response, from *instance) *refusal {
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	return &refusal{
		status: resp.StatusCode, body: body, later: resp.Header.Get("Retry-After"), from: from,
		again: resp.StatusCode == http.StatusServiceUnavailable,
	}
}

func refusalOf(e *api.Error) *refusal {
	body, _ := json.Marshal(map[string]*api.Error{"error": e}) // of strings
	return &refusal{status: e.Status, body: body}
}

func noPair() *refusal {
	return refusalOf(api.Refuse(http.StatusServiceUnavailable, "", "no pair of prefill and decode is ready"))
}

// down takes an instance for one that does not answer, until it is seen to.
func (r *Router) down(i *instance) *refusal {
	i.info.Store(nil)
	f := refusalOf(api.Refuse(http.StatusBadGateway, "", "%s does not answer", i.address()))
	f.from = i
	return f
}
