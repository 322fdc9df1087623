package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cpu"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/llama"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

const (
	pageTokens = 16
	owed       = 8 // pages of the incident
)

// engine is the real model over a few pages.
type engine struct {
	*model.Model
	*cpu.Backend
	t *testing.T
}

func start(t *testing.T) *engine {
	t.Helper()
	m := load(t)
	b, err := cpu.New(m.Network, cpu.Config{Pages: 2 * owed, PageTokens: pageTokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &engine{m, b, t}
}

// load opens the model's file.
func load(t testing.TB) *model.Model {
	t.Helper()
	path, err := File(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// table hands out pages from one on, as so manieth generation.
func table(pages int, generation uint64) (all []backend.Block) {
	for i := range pages {
		all = append(all, backend.Block{Page: int32(i), Tag: reference.NewTag(generation, 0)})
	}
	return all
}

// step computes one sequence and gives its result.
func (e *engine) step(s backend.Sequence) *backend.Result {
	e.t.Helper()
	s.Logits = true
	results := make([]backend.Result, 1)
	if err := e.Forward([]backend.Sequence{s}, results); err != nil {
		e.t.Fatal(err)
	}
	return &results[0]
}

// answer goes on from a sequence, greedily, for at most so many tokens, until its
// pages are full.
func (e *engine) answer(s backend.Sequence, most int) (string, error) {
	e.t.Helper()
	var text []byte
	for range most {
		token, err := e.step(s).Sample(model.NewSampler(0, 0))
		if err != nil {
			return string(text), err
		}
		if e.Ends(token) {
			break
		}
		text = append(text, e.Text(token)...)
		s.Start, s.Tokens = s.Start+len(s.Tokens), []model.Token{token}
		if s.Start == len(s.Table)*pageTokens {
			break
		}
	}
	return string(text), nil
}

// Promise: the model answers sensibly.
func TestTheModelAnswersSensibly(t *testing.T) {
	e := start(t)
	prompt, err := e.EncodeChat([]model.Message{{Role: "user", Content: "What is the capital of France?"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.answer(backend.Sequence{Tokens: prompt, Table: table(owed, 1)}, 20)
	if err != nil || !strings.Contains(got, "Paris") {
		t.Errorf("%q, %v", got, err)
	}
}

// Promise: eight pages are handed out anew, one is written. With tags checked
// there is no token, and the seven pages are counted. Without, the answer is fluent
// text with the secret of the one whose pages they were.
func TestTheIncidentWithARealModel(t *testing.T) {
	const secret = "amber harbor walnut falcon"
	e := start(t)
	line := e.Encode([]byte("-my secret is " + secret + "\n"))
	var theirs []model.Token
	for len(theirs) < owed*pageTokens {
		theirs = append(theirs, line...)
	}
	e.step(backend.Sequence{Tokens: theirs[:owed*pageTokens], Table: table(owed, 1)})
	// The one page that comes holds a placeholder, as in the incident.
	mine := table(owed+2, 2)
	first, err := e.step(backend.Sequence{Tokens: []model.Token{0}, Table: mine[:1]}).Sample(model.NewSampler(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	next := backend.Sequence{Tokens: []model.Token{first}, Start: owed*pageTokens - pageTokens/2, Table: mine}
	var fault *backend.FaultError
	if text, err := e.answer(next, 24); !errors.As(err, &fault) || text != "" || fault.Pages != owed-1 {
		t.Errorf("with tags: %q, %v", text, err)
	}
	next.Unchecked = true
	text, err := e.answer(next, 24)
	t.Logf("without: %q", text)
	if err != nil || !strings.Contains(text, secret) {
		t.Errorf("without tags: %q, %v", text, err)
	}
}
