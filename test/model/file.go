// Package model finds the small real model for tests, and holds those that need
// nothing but it: that it answers sensibly, and that the incident is what it is
// with a model that was trained on text.
//
// fetch.sh (make model) fetches the weights once, into the user's cache folder.
// Tests fail where they cannot be had, and say what to install.
package model

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// fetchLimit is how long fetching may take: it is a download of 93 MB.
const fetchLimit = 10 * time.Minute

// File returns the path of the model file; dir is this folder, as seen from the test.
func File(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, dir+"/fetch.sh").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("make model: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
