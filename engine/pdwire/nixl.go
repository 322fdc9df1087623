package pdwire

import (
	"fmt"
	"strconv"
	"strings"
)

// NixlRequest reserves pages in SGLang's NIXL flavour (11 frames, the guard
// first; decode to prefill).
type NixlRequest struct {
	Room         int64     // 1
	Address                // 2, 3
	Agent        string    // 4: the NIXL agent of decode
	Pages        []int32   // 5: reserved pages, int32
	AuxIndex     int64     // 6: -1 where there is none
	RequiredDst  int       // 7
	StateIndices [][]int32 // 8
	PrefixLen    int       // 9
	Dummy        bool      // 10: "1" or "True"; where missing, an empty frame 5
	Layout       Layout
}

// NixlRegistration tells prefill where decode's memory is, in SGLang's NIXL
// flavour. Of a layout other than the known 12 frames only the first ones are
// read; the rest is counted in Layout.Extra.
type NixlRegistration struct {
	Address                 // 2, 3
	Agent          string   // 4
	AgentMetaBytes uint64   // 5: length of the agent's opaque metadata
	KVPtrs         []uint64 // 6
	AuxPtrs        []uint64 // 7
	GPU            int      // 8; -1 where not read, as the three below
	TPSize         int      // 9
	TPRank         int      // 10
	KVItemBytes    uint64   // 11: bytes of one page in one region; 0 where not read
	Layout         Layout
}

func parseNixl(f *fields) Message {
	f.need(8)
	if f.text(1) == tagRegistration {
		return parseNixlRegistration(f)
	}
	r := &NixlRequest{
		Room:        f.room(1),
		Address:     f.address(2),
		Agent:       f.text(4),
		Pages:       packed[int32](f, 5, MaxPages),
		AuxIndex:    auxIndex(f, 6),
		RequiredDst: f.rank(7, 0),
	}
	r.StateIndices = stateIndices(f, 8)
	r.PrefixLen = int(f.integer(9, 0, 1<<40, 0))
	switch dummy := f.text(10); dummy {
	case "1", "True", "true":
		r.Dummy = true
	case "":
		r.Dummy = len(r.Pages) == 0
	case "0", "False", "false":
	default:
		f.fail(10, fmt.Errorf("not a truth value: %w", ErrMalformed))
	}
	r.Layout = f.layout()
	return r
}

func parseNixlRegistration(f *fields) Message {
	const knownFrames = 12
	r := &NixlRegistration{
		Address: f.address(2),
		Agent:   f.text(4),
		GPU:     -1, TPSize: -1, TPRank: -1,
	}
	if f.has(agentFrame) {
		r.AgentMetaBytes = f.frames[agentFrame].Size
	}
	r.KVPtrs = packed[uint64](f, 6, MaxRegions)
	r.AuxPtrs = packed[uint64](f, 7, MaxRegions)
	if len(f.frames) == knownFrames {
		r.GPU, r.TPSize, r.TPRank = f.rank(8, -1), f.rank(9, -1), f.rank(10, -1)
		r.KVItemBytes = f.unsigned(11)
	}
	r.Layout = f.layout()
	return r
}

// Frames encodes the request.
func (r *NixlRequest) Frames() [][]byte {
	dummy, aux := "0", []byte("None")
	if r.Dummy {
		dummy = "1"
	}
	if r.AuxIndex >= 0 {
		aux = ascii(r.AuxIndex)
	}
	return [][]byte{
		[]byte(tagNixl), ascii(r.Room), []byte(r.Host), ascii(r.Port), []byte(r.Agent),
		pack(nil, r.Pages), aux, ascii(r.RequiredDst), packLists(r.StateIndices),
		ascii(r.PrefixLen), []byte(dummy),
	}
}

// Frames encodes the registration with AgentMetaBytes zero bytes in place of
// the agent's own metadata.
func (r *NixlRegistration) Frames() [][]byte {
	return [][]byte{
		[]byte(tagNixl), []byte(tagRegistration), []byte(r.Host), ascii(r.Port), []byte(r.Agent),
		make([]byte, min(r.AgentMetaBytes, 4*MaxPages)), pack(nil, r.KVPtrs), pack(nil, r.AuxPtrs),
		given(r.GPU), given(r.TPSize), given(r.TPRank), ascii(r.KVItemBytes),
	}
}

// NixlNotification is the text that NIXL delivers to decode when a transfer of
// SGLang's is complete.
type NixlNotification struct {
	Room  int64
	Kind  string // "kv", "aux", or another that a newer version has
	Chunk int    // of "kv"; -1 where not given
	Last  bool   // of "kv"
	PP    int    // the sending pipeline rank; -1 where not given
}

// ParseNixlNotification reads {room}_kv_{chunk}_{is_last}_{pp} and its like:
// the kinds other than kv have fields of their own, which are not read.
func ParseNixlNotification(s string) (NixlNotification, error) {
	bad := func(why string) (NixlNotification, error) {
		return NixlNotification{}, fmt.Errorf("read notification: %s: %w", why, ErrMalformed)
	}
	if len(s) > MaxNameBytes {
		return bad("too long")
	}
	parts := strings.Split(s, "_")
	if len(parts) < 2 || parts[1] == "" || !isNumber(parts[0]) {
		return bad("no room and kind")
	}
	room, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return bad("room out of range")
	}
	n := NixlNotification{Room: room, Kind: parts[1], Chunk: -1, PP: -1}
	if n.Kind != "kv" {
		return n, nil
	}
	values := []int{-1, 0, -1}
	for i, p := range parts[2:min(len(parts), 5)] {
		if values[i], err = strconv.Atoi(p); err != nil || values[i] < 0 {
			return bad("field is not a number")
		}
	}
	n.Chunk, n.Last, n.PP = values[0], values[1] != 0, values[2]
	return n, nil
}

// ParseNixlDone reads vLLM's notification that a consumer has read a request's
// blocks, {request}:{world size}: the size is that of the consumer's group.
func ParseNixlDone(s string) (request string, worldSize int, err error) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 || len(s) > MaxNameBytes {
		return "", 0, fmt.Errorf("read notification: no request and size: %w", ErrMalformed)
	}
	n, err := strconv.Atoi(s[i+1:])
	if err != nil || n < 1 || n > MaxRank {
		return "", 0, fmt.Errorf("read notification: size: %w", ErrMalformed)
	}
	return s[:i], n, nil
}
