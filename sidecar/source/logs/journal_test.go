package logs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Promise: what names a unit is that and nothing else: no pattern, and no option.
func TestAUnitIsNamedAsSystemdNamesIt(t *testing.T) {
	for spec, want := range map[string]string{"journal:vllm.service": "vllm.service", "journal:sglang@decode-0": "sglang@decode-0", `journal:a\x2db.service`: `a\x2db.service`} {
		if unit, journal, err := Unit(spec); unit != want || !journal || err != nil {
			t.Errorf("%s: %q, %v, %v", spec, unit, journal, err)
		}
	}
	for _, spec := range []string{"journal:", "journal:a*", "journal:[ab].service", "journal:a b", "journal:a/b", "journal:a\nb", "journal:é", "journal:" + strings.Repeat("a", maxUnit+1)} {
		if _, journal, err := Unit(spec); !journal || err == nil {
			t.Errorf("%q is taken for a unit", spec)
		}
	}
	if _, journal, err := Unit("/var/log/journal:x"); journal || err != nil {
		t.Error("a file is taken for a journal")
	}
}

// journald is systemd's, in a mount namespace with a /run of its own, whose journal lies
// in DIR. Each line of its input is the fields of an entry, with \n between them.
const journald = `set -eu
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/log/journal
mount --bind "$DIR" /run/log/journal
/lib/systemd/systemd-journald >&2 &
trap "kill $!" EXIT
while ! [ -S /run/systemd/journal/socket ]; do sleep 0.01; done
while IFS= read -r fields; do printf '%b\n' "$fields" | logger --journald; done
`

type lockedText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedText) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedText) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// withJournald starts it until the test ends, and returns what logs.
func withJournald(t *testing.T, dir string) (entry func(unit, message string, more ...string)) {
	t.Helper()
	args := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	cmd := exec.Command("unshare", append(args, "bash", "-c", journald)...)
	cmd.Env = append(os.Environ(), "DIR="+dir)
	said := &lockedText{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%v: test/peers/ready.sh installs what this test needs", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said)
		}
	})
	return func(unit, message string, more ...string) {
		t.Helper()
		// Root may name the unit that an entry is of; else the control group tells it.
		fields := append([]string{"MESSAGE=" + message, "OBJECT_SYSTEMD_UNIT=" + unit}, more...)
		if _, err := io.WriteString(in, strings.Join(fields, `\n`)+"\n"); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
}

// script is a program that runs under sh.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Promise: of the real journal, written by systemd's journald, the real journalctl gives
// the lines of one unit, of before and of now, in whatever bytes, and what was dropped.
func TestTheRealJournalOfAUnitIsFollowed(t *testing.T) {
	dir := t.TempDir()
	entry := withJournald(t, dir)
	entry("engine.service", "GPU KV cache size: 2,176 tokens")
	entry("other.service", "a stranger's")
	entry("engine.service", "the last of before")
	program := script(t, `exec journalctl --directory='`+dir+`' "$@"`+"\n")
	written := func() string {
		out, _ := exec.Command(program, "--output=cat", "--unit=engine.service").CombinedOutput()
		return string(out)
	}
	for end := time.Now().Add(60 * time.Second); !strings.Contains(written(), "the last of before"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing was written: %s", written())
		}
	}
	f := &tail{t: t}
	j := Journal{Unit: "engine.service", Program: program, Log: slog.New(slog.DiscardHandler), Sink: f.sink()}
	f.run(j.Run)
	f.until("what was there before", func() bool {
		return slices.Equal(f.past, []string{"GPU KV cache size: 2,176 tokens", "the last of before"})
	})
	long := strings.Repeat("x", 3*MaxLine/4)
	entry("other.service", "another stranger's")
	entry("engine.service", `not text: \xff\x1b[0m`)
	entry("engine.service", long)
	entry("engine.service", "Suppressed 7 messages", "N_DROPPED=7")
	f.await("what came", "not text: \xff\x1b[0m", long, "Suppressed 7 messages")
	f.until("what was dropped", func() bool { return f.lost == 7 })
}

// line is an entry as journalctl has it.
func line(message string, n int, invocation string) string {
	return fmt.Sprintf(`{"MESSAGE":%s,"__CURSOR":"s=0a;i=%d","__MONOTONIC_TIMESTAMP":"%d","_SYSTEMD_INVOCATION_ID":"%s"}`, message, n, int64(1)<<62, invocation)
}

// Promise: a journalctl that ends is started again behind what was read (a stand-in of
// that name ends here; the real one does not), another run of the unit is told, what
// cannot be read is counted, and what it complains of is said once.
func TestAJournalctlThatEndsIsStartedAgainBehindWhatWasRead(t *testing.T) {
	dir := t.TempDir()
	program := script(t, `
echo "$@" >> '`+dir+`/args'
case "$*" in
*s=0a\;i=2*) cat <<'END'
`+line(`"three"`, 3, "b")+`
{"MESSAGE":null,"__MONOTONIC_TIMESTAMP":"1"}
no JSON
`+strings.Repeat("y", maxEntry+1)+`
`+line(`["four","five"]`, 4, "b")+`
`+line(`"six\nseven"`, 5, "b")+`
END
	exec sleep 600 ;;
*) cat <<'END'
{"MESSAGE":"before","__CURSOR":"--option","__MONOTONIC_TIMESTAMP":"1"}
`+line(`"one"`, 1, "a")+`
`+line(`[116,119,111]`, 2, "a")+`
END
	echo "no rights
twice" >&2 ; exit 1 ;;
esac
`)
	said := &lockedText{}
	f := &tail{t: t}
	j := Journal{Unit: "u", Program: program, Log: slog.New(slog.NewTextHandler(said, nil)), Sink: f.sink()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); j.Run(ctx) }()
	f.await("both runs", "one", "two", "three", "four", "six", "seven")
	cancel()
	<-done // which waits for the child, and a sleep of ten minutes is not waited for
	f.until("the rest", func() bool { return f.lost == 3 && f.new == 1 && slices.Equal(f.past, []string{"before"}) })
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if runs := strings.Split(strings.TrimSpace(string(args)), "\n"); err != nil || len(runs) != 2 ||
		!strings.Contains(runs[0], "--unit=u --lines=10000") || !strings.Contains(runs[1], "--unit=u --no-tail --after-cursor=s=0a;i=2") {
		t.Errorf("%s, %v", args, err)
	}
	if strings.Count(said.String(), "no rights") != 1 || strings.Contains(said.String(), "twice") {
		t.Errorf("%s", said)
	}
}

// Promise: where there is no journalctl, that is said once, and tried again.
func TestAJournalctlThatIsMissingIsSaidOnce(t *testing.T) {
	said := &lockedText{}
	f := &tail{t: t}
	program := filepath.Join(t.TempDir(), "journalctl")
	j := Journal{Unit: "u", Program: program, Log: slog.New(slog.NewTextHandler(said, nil)), Sink: f.sink()}
	f.run(j.Run)
	f.until("a complaint", func() bool { return strings.Contains(said.String(), "must be installed") })
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho '"+line(`"there"`, 1, "a")+"'\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.await("once it is installed", "there")
	if n := strings.Count(said.String(), "\n"); n > 2 { // a file that is still being written may be said too
		t.Errorf("said %d times: %s", n, said)
	}
}

// Whatever journalctl prints, what is read of it is bounded, and its cursor is no option.
func FuzzEntry(f *testing.F) {
	f.Add(line(`"a"`, 1, "b"))
	f.Add(line(`[97,255,0]`, 1, "b"))
	f.Add(line(`[[97],"b"]`, 1, "b"))
	f.Add(`{"MESSAGE":[[[1]]],"N_DROPPED":"99999999999999999999","__CURSOR":[45]}`)
	f.Add(`{"MESSAGE":"x","N_DROPPED":"9999999999","__MONOTONIC_TIMESTAMP":"-1"}`)
	f.Fuzz(func(t *testing.T, line string) {
		e, err := parseEntry([]byte(line))
		if err != nil {
			return
		}
		if len(e.message) > 3*len(line) || len(e.cursor) > maxCursor || strings.HasPrefix(e.cursor, "-") || e.dropped > maxDropped {
			t.Fatalf("%+v", e)
		}
	})
}
