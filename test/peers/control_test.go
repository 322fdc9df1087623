package peers

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// controlCase is one message, as our type and as the fields that the Python
// program sends and reads.
type controlCase struct {
	fields map[string]any // sent by Python
	ours   pdwire.Message // what Go must read, and sends
	back   map[string]any // what Python must read
}

func controlCases() []controlCase {
	address := pdwire.Address{Host: "10.0.0.7", Port: 40001}
	return []controlCase{
		{
			map[string]any{
				"kind": "registration", "host": "10.0.0.7", "port": 40001, "session": "10.0.0.7:15001",
				"kv_ptrs": []uint64{0x7f0000001000, 1<<63 + 5}, "aux_ptrs": []uint64{4096}, "state_ptrs": [][]uint64{{1}, {2, 3}},
				"tp_rank": 3, "tp_size": 8, "item": 73728, "state_items": [][]uint32{{512}}, "state_dims": [][]uint32{{7}},
				"layers": []uint32{0, 1}, "state_layers": [][]uint32{{2}}, "staging": 1 << 33, "staging_size": 1 << 20, "slots": []uint64{5},
			},
			&pdwire.Registration{
				Address: address, Session: "10.0.0.7:15001", KVPtrs: []uint64{0x7f0000001000, 1<<63 + 5}, AuxPtrs: []uint64{4096},
				StatePtrs: [][]uint64{{1}, {2, 3}}, TPRank: 3, AttnTPSize: 8, KVItemBytes: 73728, StateItemBytes: [][]uint32{{512}},
				StateDims: [][]uint32{{7}}, KVLayerIDs: []uint32{0, 1}, StateLayerIDs: [][]uint32{{2}}, StagingPtr: 1 << 33,
				StagingBytes: 1 << 20, DCPSize: 2, DCPRank: 1, StagingLayerIDs: []uint64{5},
			},
			map[string]any{
				"kind": "registration", "kv_ptrs": []uint64{0x7f0000001000, 1<<63 + 5}, "state_ptrs": [][]uint64{{1}, {2, 3}},
				"item": 73728, "state_layers": [][]uint32{{2}}, "staging": 1 << 33, "dcp": []int{2, 1}, "slots": []uint64{5},
			},
		},
		{
			map[string]any{
				"kind": "request", "room": 1<<63 - 1, "host": "10.0.0.7", "port": 40001, "session": "10.0.0.7:15001",
				"pages": []int32{7, 8, 1<<31 - 1}, "aux": 12, "state": [][]int32{{9}, {}}, "prefix": 128, "device": []int32{1, 2, 3},
			},
			&pdwire.TransferRequest{
				Room: 1<<63 - 1, Address: address, Session: "10.0.0.7:15001", Pages: []int32{7, 8, 1<<31 - 1}, AuxIndex: 12,
				StateIndices: [][]int32{{9}, nil}, RequiredDst: 1, PrefixLen: 128, DevicePages: []int32{1, 2, 3},
			},
			map[string]any{
				"kind": "request", "room": 1<<63 - 1, "pages": []int32{7, 8, 1<<31 - 1}, "aux": 12, "state": [][]int32{{9}, {}},
				"prefix": 128, "device": []int32{1, 2, 3}, "dummy": false,
			},
		},
		{
			map[string]any{"kind": "dummy", "room": 5},
			&pdwire.TransferRequest{Room: 5, Address: pdwire.Address{Host: "h", Port: 1}, Session: "s", AuxIndex: -1, RequiredDst: 1, Dummy: true},
			map[string]any{"kind": "request", "room": 5, "pages": []int{}, "dummy": true},
		},
		{
			map[string]any{"kind": "abort", "room": 5, "host": "10.0.0.7", "port": 40001},
			&pdwire.Abort{Room: 5, Address: address},
			map[string]any{"kind": "abort", "room": 5, "host": "10.0.0.7", "port": 40001},
		},
		{
			map[string]any{"kind": "status", "room": 5, "status": 4, "rank": 3},
			&pdwire.Status{Room: 5, Status: pdwire.StatusSuccess, PrefillRank: 3},
			map[string]any{"kind": "status", "room": 5, "status": 4, "rank": 3},
		},
		{
			map[string]any{"kind": "ack", "room": 5, "rank": 3},
			&pdwire.AbortAck{Room: 5, PrefillRank: 3, Drained: true},
			map[string]any{"kind": "ack", "room": 5, "rank": 3},
		},
		{
			map[string]any{"kind": "aux", "room": 5, "length": 3000},
			&pdwire.AuxData{Room: 5, AuxIndex: 7, Length: 3000, BodyBytes: 3000},
			map[string]any{"kind": "aux", "room": 5, "length": 3000, "body": 3000},
		},
		{
			map[string]any{"kind": "chunk", "room": 5},
			&pdwire.ChunkReady{Room: 5, Chunk: 1, PageStart: 64, Pages: 8, Session: "s", PrefillRank: 3},
			map[string]any{"kind": "chunk", "room": 5, "chunk": 1, "start": 64, "pages": 8, "session": "s", "rank": 3},
		},
		{map[string]any{"kind": "staging", "room": 5}, &pdwire.StagingRequest{Room: 5, Chunk: 1, Pages: 8, Session: "s"}, nil},
		{map[string]any{"kind": "grant", "room": 5}, &pdwire.StagingResponse{Room: 5, Chunk: 1, Offset: 4096, Round: 2, End: 8192, Session: "s"}, nil},
		{map[string]any{"kind": "watermark"}, &pdwire.Watermark{Round: 2, Tail: 4096, Session: "s"}, nil},
	}
}

// plain brings a value into the form that JSON gives it.
func plain(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	var out any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	must(t, d.Decode(&out))
	return out
}

func TestControlMessagesOfPythonAreUnderstood(t *testing.T) {
	pull := zmtp.NewPull(zmtp.Config{})
	defer pull.Close()
	at, err := pull.Bind(context.Background(), "tcp://127.0.0.1:0")
	must(t, err)
	p := start(t, requirements, "control_peer.py")
	p.ask(map[string]any{"op": "connect", "to": at}, nil)
	for _, c := range controlCases() {
		c.fields["op"] = "send"
		p.ask(c.fields, nil)
		frames, err := pull.Recv(testContext(t))
		must(t, err)
		m, err := pdwire.ParseBodies(frames)
		if err != nil {
			t.Errorf("%s: %v", c.fields["kind"], err)
			continue
		}
		layout := reflect.ValueOf(m).Elem().FieldByName("Layout")
		if l := layout.Interface().(pdwire.Layout); l.Extra != 0 || l.Frames != len(frames) {
			t.Errorf("%s: layout %+v of %d frames", c.fields["kind"], l, len(frames))
		}
		layout.SetZero()
		if !reflect.DeepEqual(m, c.ours) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.fields["kind"], m, c.ours)
		}
	}
}

func TestControlMessagesOfOursAreUnderstoodByPython(t *testing.T) {
	p := start(t, requirements, "control_peer.py")
	var at struct{ Endpoint string }
	p.ask(map[string]any{"op": "bind"}, &at)
	push := zmtp.NewPush(zmtp.Config{})
	defer push.Close()
	must(t, push.Connect(at.Endpoint))
	for _, c := range controlCases() {
		if c.back == nil {
			continue // SGLang reads these by position alone, as the other test does
		}
		must(t, push.Send(testContext(t), c.ours.Frames()...))
		var got map[string]any
		p.ask(map[string]any{"op": "recv"}, &got)
		for key, want := range c.back {
			if !reflect.DeepEqual(plain(t, got[key]), plain(t, want)) {
				t.Errorf("%s: Python reads %s as %v, want %v", c.back["kind"], key, got[key], want)
			}
		}
	}
}

func TestVLLMMessagesAgreeWithMsgspec(t *testing.T) {
	p := start(t, requirements, "control_peer.py")
	ours := &pdwire.VLLMTransfer{
		Hostname: "decode", Port: 15001, TPSize: 2, TPRank: 1,
		Requests:  []pdwire.VLLMRequest{{ID: "r1", Transfer: "t1", Groups: [][]int64{{7}, {300, 70000}}}},
		BaseAddrs: []uint64{0x7f0000001000}, BlockBytes: []uint64{1 << 20}, KVBlockBytes: []uint64{1 << 19},
		LayerNames: []string{"layers.0"}, LayerIndices: []int64{0}, GroupIndices: []int64{1},
	}
	theirs := map[string]any{
		"remote_hostname": "decode", "remote_port": 15001, "remote_tp_size": 2, "remote_tp_rank": 1,
		"req_blocks":          map[string]any{"r1": []any{"t1", []any{[]int{7}, []int{300, 70000}}}},
		"kv_caches_base_addr": []uint64{0x7f0000001000}, "block_lens": []int{1 << 20}, "kv_block_lens": []int{1 << 19},
		"registered_layer_names": []string{"layers.0"}, "registered_layer_indices": []int{0}, "registered_group_indices": []int{1},
	}
	var encoded struct{ Hex string }
	p.ask(map[string]any{"op": "encode", "struct": "transfer", "value": theirs}, &encoded)
	b, err := hex.DecodeString(encoded.Hex)
	must(t, err)
	if got, err := pdwire.ParseVLLMTransfer(b); err != nil || !reflect.DeepEqual(got, ours) {
		t.Errorf("of msgspec: %v\n got %+v\nwant %+v", err, got, ours)
	}
	var decoded struct{ Value map[string]any }
	p.ask(map[string]any{"op": "decode", "struct": "transfer", "hex": hex.EncodeToString(pdwire.AppendVLLMTransfer(nil, ours))}, &decoded)
	if !reflect.DeepEqual(plain(t, decoded.Value), plain(t, theirs)) {
		t.Errorf("msgspec reads ours as %v", decoded.Value)
	}
	reply := &pdwire.VLLMReply{Status: 1, OK: []string{"r1"}}
	p.ask(map[string]any{"op": "decode", "struct": "reply", "hex": hex.EncodeToString(pdwire.AppendVLLMReply(nil, reply))}, &decoded)
	if decoded.Value["status"] != json.Number("1") || len(decoded.Value["ok_reqs"].([]any)) != 1 {
		t.Errorf("msgspec reads our reply as %v", decoded.Value)
	}
	p.ask(map[string]any{"op": "encode", "struct": "reply", "value": map[string]any{"status": 2, "err_reqs": []string{"r2"}, "err_msg": "why"}}, &encoded)
	b, err = hex.DecodeString(encoded.Hex)
	must(t, err)
	if got, err := pdwire.ParseVLLMReply(b); err != nil || got.Status != 2 || len(got.Failed) != 1 || got.ReasonBytes != 3 {
		t.Errorf("reply of msgspec: %+v, %v", got, err)
	}
}
