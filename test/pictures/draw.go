package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/kvwitness/kvwitness/test/boards"
	"github.com/kvwitness/kvwitness/test/chromium"
)

// width of a picture in pixels; its height is the dashboard's.
const width = 1600

// patience is how long a browser may take for one picture.
const patience = 2 * time.Minute

// drawAll has a browser draw the dashboards with these answers, into PNG files.
func drawAll(ctx context.Context, root, to string, all map[string]answered) error {
	dir, err := os.MkdirTemp("", "kvw-pictures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := bundle(ctx, root, dir); err != nil {
		return err
	}
	list, err := boards.Read(root)
	if err != nil {
		return err
	}
	needs, err := chromium.See(root)
	if err != nil {
		return err
	}
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	for _, b := range list {
		text, err := json.Marshal(map[string]any{"board": b.JSON, "answered": all[b.UID]})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, b.UID+".json"), text, 0o600); err != nil {
			return err
		}
		png, err := picture(ctx, needs.Browser, filepath.Join(dir, "profile-"+b.UID), web.URL+"/?"+b.UID, height(&b))
		if err != nil {
			return fmt.Errorf("draw %s: %w", b.UID, err)
		}
		path := filepath.Join(to, strings.TrimPrefix(b.UID, "kvwitness-")+".png")
		if err := os.WriteFile(path, png, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s\t%d bytes\n", path, len(png))
	}
	return nil
}

// bundle makes one script of the page and Grafana's packages.
func bundle(ctx context.Context, root, dir string) error {
	page := filepath.Join(root, "test/pictures/page")
	out, err := exec.CommandContext(ctx, filepath.Join(root, "test/pictures/ready.sh")).Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return fmt.Errorf("see to Grafana's packages: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return fmt.Errorf("see to Grafana's packages: %w", err)
	}
	packages := strings.TrimSpace(string(out))
	cmd := exec.CommandContext(ctx, filepath.Join(packages, ".bin/esbuild"), filepath.Join(page, "main.tsx"), "--bundle", "--minify",
		"--jsx=automatic", "--outdir="+dir, "--loader:.ttf=dataurl", "--loader:.woff2=dataurl", "--loader:.svg=text", `--define:process.env.NODE_ENV="production"`, "--log-level=error")
	cmd.Env = append(os.Environ(), "NODE_PATH="+packages)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bundle the page: %w: %s", err, out)
	}
	html, err := os.ReadFile(filepath.Join(page, "index.html"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index.html"), html, 0o600)
}

// picture opens a page of so many pixels, waits until it says that it is drawn, and
// takes all of it.
func picture(ctx context.Context, browser, profile, page string, height int) (png []byte, err error) {
	tab, end, err := chromium.Open(browser, profile, width, height)
	if err != nil {
		return nil, err
	}
	defer end()
	tab, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if err := chromedp.Do(tab, chromedp.Navigate(page)); err != nil {
		return nil, err
	}
	wrong, err := chromedp.Run(tab, chromedp.Evaluate[string]("window.drawn", chromedp.EvalAwaitPromise))
	if err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	if err != nil {
		return nil, err
	}
	if png, err = chromedp.Run(tab, chromedp.CaptureScreenshot()); err != nil {
		return nil, err
	}
	return fewer(png)
}

// Sizes of Grafana's grid in pixels.
const (
	cellHeight = 30
	gap        = 8
	head       = 48 // the dashboard's title
)

// height of a dashboard's picture in pixels.
func height(b *boards.Board) (pixels int) {
	for _, p := range b.Panels {
		pixels = max(pixels, head+(p.GridPos.Y+p.GridPos.H)*(cellHeight+gap)+gap)
	}
	return pixels
}
