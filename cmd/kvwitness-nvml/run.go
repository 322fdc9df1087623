//go:build linux && cgo

package main

import (
	"context"
	"fmt"
	"time"

	driver "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// run writes samples until ctx ends, or the library can say no more.
func run(ctx context.Context, s settings, out *output) error {
	var options []driver.LibraryOption
	if s.library != "" {
		options = append(options, driver.WithLibraryPath(s.library))
	}
	return sampling(ctx, driver.New(options...), s, out)
}

func sampling(ctx context.Context, lib library, s settings, out *output) error {
	w := newWatchdog(s.deadline, out)
	go w.run()
	p := &sampler{lib: lib, watch: w, symbols: map[string]bool{}, xids: map[string][]nvml.XID{}}
	for {
		sample := p.sample()
		if err := out.write(sample); err != nil {
			return err
		}
		// After a failed initialisation further calls may kill the process.
		if !p.begun {
			return fmt.Errorf("%s: %s: %s", sample.State, sample.Call, sample.Said)
		}
		if s.once {
			return nil
		}
		p.await(ctx, time.Duration(sample.Begun)+s.every)
		if ctx.Err() != nil {
			p.end()
			return nil
		}
	}
}
