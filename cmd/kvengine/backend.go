package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cuda"
	"github.com/kvwitness/kvwitness/engine/config"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

const (
	// cudaProgram is this command built with -tags cuda. It is another program because
	// it ends at once where there is no driver.
	cudaProgram = "kvengine-cuda"
	// probeTimeout is how long a driver may take to say what it has.
	probeTimeout = 30 * time.Second
)

// errNoCUDA says that --backend cuda cannot be had.
var errNoCUDA = errors.New("no CUDA backend")

// gpuCommand is the probe: it answers, or the process dies of it.
func gpuCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gpu",
		Short: "name the GPU that --backend cuda would use",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := cuda.GPU()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), name)
			return err
		},
	}
}

// chooseBackend settles where the pages lie. Where a GPU is to be used and this
// program was built without CUDA, kvengine-cuda takes this one's place.
func chooseBackend(ctx context.Context, s *config.Serve) error {
	if s.Backend == config.CPUBackend {
		return nil
	}
	name, err := useGPU(ctx, s)
	switch {
	case err == nil:
		s.Config.Log.Info("pages lie on a GPU", "gpu", name)
	case s.Backend == config.CUDABackend:
		return fmt.Errorf("%w: %w: start with --backend cpu, or see docs/GPU.md", errNoCUDA, err)
	default:
		s.Config.Log.Info("pages lie in the memory of the CPU", "no_gpu_because", err.Error())
	}
	return nil
}

// useGPU returns only where this process goes on: with the GPU's name, or why not.
func useGPU(ctx context.Context, s *config.Serve) (string, error) {
	if cuda.Built {
		name, err := cuda.GPU()
		if err == nil {
			s.Worker.Open = openCUDA
		}
		return name, err
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", cudaProgram, err)
	}
	program := filepath.Join(filepath.Dir(self), cudaProgram)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("find %s: %w", cudaProgram, err)
	}
	if err := probe(ctx, program); err != nil {
		return "", err
	}
	err = syscall.Exec(program, os.Args, os.Environ())
	return "", fmt.Errorf("become %s: %w", program, err)
}

// probe asks a program for its GPU in a process of its own, which may die.
func probe(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "gpu").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s gpu: %w: %s", cudaProgram, err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

func openCUDA(n model.Network, pages, pageTokens int, d reference.DType) (backend.Backend, error) {
	return cuda.New(n, cuda.Config{Pages: pages, PageTokens: pageTokens, DType: d})
}
