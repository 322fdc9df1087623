package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// kill is the first test that failed, and what it said; by is "" if none did.
type kill struct {
	by   string // package (its last element) and test
	said string
}

// event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of what could not be built
	Test       string
	Output     string
}

// What go test says that is neither green nor the failure of a test.
var (
	errBuild   = errors.New("it does not compile")
	errNoTests = errors.New("the package failed, but no test of it")
)

// maxSaid bounds how much of a failing test's output is kept, in bytes.
const maxSaid = 4096

// readTests reads the output of go test -json for one package. The first
// failure told is that of a subtest before the test that holds it.
func readTests(r io.Reader) (kill, error) {
	said := map[string]*strings.Builder{}
	var first event
	var build, rest strings.Builder
	packageFailed, panicked := false, false
	for d := json.NewDecoder(r); ; {
		var e event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return kill{}, fmt.Errorf("reading what go test said: %w", err)
		}
		panicked = panicked || strings.HasPrefix(e.Output, "panic: ")
		switch {
		case e.Action == "build-output":
			build.WriteString(e.Output)
		case e.Action == "build-fail":
			return kill{}, fmt.Errorf("%w: %s", errBuild, strings.TrimSpace(build.String()))
		case e.Action == "output" && e.Test != "":
			keep(said, e)
		case e.Action == "output":
			rest.WriteString(e.Output)
		case e.Action == "fail" && e.Test == "":
			packageFailed = true
		case e.Action == "fail" && first.Test == "":
			first = e
		}
	}
	if first.Test == "" {
		if packageFailed {
			return kill{}, fmt.Errorf("%w: %s", errNoTests, strings.TrimSpace(rest.String()))
		}
		return kill{}, nil
	}
	k := kill{by: first.Package[strings.LastIndex(first.Package, "/")+1:] + "." + first.Test}
	if b := said[first.Test]; b != nil {
		k.said = b.String()
	}
	if panicked {
		k.by += " (panic)"
	}
	return k, nil
}

func keep(said map[string]*strings.Builder, e event) {
	b := said[e.Test]
	if b == nil {
		b = &strings.Builder{}
		said[e.Test] = b
	}
	if b.Len() < maxSaid {
		b.WriteString(e.Output)
	}
}
