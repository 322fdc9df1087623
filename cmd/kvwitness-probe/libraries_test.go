//go:build linux && amd64

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Promise: what a process may load is attached to before it does: what is installed,
// and what the packages of its Python carry, of the system's and of its virtual
// environment; and nothing that is only called like it, or lies elsewhere.
func TestLibrariesAreKnownBeforeTheyAreLoaded(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"/opt/venv/lib/python3.12/site-packages/nixl.libs/libucp-1a2b3c4d.so.0.0.0",
		"/opt/venv/lib/python3.12/site-packages/nixl.libs/libuct-1a2b3c4d.so.0.0.0",
		"/opt/venv/lib/python3.12/site-packages/mooncake.libs/libibverbs-5c9f1f5b.so.1.14.44.0",
		"/opt/venv/lib/python3.12/site-packages/other.libs/libucp.so.evil",
		"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0",
		"/opt/other/lib/python3.12/site-packages/nixl.libs/libucp-7a8b.so.0.0.0",
	} {
		must(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		must(t, os.WriteFile(root+name, nil, 0o644))
	}
	installed := len(folders) * 2
	for program, want := range map[string][]string{
		"/opt/venv/bin/python3": {
			"/opt/venv/lib/python3.12/site-packages/mooncake.libs/libibverbs-5c9f1f5b.so.1.14.44.0",
			"/opt/venv/lib/python3.12/site-packages/nixl.libs/libucp-1a2b3c4d.so.0.0.0",
			"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0",
		},
		"python3":          {"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0"},
		"/opt/*/bin/x":     {"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0"},
		"/../../bin/x":     {"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0"},
		"/opt/venv/sbin/x": {"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0"},
		"":                 {"/usr/local/lib/python3.11/dist-packages/nixl.libs/libucp-5e6f.so.0.0.0"},
	} {
		var got []string
		for _, l := range new(attacher).libraries(root, program) {
			got = append(got, l.path[len(root):])
		}
		if len(got) < installed || !slices.Contains(got, "/usr/lib64/libucp.so.0") || !slices.Contains(got, "/usr/lib64/libibverbs.so.1") {
			t.Fatalf("%q: %q", program, got)
		}
		if got = got[installed:]; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", program, got, want)
		}
	}
}
