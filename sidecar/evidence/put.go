package evidence

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// maxIncidents is how many there can be, by the share of each kind.
const maxIncidents = int(finding.NumKind) * MaxPerKind * 2

// ErrFull is returned for an incident that has all the entries that it may have.
var ErrFull = errors.New("the incident has all the entries that it may have")

// Put writes an entry of the incident and returns its link, once it is on the disk.
// The summary takes the place of the one before; what the store reckons itself in it
// is left to the store.
func (s *Store) Put(i Incident, body []byte) (Link, error) {
	if len(body) > MaxBody {
		return Link{}, fmt.Errorf("write an entry: %d bytes, at most %d", len(body), MaxBody)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	link, err := s.put(i.copied(), body)
	if err != nil {
		s.stats.Failures++
		return Link{}, fmt.Errorf("write an entry of %s: %w", i.ID, err)
	}
	return link, nil
}

// put is Put; s.mu is held.
func (s *Store) put(i Incident, body []byte) (Link, error) {
	wall := s.cfg.Wall().UTC()
	before := s.index[i.ID]
	if before != nil {
		if len(before.Entries) >= MaxEntries {
			return Link{}, ErrFull
		}
		i.Entries, i.First, i.Lived, i.Bytes, i.Order, i.Head = before.Entries, before.First, before.Lived, before.Bytes, before.Order, before.Head
	} else {
		i.Entries, i.First, i.Lived, i.Bytes, i.Order = nil, wall, s.now(), 0, s.order(i.Kind)
	}
	link := seal(s.meta.Next, s.meta.Head, wall.Format(time.RFC3339Nano), i.ID, body)
	if before == nil {
		i.Head = link.Hash
	}
	value, err := pack(&link, body)
	if err != nil {
		return link, err
	}
	i.Entries, i.Last, i.Bytes = append(slices.Clone(i.Entries), link.Seq), wall, i.Bytes+len(value)
	next := s.meta
	next.Next, next.Head, next.Lived = link.Seq+1, link.Hash, s.now()
	gone := s.surplus(&i)
	err = s.update(func(tx *bbolt.Tx) error {
		for _, old := range gone {
			if err := prune(tx, old); err != nil {
				return err
			}
		}
		if err := tx.Bucket(entriesBucket).Put(key(link.Seq), value); err != nil {
			return err
		}
		if err := trim(tx, next.Next); err != nil {
			return err
		}
		return errors.Join(putJSON(tx, incidentsBucket, []byte(i.ID), &i), putJSON(tx, metaBucket, metaKey, &next))
	})
	if err != nil {
		return link, err
	}
	s.meta.Next, s.meta.Head = next.Next, next.Head
	for _, old := range gone {
		delete(s.index, old.ID)
		s.stats.Pruned++
	}
	s.index[i.ID] = &i
	return link, nil
}

// update changes the file, or nothing.
func (s *Store) update(change func(tx *bbolt.Tx) error) error {
	return guarded(func() error { return s.db.Update(change) })
}

func putJSON(tx *bbolt.Tx, bucket, key []byte, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put(key, text)
}

// Closing is who closed a disclosure, and why.
type Closing struct {
	Part string `json:"part"` // closed
	At   string `json:"at"`
	By   string `json:"by"`
	Why  string `json:"why"`
}

// maxWords bounds what a person may say at a closing.
const maxWords = 500

// Shut closes a disclosure: a person has seen to it. It is an entry of its own.
func (s *Store) Shut(id, by, why string) (Incident, error) {
	if by == "" || why == "" || len(by) > maxWords || len(why) > maxWords {
		return Incident{}, fmt.Errorf("close %.40s: say who does it and why, each in at most %d bytes", id, maxWords)
	}
	i, err := s.Incident(id)
	if err != nil {
		return i, err
	}
	body, err := json.Marshal(Closing{"closed", s.cfg.Wall().UTC().Format(time.RFC3339Nano), by, why}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return i, fmt.Errorf("close %s: %w", id, err)
	}
	i.Open = false
	if _, err := s.Put(i, body); err != nil {
		return i, err
	}
	return s.Incident(id)
}
