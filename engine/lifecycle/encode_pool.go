package lifecycle

// encodeParts writes the fields of the facts that have a part of their own:
// pool_audit, vram_usage and pool_opened.
func (f *Fact) encodeParts(s *sink, id field) {
	switch f.Ev {
	case PoolAudit:
		if f.Audit != nil {
			f.Audit.encode(s, id)
		}
	case VRAMUsage:
		if f.VRAM != nil {
			f.VRAM.encode(s, id)
		}
	case PoolOpened:
		if f.Spec != nil {
			f.Spec.encode(s, id)
		}
	}
}

func (a *Audit) encode(s *sink, id field) {
	switch id {
	case fFree:
		signed(s, id, a.Free)
	case fCached:
		signed(s, id, a.Cached)
	case fHeld:
		signed(s, id, a.Held)
	case fPendingDrain:
		if a.PendingDrain != 0 {
			signed(s, id, a.PendingDrain)
		}
	}
}

func (u *Usage) encode(s *sink, id field) {
	switch id {
	case fGPU:
		maybeText(s, id, u.GPU)
	case fPID:
		signed(s, id, u.PID)
	case fTotalBytes:
		maybeUnsigned(s, id, u.TotalBytes)
	}
}

func (p *PoolSpec) encode(s *sink, id field) {
	switch id {
	case fPageTokens:
		if p.PageTokens != 0 {
			signed(s, id, p.PageTokens)
		}
	case fRole:
		maybeText(s, id, p.Role)
	case fPageBytes:
		if p.PageBytes != 0 {
			number(s, id, p.PageBytes)
		}
	case fContextTokens:
		maybeSigned(s, id, p.ContextTokens)
	case fNullIDs:
		if p.NullIDs != nil {
			encodeRuns(s, id, p.NullIDs)
		}
	case fOwes:
		notFirst(s, id, owesNames[:], p.Owes)
	case fWindow:
		if p.Window != 0 {
			signed(s, id, p.Window)
		}
	case fSince:
		notFirst(s, id, sinceNames[:], p.Since)
	case fPath:
		notFirst(s, id, pathNames[:], p.Path)
	case fDType:
		maybeText(s, id, p.DType)
	case fLayers:
		if p.Layers.Has {
			named(s, id)
			encodeRun(s, p.Layers.V)
		}
	case fKVHeads:
		if p.KVHeads != 0 {
			signed(s, id, p.KVHeads)
		}
	default:
		p.encodeLists(s, id)
	}
}

func (p *PoolSpec) encodeLists(s *sink, id field) {
	switch {
	case id == fPIDs && p.PIDs != nil:
		named(s, id)
		s.arrayBegin(len(p.PIDs))
		for _, pid := range p.PIDs {
			s.signed(pid)
		}
		s.arrayEnd()
	case id == fClaims && p.Claims.Has:
		named(s, id)
		s.arrayBegin(len(p.Claims.V))
		for _, ev := range p.Claims.V {
			s.text(ev.String())
		}
		s.arrayEnd()
	case id == fRegions && p.Regions != nil:
		named(s, id)
		s.arrayBegin(len(p.Regions))
		for _, r := range p.Regions {
			r.encode(s)
		}
		s.arrayEnd()
	}
}

func (r Region) encode(s *sink) {
	s.objectBegin()
	number(s, fBase, r.Base)
	s.key("stride")
	s.unsigned(r.Stride)
	number(s, fBytes, r.Bytes)
	s.key("layer")
	s.signed(r.Layer)
	if r.Part != "" {
		s.key("part")
		s.text(r.Part)
	}
	s.objectEnd()
}

func signed(s *sink, id field, v int64) {
	named(s, id)
	s.signed(v)
}

// notFirst writes a word unless it is the one that an absent field means.
func notFirst[E ~uint8](s *sink, id field, names []string, e E) {
	if e != 0 {
		maybeText(s, id, wordOf(names, e))
	}
}
