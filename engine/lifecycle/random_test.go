package lifecycle

import (
	"math/rand/v2"
	"strings"
)

// randomFact is a fact of the event with its mandatory fields and some of the
// others, anywhere within their bounds.
func randomFact(r *rand.Rand, ev Ev) *Fact {
	f := &Fact{
		T: r.Int64N(MaxTime) - r.Int64N(MaxTime), Node: name(r), Inst: name(r),
		Src: 1 + Src(r.IntN(int(NumSrc)-1)), Ev: ev,
		Epoch: maybe(r, r.Uint64N(1<<63)), Seq: maybe(r, r.Uint64N(1<<63)), Step: maybe(r, r.Int64N(MaxTime)),
	}
	for todo := schema[ev].must | schema[ev].may; todo != 0; todo &= todo - 1 {
		if id := todo.first(); schema[ev].must.has(id) || r.IntN(2) == 0 {
			fillOwn(r, f, id)
		}
	}
	if f.Spec != nil && f.Spec.Pages > 1<<16 {
		f.Spec.Regions = nil // such a pool may reach beyond the address space
	}
	return f
}

func maybe[T any](r *rand.Rand, v T) Opt[T] { return Opt[T]{}.or(r, v) }

func (o Opt[T]) or(r *rand.Rand, v T) Opt[T] {
	if r.IntN(2) == 0 {
		return o
	}
	return Some(v)
}

func name(r *rand.Rand) string {
	letters := []rune("abcxyz0189-/_\"\\\n\x01äπ😀")
	var b strings.Builder
	for range 1 + r.IntN(12) {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

func runs(r *rand.Rand) Runs {
	rs := make(Runs, r.IntN(5))
	for i := range rs {
		first := r.Uint32N(MaxPages)
		rs[i] = Run{first, 1 + r.Uint32N(MaxPages-first)}
	}
	return rs
}

func tokens(r *rand.Rand) int64 { return r.Int64N(MaxTokens + 1) }

func word1(r *rand.Rand, n int) uint8 { return uint8(1 + r.IntN(n-1)) }

func fillOwn(r *rand.Rand, f *Fact, id field) {
	switch id {
	case fPool:
		f.Pool = name(r)
	case fPages:
		if f.Ev == PoolOpened {
			f.spec().Pages = r.Uint32N(MaxPages + 1)
			break
		}
		f.Pages = runs(r)
	case fReq:
		f.Req = name(r)
	case fRoom:
		f.Room = name(r)
	case fDomain:
		f.Domain = Some(strings.Repeat(name(r), r.IntN(2)))
	case fKey:
		f.Key = name(r)
	case fHolder:
		f.Holder = "cache"
	case fPromptTokens:
		f.PromptTokens = Some(tokens(r))
	case fPrefixTokens:
		f.PrefixTokens = Some(tokens(r))
	case fTokens:
		f.Tokens = Some(tokens(r))
	case fSynthetic:
		f.Synthetic = true
	case fStatus:
		fillStatus(r, f)
	case fFinish:
		f.Finish = Finish(word1(r, int(numFinish)))
	case fReason:
		f.Reason = name(r)
	case fBy:
		f.By = By(word1(r, int(numBy)))
	case fFrom, fTo:
		fillFromTo(r, f, id)
	case fXfer:
		f.Xfer = name(r)
	case fSide:
		f.Side = Side(word1(r, int(numSide)))
	case fPeer:
		f.Peer = name(r)
	case fOp:
		f.Op = Push + Op(r.IntN(2))
		if f.Ev == BytesMoved {
			f.Op = Write + Op(r.IntN(2))
		}
	case fLast:
		f.Last = true
	default:
		fillOutside(r, f, id)
	}
}

func fillStatus(r *rand.Rand, f *Fact) {
	switch f.Ev {
	case TransferCompleted:
		f.Outcome = OK + Outcome(r.IntN(2))
	case BytesMoved:
		f.Outcome = [...]Outcome{OK, Posted, Errored}[r.IntN(3)]
	default:
		f.HTTPStatus = 1 + r.Int64N(999)
	}
}

func fillFromTo(r *rand.Rand, f *Fact, id field) {
	switch {
	case f.Ev == BytesMoved:
		f.From = name(r)
	case f.Ev == StreamGap && id == fFrom:
		f.GapFrom = r.Uint64N(1 << 62)
	case f.Ev == StreamGap:
		f.GapTo = f.GapFrom + r.Uint64N(1<<62)
	case id == fFrom:
		f.CopyFrom = PageRef{name(r), runs(r)}
	default:
		f.CopyTo = PageRef{name(r), runs(r)}
	}
}

func fillOutside(r *rand.Rand, f *Fact, id field) {
	switch id {
	case fAddr:
		f.Addr = r.Uint64N(1<<64 - MaxBytes)
	case fBase:
		f.Base = r.Uint64N(1<<64 - MaxBytes)
	case fBytes:
		f.Bytes = r.Uint64N(MaxBytes)
	case fFromAddr:
		f.FromAddr = Some(r.Uint64())
	case fRKey:
		f.RKey = Some(r.Uint64())
	case fQP:
		f.QP = Some(r.Uint64())
	case fMemory:
		f.Memory = Memory(word1(r, int(numMemory)))
	case fDigest:
		f.Digest = name(r)
	case fPromptPage:
		f.PromptPage = Some(tokens(r))
	case fName:
		f.Protection = name(r)
	case fState:
		f.State = State(r.IntN(int(numState)))
	case fOf:
		f.Of = Src(word1(r, int(NumSrc)))
	case fComplete:
		f.Complete = r.IntN(2) == 0
	case fCount:
		f.Count = r.Uint64N(1 << 63)
	case fStage:
		f.Stage = name(r)
	case fNS:
		f.NS = r.Int64N(MaxTime) - r.Int64N(MaxTime)
	case fError:
		f.Error = r.Int64N(MaxTime)
	case fFree, fCached, fHeld, fPendingDrain:
		f.Audit = &Audit{r.Int64N(MaxPages), r.Int64N(MaxPages), r.Int64N(MaxPages), r.Int64N(MaxPages)}
	case fGPU, fPID, fTotalBytes:
		f.VRAM = &Usage{name(r), r.Int64N(1 << 32), maybe(r, r.Uint64N(MaxBytes))}
	default:
		fillSpec(r, f.spec(), id)
	}
}

func fillSpec(r *rand.Rand, s *PoolSpec, id field) {
	switch id {
	case fPageTokens:
		s.PageTokens = 1 + r.Int64N(MaxTokens)
	case fRole:
		s.Role = name(r)
	case fPageBytes:
		s.PageBytes = 1 + r.Uint64N(MaxBytes)
	case fContextTokens:
		s.ContextTokens = Some(tokens(r))
	case fNullIDs:
		s.NullIDs = runs(r)
	case fOwes:
		s.Owes = Owes(r.IntN(int(numOwes)))
	case fWindow:
		s.Window = tokens(r)
	case fSince:
		s.Since = Since(r.IntN(int(numSince)))
	case fPath:
		s.Path = Path(r.IntN(int(numPath)))
	case fDType:
		s.DType = name(r)
	case fLayers:
		s.Layers = Some(Run{r.Uint32N(100), 1 + r.Uint32N(100)})
	case fKVHeads:
		s.KVHeads = 1 + r.Int64N(128)
	case fPIDs:
		s.PIDs = []int64{r.Int64N(1 << 32), 0}
	case fClaims:
		s.Claims = Some([]Ev{Ev(word1(r, int(numEv))), PagesRead})
	case fRegions:
		bytes := 1 + r.Uint64N(1<<32)
		s.Regions = []Region{{r.Uint64N(1 << 50), bytes + r.Uint64N(1<<20), bytes, r.Int64N(200), name(r)}, {0, 1, 1, 0, ""}}
	}
}
