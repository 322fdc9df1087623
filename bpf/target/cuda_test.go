package target

import "testing"

// Promise: the driver's library is known by the names that drivers install, with the
// version where they say it, and the runtime, or what only ends like it, is not.
func TestTheCUDADriverIsKnownByItsName(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	for _, c := range []struct {
		path    string
		is      bool
		version string
	}{
		{lib + "libcuda.so.1", true, ""},
		{lib + "libcuda.so.550.54.15", true, "550.54.15"},
		{lib + "libcuda.so.535.183", true, "535.183"},
		{"/gone/libcuda.so.550.54.15 (deleted)", true, "550.54.15"},
		{lib + "libcudart.so.12", false, ""},
		{lib + "libcudadebugger.so.1", false, ""},
		{"/tmp/notlibcuda.so.1", false, ""},
		{"/tmp/libcuda.so.evil", false, ""},
		{"/tmp/libcuda.so.1/libc.so.6", false, ""},
		{"", false, ""},
	} {
		if IsCUDA(c.path) != c.is || CUDAVersion(c.path) != c.version {
			t.Errorf("%q: %v, version %q", c.path, IsCUDA(c.path), CUDAVersion(c.path))
		}
	}
}
