// Command make writes what is made from dashboards/alert and dashboards/board:
// rules, runbooks and dashboards. What is no longer made is removed.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kvwitness/kvwitness/dashboards/alert"
	"github.com/kvwitness/kvwitness/dashboards/board"
)

//go:generate go run . ..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "make: name the folder of the dashboards")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

// patterns are where all files lie.
var patterns = []string{"rules/*.yml", "runbooks/*.md", "grafana/*.json", chart + "rules/*.yml"}

// chart is the Helm chart, as seen from dashboards.
const chart = "../deploy/helm/kvwitness/"

// write makes all files anew, under root.
func write(root string) error {
	files, err := made()
	if err != nil {
		return err
	}
	for _, pattern := range patterns {
		old, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove what was made before: %w", err)
			}
		}
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("write what is made: %w", err)
		}
	}
	return nil
}

// made are all files, by their paths.
func made() (files map[string][]byte, err error) {
	files = map[string][]byte{"runbooks/README.md": []byte(alert.Index())}
	if files["rules/alerts.yml"], err = alert.AlertsYAML(); err != nil {
		return nil, err
	}
	if files["rules/recordings.yml"], err = alert.RecordingsYAML(); err != nil {
		return nil, err
	}
	// A chart holds nothing that lies outside of it.
	for _, name := range []string{"rules/alerts.yml", "rules/recordings.yml"} {
		files[chart+name] = files[name]
	}
	for _, r := range alert.Rules() {
		files["runbooks/"+r.Name+".md"] = []byte(r.Markdown())
	}
	for _, b := range board.Boards() {
		if files["grafana/"+b.UID+".json"], err = b.JSON(); err != nil {
			return nil, err
		}
	}
	return files, nil
}
