package api

import (
	"net/http"

	"github.com/kvwitness/kvwitness/engine/worker"
)

// tokenize says into which tokens a prompt, or the messages of a chat, are cut, as
// vLLM's endpoint of the name does.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	_, e := s.cfg.Keys.Tenant(r)
	var raw []byte
	if e == nil {
		raw, e = ReadBody(w, r)
	}
	var b *Body
	if e == nil {
		b, e = ParseBody(raw)
	}
	if e != nil {
		WriteError(w, e)
		return
	}
	prompt := (*Body).completionPrompt
	if b.Messages != nil {
		prompt = (*Body).chatPrompt
	}
	tokens, e := prompt(b, s.worker.Config().Model)
	if e != nil {
		WriteError(w, e)
		return
	}
	limit := 0
	if err := s.inspect(r.Context(), func(v worker.View) { limit = v.Scheduler.Limit() }); err != nil {
		WriteError(w, failure(http.StatusServiceUnavailable, err))
		return
	}
	WriteJSON(w, http.StatusOK, map[string]any{"tokens": tokens, "count": len(tokens), "max_model_len": limit})
}
