package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhatIsCommittedIsWhatTheCodeMakes(t *testing.T) {
	files, err := made()
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if had, err := os.ReadFile(filepath.Join("..", path)); err != nil || string(had) != string(text) {
			t.Errorf("%s differs from what the code makes: run go generate ./dashboards/make (%v)", path, err)
		}
	}
	for _, pattern := range patterns {
		had, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range had {
			rel, err := filepath.Rel("..", path)
			if err != nil || files[filepath.ToSlash(rel)] == nil {
				t.Errorf("%s is made by nobody", path)
			}
		}
	}
}
