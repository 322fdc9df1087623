package web

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/sidecar/evidence"
)

var errNoStore = errors.New("no evidence is kept: name a folder with the key evidence")

// found is the store, or an answer that there is none.
func (s *server) found(w http.ResponseWriter) (*evidence.Store, bool) {
	if s.Store == nil {
		fail(w, http.StatusNotFound, errNoStore)
		return nil, false
	}
	return s.Store, true
}

func (s *server) list(w http.ResponseWriter, _ *http.Request) {
	store, ok := s.found(w)
	if !ok {
		return
	}
	answer(w, http.StatusOK, map[string]any{"incidents": store.List(), "head": store.Head()})
}

// part is an entry of an incident as the API has it.
type part struct {
	evidence.Link
	Content jsontext.Value `json:"body"`
}

func (s *server) one(w http.ResponseWriter, r *http.Request) {
	store, ok := s.found(w)
	if !ok {
		return
	}
	i, entries, err := read(store, r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	parts := make([]part, len(entries))
	for n, e := range entries {
		parts[n] = part{e.Link, e.Body}
	}
	answer(w, http.StatusOK, map[string]any{"incident": i, "entries": parts})
}

func read(store *evidence.Store, id string) (i evidence.Incident, entries []evidence.Entry, err error) {
	if i, err = store.Incident(id); err == nil {
		entries, err = store.Entries(id)
	}
	return i, entries, err
}

// refuse says why an incident is not shown.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, evidence.ErrNotFound) {
		status = http.StatusNotFound
	}
	fail(w, status, err)
}

func (s *server) export(w http.ResponseWriter, r *http.Request) {
	store, ok := s.found(w)
	if !ok {
		return
	}
	i, err := store.Incident(r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `attachment; filename="kvwitness-`+i.ID+`.jsonl"`)
	if err := store.Export(i.ID, w); err != nil {
		panic(http.ErrAbortHandler) // it has begun; only its end can say so
	}
}

func (s *server) closeJSON(w http.ResponseWriter, r *http.Request) {
	store, ok := s.found(w)
	if !ok {
		return
	}
	var who struct {
		By  string `json:"by"`
		Why string `json:"why"`
	}
	if err := json.UnmarshalRead(r.Body, &who); err != nil {
		fail(w, http.StatusBadRequest, errors.New("say by and why"))
		return
	}
	i, err := s.shut(store, r.PathValue("id"), who.By, who.Why)
	if errors.Is(err, evidence.ErrNotFound) {
		refuse(w, err)
		return
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	answer(w, http.StatusOK, i)
}

func (s *server) shut(store *evidence.Store, id, by, why string) (evidence.Incident, error) {
	i, err := store.Shut(id, by, why)
	if err == nil && s.Closed != nil {
		s.Closed()
	}
	return i, err
}
