package lifecycle

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrFact is wrapped by every error about a single fact.
var ErrFact = errors.New("not a fact of format v1")

// values are the fields of one fact, still encoded; nil where absent.
type values [numFields][]byte

// encoding reads the values of one wire form. Raw values come from cut, or from
// object or array of such values, so they are well-formed.
type encoding interface {
	// cut checks that raw is one whole well-formed map and cuts it into vals,
	// leaving out the fields that are unknown or null.
	cut(raw []byte, vals *values) error
	// object calls each for every member of the map at the start of raw.
	object(raw []byte, each func(key, value []byte) error) error
	// array calls each for every element, and fails beyond limit elements.
	array(raw []byte, limit int, each func(value []byte) error) error
	// plainRuns reads a list of runs quickly, or declines.
	plainRuns(raw []byte) (Runs, bool)
	// text is a string of at most limit bytes, still in raw's memory if it can be.
	text(raw []byte, limit int) ([]byte, error)
	// integer is a whole number: its magnitude, and whether it is negative.
	integer(raw []byte) (magnitude uint64, negative bool, err error)
	boolean(raw []byte) (bool, error)
	isText(raw []byte) bool
	isEmpty(raw []byte) bool // text of no length
	isNull(raw []byte) bool
}

// Decoder turns encoded facts into Facts. It keeps the names that recur, so it
// is not safe for concurrent use.
type Decoder struct {
	enc   encoding
	names names
	vals  values
}

func newDecoder(enc encoding) *Decoder { return &Decoder{enc: enc, names: newNames()} }

// Decode reads one fact. The fact shares no memory with raw.
func (d *Decoder) Decode(raw []byte) (*Fact, error) {
	if len(raw) > MaxLine {
		return nil, fmt.Errorf("%w: it is %d bytes long, at most %d are allowed", ErrFact, len(raw), MaxLine)
	}
	d.vals = values{}
	if err := d.enc.cut(raw, &d.vals); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFact, err)
	}
	f := new(Fact)
	if err := d.fact(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFact, err)
	}
	return f, nil
}

func (d *Decoder) fact(f *Fact) error {
	if err := d.header(f); err != nil {
		return err
	}
	if f.Ev == EvUnknown {
		return nil
	}
	known := schema[f.Ev]
	for todo := known.must | known.may; todo != 0; todo &= todo - 1 {
		id := todo.first()
		raw := d.vals[id]
		if raw == nil {
			if known.must.has(id) {
				return fmt.Errorf("%s without %q", f.Ev, fieldNames[id])
			}
			continue
		}
		if known.must.has(id) && d.enc.isEmpty(raw) {
			return fmt.Errorf("%s: %q is empty", f.Ev, fieldNames[id])
		}
		if err := d.own(f, id, raw); err != nil {
			return fmt.Errorf("%s: %q: %w", f.Ev, fieldNames[id], err)
		}
	}
	return f.checkSpans()
}

// header reads what every fact has.
func (d *Decoder) header(f *Fact) error {
	for _, id := range [...]field{fT, fSrc, fEv} {
		if d.vals[id] == nil {
			return fmt.Errorf("%q is missing; every fact has t, node, inst, src and ev", fieldNames[id])
		}
	}
	for id := fT; id < firstOwn; id++ {
		raw := d.vals[id]
		if raw == nil {
			continue
		}
		if err := d.headerField(f, id, raw); err != nil {
			return fmt.Errorf("%q: %w", fieldNames[id], err)
		}
	}
	if f.Inst == "" && !wholeNode(f.Ev) {
		return fmt.Errorf("%s without \"inst\", the instance that it is about", f.Ev)
	}
	return nil
}

func (d *Decoder) headerField(f *Fact, id field, raw []byte) (err error) {
	switch id {
	case fT:
		f.T, err = d.signed(raw, -MaxTime, MaxTime)
	case fNode:
		f.Node, err = d.id(raw)
	case fInst:
		f.Inst, err = d.id(raw)
	case fSrc:
		f.Src, err = word[Src](d, raw, srcIndex, srcNames[:])
	case fEv:
		var name []byte
		if name, err = d.enc.text(raw, MaxID); err == nil {
			f.Ev, f.Name, err = event(name)
		}
	case fEpoch:
		f.Epoch, err = optional(d.unsigned(raw, 1<<63))
	case fSeq:
		f.Seq, err = optional(d.unsigned(raw, 1<<63))
	case fStep:
		f.Step, err = optional(d.signed(raw, 0, MaxTime))
	}
	return err
}

// event is the event of that name; one of a later version is EvUnknown and
// keeps its name.
func event(name []byte) (Ev, string, error) {
	if len(name) == 0 {
		return EvUnknown, "", errors.New("the event's name is empty")
	}
	ev := Ev(evIndex[string(name)])
	if ev == EvUnknown {
		return ev, string(name), nil
	}
	return ev, "", nil
}

func optional[T any](v T, err error) (Opt[T], error) { return Opt[T]{v, err == nil}, err }

// signed is a whole number from lo to hi.
func (d *Decoder) signed(raw []byte, lo, hi int64) (int64, error) {
	magnitude, negative, err := d.enc.integer(raw)
	if err != nil {
		return 0, err
	}
	v := int64(magnitude)
	if negative {
		v = -v
	}
	if magnitude > 1<<63-1 || v < lo || v > hi {
		return 0, fmt.Errorf("%s%d is outside %d to %d", sign(negative), magnitude, lo, hi)
	}
	return v, nil
}

// unsigned is a whole number from 0 to hi.
func (d *Decoder) unsigned(raw []byte, hi uint64) (uint64, error) {
	magnitude, negative, err := d.enc.integer(raw)
	if err != nil {
		return 0, err
	}
	if negative && magnitude != 0 || magnitude > hi {
		return 0, fmt.Errorf("%s%d is outside 0 to %d", sign(negative), magnitude, hi)
	}
	return magnitude, nil
}

func sign(negative bool) string {
	if negative {
		return "-"
	}
	return ""
}

// id is a name: text, or a whole number read as its digits.
func (d *Decoder) id(raw []byte) (string, error) {
	if !d.enc.isText(raw) {
		v, err := d.unsigned(raw, 1<<64-1)
		if err != nil {
			return "", fmt.Errorf("want a name (text or a whole number): %w", err)
		}
		return d.names.of(strconv.AppendUint(nil, v, 10)), nil
	}
	b, err := d.enc.text(raw, MaxID)
	if err != nil {
		return "", err
	}
	return d.names.of(b), nil
}

// word is one of a closed set of names.
func word[E ~uint8](d *Decoder, raw []byte, index map[string]uint8, names []string) (E, error) {
	b, err := d.enc.text(raw, MaxID)
	if err != nil {
		return 0, err
	}
	v, known := index[string(b)]
	if !known {
		return 0, fmt.Errorf("%q is not one of %s", b, listed(names))
	}
	return E(v), nil
}

func listed(names []string) string {
	s := ""
	for _, name := range names {
		if name == "" {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += name
	}
	return s
}
