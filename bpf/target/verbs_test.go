package target

import "testing"

// Promise: libibverbs and the providers of verbs are known by the names that
// distributions and wheels give them, and libc, the loader and what only ends like
// them are not.
func TestLibrariesOfVerbsAreKnownByTheirNames(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	for _, c := range []struct {
		path                            string
		verbs, provider, ucx, transport bool
	}{
		{lib + "libibverbs.so.1.14.44.0", true, false, false, false},
		{"/venv/x.libs/libibverbs-5c9f1f5b.so.1.14.44.0", true, false, false, false},
		{"/gone/libibverbs.so.1 (deleted)", true, false, false, false},
		{lib + "libibverbs/librxe-rdmav34.so", false, true, false, false},
		{lib + "libmlx5.so.1.24.44.0", false, true, false, false},
		{lib + "libefa.so.1.2.44.0", false, true, false, false},
		{"/opt/ucx/lib/libucp.so.0.0.0", false, false, true, true},
		{lib + "libc.so.6", false, false, false, false},
		{lib + "ld-linux-x86-64.so.2", false, false, false, false},
		{"/tmp/notlibibverbs.so", false, false, false, false},
		{"/tmp/libibverbs.so.evil", false, false, false, false},
		{"/tmp/libc-rdmav34.so/libc.so.6", false, false, false, false},
		{"/venv/nixl.libs/libucp-3f2a9c1e.so.0.0.0", false, false, true, true},
		{"/venv/nixl.libs/ucx/libuct_ib_mlx5.so.0", false, false, false, true},
		{lib + "ucx/libuct_ib.so.0.0.0", false, false, false, true},
		{lib + "libuct.so.0", false, false, false, true},
		{"/tmp/libductape.so", false, false, false, false},
		{"", false, false, false, false},
	} {
		if IsVerbs(c.path) != c.verbs || IsProvider(c.path) != c.provider || IsUCX(c.path) != c.ucx || IsTransport(c.path) != c.transport {
			t.Errorf("%q: verbs %v, provider %v, UCX %v, a transport of it %v", c.path, IsVerbs(c.path), IsProvider(c.path), IsUCX(c.path), IsTransport(c.path))
		}
	}
}
