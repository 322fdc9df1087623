package target

import (
	"os"
	"strings"
	"testing"
)

// Promise: every mapping is read, with paths that hold blanks and files that
// were deleted.
func TestMappingsAreRead(t *testing.T) {
	const text = `55d0c0a00000-55d0c0a02000 r--p 00000000 fe:00 123 /usr/bin/a program
7f0000000000-7f0000001000 r-xp 00001000 fe:00 456                        /opt/lib x.so (deleted)
7f0000001000-7f0000002000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
`
	all, err := parseMaps(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{Start: 0x55d0c0a00000, End: 0x55d0c0a02000, Dev: "fe:00", Inode: 123, Path: "/usr/bin/a program"},
		{Start: 0x7f0000000000, End: 0x7f0000001000, Offset: 0x1000, Executable: true, Dev: "fe:00", Inode: 456, Path: "/opt/lib x.so (deleted)"},
		{Start: 0x7f0000001000, End: 0x7f0000002000, Writable: true, Dev: "00:00"},
		{Start: 0x7ffd00000000, End: 0x7ffd00021000, Writable: true, Dev: "00:00", Path: "[stack]"},
	}
	if len(all) != len(want) {
		t.Fatalf("%d mappings, want %d", len(all), len(want))
	}
	for i := range want {
		if all[i] != want[i] {
			t.Errorf("mapping %d is %+v, want %+v", i, all[i], want[i])
		}
	}
	if m, ok := At(all, 0x7f0000000fff); !ok || m.Inode != 456 {
		t.Errorf("the last byte of a mapping lies in %+v, %v", m, ok)
	}
	if m, ok := At(all, 0x55d0c0a02000); ok {
		t.Errorf("the byte after a mapping lies in %+v", m)
	}
}

// Promise: the process's own mappings can be read, and its text is among them.
func TestOwnMappings(t *testing.T) {
	all, err := Mappings(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Executable && m.Inode != 0 && strings.HasSuffix(m.Path, "target.test") {
			return
		}
	}
	t.Errorf("the test's own text is not among %d mappings", len(all))
}

func FuzzMappings(f *testing.F) {
	f.Add("7f00-7f10 r-xp 0 fe:00 1 /x y\n")
	f.Add("0-ffffffffffffffff ---p ffffffffffffffff 0:0 18446744073709551615\n")
	f.Add("7f10-7f00 r-xp 0 fe:00 1 /x\n\n   \n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseMaps(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range all {
			if m.End <= m.Start || strings.HasPrefix(m.Path, " ") {
				t.Errorf("%q gives %+v", text, m)
			}
		}
	})
}
