package evidence

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// share is how many bytes of entries a kind may have. Half of the file is left to
// the store's own order of its pages, and to what is not given back at once.
func (s *Store) share() int { return s.cfg.Bytes / 2 / int(finding.NumKind) }

// order is the number of the next incident of a kind.
func (s *Store) order(k finding.Kind) int {
	n := 0
	for _, i := range s.index {
		if i.Kind == k {
			n = max(n, i.Order+1)
		}
	}
	return n
}

// surplus are the incidents that must go for i to be there: those that are too old,
// and of its kind the oldest but for the first ones.
func (s *Store) surplus(i *Incident) (gone []*Incident) {
	oldest := s.now() - int64(s.cfg.Age.Seconds())
	var same []*Incident
	count, size := 1, i.Bytes
	for _, o := range s.index {
		switch {
		case o.ID == i.ID:
		case s.cfg.Age > 0 && o.Lived < oldest:
			gone = append(gone, o)
		case o.Kind == i.Kind:
			same = append(same, o)
			count, size = count+1, size+o.Bytes
		}
	}
	slices.SortFunc(same, func(a, b *Incident) int { return cmp.Compare(a.Order, b.Order) })
	firsts := s.firsts(same)
	for _, o := range slices.Concat(same[firsts:], same[:firsts]) {
		if count <= MaxPerKind && size <= s.share() {
			break
		}
		gone = append(gone, o)
		count, size = count-1, size-o.Bytes
	}
	return gone
}

// firsts is how many of a kind's incidents, by order, are its first ones: at most
// First, and at most half of its share.
func (s *Store) firsts(same []*Incident) (n int) {
	size := 0
	for _, o := range same[:min(First, len(same))] {
		if size += o.Bytes; size > s.share()/2 {
			break
		}
		n++
	}
	return n
}

// prune takes the bodies of an incident away and leaves the links.
func prune(tx *bbolt.Tx, i *Incident) error {
	entries, links := tx.Bucket(entriesBucket), tx.Bucket(linksBucket)
	for _, seq := range i.Entries {
		line, _, _ := bytes.Cut(entries.Get(key(seq)), []byte{'\n'})
		if err := links.Put(key(seq), bytes.Clone(line)); err != nil {
			return err
		}
		if err := entries.Delete(key(seq)); err != nil {
			return err
		}
	}
	return tx.Bucket(incidentsBucket).Delete([]byte(i.ID))
}

// trim forgets the links of long ago: the chain then begins later, which is said when
// it is verified.
func trim(tx *bbolt.Tx, next uint64) error {
	for c := tx.Bucket(linksBucket).Cursor(); ; {
		k, _ := c.First()
		if k == nil || binary.BigEndian.Uint64(k)+MaxLinks >= next {
			return nil
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
}
