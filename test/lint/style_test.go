package lint

import (
	"go/ast"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds that keep a file and a function readable at one sitting.
const (
	maxFileLines     = 500
	maxFunctionLines = 80
)

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxFileLines {
			t.Errorf("%s has %d lines, at most %d", s.path, s.lines, maxFileLines)
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, at most %d", s.at(f.Pos()), f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	said := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		doc := s.file.Doc.Text()
		begins := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			begins = "Command " + path.Base(s.folder()) + " "
		}
		said[s.folder()] = said[s.folder()] || strings.HasPrefix(doc, begins)
	}
	for folder, ok := range said {
		if !ok {
			t.Errorf("%s has no comment that begins with \"Package …\" or \"Command %s …\"", folder, path.Base(folder))
		}
	}
}

// A package is named for what it provides.
func TestNoPackageIsADrawerForAnything(t *testing.T) {
	forbidden := []string{"util", "utils", "common", "helper", "helpers", "misc", "types"}
	for _, s := range sources(t) {
		for part := range strings.SplitSeq(s.folder(), "/") {
			if slices.Contains(forbidden, part) {
				t.Errorf("%s lies in a folder called %s", s.path, part)
			}
		}
		if slices.Contains(forbidden, strings.TrimSuffix(s.file.Name.Name, "_test")) {
			t.Errorf("%s is of a package called %s", s.path, s.file.Name.Name)
		}
	}
}

// calls lists the calls X.Y of a file, as "X.Y".
func (s source) calls(each func(name string, call *ast.CallExpr)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok {
					each(x.Name+"."+sel.Sel.Name, call)
				}
			}
		}
		return true
	})
}

// Only a command may end the process; a library returns an error.
func TestLibrariesDoNotEndTheProcess(t *testing.T) {
	fatal := regexp.MustCompile(`^(log\.(Fatal|Panic)(f|ln)?|os\.Exit)$`)
	for _, s := range sources(t) {
		if s.file.Name.Name == "main" || s.test() {
			continue
		}
		s.calls(func(name string, call *ast.CallExpr) {
			if fatal.MatchString(name) {
				t.Errorf("%s: %s in a library", s.at(call.Pos()), name)
			}
		})
	}
}

// A test that is left out is a promise that nobody keeps.
func TestNoTestIsSkipped(t *testing.T) {
	skip := regexp.MustCompile(`^(t|b|f|tb)\.(Skip|Skipf|SkipNow)$`)
	for _, s := range sources(t) {
		s.calls(func(name string, call *ast.CallExpr) {
			if skip.MatchString(name) {
				t.Errorf("%s: %s", s.at(call.Pos()), name)
			}
		})
	}
}

// What is unfinished belongs in an issue, and a path of somebody's machine
// nowhere.
func TestNoTextIsUnfinishedOrBoundToAMachine(t *testing.T) {
	forbidden := regexp.MustCompile(`\b(` + "TO" + `DO|FIX` + `ME|XX` + `X)\b|/(work|root|home)/[a-z]|C:\\Users`)
	files(t, func(p, text string) {
		if filepath.Base(p) == "LICENSE" || strings.Contains(p, "testdata/") {
			return
		}
		for i, line := range strings.Split(text, "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: %q", p, i+1, found)
			}
		}
	})
}
