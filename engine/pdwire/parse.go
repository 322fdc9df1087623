package pdwire

import (
	"encoding/binary"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// First frames that name a kind. A room's number in their place is a request
// or a status.
const (
	tagRegistration = "None"
	tagAbort        = "ABORT"
	tagWatermark    = "WATERMARK"
	tagStagingRsp   = "STAGING_RSP"
	tagAbortAck     = "ABORT_ACK"
	tagAuxData      = "AUX_DATA"
	tagChunkReady   = "CHUNK_READY"
	tagStagingReq   = "STAGING_REQ"
	tagNixl         = "NixlMsgGuard"
)

// auxBodyFrame is the frame of AUX_DATA that holds content; agentFrame is the
// frame of a NIXL registration that holds the agent's own opaque metadata.
const (
	auxBodyFrame = 5
	agentFrame   = 5
)

var parsers = map[string]func(*fields) Message{
	tagRegistration: parseRegistration,
	tagAbort:        parseAbort,
	tagWatermark:    parseWatermark,
	tagStagingRsp:   parseStagingResponse,
	tagAbortAck:     parseAbortAck,
	tagAuxData:      parseAuxData,
	tagChunkReady:   parseChunkReady,
	tagStagingReq:   parseStagingRequest,
	tagNixl:         parseNixl,
}

// Parse reads one message of SGLang's prefill/decode protocol, in either
// direction. The errors are [ErrUnknown], [ErrMalformed], [ErrTooLarge] and
// [ErrIncomplete].
func Parse(frames []zmtp.Frame) (Message, error) {
	if len(frames) == 0 || len(frames) > maxFrames {
		return nil, fmt.Errorf("read control message of %d frames: %w", len(frames), ErrMalformed)
	}
	f := &fields{kind: "control message", frames: frames}
	tag := f.text(0)
	if f.err != nil {
		return nil, f.err
	}
	parse := parsers[tag]
	switch {
	case parse != nil:
		f.kind = tag
	case !isNumber(tag):
		return nil, fmt.Errorf("read control message of %d frames: %w", len(frames), ErrUnknown)
	case len(frames) <= 4:
		f.kind, parse = "status", parseStatus
	default:
		f.kind, parse = "transfer request", parseRequest
	}
	m := parse(f)
	if f.err != nil {
		return nil, f.err
	}
	return m, nil
}

// ParseBodies reads a message that a socket received whole.
func ParseBodies(bodies [][]byte) (Message, error) {
	frames := make([]zmtp.Frame, len(bodies))
	for i, b := range bodies {
		frames[i] = zmtp.Frame{Body: b, Size: uint64(len(b))}
	}
	return Parse(frames)
}

// Keep tells a [zmtp.Decoder] what of these messages to keep: of content that
// nobody here may hold, nothing.
func Keep(first []byte, index int, size uint64) int64 {
	if index == auxBodyFrame && string(first) == tagAuxData {
		return 0
	}
	return int64(min(size, 4*MaxPages))
}

// StatusReason returns the reason that a failed [Status] gives, cut at
// MaxReasonBytes: for the engine that it is addressed to, never for a watcher,
// since it may quote a request.
func StatusReason(bodies [][]byte) string {
	const reasonFrame = 3
	if len(bodies) != reasonFrame+1 || !isNumber(string(bodies[0])) {
		return ""
	}
	return string(bodies[reasonFrame][:min(len(bodies[reasonFrame]), MaxReasonBytes)])
}

func isNumber(s string) bool {
	if len(s) > 1 && s[0] == '-' {
		s = s[1:]
	}
	if s == "" || len(s) > 19 {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func parseRegistration(f *fields) Message {
	f.need(9)
	r := &Registration{
		Address: f.address(1),
		Session: f.text(3),
		KVPtrs:  packed[uint64](f, 4, MaxRegions),
		AuxPtrs: packed[uint64](f, 5, MaxRegions),
		DCPSize: 1,
	}
	if len(f.frames) == 9 {
		// Before state components: the list of their addresses is missing,
		// and everything behind it stands one frame earlier.
		r.TPRank, r.AttnTPSize, r.KVItemBytes = f.rank(6, 0), f.rank(7, 0), f.unsigned(8)
		r.Layout = f.layout()
		return r
	}
	r.StatePtrs = lists[uint64](f, 6)
	r.TPRank, r.AttnTPSize, r.KVItemBytes = f.rank(7, 0), f.rank(8, 0), f.unsigned(9)
	r.StateItemBytes = lists[uint32](f, 10)
	r.StateDims = lists[uint32](f, 11)
	r.KVLayerIDs = packed[uint32](f, 12, MaxRegions)
	r.StateLayerIDs = lists[uint32](f, 13)
	if p := packed[uint64](f, 14, 1); len(p) == 1 {
		r.StagingPtr = p[0]
	}
	r.StagingBytes = f.unsigned(15)
	r.DCPSize, r.DCPRank = f.rank(16, 1), f.rank(17, 0)
	r.StagingLayerIDs = packed[uint64](f, 18, MaxRegions)
	r.Layout = f.layout()
	return r
}

func parseRequest(f *fields) Message {
	const oldest = 7
	f.need(oldest)
	r := &TransferRequest{
		Room:    f.room(0),
		Address: f.address(1),
		Session: f.text(3),
		Pages:   packed[int32](f, 4, MaxPages),
		// Both are looked at, so that both count as known.
		Dummy: !f.has(4) && !f.has(5),
	}
	r.AuxIndex = auxIndex(f, 5)
	if len(f.frames) == oldest {
		r.RequiredDst = f.rank(6, 0)
		r.Layout = f.layout()
		return r
	}
	r.StateIndices = stateIndices(f, 6)
	r.RequiredDst = f.rank(7, 0)
	r.PrefixLen = int(f.integer(8, 0, 1<<40, 0))
	r.DevicePages = packed[int32](f, 9, MaxPages)
	r.Layout = f.layout()
	return r
}

// auxIndex reads a metadata slot; Python's None is written out as its name.
func auxIndex(f *fields, i int) int64 {
	if f.has(i) && string(f.frames[i].Body) == "None" {
		return -1
	}
	return f.integer(i, 0, 1<<40, -1)
}

// stateIndices reads a list of lists, or the one flat list of older versions.
// A flat list that happens to read as a list of lists is taken for one.
func stateIndices(f *fields, i int) [][]int32 {
	b := f.bytes(i, MaxLists*4+4+MaxListItems*4)
	if len(b) == 0 {
		return nil
	}
	v, err := unpackLists[int32](b)
	if err == nil {
		return v
	}
	flat, ok := unpack[int32](b)
	if !ok {
		f.fail(i, err)
	}
	return [][]int32{flat}
}

func parseAbort(f *fields) Message {
	f.need(4)
	return &Abort{Room: f.room(1), Address: f.address(2), Layout: f.layout()}
}

func parseWatermark(f *fields) Message {
	f.need(3)
	return &Watermark{Round: f.unsigned(1), Tail: f.unsigned(2), Session: f.text(3), Layout: f.layout()}
}

func parseStagingResponse(f *fields) Message {
	f.need(7)
	return &StagingResponse{
		Room: f.room(1), Chunk: f.unsigned(2), Offset: f.integer(3, -1<<40, 1<<62, -1),
		Round: f.unsigned(4), End: f.integer(5, -1<<40, 1<<62, -1), Session: f.text(6),
		Layout: f.layout(),
	}
}

func parseStatus(f *fields) Message {
	f.need(2)
	s := &Status{
		Room:        f.room(0),
		Status:      TransferStatus(f.integer(1, int64(StatusFailed), int64(StatusSuccess), -1)),
		PrefillRank: f.rank(2, -1),
	}
	if f.has(3) {
		s.ReasonBytes = f.frames[3].Size
	}
	if !f.has(1) {
		f.fail(1, fmt.Errorf("no status: %w", ErrMalformed))
	}
	s.Layout = f.layout()
	return s
}

func parseAbortAck(f *fields) Message {
	f.need(2)
	rank := f.rank(2, -1)
	return &AbortAck{Room: f.room(1), PrefillRank: rank, Drained: rank >= 0, Layout: f.layout()}
}

func parseAuxData(f *fields) Message {
	f.need(5)
	a := &AuxData{
		Room:        f.room(1),
		BufferIndex: f.rank(2, 0),
		AuxIndex:    f.integer(3, 0, 1<<40, -1),
	}
	if b := f.bytes(4, 4); len(b) == 4 {
		a.Length = binary.BigEndian.Uint32(b)
	} else {
		f.fail(4, fmt.Errorf("length of %d bytes: %w", len(b), ErrMalformed))
	}
	if f.has(auxBodyFrame) {
		a.BodyBytes = f.frames[auxBodyFrame].Size
	}
	a.Layout = f.layout()
	return a
}

func parseChunkReady(f *fields) Message {
	f.need(6)
	return &ChunkReady{
		Room: f.room(1), Chunk: f.unsigned(2), PageStart: f.unsigned(3), Pages: f.unsigned(4),
		Session: f.text(5), PrefillRank: f.rank(6, -1), Layout: f.layout(),
	}
}

func parseStagingRequest(f *fields) Message {
	f.need(5)
	return &StagingRequest{
		Room: f.room(1), Chunk: f.unsigned(2), Pages: f.unsigned(3), Session: f.text(4),
		PPRank: f.rank(5, -1), Layout: f.layout(),
	}
}
