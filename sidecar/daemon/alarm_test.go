package daemon

import (
	"testing"
	"time"
)

// Promise: an alarm goes off once each time that it is set, never before its time,
// and not at a time that was set before; closed it leaves nothing behind.
func TestAnAlarmGoesOffOnceInItsTime(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{time.Nanosecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		a.set(time.Hour)
		begun := time.Now()
		a.set(d)
		<-a.C
		if took := time.Since(begun); took < d {
			t.Errorf("%v is over after %v", d, took)
		}
	}
	a.set(time.Hour)
	select {
	case <-a.C:
		t.Error("it goes off twice")
	case <-time.After(20 * time.Millisecond):
	}
	a.close()
	select {
	case <-a.C:
		t.Error("it goes off once more when it is closed")
	default:
	}
}
