package lifecycle

import "fmt"

// AppendJSON appends the fact as one JSON object without a line end. Text that
// is not UTF-8 is written with replacement characters.
func (f *Fact) AppendJSON(dst []byte) []byte {
	s := sink{buf: dst}
	f.encode(&s)
	return s.buf
}

// AppendMsgpack appends the fact as one msgpack map. Text that is not UTF-8 is
// written with replacement characters.
func (f *Fact) AppendMsgpack(dst []byte) []byte {
	s := sink{buf: dst, msgpack: true}
	f.encode(&s)
	return s.buf
}

func (f *Fact) encode(s *sink) {
	s.objectBegin()
	s.key("t")
	s.signed(f.T)
	maybeText(s, fNode, f.Node)
	maybeText(s, fInst, f.Inst)
	maybeText(s, fSrc, f.Src.String())
	if f.Ev == EvUnknown {
		maybeText(s, fEv, f.Name)
	} else {
		maybeText(s, fEv, f.Ev.String())
	}
	maybeUnsigned(s, fEpoch, f.Epoch)
	maybeUnsigned(s, fSeq, f.Seq)
	maybeSigned(s, fStep, f.Step)
	if f.Ev < numEv {
		for todo := schema[f.Ev].must | schema[f.Ev].may; todo != 0; todo &= todo - 1 {
			f.encodeOwn(s, todo.first())
		}
	}
	s.objectEnd()
}

// encodeOwn writes one field of the event, leaving out what was not said.
func (f *Fact) encodeOwn(s *sink, id field) {
	switch id {
	case fPages:
		if f.Ev == PoolOpened {
			number(s, id, uint64(f.spec().Pages))
		} else if f.Pages != nil || schema[f.Ev].must.has(fPages) {
			encodeRuns(s, id, f.Pages)
		}
	case fDomain:
		if f.Domain.Has {
			named(s, id)
			s.text(f.Domain.V)
		}
	case fPromptTokens:
		maybeSigned(s, id, f.PromptTokens)
	case fPrefixTokens:
		maybeSigned(s, id, f.PrefixTokens)
	case fTokens:
		maybeSigned(s, id, f.Tokens)
	case fPromptPage:
		maybeSigned(s, id, f.PromptPage)
	case fSynthetic:
		maybeTrue(s, id, f.Synthetic)
	case fLast:
		maybeTrue(s, id, f.Last)
	case fComplete:
		named(s, id)
		s.boolean(f.Complete)
	case fStatus:
		f.encodeStatus(s)
	case fFrom, fTo:
		f.encodeFromTo(s, id)
	case fFromAddr:
		maybeUnsigned(s, id, f.FromAddr)
	case fRKey:
		maybeUnsigned(s, id, f.RKey)
	case fQP:
		maybeUnsigned(s, id, f.QP)
	case fAddr:
		number(s, id, f.Addr)
	case fBase:
		number(s, id, f.Base)
	case fBytes:
		number(s, id, f.Bytes)
	case fCount:
		number(s, id, f.Count)
	case fNS:
		named(s, id)
		s.signed(f.NS)
	case fError:
		if f.Error != 0 {
			named(s, id)
			s.signed(f.Error)
		}
	default:
		if text := f.textOf(id); text != "" {
			maybeText(s, id, text)
		} else {
			f.encodeParts(s, id)
		}
	}
}

// textOf is the value of a field that is a name or a word; "" if it was not
// said or id is none of them.
func (f *Fact) textOf(id field) string {
	switch id {
	case fPool:
		return f.Pool
	case fReq:
		return f.Req
	case fRoom:
		return f.Room
	case fKey:
		return f.Key
	case fHolder:
		return f.Holder
	case fReason:
		return f.Reason
	case fXfer:
		return f.Xfer
	case fPeer:
		return f.Peer
	case fDigest:
		return f.Digest
	case fName:
		return f.Protection
	case fStage:
		return f.Stage
	case fFinish:
		return wordOf(finishNames[:], f.Finish)
	case fBy:
		return wordOf(byNames[:], f.By)
	case fSide:
		return wordOf(sideNames[:], f.Side)
	case fOp:
		return wordOf(opNames[:], f.Op)
	case fMemory:
		return wordOf(memoryNames[:], f.Memory)
	case fState:
		return wordOf(stateNames[:], f.State)
	case fOf:
		return wordOf(srcNames[:], f.Of)
	}
	return ""
}

func (f *Fact) encodeStatus(s *sink) {
	if f.Ev == TransferCompleted || f.Ev == BytesMoved {
		if f.Outcome != OutcomeNone {
			maybeText(s, fStatus, f.Outcome.String())
		}
	} else if f.HTTPStatus != 0 {
		named(s, fStatus)
		s.signed(f.HTTPStatus)
	}
}

func (f *Fact) encodeFromTo(s *sink, id field) {
	switch {
	case f.Ev == BytesMoved:
		maybeText(s, id, f.From)
	case f.Ev == StreamGap && id == fFrom:
		number(s, id, f.GapFrom)
	case f.Ev == StreamGap:
		number(s, id, f.GapTo)
	case id == fFrom:
		encodePageRef(s, id, f.CopyFrom)
	default:
		encodePageRef(s, id, f.CopyTo)
	}
}

func encodePageRef(s *sink, id field, ref PageRef) {
	named(s, id)
	s.objectBegin()
	maybeText(s, fPool, ref.Pool)
	encodeRuns(s, fPages, ref.Pages)
	s.objectEnd()
}

func encodeRuns(s *sink, id field, runs Runs) {
	named(s, id)
	s.arrayBegin(len(runs))
	for _, r := range runs {
		encodeRun(s, r)
	}
	s.arrayEnd()
}

func encodeRun(s *sink, r Run) {
	s.arrayBegin(2)
	s.unsigned(uint64(r.First))
	s.unsigned(uint64(r.Count))
	s.arrayEnd()
}

func named(s *sink, id field) { s.key(fieldNames[id]) }

func number(s *sink, id field, v uint64) {
	named(s, id)
	s.unsigned(v)
}

func maybeText(s *sink, id field, v string) {
	if v != "" {
		named(s, id)
		s.text(v)
	}
}

func maybeSigned(s *sink, id field, v Opt[int64]) {
	if v.Has {
		named(s, id)
		s.signed(v.V)
	}
}

func maybeUnsigned(s *sink, id field, v Opt[uint64]) {
	if v.Has {
		number(s, id, v.V)
	}
}

func maybeTrue(s *sink, id field, v bool) {
	if v {
		named(s, id)
		s.boolean(true)
	}
}

func wordOf[E ~uint8](names []string, e E) string {
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprint(uint8(e))
}
