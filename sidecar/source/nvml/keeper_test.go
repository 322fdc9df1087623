package nvml

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// helper is a program that says what a test wants, as a shell has it.
func helper(t *testing.T, script string) func() (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), Command)
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return func() (string, error) { return path, nil }
}

// say is the command by which a helper says a sample.
func say(t *testing.T, change func(s *Sample)) string {
	t.Helper()
	s := whole()
	if change != nil {
		change(s)
	}
	line, err := s.Encode()
	must(t, err)
	return "echo '" + strings.TrimSpace(string(line)) + "'\n"
}

// keep runs a keeper until its status is as wanted.
func keep(t *testing.T, cfg KeeperConfig, want func(s *Status) bool) Status {
	t.Helper()
	cfg.Log, cfg.Pause = slog.New(slog.DiscardHandler), time.Millisecond
	k := NewKeeper(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s := k.Status()
		if want(&s) {
			return s
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", s)
		}
	}
}

func is(state State) func(*Status) bool { return func(s *Status) bool { return s.State == state } }

func TestEachEndOfAHelperHasItsWord(t *testing.T) {
	none := func() (string, error) { return "", errors.New("it is not there") }
	nothing := func() (string, error) { return filepath.Join(t.TempDir(), "nothing"), nil }
	for what, c := range map[string]struct {
		find func() (string, error)
		want State
	}{
		"not there":     {none, NoHelper},
		"no program":    {nothing, NoHelper},
		"ends at once":  {helper(t, "exit 1"), Died},
		"is killed":     {helper(t, say(t, nil)+"kill -9 $$"), Died},
		"says nonsense": {helper(t, "echo nonsense"), Died},
		"no driver":     {helper(t, say(t, func(s *Sample) { s.State, s.Devices = NoDriver, nil })+"exit 2"), NoDriver},
		"hangs":         {helper(t, say(t, func(s *Sample) { s.State, s.Call = Hangs, "nvmlX" })+"exit 2"), Hangs},
	} {
		s := keep(t, KeeperConfig{Find: c.find}, is(c.want))
		if what == "hangs" && s.Call != "nvmlX" {
			t.Errorf("%s: %+v", what, s)
		}
	}
}

// A helper that says nothing is replaced; the last sample stays, with its age.
func TestTheLastSampleOutlivesItsHelper(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	script := "if ! [ -e " + said + " ]; then\n" + say(t, nil) + ": > " + said + "\nfi\nread x"
	s := keep(t, KeeperConfig{Find: helper(t, script), Start: StartConfig{Silence: 3 * time.Second}}, func(s *Status) bool { return s.State == Hangs && s.Starts > 1 })
	if s.Last == nil || s.Last.Driver != "550" {
		t.Errorf("%+v", s)
	}
}

// What one helper counted and the next one counts is counted together; a GPU that was
// there once is missed.
func TestErrorsAndGPUsOutliveAHelper(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	other := say(t, func(s *Sample) { s.Devices = []Device{{UUID: "GPU-2", State: OK, Listed: OK}} })
	script := "echo x >> " + count + "\nif [ $(wc -l < " + count + ") -lt 4 ]; then\n" + say(t, nil) + "exit 1\nfi\n" + other + "read x"
	s := keep(t, KeeperConfig{Find: helper(t, script)}, func(s *Status) bool { return len(s.GPUs) == 2 && s.State == OK })
	a, b := s.GPUs[0], s.GPUs[1]
	if a.UUID != "GPU-1" || a.State != Lost || len(a.XIDs) != 1 || a.XIDs[0] != (XID{79, 3}) || b.State != OK || s.Starts != 4 {
		t.Errorf("%+v", s)
	}
}

func TestAHelperIsEndedAndNotKilled(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ended")
	keep(t, KeeperConfig{Find: helper(t, say(t, nil)+"cat > /dev/null\necho x > "+mark)}, is(OK))
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}

func TestOneLineSaysHowTheDriverStands(t *testing.T) {
	path, _ := helper(t, say(t, nil))()
	s := Ask(t.Context(), StartConfig{Path: path})
	if got, want := s.Line(), "driver 550, 1 of 1 GPUs read, processes known on 1 of 2 devices"; got != want {
		t.Errorf("%q", got)
	}
	path, _ = helper(t, say(t, func(s *Sample) { s.State, s.Call, s.Devices = Differ, "nvmlInit", nil }))()
	s = Ask(t.Context(), StartConfig{Path: path})
	if got := s.Line(); !strings.HasPrefix(got, "driver and library differ (nvmlInit): ") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
}
