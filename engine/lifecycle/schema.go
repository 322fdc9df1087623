package lifecycle

import "math/bits"

// field is one key of a fact. The first header fields stand in every fact.
type field uint8

const (
	fT field = iota
	fNode
	fInst
	fSrc
	fEv
	fEpoch
	fSeq
	fStep
	firstOwn // what follows depends on the event

	fPool = firstOwn + iota - 9
	fPages
	fReq
	fRoom
	fDomain
	fKey
	fHolder
	fPromptTokens
	fPrefixTokens
	fTokens
	fSynthetic
	fStatus
	fFinish
	fReason
	fBy
	fFrom
	fTo
	fXfer
	fSide
	fPeer
	fOp
	fLast
	fAddr
	fBase
	fBytes
	fFromAddr
	fRKey
	fQP
	fMemory
	fDigest
	fPromptPage
	fName
	fState
	fOf
	fComplete
	fCount
	fStage
	fNS
	fError
	fFree
	fCached
	fHeld
	fPendingDrain
	fGPU
	fPID
	fTotalBytes
	fPageTokens
	fRole
	fPageBytes
	fContextTokens
	fNullIDs
	fOwes
	fWindow
	fSince
	fPath
	fDType
	fLayers
	fKVHeads
	fPIDs
	fClaims
	fRegions
	numFields
)

var fieldNames = [numFields]string{
	"t", "node", "inst", "src", "ev", "epoch", "seq", "step",
	"pool", "pages", "req", "room", "domain", "key", "holder",
	"prompt_tokens", "prefix_tokens", "tokens", "synthetic", "status",
	"finish", "reason", "by", "from", "to", "xfer", "side", "peer", "op",
	"last", "addr", "base", "bytes", "from_addr", "rkey", "qp", "memory",
	"digest", "prompt_page", "name", "state", "of", "complete", "count",
	"stage", "ns", "error", "free", "cached", "held", "pending_drain", "gpu",
	"pid", "total_bytes", "page_tokens", "role", "page_bytes",
	"context_tokens", "null_ids", "owes", "window", "since", "path", "dtype",
	"layers", "kv_heads", "pids", "claims", "regions",
}

// fields is a set of own fields (61 of them: they fit one word).
type fields uint64

func set(fs ...field) (s fields) {
	for _, f := range fs {
		s |= 1 << (f - firstOwn)
	}
	return s
}

func (s fields) has(f field) bool { return s>>(f-firstOwn)&1 == 1 }

// first is the lowest field of a set that is not empty.
func (s fields) first() field { return firstOwn + field(bits.TrailingZeros64(uint64(s))) }

// schema is the table of DESIGN section 5: what each event must and may say.
var schema = [numEv]struct{ must, may fields }{
	PoolOpened: {set(fPool, fPages), set(fPageTokens, fRole, fPageBytes, fContextTokens, fNullIDs,
		fOwes, fWindow, fSince, fPath, fDType, fLayers, fKVHeads, fPIDs, fClaims, fRegions)},
	PoolClosed:         {set(fPool), 0},
	RequestAdmitted:    {set(fReq), set(fRoom, fDomain, fPromptTokens, fPrefixTokens, fSynthetic)},
	RequestRejected:    {set(fReq), set(fRoom, fStatus, fReason)},
	RequestAborted:     {set(fReq), set(fRoom, fReason)},
	RequestFinished:    {set(fReq), set(fRoom, fStatus, fFinish)},
	PagesReserved:      {set(fPool, fPages), set(fReq, fRoom, fHolder)},
	PagesShared:        {set(fReq, fPool, fPages), set(fDomain, fKey)},
	PagesWritten:       {set(fPool, fPages, fBy), set(fReq, fRoom, fTokens)},
	PagesCopied:        {set(fFrom, fTo), set(fPool)},
	PagesRead:          {set(fReq, fPool, fPages), 0},
	PagesCached:        {set(fPool, fPages), set(fReq, fDomain, fKey)},
	PagesReleased:      {set(fReq, fPool, fPages), 0},
	PagesEvicted:       {set(fPool, fPages), 0},
	TransferStarted:    {set(fXfer, fRoom, fSide, fPool, fPages, fPeer), set(fOp, fReq, fSynthetic)},
	TransferCompleted:  {set(fXfer, fRoom, fPeer, fStatus), set(fPool, fPages, fTokens, fLast)},
	TransferDrained:    {set(fXfer, fRoom, fPeer), 0},
	PeerGone:           {set(fPeer), 0},
	PoolAudit:          {set(fPool, fFree, fCached, fHeld), set(fPendingDrain)},
	RegionRegistered:   {set(fBase, fBytes), set(fRKey, fMemory)},
	RegionDeregistered: {set(fBase, fBytes), set(fRKey, fMemory)},
	BytesMoved:         {set(fAddr, fBytes), set(fFrom, fFromAddr, fOp, fRKey, fQP, fXfer, fStatus)},
	ContentDigest:      {set(fRoom, fPool, fDigest, fSide), set(fPromptPage)},
	Protection:         {set(fName, fState), 0},
	VRAMUsage:          {set(fGPU, fPID, fBytes), set(fTotalBytes)},
	SourceCoverage:     {set(fOf, fComplete), set(fPeer, fReason)},
	StreamGap:          {set(fOf, fFrom, fTo), 0},
	EventsLost:         {set(fOf, fCount), set(fStage, fReason)},
	Watermark:          {set(fOf), 0},
	ClockOffset:        {set(fNS), set(fError)},
}

// wholeNode are the events that may leave inst out: they then speak of every
// instance of the node.
func wholeNode(e Ev) bool {
	switch e {
	case EventsLost, Watermark, ClockOffset, EvUnknown:
		return true
	}
	return false
}
