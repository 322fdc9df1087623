package daemon

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer for less than a millisecond, which a [time.Timer] does not know
// while a process is idle: Go's poller waits whole milliseconds then.
type alarm struct {
	// C is sent to when the time has come.
	C chan struct{}

	fd    int
	file  *os.File
	ended chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	a := &alarm{C: make(chan struct{}, 1), fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), ended: make(chan struct{})}
	go a.wait()
	return a, nil
}

// set has the alarm go off once after d, which is more than 0, and at no other time
// that was set before.
func (a *alarm) set(d time.Duration) {
	// Of an open timer and a time that is one there is nothing to refuse.
	_ = unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil)
}

func (a *alarm) wait() {
	defer close(a.ended)
	var expired [8]byte
	for {
		if _, err := a.file.Read(expired[:]); err != nil {
			return // closed
		}
		select {
		case a.C <- struct{}{}:
		default:
		}
	}
}

func (a *alarm) close() {
	_ = a.file.Close() // nothing was written
	<-a.ended
}
