// Command pictures draws the dashboards of this tree with Grafana's components, for
// docs/pictures: it plays the incident a few times amid normal traffic before a
// sidecar that a Prometheus scrapes each second, asks that Prometheus what every
// panel asks for, and has a browser draw the answers.
//
//	go run ./test/pictures
//
// It needs what test/monitoring and test/chromium see to, and npm for Grafana's
// packages (about half a gigabyte), which stay in the user's cache folder. As root the
// sidecar watches from outside too; else no handoff is clean. It is no test, and what
// it shows is no promise that a Grafana shows the same.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	root := flag.String("root", ".", "where go.mod is")
	to := flag.String("to", "docs/pictures", "folder for the pictures")
	long := flag.Duration("for", 3*time.Minute, "how long there is traffic")
	kept := flag.String("answers", "", "file with what Prometheus answered: read if it is there, so that nothing is played, and else written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all, err := answers(ctx, *root, *kept, *long)
	if err == nil {
		err = drawAll(ctx, *root, *to, all)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// answers to each dashboard, by its uid, are those in the file or, where it is not there, those of a demo.
func answers(ctx context.Context, root, file string, long time.Duration) (all map[string]answered, err error) {
	if text, err := os.ReadFile(file); err == nil {
		return all, json.Unmarshal(text, &all)
	}
	if all, err = play(ctx, root, long); err != nil || file == "" {
		return all, err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return all, os.WriteFile(file, text, 0o600)
}
