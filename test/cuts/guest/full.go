//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fullTries is how many incidents come while there is no room.
const fullTries = 20

// full fills the disk, and a small file system in memory, under a store: incidents fail
// and are counted, what was kept is whole, also for who opens it then, and with room
// there is evidence again.
func full() error {
	if err := fills(disk); err != nil {
		return fmt.Errorf("on the disk: %w", err)
	}
	const small = "/small"
	if err := os.MkdirAll(small, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("small", small, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("mount %s: %w", small, err)
	}
	if err := fills(small); err != nil {
		return fmt.Errorf("in memory: %w", err)
	}
	return nil
}

// fills takes all room of the file system at dir away, and gives it back.
func fills(dir string) error {
	rng := rand.New(rand.NewPCG(1, 1))
	s, err := open(dir)
	if err != nil {
		return err
	}
	if !put(s, "before-"+dir, rng) {
		return errors.New("an incident is refused while there is room")
	}
	ballast := filepath.Join(dir, "ballast")
	if err := errors.Join(s.Close(), fill(ballast)); err != nil {
		return err
	}
	if s, err = open(dir); err != nil {
		return fmt.Errorf("while it is full: %w", err)
	}
	refused := 0
	for n := range fullTries {
		if !put(s, fmt.Sprintf("full-%s-%d", dir, n), rng) {
			refused++
		}
	}
	if st := s.Stats(); refused == 0 || st.Failures != uint64(refused) || st.Aside != "" {
		return fmt.Errorf("%d incidents are refused, %d counted; set aside: %q", refused, st.Failures, st.Aside)
	}
	if err := s.Verify(); err != nil {
		return fmt.Errorf("while it is full: %w", err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	for n := range fullTries {
		if !put(s, fmt.Sprintf("after-%s-%d", dir, n), rng) {
			return errors.New("an incident is refused though there is room again")
		}
	}
	return errors.Join(s.Verify(), s.Close())
}

// fill writes a file until there is no room.
func fill(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err = f.Write(make([]byte, size)); err == nil {
			err = f.Sync() // what is allocated late is refused late
		}
		if errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}
