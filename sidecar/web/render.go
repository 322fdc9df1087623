package web

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

//go:embed pages
var pages embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"ms": func(ns int64) string { return strconv.FormatFloat(float64(ns)/1e6, 'f', 3, 64) },
}).ParseFS(pages, "pages/*.html"))

// Row is an incident in a list.
type Row struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Kinds    string `json:"kinds"`
	Name     string `json:"name"`
	Inst     string `json:"inst"`
	Exposed  int    `json:"exposed"`
	First    string `json:"first"`
	Open     bool   `json:"open"`
	Wakes    bool   `json:"wakes"`
}

func row(i *evidence.Incident) Row {
	var kinds []string
	for _, k := range i.Kinds {
		kinds = append(kinds, k.String())
	}
	return Row{
		i.ID, i.Kind.String(), i.Severity.String(), strings.Join(kinds, ", "), i.Name, i.Inst, i.Exposed,
		i.First.UTC().Format("2006-01-02 15:04:05.000"), i.Open, i.Wakes,
	}
}

// page is what every page has.
type page struct {
	Title string
	Here  string // which of the pages of the menu
	Node  string
	Body  any
}

func (s *server) render(w http.ResponseWriter, status int, name, title string, body any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name+".html", page{title, name, s.Node, body}); err != nil {
		fail(w, http.StatusInternalServerError, errors.New("the page could not be made"))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // who hangs up gets no answer
}

func (s *server) nowPage(w http.ResponseWriter, _ *http.Request) {
	s.render(w, http.StatusOK, "now", "Now", map[string]any{"States": states(), "Evidence": s.Store != nil})
}

func (s *server) loginPage(w http.ResponseWriter, r *http.Request) {
	s.render(w, http.StatusOK, "login", "Log in", map[string]any{"Wrong": r.URL.Query().Has("wrong")})
}

// perPage is how many incidents one page of the history has.
const perPage = 100

func (s *server) historyPage(w http.ResponseWriter, r *http.Request) {
	kind := r.URL.Query().Get("kind")
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 {
		from = 0
	}
	var rows []Row
	counts := map[string]int{}
	open := 0
	if s.Store != nil {
		for _, i := range s.Store.List() {
			counts[i.Kind.String()]++
			if i.Open {
				open++
			}
			if kind == "" || i.Kind.String() == kind {
				rows = append(rows, row(&i))
			}
		}
	}
	total := len(rows)
	rows = rows[min(from, total):min(from+perPage, total)]
	type count struct {
		Kind string
		N    int
	}
	var kinds []count
	for k := range finding.NumKind {
		if n := counts[k.String()]; n > 0 {
			kinds = append(kinds, count{k.String(), n})
		}
	}
	stats := evidence.Stats{}
	if s.Store != nil {
		stats = s.Store.Stats()
	}
	s.render(w, http.StatusOK, "history", "History", map[string]any{
		"Rows": rows, "Kinds": kinds, "Kind": kind, "From": from, "Total": total, "Open": open, "Evidence": s.Store != nil,
		"Stats": stats, "Next": from + perPage, "Before": max(0, from-perPage), "Last": min(from+perPage, total),
	})
}

func (s *server) incidentPage(w http.ResponseWriter, r *http.Request) {
	if s.Store == nil {
		s.render(w, http.StatusNotFound, "missing", "No such incident", errNoStore.Error())
		return
	}
	i, entries, err := read(s.Store, r.PathValue("id"))
	switch {
	case errors.Is(err, evidence.ErrNotFound):
		s.render(w, http.StatusNotFound, "missing", "No such incident", "There is no such incident: it may have been pruned, or be of another node.")
	case err != nil:
		s.render(w, http.StatusInternalServerError, "missing", "Damaged evidence", err.Error())
	default:
		s.render(w, http.StatusOK, "incident", i.Kind.String()+" of "+i.Name, story(&i, entries))
	}
}

func (s *server) closePage(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if s.Store == nil || r.ParseForm() != nil {
		fail(w, http.StatusBadRequest, errors.New("say by and why"))
		return
	}
	_, err := s.shut(s.Store, id, strings.TrimSpace(r.PostForm.Get("by")), strings.TrimSpace(r.PostForm.Get("why")))
	if err != nil {
		s.render(w, http.StatusBadRequest, "missing", "Not closed", err.Error())
		return
	}
	http.Redirect(w, r, "/incident/"+id, http.StatusSeeOther)
}

// since is a time of the facts, told from the first one.
func since(t, zero int64) string {
	d := time.Duration(t - zero)
	return strconv.FormatFloat(d.Seconds()*1e3, 'f', 3, 64)
}

// sorted are the lines of both lanes in order.
func sorted(all []Line) []Line {
	slices.SortStableFunc(all, func(a, b Line) int {
		switch {
		case a.t < b.t:
			return -1
		case a.t > b.t:
			return 1
		}
		return 0
	})
	return all
}
