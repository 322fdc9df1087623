//go:build cuda && fakecuda

package fakecuda

// #cgo LDFLAGS: -lcuda
// extern void fakecuda_change(unsigned long long word, unsigned loads, unsigned long long to);
// extern unsigned long long fakecuda_changed(void);
import "C"

// Change arms one change: the tag at an address becomes another right before a kernel
// loads it for the loads-th time from now, counted from 0.
func Change(word uint64, loads int, to uint64) {
	C.fakecuda_change(C.ulonglong(word), C.uint(loads), C.ulonglong(to))
}

// Changed says whether the armed change has happened.
func Changed() bool { return C.fakecuda_changed() == 1 }
