package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"
)

// Bounds of the store.
const (
	// MaxBody is the largest body of an entry, in bytes.
	MaxBody = 4 << 20
	// MaxPerKind is how many incidents of one kind are kept.
	MaxPerKind = 256
	// First is how many of them are the first ones, which newer ones do not push out.
	First = 16
	// MaxLinks is how many entries that were pruned keep their link.
	MaxLinks = 1 << 14
	// MaxEntries is how many entries one incident may have.
	MaxEntries = 64

	fileName    = "evidence.db"
	lockTimeout = 2 * time.Second
)

// Errors of a store.
var (
	ErrInUse    = errors.New("another process has the evidence open")
	ErrNotFound = errors.New("there is no such incident")
)

var (
	entriesBucket   = []byte("entries")   // by seq: its link and its packed body
	linksBucket     = []byte("links")     // by seq: of those that were pruned
	incidentsBucket = []byte("incidents") // by id: its summary
	metaBucket      = []byte("meta")
	metaKey         = []byte("meta")

	buckets = [][]byte{entriesBucket, linksBucket, incidentsBucket, metaBucket}
)

// Config says where a store is and how much it may hold.
type Config struct {
	Dir   string
	Bytes int           // of the file, at least MinBytes
	Age   time.Duration // for which the store ran
	Wall  func() time.Time
}

// MinBytes is the smallest store.
const MinBytes = 16 << 20

// meta is the state of the store itself.
type meta struct {
	Next  uint64    `json:"next"` // seq of the next entry
	Head  string    `json:"head"` // of the last one
	Lived int64     `json:"lived"`
	Wall  time.Time `json:"wall"` // when Lived was reckoned last
}

// Store is the evidence on disk. Its methods may be called from any goroutine;
// Put, Close and Prune wait for the disk.
type Store struct {
	cfg   Config
	db    *bbolt.DB
	lock  *os.File
	aside string // where a damaged store went

	mu    sync.Mutex
	meta  meta
	index map[string]*Incident
	lived time.Time // Go's clock when meta.Lived was reckoned last
	stats Stats
}

// Stats says how a store stands.
type Stats struct {
	Incidents, Open int
	Bytes           int // of all entries
	Entries         uint64
	Pruned          uint64
	Failures        uint64 // writes that failed
	Damaged         uint64 // reads that found damage
	Aside           string // where a damaged store was put
}

// now reckons for how long the store has been open, over all runs, in seconds.
func (s *Store) now() int64 {
	if past := time.Since(s.lived); past >= time.Second {
		s.meta.Lived += int64(past / time.Second)
		s.lived = s.lived.Add(past.Truncate(time.Second))
		s.meta.Wall = s.cfg.Wall()
	}
	return s.meta.Lived
}

// Close closes the store.
func (s *Store) Close() error { return errors.Join(guarded(s.db.Close), s.lock.Close()) }

// Stats says how the store stands.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Incidents, st.Entries, st.Aside = len(s.index), s.meta.Next-1, s.aside
	for _, i := range s.index {
		st.Bytes += i.Bytes
		if i.Open {
			st.Open++
		}
	}
	return st
}

// Head is the hash of the last entry.
func (s *Store) Head() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta.Head
}

// List is all incidents, the newest first.
func (s *Store) List() []Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Incident, 0, len(s.index))
	for _, i := range s.index {
		all = append(all, i.copied())
	}
	slices.SortFunc(all, func(a, b Incident) int { return int(int64(b.Entries[0]) - int64(a.Entries[0])) })
	return all
}

func (i *Incident) copied() Incident {
	c := *i
	c.Kinds, c.Entries = slices.Clone(i.Kinds), slices.Clone(i.Entries)
	return c
}

// Incident is the summary of one.
func (s *Store) Incident(id string) (Incident, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index[id]
	if i == nil {
		return Incident{}, fmt.Errorf("%w: %.40q", ErrNotFound, id)
	}
	return i.copied(), nil
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// pack is an entry as it lies on disk: its link, a line end, its body.
func pack(l *Link, body []byte) ([]byte, error) {
	line, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write a link: %w", err)
	}
	small, err := deflated(body)
	return append(append(line, '\n'), small...), err
}

// unpack is the opposite of pack; it checks the entry against its own hash.
func unpack(value []byte) (l Link, body []byte, err error) {
	line, small, found := bytes.Cut(value, []byte{'\n'})
	if !found {
		return l, nil, fmt.Errorf("%w: an entry without a body", ErrBroken)
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return l, nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if body, err = inflated(small); err != nil {
		return l, nil, fmt.Errorf("%w: entry %d: %w", ErrBroken, l.Seq, err)
	}
	if err := l.check(nil); err != nil {
		return l, nil, err
	}
	return l, body, l.holds(body)
}
