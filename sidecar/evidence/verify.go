package evidence

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"
)

// Verify reads all entries and reports whether each is whole and follows the one
// before.
func (s *Store) Verify() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := guarded(func() error { return s.db.View(s.verify) })
	if err != nil {
		s.stats.Damaged++
	}
	return err
}

// verify walks the entries and the links of those that were pruned, by number. Only
// those of long ago may be missing.
func (s *Store) verify(tx *bbolt.Tx) error {
	of := map[uint64]string{}
	for _, i := range s.index {
		for _, seq := range i.Entries {
			of[seq] = i.ID
		}
	}
	entries, links := tx.Bucket(entriesBucket).Cursor(), tx.Bucket(linksBucket).Cursor()
	ek, ev := entries.First()
	lk, lv := links.First()
	last := (*Link)(nil)
	for ek != nil || lk != nil {
		var l Link
		var err error
		k := ek
		if ek == nil || lk != nil && bytes.Compare(lk, ek) < 0 {
			if k, err = lk, json.Unmarshal(lv, &l); err == nil {
				err = l.check(nil)
			}
			lk, lv = links.Next()
		} else {
			l, _, err = unpack(ev)
			if err == nil && of[l.Seq] != l.Incident {
				err = fmt.Errorf("%w: entry %d belongs to no incident", ErrBroken, l.Seq)
			}
			delete(of, l.Seq)
			ek, ev = entries.Next()
		}
		if err != nil || len(k) != 8 || binary.BigEndian.Uint64(k) != l.Seq || l.Seq >= s.meta.Next || last != nil && l.Seq <= last.Seq {
			return fmt.Errorf("%w: entry %x: %w", ErrBroken, k, err)
		}
		if err := s.follows(&l, last); err != nil {
			return err
		}
		last = &l
	}
	switch {
	case len(of) > 0:
		return fmt.Errorf("%w: %d entries are missing", ErrBroken, len(of))
	case last == nil && s.meta.Head != genesis, last != nil && last.Hash != s.meta.Head:
		return fmt.Errorf("%w: the last entry is not the head", ErrBroken)
	}
	return nil
}

// follows is whether a link follows the last one that was read. Between them may be
// missing what is older than MaxLinks entries.
func (s *Store) follows(l, last *Link) error {
	before := uint64(0)
	if last != nil {
		before = last.Seq
	}
	if l.Seq == before+1 {
		return l.check(last)
	}
	if l.Seq+MaxLinks > s.meta.Next {
		return fmt.Errorf("%w: entries %d to %d are missing", ErrBroken, before+1, l.Seq-1)
	}
	return nil
}

// Entry is one entry of an incident.
type Entry struct {
	Link
	Body []byte
}

// Entries reads what is kept of an incident, the oldest first.
func (s *Store) Entries(id string) (all []Entry, err error) {
	i, err := s.Incident(id)
	if err != nil {
		return nil, err
	}
	err = guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			for _, seq := range i.Entries {
				l, body, err := unpack(bytes.Clone(tx.Bucket(entriesBucket).Get(key(seq))))
				if err != nil {
					return err
				}
				all = append(all, Entry{l, body})
			}
			return nil
		})
	})
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.Damaged++
		return nil, fmt.Errorf("read the evidence of %s: %w", id, err)
	}
	return all, nil
}

// chain is the links from the first to the last entry of an incident, as far as they
// are kept.
func (s *Store) chain(from, to uint64) (all []Link, err error) {
	err = guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			for seq := from; seq <= to; seq++ {
				var l Link
				line, _, _ := bytes.Cut(tx.Bucket(entriesBucket).Get(key(seq)), []byte{'\n'})
				if line == nil {
					line = tx.Bucket(linksBucket).Get(key(seq))
				}
				if line == nil {
					continue
				}
				if err := json.Unmarshal(line, &l); err != nil {
					return fmt.Errorf("%w: entry %d: %w", ErrBroken, seq, err)
				}
				all = append(all, l)
			}
			return nil
		})
	})
	return slices.Clip(all), err
}
