package kvcache

import "testing"

// The vector is the one in the SipHash paper, appendix A.
func TestKeyedHashIsSipHash24(t *testing.T) {
	var s Secret
	var in [15]byte
	for i := range s {
		s[i] = byte(i)
	}
	for i := range in {
		in[i] = byte(i)
	}
	h := s.hasher()
	if got, want := h.bytes(in[:]), uint64(0xa129ca6149be45e5); got != want {
		t.Fatalf("hash %#x, want %#x", got, want)
	}
}

func TestKeyDependsOnAllThatAPageContinues(t *testing.T) {
	a, b := Secret{1}, Secret{2}
	root := a.rootKey("tenant")
	page := a.pageKey(root, []int32{1, 2, 3})
	for name, other := range map[string]Key{
		"secret":     b.pageKey(root, []int32{1, 2, 3}),
		"domain":     a.pageKey(a.rootKey("tenanu"), []int32{1, 2, 3}),
		"token":      a.pageKey(root, []int32{1, 2, 4}),
		"order":      a.pageKey(root, []int32{2, 1, 3}),
		"length":     a.pageKey(root, []int32{1, 2}),
		"prefix":     a.pageKey(page, []int32{1, 2, 3}),
		"empty page": a.pageKey(root, nil),
		"zero token": a.pageKey(root, []int32{1, 2, 3, 0}),
	} {
		if other == page {
			t.Errorf("another %s gives the same key", name)
		}
	}
	if a.pageKey(root, []int32{1, 2, 3}) != page {
		t.Error("the same page has two keys")
	}
}
