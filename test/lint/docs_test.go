package lint

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	root := os.DirFS("../..")
	files(t, func(p, text string) {
		if path.Ext(p) != ".md" {
			return
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if to := path.Join(path.Dir(p), m[1]); !exists(root, to) {
				t.Errorf("%s links to %s, which is not there", p, to)
			}
		}
	})
}

func exists(root fs.FS, p string) bool {
	_, err := fs.Stat(root, p)
	return err == nil
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheRulesNameEveryKind(t *testing.T) {
	rules := document(t, "RULES.md")
	for k := range finding.NumKind {
		if !strings.Contains(rules, "`"+k.String()+"`") {
			t.Errorf("docs/RULES.md lacks %s", k)
		}
	}
}

// The bounds of the format are a promise; a number that moved in the code only
// would break it.
func TestTheFormatsBoundsAreThoseOfTheCode(t *testing.T) {
	format := document(t, "FORMAT.md")
	for row, holds := range map[string]bool{
		"| a line, or a msgpack fact | 4 MiB |":                                   lifecycle.MaxLine == 4<<20,
		"| a name; a `reason` | 256 bytes; 1,024 bytes |":                         lifecycle.MaxID == 256 && lifecycle.MaxText == 1024,
		"| pages of a pool, and so page ids | 2^27 |":                             lifecycle.MaxPages == 1<<27,
		"| runs in one list | 65,536 |":                                           lifecycle.MaxRuns == 65536,
		"| regions, pids or claims of a pool | 4,096 |":                           lifecycle.MaxList == 4096,
		"| tokens | 2^40 |":                                                       lifecycle.MaxTokens == 1<<40,
		"| bytes of a page, stride or registration | 2^48, ":                      lifecycle.MaxBytes == 1<<48,
		"| times and clock offsets | 2^62 ns either side of zero |":               lifecycle.MaxTime == 1<<62,
		"optional: `{\"ev\":\"trace\",\"version\":1,\"node\":…,\"boot\":…,\"wall": lifecycle.Version == 1,
	} {
		if !holds || !strings.Contains(strings.ToLower(format), strings.ToLower(row)) {
			t.Errorf("docs/FORMAT.md and engine/lifecycle differ about %q", row)
		}
	}
}
