package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kvwitness/kvwitness"

// skipped are folders that hold nothing of the house's own.
var skipped = []string{".git", ".cache", "bin", "dist", "node_modules"}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// source is one Go file that people wrote.
type source struct {
	path  string // from the root, with slashes
	text  string
	lines int
	file  *ast.File
	set   *token.FileSet
}

func (s source) folder() string { return path.Dir(s.path) }
func (s source) test() bool     { return strings.HasSuffix(s.path, "_test.go") }
func (s source) at(p token.Pos) string {
	return s.set.Position(p).String()
}

// files calls each for every file of the tree that is not skipped.
func files(t *testing.T, each func(path, text string)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		switch filepath.Ext(p) {
		case ".go", ".md", ".c", ".h", ".cu", ".sh", ".yml", ".yaml", ".mod", ".toml", ".py", "":
			text, err := fs.ReadFile(root, p)
			if err != nil {
				return err
			}
			each(p, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var parsed []source // by the first test that asks

// sources are all Go files but generated ones.
func sources(t *testing.T) (all []source) {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	defer func() { parsed = all }()
	files(t, func(p, text string) {
		if filepath.Ext(p) != ".go" || generated.MatchString(text) {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, p, text, parser.ParseComments)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		all = append(all, source{p, text, strings.Count(text, "\n"), file, set})
	})
	if len(all) < 50 {
		t.Fatalf("found only %d Go files; is this still the root?", len(all))
	}
	return all
}

// imports are the house's own folders that a file imports.
func (s source) imports() (folders []string) {
	for _, spec := range s.file.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		if folder, own := strings.CutPrefix(name, module+"/"); own {
			folders = append(folders, folder)
		}
	}
	return folders
}
