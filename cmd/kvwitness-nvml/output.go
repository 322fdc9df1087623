//go:build linux

package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// output writes samples, whole lines, from several goroutines.
type output struct {
	mu sync.Mutex
	to io.Writer
}

// write ends a sample and writes it. A sidecar that does not read makes it wait.
func (o *output) write(s *nvml.Sample) error {
	s.Ended = now()
	line, err := s.Encode()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.to.Write(line); err != nil {
		return fmt.Errorf("write to the sidecar: %w", err)
	}
	return nil
}
