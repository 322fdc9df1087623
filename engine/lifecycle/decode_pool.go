package lifecycle

import (
	"errors"
	"fmt"
)

func (f *Fact) spec() *PoolSpec {
	if f.Spec == nil {
		f.Spec = new(PoolSpec)
	}
	return f.Spec
}

// poolField reads the fields that only pool_opened has.
func (d *Decoder) poolField(f *Fact, id field, raw []byte) (err error) {
	s := f.spec()
	switch id {
	case fPageTokens:
		s.PageTokens, err = d.signed(raw, 1, MaxTokens)
	case fRole:
		s.Role, err = d.id(raw)
	case fPageBytes:
		s.PageBytes, err = d.unsigned(raw, MaxBytes)
	case fContextTokens:
		s.ContextTokens, err = optional(d.signed(raw, 0, MaxTokens))
	case fNullIDs:
		s.NullIDs, err = d.runs(raw)
	case fOwes:
		s.Owes, err = word[Owes](d, raw, owesIndex, owesNames[:])
	case fWindow:
		s.Window, err = d.signed(raw, 0, MaxTokens)
	case fSince:
		s.Since, err = word[Since](d, raw, sinceIndex, sinceNames[:])
	case fPath:
		s.Path, err = word[Path](d, raw, pathIndex, pathNames[:])
	case fDType:
		s.DType, err = d.id(raw)
	case fLayers:
		s.Layers, err = optional(d.layers(raw))
	case fKVHeads:
		s.KVHeads, err = d.signed(raw, 0, MaxTokens)
	case fPIDs:
		s.PIDs, err = d.pids(raw)
	case fClaims:
		s.Claims, err = optional(d.claims(raw))
	case fRegions:
		s.Regions, err = d.regions(raw)
	}
	return err
}

func (d *Decoder) layers(raw []byte) (Run, error) {
	run, err := d.run(raw)
	if err != nil {
		return Run{}, fmt.Errorf("want [first, count]: %w", err)
	}
	return run, nil
}

func (d *Decoder) pids(raw []byte) (pids []int64, err error) {
	err = d.enc.array(raw, MaxList, func(value []byte) error {
		pid, err := d.signed(value, 0, 1<<32)
		pids = append(pids, pid)
		return err
	})
	return pids, err
}

// claims reads event names; those of a later version are left out, since
// nothing is judged by them.
func (d *Decoder) claims(raw []byte) (claims []Ev, err error) {
	err = d.enc.array(raw, MaxList, func(value []byte) error {
		name, err := d.enc.text(value, MaxID)
		if ev := EvByName(string(name)); err == nil && ev != EvUnknown {
			claims = append(claims, ev)
		}
		return err
	})
	return claims, err
}

func (d *Decoder) regions(raw []byte) (regions []Region, err error) {
	err = d.enc.array(raw, MaxList, func(value []byte) error {
		region, err := d.region(value)
		regions = append(regions, region)
		if err != nil {
			return fmt.Errorf("region %d: %w", len(regions)-1, err)
		}
		return nil
	})
	return regions, err
}

func (d *Decoder) region(raw []byte) (r Region, err error) {
	err = d.enc.object(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "base":
			r.Base, err = d.unsigned(value, 1<<64-1)
		case "stride":
			r.Stride, err = d.unsigned(value, MaxBytes)
		case "bytes":
			r.Bytes, err = d.unsigned(value, MaxBytes)
		case "layer":
			r.Layer, err = d.signed(value, 0, MaxTokens)
		case "part":
			r.Part, err = d.id(value)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
	if err == nil && (r.Bytes == 0 || r.Stride < r.Bytes) {
		err = errors.New("bytes of one page must be positive and at most the stride")
	}
	return r, err
}
