package pdwire

// Address is where a peer's control socket listens.
type Address struct {
	Host string
	Port uint16
}

// Message is one of the control messages below.
type Message interface {
	// Frames encodes the message as its engine sends it.
	Frames() [][]byte
}

// Registration tells prefill where decode's memory is, once a peer (SGLang,
// Mooncake; decode to prefill; 19 frames, 9 in the oldest known version).
type Registration struct {
	Address                    // frames 1, 2
	Session         string     // 3: the Mooncake session, host:port
	KVPtrs          []uint64   // 4: base address of each KV region
	AuxPtrs         []uint64   // 5: base address of each metadata region
	StatePtrs       [][]uint64 // 6: base addresses, a list a state component
	TPRank          int        // 7
	AttnTPSize      int        // 8
	KVItemBytes     uint64     // 9: bytes of one page in one KV region: the stride
	StateItemBytes  [][]uint32 // 10: bytes of one item of each state region
	StateDims       [][]uint32 // 11
	KVLayerIDs      []uint32   // 12: layer of each KV region; empty in older versions
	StateLayerIDs   [][]uint32 // 13
	StagingPtr      uint64     // 14: u64, base of the staging ring; 0 without one
	StagingBytes    uint64     // 15
	DCPSize         int        // 16: 1 where not given
	DCPRank         int        // 17
	StagingLayerIDs []uint64   // 18: layer of each staging slot
	Layout          Layout
}

// TransferRequest reserves: it names the pages that prefill shall write
// (SGLang, Mooncake; decode to prefill, once a request and prefill rank; 10
// frames, 7 in the oldest known version).
type TransferRequest struct {
	Room         int64     // 0
	Address                // 1, 2: where decode listens for the status
	Session      string    // 3
	Pages        []int32   // 4: reserved pages, int32
	AuxIndex     int64     // 5: metadata slot; -1 where there is none
	StateIndices [][]int32 // 6: a list a state component
	RequiredDst  int       // 7: decode ranks that prefill must hear of
	PrefixLen    int       // 8: tokens that decode holds already
	DevicePages  []int32   // 9: pages on the device where frame 4 names host pages
	// Dummy says that the rank owes nothing: frames 4 and 5 are empty.
	Dummy  bool
	Layout Layout
}

// Abort tells prefill that decode gave a room up.
type Abort struct {
	Room    int64 // 1
	Address       // 2, 3: where the acknowledgement goes
	Layout  Layout
}

// Watermark tells prefill up to where the staging ring was emptied.
type Watermark struct {
	Round   uint64 // 1: how often the ring has wrapped
	Tail    uint64 // 2: bytes
	Session string // 3
	Layout  Layout
}

// StagingResponse grants prefill a piece of the staging ring.
type StagingResponse struct {
	Room    int64  // 1
	Chunk   uint64 // 2
	Offset  int64  // 3: bytes into the ring; negative: none will come
	Round   uint64 // 4
	End     int64  // 5: bytes
	Session string // 6
	Layout  Layout
}

// TransferStatus is SGLang's KVPoll.
type TransferStatus int

// The states of a transfer. StatusSuccess carries no count of pages.
const (
	StatusFailed TransferStatus = iota
	StatusBootstrapping
	StatusWaiting
	StatusTransferring
	StatusSuccess
)

// Status tells decode how a room's transfer stands (prefill to decode).
type Status struct {
	Room        int64          // 0
	Status      TransferStatus // 1
	PrefillRank int            // 2: the rank that says so, unique per sender
	// ReasonBytes is the length of a reason (3, newer versions). The text may
	// quote a request and is not kept; [StatusReason] reads it for the one it
	// is addressed to.
	ReasonBytes uint64
	// Reason is sent by Frames and never set by Parse.
	Reason string
	Layout Layout
}

// AbortAck answers an Abort (prefill to decode).
type AbortAck struct {
	Room int64 // 1
	// PrefillRank (2) is -1 in the older form of two frames.
	PrefillRank int
	// Drained says that the rank named itself, which newer versions do once no
	// write of the room can still arrive; the older form promises nothing.
	Drained bool
	Layout  Layout
}

// AuxData announces a metadata slot's content sent along (prefill to decode).
// The content (frame 5) holds output ids, log probabilities and hidden states:
// only its length is kept.
type AuxData struct {
	Room        int64  // 1
	BufferIndex int    // 2: which metadata region
	AuxIndex    int64  // 3: which slot
	Length      uint32 // 4: u32 big-endian: bytes that should follow
	BodyBytes   uint64 // 5: bytes that did follow
	Layout      Layout
}

// ChunkReady says that a chunk lies in the staging ring (prefill to decode).
type ChunkReady struct {
	Room        int64  // 1
	Chunk       uint64 // 2
	PageStart   uint64 // 3: in pages, from the end of decode's prefix
	Pages       uint64 // 4
	Session     string // 5
	PrefillRank int    // 6
	Layout      Layout
}

// StagingRequest asks decode for a piece of the staging ring.
type StagingRequest struct {
	Room    int64  // 1
	Chunk   uint64 // 2
	Pages   uint64 // 3
	Session string // 4
	PPRank  int    // 5: -1 where not given
	Layout  Layout
}
