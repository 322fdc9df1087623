package main

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/kvwitness/kvwitness/engine/config"
)

// Promise: without a CUDA program beside it, auto and cpu run on the CPU and cuda is
// refused by name.
func TestWithoutCUDAThereIsTheCPU(t *testing.T) {
	for choice, refused := range map[config.Backend]bool{
		config.AutoBackend: false, config.CPUBackend: false, config.CUDABackend: true,
	} {
		s := &config.Serve{Backend: choice}
		s.Config.Log = slog.New(slog.DiscardHandler)
		if err := chooseBackend(t.Context(), s); errors.Is(err, errNoCUDA) != refused || s.Worker.Open != nil {
			t.Errorf("choice %d: %v", choice, err)
		}
	}
}
