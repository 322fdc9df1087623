package lifecycle

// Ev says what happened. The names are those of format v1.
type Ev uint8

// The events of format v1. EvUnknown stands for a name that this version does
// not know; Fact.Name then holds it.
const (
	EvUnknown Ev = iota
	PoolOpened
	PoolClosed
	RequestAdmitted
	RequestRejected
	RequestAborted
	RequestFinished
	PagesReserved
	PagesShared
	PagesWritten
	PagesCopied
	PagesRead
	PagesCached
	PagesReleased
	PagesEvicted
	TransferStarted
	TransferCompleted
	TransferDrained
	PeerGone
	PoolAudit
	RegionRegistered
	RegionDeregistered
	BytesMoved
	ContentDigest
	Protection
	VRAMUsage
	SourceCoverage
	StreamGap
	EventsLost
	Watermark
	ClockOffset
	numEv
)

var evNames = [numEv]string{
	PoolOpened: "pool_opened", PoolClosed: "pool_closed",
	RequestAdmitted: "request_admitted", RequestRejected: "request_rejected",
	RequestAborted: "request_aborted", RequestFinished: "request_finished",
	PagesReserved: "pages_reserved", PagesShared: "pages_shared",
	PagesWritten: "pages_written", PagesCopied: "pages_copied",
	PagesRead: "pages_read", PagesCached: "pages_cached",
	PagesReleased: "pages_released", PagesEvicted: "pages_evicted",
	TransferStarted: "transfer_started", TransferCompleted: "transfer_completed",
	TransferDrained: "transfer_drained", PeerGone: "peer_gone",
	PoolAudit: "pool_audit", RegionRegistered: "region_registered",
	RegionDeregistered: "region_deregistered", BytesMoved: "bytes_moved",
	ContentDigest: "content_digest", Protection: "protection",
	VRAMUsage: "vram_usage", SourceCoverage: "source_coverage",
	StreamGap: "stream_gap", EventsLost: "events_lost",
	Watermark: "watermark", ClockOffset: "clock_offset",
}

// Src says who speaks: a claim (engine, wire, http, log), an observation
// (rdma, tcp, cuda, nvml), or the sidecar about its own sight.
type Src uint8

// The sources of format v1.
const (
	SrcNone Src = iota
	Engine
	Wire
	HTTP
	Log
	RDMA
	TCP
	CUDA
	NVML
	Sidecar
	NumSrc
)

var srcNames = [NumSrc]string{
	Engine: "engine", Wire: "wire", HTTP: "http", Log: "log",
	RDMA: "rdma", TCP: "tcp", CUDA: "cuda", NVML: "nvml", Sidecar: "sidecar",
}

// Claims reports whether s is what an engine says of itself.
func (s Src) Claims() bool { return s >= Engine && s <= Log }

// Observes reports whether s is what was seen from outside the engine.
func (s Src) Observes() bool { return s >= RDMA && s <= NVML }

// By says how the bytes of a page came to be there.
type By uint8

// The ways in which a page is written.
const (
	ByNone By = iota
	ByForward
	ByTransfer
	ByReload
	ByCopy
	numBy
)

var byNames = [numBy]string{
	ByForward: "forward", ByTransfer: "transfer", ByReload: "reload", ByCopy: "copy",
}

// Side says which half of a transfer or a digest is meant.
type Side uint8

// The two sides of a transfer.
const (
	SideNone Side = iota
	Receiver
	Sender
	numSide
)

var sideNames = [numSide]string{Receiver: "receiver", Sender: "sender"}

// Op is the direction in which bytes are asked for: push and pull for
// transfers, write and read for the bytes themselves.
type Op uint8

// The operations of transfer_started (push, pull) and bytes_moved (write, read).
const (
	OpNone Op = iota
	Push
	Pull
	Write
	Read
	numOp
)

var opNames = [numOp]string{Push: "push", Pull: "pull", Write: "write", Read: "read"}

// Outcome is the `status` of transfer_completed (ok, failed) and of
// bytes_moved (ok, posted, error).
type Outcome uint8

// How a transfer or a single write ended.
const (
	OutcomeNone Outcome = iota
	OK
	Failed
	Posted
	Errored
	numOutcome
)

var outcomeNames = [numOutcome]string{OK: "ok", Failed: "failed", Posted: "posted", Errored: "error"}

// Finish says why a request ended.
type Finish uint8

// The reasons of request_finished.
const (
	FinishNone Finish = iota
	FinishStop
	FinishLength
	FinishAbort
	FinishError
	numFinish
)

var finishNames = [numFinish]string{
	FinishStop: "stop", FinishLength: "length", FinishAbort: "abort", FinishError: "error",
}

// Owes says what a handoff must bring into a pool before its completion.
type Owes uint8

// What a pool is owed: every token, the last Window tokens, one page of
// state, or nothing.
const (
	OwesAll Owes = iota
	OwesWindow
	OwesState
	OwesNone
	numOwes
)

var owesNames = [numOwes]string{
	OwesAll: "all", OwesWindow: "window", OwesState: "state", OwesNone: "none",
}

// Since says what is known of the pages of a pool when it is first named.
type Since uint8

// SinceStart: the pages were never handed out before. SinceAttach: what is in
// them is unknown.
const (
	SinceStart Since = iota
	SinceAttach
	numSince
)

var sinceNames = [numSince]string{SinceStart: "start", SinceAttach: "attach"}

// Path says how transfers reach a pool: straight into its pages, or through a
// staging buffer that a kernel scatters.
type Path uint8

// The paths into a pool.
const (
	PathDirect Path = iota
	PathStaged
	numPath
)

var pathNames = [numPath]string{PathDirect: "direct", PathStaged: "staged"}

// State is what is known of a protection. Only StateRan counts as one.
type State uint8

// The states of a protection.
const (
	StateUnknown State = iota
	StateRan
	StateOff
	StateUnsupported
	numState
)

var stateNames = [numState]string{
	StateUnknown: "unknown", StateRan: "ran", StateOff: "off", StateUnsupported: "unsupported",
}

// Memory is where a registered region lies.
type Memory uint8

// The kinds of memory of a registration.
const (
	MemoryNone Memory = iota
	VRAM
	Host
	numMemory
)

var memoryNames = [numMemory]string{VRAM: "vram", Host: "host"}

func (e Ev) String() string      { return nameOf(evNames[:], e) }
func (s Src) String() string     { return nameOf(srcNames[:], s) }
func (b By) String() string      { return nameOf(byNames[:], b) }
func (s Side) String() string    { return nameOf(sideNames[:], s) }
func (o Op) String() string      { return nameOf(opNames[:], o) }
func (o Outcome) String() string { return nameOf(outcomeNames[:], o) }
func (f Finish) String() string  { return nameOf(finishNames[:], f) }
func (o Owes) String() string    { return nameOf(owesNames[:], o) }
func (s Since) String() string   { return nameOf(sinceNames[:], s) }
func (p Path) String() string    { return nameOf(pathNames[:], p) }
func (s State) String() string   { return nameOf(stateNames[:], s) }
func (m Memory) String() string  { return nameOf(memoryNames[:], m) }

// EvByName returns the event of that name, EvUnknown if this version has none.
func EvByName(name string) Ev { return byName[Ev](evIndex, name) }

// SrcByName returns the source of that name, SrcNone if there is none.
func SrcByName(name string) Src { return byName[Src](srcIndex, name) }

var (
	evIndex      = indexOf(evNames[:])
	srcIndex     = indexOf(srcNames[:])
	byIndex      = indexOf(byNames[:])
	sideIndex    = indexOf(sideNames[:])
	opIndex      = indexOf(opNames[:])
	outcomeIndex = indexOf(outcomeNames[:])
	finishIndex  = indexOf(finishNames[:])
	owesIndex    = indexOf(owesNames[:])
	sinceIndex   = indexOf(sinceNames[:])
	pathIndex    = indexOf(pathNames[:])
	stateIndex   = indexOf(stateNames[:])
	memoryIndex  = indexOf(memoryNames[:])
)

func nameOf[E ~uint8](names []string, e E) string {
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return "unknown"
}

func indexOf(names []string) map[string]uint8 {
	index := make(map[string]uint8, len(names))
	for i, name := range names {
		if name != "" {
			index[name] = uint8(i)
		}
	}
	return index
}

func byName[E ~uint8](index map[string]uint8, name string) E { return E(index[name]) }
