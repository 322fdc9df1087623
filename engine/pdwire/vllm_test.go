package pdwire

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// goldenTransfer is what msgspec.msgpack.encode gives for the struct that
// wantTransfer describes.
var (
	goldenTransfer = unhex("88af72656d6f74655f686f73746e616d65a16aab72656d6f74655f706f7274cd3a99ae72656d6f74655f74705f73697a6502ae72656d6f74655f74705f72616e6b01aa7265715f626c6f636b7381a2723192a2743192910792cd0100cc80b36b765f6361636865735f626173655f6164647291cf7f00000000001000aa626c6f636b5f6c656e7391cd1000ad6b765f626c6f636b5f6c656e7391cd1000")
	wantTransfer   = &VLLMTransfer{
		Hostname: "j", Port: 15001, TPSize: 2, TPRank: 1,
		Requests:  []VLLMRequest{{ID: "r1", Transfer: "t1", Groups: [][]int64{{7}, {256, 128}}}},
		BaseAddrs: []uint64{0x7f00000000001000}, BlockBytes: []uint64{4096}, KVBlockBytes: []uint64{4096},
	}
)

func TestVLLMTransferRoundTrips(t *testing.T) {
	for name, m := range map[string]*VLLMTransfer{
		"golden": wantTransfer,
		"full": {
			Hostname: "h", Port: 1, TPSize: 4, Requests: []VLLMRequest{{ID: "a", Transfer: "b", Groups: [][]int64{{}}}},
			BaseAddrs: []uint64{1 << 63}, BlockBytes: []uint64{1}, KVBlockBytes: []uint64{1},
			LayerNames: []string{"l.0"}, LayerIndices: []int64{0}, GroupIndices: []int64{-1},
		},
	} {
		got, err := ParseVLLMTransfer(AppendVLLMTransfer(nil, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, m)
		}
	}
	reply := &VLLMReply{Status: 1, OK: []string{"r1"}, Failed: []string{"r2", "r3"}}
	if got, err := ParseVLLMReply(AppendVLLMReply(nil, reply)); err != nil || !reflect.DeepEqual(got, reply) {
		t.Errorf("reply: %+v, %v", got, err)
	}
}

func TestVLLMTransferOfOtherVersions(t *testing.T) {
	b := msgp.AppendMapHeader(nil, 3)
	b = msgp.AppendString(b, "prefix_replay_checkpoints")
	b = msgp.AppendMapHeader(b, 1)
	b = msgp.AppendInt(msgp.AppendArrayHeader(msgp.AppendString(b, "r1"), 1), 5)
	b = msgp.AppendNil(msgp.AppendString(b, "block_lens"))
	b = msgp.AppendMapHeader(msgp.AppendString(b, "req_blocks"), 1)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "r1"), 2)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "t1"), 2)
	b = msgp.AppendInt(msgp.AppendInt(b, 3), 4)
	got, err := ParseVLLMTransfer(b)
	want := &VLLMTransfer{Unread: 1, Requests: []VLLMRequest{{ID: "r1", Transfer: "t1", Groups: [][]int64{{3, 4}}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

func TestHostileMsgpackIsRefused(t *testing.T) {
	req := slices.Clip(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "req_blocks"))
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"nothing":              {nil, ErrMalformed},
		"not a map":            {[]byte{0x93, 1, 2, 3}, ErrMalformed},
		"map of 2^32-1":        {unhex("dfffffffff"), ErrTooLarge},
		"no requests":          {[]byte{0x80}, ErrUnknown},
		"requests 2^32-1":      {append(req, unhex("dfffffffff")...), ErrTooLarge},
		"requests not there":   {append(req, unhex("8f")...), ErrMalformed},
		"blocks 2^22 in none":  {append(req, unhex("81a17292a174dd00400000")...), ErrMalformed},
		"blocks beyond limit":  {append(req, unhex("81a17292a174ddffffffff")...), ErrTooLarge},
		"pair of three":        {append(req, unhex("81a17293a17490c0")...), ErrMalformed},
		"bytes after the end":  {append(AppendVLLMTransfer(nil, wantTransfer), 0xc0), ErrMalformed},
		"nested without end":   {append(unhex("81a178"), bytes.Repeat([]byte{0x91}, 100_000)...), ErrMalformed},
		"cut":                  {AppendVLLMTransfer(nil, wantTransfer)[:60], ErrMalformed},
		"text of a megabyte":   {msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "remote_hostname"), string(make([]byte, 1<<20))), ErrTooLarge},
		"port out of range":    {msgp.AppendInt(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "remote_port"), 70000), ErrMalformed},
		"address not unsigned": {msgp.AppendInt(msgp.AppendArrayHeader(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "kv_caches_base_addr"), 1), -1), ErrMalformed},
	} {
		if _, err := ParseVLLMTransfer(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := ParseVLLMReply([]byte{0x80}); !errors.Is(err, ErrUnknown) {
		t.Errorf("reply without status: %v", err)
	}
}

func TestNixlSideChannel(t *testing.T) {
	if rank, err := ParseNixlQuestion([]byte("get_meta_msg")); err != nil || rank != -1 {
		t.Errorf("older question: %d, %v", rank, err)
	}
	q := msgp.AppendInt(msgp.AppendBytes(msgp.AppendArrayHeader(nil, 2), []byte("get_meta_msg")), 3)
	if rank, err := ParseNixlQuestion(q); err != nil || rank != 3 {
		t.Errorf("question: %d, %v", rank, err)
	}
	if _, err := ParseNixlQuestion(msgp.AppendInt(msgp.AppendString(msgp.AppendArrayHeader(nil, 2), "other"), 3)); !errors.Is(err, ErrUnknown) {
		t.Errorf("another question: %v", err)
	}
	inner := msgp.AppendMapHeader(nil, 4)
	inner = msgp.AppendString(msgp.AppendString(inner, "engine_id"), "e")
	inner = msgp.AppendBytes(msgp.AppendString(inner, "agent_metadata"), []byte("opaque"))
	inner = appendList(msgp.AppendString(inner, "kv_caches_base_addr"), []uint64{4096}, msgp.AppendUint64)
	inner = msgp.AppendInt(msgp.AppendString(inner, "num_blocks"), 9)
	outer := msgp.AppendMapHeader(nil, 2)
	outer = msgp.AppendString(msgp.AppendString(outer, "compatibility_hash"), "c0ffee")
	outer = msgp.AppendBytes(msgp.AppendString(outer, "agent_metadata_bytes"), inner)
	want := NixlMetadata{Engine: "e", BaseAddrs: []uint64{4096}, Blocks: 9, Unread: 1}
	if m, err := ParseNixlMetadata(inner); err != nil || !reflect.DeepEqual(*m, want) {
		t.Errorf("older answer: %+v, %v", m, err)
	}
	want.Compatibility = "c0ffee"
	if m, err := ParseNixlMetadata(outer); err != nil || !reflect.DeepEqual(*m, want) {
		t.Errorf("answer: %+v, %v", m, err)
	}
	if _, err := ParseNixlMetadata([]byte{0x80}); !errors.Is(err, ErrUnknown) {
		t.Errorf("empty answer: %v", err)
	}
}

func TestGoldenBytesOfMsgspecDecode(t *testing.T) {
	got, err := ParseVLLMTransfer(goldenTransfer)
	if err != nil || !reflect.DeepEqual(got, wantTransfer) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, wantTransfer)
	}
}
