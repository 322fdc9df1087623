package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

func started(t *testing.T, maxTokens int, stops ...string) *Answer {
	t.Helper()
	var all [][]byte
	for _, s := range stops {
		all = append(all, []byte(s))
	}
	a := newAnswer(model.Bytes{}, 1, &Request{})
	var err error
	if a.decider, err = model.NewAnswer(model.Bytes{}, maxTokens, all...); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *Answer) all(t *testing.T) (text string, end *End) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for end == nil {
		part, e, err := a.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		text, end = text+string(part), e
	}
	return text, end
}

// Promise: text of a token that the scheduler did not take in never leaves.
func TestAWithheldTokenHasNoText(t *testing.T) {
	a := started(t, 10)
	for _, c := range "ab" {
		a.push(model.Token(c))
		a.emit()
	}
	a.push('c')
	a.finish(scheduler.Outcome{Status: 500, Finish: scheduler.FinishError, Err: scheduler.ErrPageTag})
	if text, end := a.all(t); text != "ab" || end.AnswerTokens != 2 || !errors.Is(end.Err, scheduler.ErrPageTag) {
		t.Errorf("%q %+v", text, end)
	}
}

// Promise: what was held back for a stop string that does not come is in the
// answer; one that comes is not.
func TestHeldTextIsDecidedAtTheEnd(t *testing.T) {
	for text, want := range map[string]string{"abEN": "abEN", "abEND": "ab", "aENbEND": "aENb"} {
		a := started(t, 100, "END")
		stop := false
		for _, c := range text {
			stop = a.push(model.Token(c))
			a.emit()
		}
		finish := scheduler.FinishLength
		if stop {
			finish = scheduler.FinishStop
		}
		a.finish(scheduler.Outcome{Status: 200, Finish: finish})
		if got, _ := a.all(t); got != want || stop == (text == "abEN") {
			t.Errorf("%q gives %q, stop %v; want %q", text, got, stop, want)
		}
	}
}

// Promise: the first token counts once, however many peers report it.
func TestTheFirstTokenCountsOnce(t *testing.T) {
	a := started(t, 10, "x")
	for range 2 {
		if !a.pushFirst('x') {
			t.Error("the stop was not said to each")
		}
	}
	a.emit()
	a.finish(scheduler.Outcome{Status: 200, Finish: scheduler.FinishStop})
	if text, _ := a.all(t); text != "" {
		t.Errorf("%q", text)
	}
}

// Promise: a closed worker answers everybody, and takes nothing more.
func TestCloseAnswersEverybody(t *testing.T) {
	w, err := New(Config{Role: scheduler.Unified, Pages: 65, PageTokens: 16, ContextTokens: 1000, MaxQueued: 9, MaxRunning: 4, BatchTokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.Submit(Request{Prompt: model.Encode([]byte("abcabc")), MaxTokens: 900})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, end := a.all(t); end.Status != 503 && end.Status != 200 {
		t.Errorf("%+v", end)
	}
	if _, err := w.Submit(Request{}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}
