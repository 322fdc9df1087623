package lifecycle

import (
	"errors"
	"fmt"
)

// own reads one field that belongs to the event of f.
func (d *Decoder) own(f *Fact, id field, raw []byte) (err error) {
	switch id {
	case fPool:
		f.Pool, err = d.id(raw)
	case fPages:
		if f.Ev == PoolOpened {
			var n uint64
			if n, err = d.unsigned(raw, MaxPages); err == nil {
				f.spec().Pages = uint32(n)
			}
			return err
		}
		f.Pages, err = d.runs(raw)
	case fReq:
		f.Req, err = d.id(raw)
	case fRoom:
		f.Room, err = d.id(raw)
	case fDomain:
		f.Domain, err = optional(d.id(raw))
	case fKey:
		f.Key, err = d.id(raw)
	case fHolder:
		f.Holder, err = d.holder(raw)
	case fPromptTokens:
		f.PromptTokens, err = optional(d.signed(raw, 0, MaxTokens))
	case fPrefixTokens:
		f.PrefixTokens, err = optional(d.signed(raw, 0, MaxTokens))
	case fTokens:
		f.Tokens, err = optional(d.signed(raw, 0, MaxTokens))
	case fSynthetic:
		f.Synthetic, err = d.enc.boolean(raw)
	case fStatus:
		return d.status(f, raw)
	case fFinish:
		f.Finish, err = word[Finish](d, raw, finishIndex, finishNames[:])
	case fReason:
		f.Reason, err = d.reason(raw)
	case fBy:
		f.By, err = word[By](d, raw, byIndex, byNames[:])
	case fFrom, fTo:
		return d.fromTo(f, id, raw)
	case fXfer:
		f.Xfer, err = d.id(raw)
	case fSide:
		f.Side, err = word[Side](d, raw, sideIndex, sideNames[:])
	case fPeer:
		f.Peer, err = d.id(raw)
	case fOp:
		return d.op(f, raw)
	case fLast:
		f.Last, err = d.enc.boolean(raw)
	default:
		return d.outside(f, id, raw)
	}
	return err
}

// outside reads the fields of observations and of the sidecar's own facts.
func (d *Decoder) outside(f *Fact, id field, raw []byte) (err error) {
	switch id {
	case fAddr:
		f.Addr, err = d.unsigned(raw, 1<<64-1)
	case fBase:
		f.Base, err = d.unsigned(raw, 1<<64-1)
	case fBytes:
		f.Bytes, err = d.unsigned(raw, MaxBytes)
	case fFromAddr:
		f.FromAddr, err = optional(d.unsigned(raw, 1<<64-1))
	case fRKey:
		f.RKey, err = optional(d.unsigned(raw, 1<<64-1))
	case fQP:
		f.QP, err = optional(d.unsigned(raw, 1<<64-1))
	case fMemory:
		f.Memory, err = word[Memory](d, raw, memoryIndex, memoryNames[:])
	case fDigest:
		f.Digest, err = d.id(raw)
	case fPromptPage:
		f.PromptPage, err = optional(d.signed(raw, 0, MaxTokens))
	case fName:
		f.Protection, err = d.id(raw)
	case fState:
		f.State, err = word[State](d, raw, stateIndex, stateNames[:])
	case fOf:
		f.Of, err = word[Src](d, raw, srcIndex, srcNames[:])
	case fComplete:
		f.Complete, err = d.enc.boolean(raw)
	case fCount:
		f.Count, err = d.unsigned(raw, 1<<63)
	case fStage:
		f.Stage, err = d.id(raw)
	case fNS:
		f.NS, err = d.signed(raw, -MaxTime, MaxTime)
	case fError:
		f.Error, err = d.signed(raw, 0, MaxTime)
	case fFree, fCached, fHeld, fPendingDrain:
		return d.audit(f, id, raw)
	case fGPU, fPID, fTotalBytes:
		return d.usage(f, id, raw)
	default:
		return d.poolField(f, id, raw)
	}
	return err
}

func (d *Decoder) reason(raw []byte) (string, error) {
	b, err := d.enc.text(raw, MaxText)
	return string(b), err
}

func (d *Decoder) holder(raw []byte) (string, error) {
	b, err := d.enc.text(raw, MaxID)
	if err == nil && string(b) != "cache" {
		return "", fmt.Errorf("%q is not one of cache", b)
	}
	return "cache", err
}

// status is an HTTP status for requests and an outcome for the rest.
func (d *Decoder) status(f *Fact, raw []byte) (err error) {
	switch f.Ev {
	case TransferCompleted:
		f.Outcome, err = d.outcome(raw, OK, Failed)
	case BytesMoved:
		f.Outcome, err = d.outcome(raw, OK, Posted, Errored)
	default:
		f.HTTPStatus, err = d.signed(raw, 0, 999)
	}
	return err
}

func (d *Decoder) outcome(raw []byte, allowed ...Outcome) (Outcome, error) {
	o, err := word[Outcome](d, raw, outcomeIndex, outcomeNames[:])
	if err != nil {
		return 0, err
	}
	for _, a := range allowed {
		if o == a {
			return o, nil
		}
	}
	return 0, fmt.Errorf("%q is not one of %v", o, allowed)
}

func (d *Decoder) op(f *Fact, raw []byte) error {
	o, err := word[Op](d, raw, opIndex, opNames[:])
	if err != nil {
		return err
	}
	if ofBytes := o == Write || o == Read; ofBytes != (f.Ev == BytesMoved) {
		return fmt.Errorf("%q does not belong here: transfers push and pull, bytes are moved by write and read", o)
	}
	f.Op = o
	return nil
}

// fromTo reads the three meanings of from and to.
func (d *Decoder) fromTo(f *Fact, id field, raw []byte) (err error) {
	switch {
	case f.Ev == BytesMoved:
		f.From, err = d.id(raw)
	case f.Ev == StreamGap && id == fFrom:
		f.GapFrom, err = d.unsigned(raw, 1<<63)
	case f.Ev == StreamGap:
		if f.GapTo, err = d.unsigned(raw, 1<<63); err == nil && f.GapTo < f.GapFrom {
			err = fmt.Errorf("%d is before from, %d", f.GapTo, f.GapFrom)
		}
	case id == fFrom:
		f.CopyFrom, err = d.pageRef(raw, f.Pool)
	default:
		f.CopyTo, err = d.pageRef(raw, f.Pool)
	}
	return err
}

// pageRef reads {pool, pages}; pool is the fact's own where it is not said.
func (d *Decoder) pageRef(raw []byte, pool string) (ref PageRef, err error) {
	ref.Pool = pool
	err = d.enc.object(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "pool":
			ref.Pool, err = d.id(value)
		case "pages":
			ref.Pages, err = d.runs(value)
		}
		return err
	})
	if err == nil && (ref.Pool == "" || ref.Pages == nil) {
		err = errors.New("want {pool, pages}")
	}
	return ref, err
}

// runs reads [[first, count], …].
func (d *Decoder) runs(raw []byte) (Runs, error) {
	if runs, plain := d.enc.plainRuns(raw); plain {
		return runs, nil
	}
	runs := Runs{}
	err := d.enc.array(raw, MaxRuns, func(value []byte) error {
		run, err := d.run(value)
		runs = append(runs, run)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("want runs [[first, count], …]: %w", err)
	}
	return runs, nil
}

func (d *Decoder) run(raw []byte) (Run, error) {
	var v [2]uint64
	n := 0
	err := d.enc.array(raw, 2, func(value []byte) (err error) {
		v[n], err = d.unsigned(value, MaxPages)
		n++
		return err
	})
	switch {
	case err != nil:
		return Run{}, err
	case n != 2:
		return Run{}, fmt.Errorf("a run has two numbers, this one has %d", n)
	case v[1] == 0 || v[0]+v[1] > MaxPages:
		return Run{}, fmt.Errorf("[%d, %d] is no run of pages 0 to %d", v[0], v[1], MaxPages-1)
	}
	return Run{uint32(v[0]), uint32(v[1])}, nil
}

func (d *Decoder) audit(f *Fact, id field, raw []byte) error {
	if f.Audit == nil {
		f.Audit = new(Audit)
	}
	v, err := d.signed(raw, 0, MaxPages)
	switch id {
	case fFree:
		f.Audit.Free = v
	case fCached:
		f.Audit.Cached = v
	case fHeld:
		f.Audit.Held = v
	case fPendingDrain:
		f.Audit.PendingDrain = v
	}
	return err
}

func (d *Decoder) usage(f *Fact, id field, raw []byte) (err error) {
	if f.VRAM == nil {
		f.VRAM = new(Usage)
	}
	switch id {
	case fGPU:
		f.VRAM.GPU, err = d.id(raw)
	case fPID:
		f.VRAM.PID, err = d.signed(raw, 0, 1<<32)
	case fTotalBytes:
		f.VRAM.TotalBytes, err = optional(d.unsigned(raw, MaxBytes))
	}
	return err
}
