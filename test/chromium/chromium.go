// Package chromium opens a Chromium without a window, for test/web, which looks at
// the sidecar's pages in it, and for test/pictures, which has dashboards drawn.
//
// It needs what ready.sh sees to.
package chromium

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chromedp/chromedp"
)

// Needs are the paths of the browser and of axe-core.
type Needs struct{ Browser, Axe string }

// See sees to what is needed; root is where go.mod is.
func See(root string) (Needs, error) {
	out, err := exec.Command(filepath.Join(root, "test/chromium/ready.sh")).Output()
	if exit, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	paths := strings.Fields(string(out))
	if err == nil && len(paths) != 2 {
		err = fmt.Errorf("it printed %q", out)
	}
	if err != nil {
		return Needs{}, fmt.Errorf("see to a browser: %w", err)
	}
	return Needs{paths[0], paths[1]}, nil
}

// Open starts the browser with an empty tab of so many pixels; profile is an empty
// folder. The context is the tab's, and is to be closed.
func Open(browser, profile string, width, height int) (tab context.Context, end func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(width, height), chromedp.UserDataDir(profile))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	tab, cancel := chromedp.NewContext(allocated)
	end = sync.OnceFunc(func() { cancel(); stop() })
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		end()
		return nil, nil, fmt.Errorf("open a browser: %w", err)
	}
	return tab, end, nil
}
