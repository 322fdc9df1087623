//go:build linux && !cgo

package main

import (
	"context"
	"errors"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// run says that this build cannot ask: the driver's library is loaded by cgo.
func run(_ context.Context, _ settings, out *output) error {
	s := fresh()
	s.State = nvml.NotBuilt
	if err := out.write(s); err != nil {
		return err
	}
	return errors.New("built without cgo, so it cannot load the driver's library; build it with CGO_ENABLED=1")
}
