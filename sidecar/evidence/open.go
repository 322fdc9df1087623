package evidence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Open opens the store in a folder, and begins one where there is none. One that
// is damaged is put aside, under a name that [Stats] says.
func Open(cfg Config) (*Store, error) {
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	cfg.Bytes = max(cfg.Bytes, MinBytes)
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("make the evidence folder: %w", err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s, err := openWhole(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

// openWhole opens what is whole, and sets aside what is not.
func openWhole(cfg Config) (*Store, error) {
	path := filepath.Join(cfg.Dir, fileName)
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return begun(cfg)
	}
	if err == nil {
		err = renewed(cfg)
	}
	if err == nil {
		var s *Store
		if s, err = open(cfg, false); err == nil {
			return s, nil
		}
	}
	if !isDamage(err) {
		return nil, err
	}
	aside, moved := setAside(cfg)
	if moved != nil {
		return nil, errors.Join(err, moved)
	}
	s, err := begun(cfg)
	if err == nil {
		s.aside = aside
	}
	return s, err
}

// errNotKept is for a store that has its name, but may lose it with the power.
var errNotKept = errors.New("the folder of the evidence cannot be synced")

// isDamage reports whether an error is of the store itself: not one of a system that
// has no room, no rights or nothing left, behind which a store may be whole.
func isDamage(err error) bool {
	var no unix.Errno
	return !errors.Is(err, errNotKept) && (!errors.As(err, &no) || no == unix.EIO)
}

// begun makes a new store. It has its name only once it is whole, so that a power cut
// while it is made leaves none, not half of one.
func begun(cfg Config) (*Store, error) {
	path := filepath.Join(cfg.Dir, fileName)
	if err := guarded(func() error { return written(path, func(db *bbolt.DB) error { return db.Update(makeBuckets) }) }); err != nil {
		return nil, fmt.Errorf("begin the evidence: %w", err)
	}
	return open(cfg, false)
}

// written makes a database with what fill puts there, and then gives it the name path,
// for good: what goes to it later must not be lost with a name that was not kept.
func written(path string, fill func(db *bbolt.DB) error) error {
	next := path + ".new"
	_ = os.Remove(next) // of one that was killed
	db, err := bbolt.Open(next, 0o600, &bbolt.Options{Timeout: lockTimeout})
	if err == nil {
		err = errors.Join(fill(db), db.Close())
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	if err := synced(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w: %w", errNotKept, err)
	}
	return nil
}

// synced makes the names in a folder stay.
func synced(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir makes the folder of a store where there is none.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return synced(filepath.Dir(filepath.Clean(dir)))
}

// renewed verifies the store and writes it anew, so that damage to what bbolt keeps
// between the entries does not live on. Where there is no room for that, it stays as
// it is.
func renewed(cfg Config) error {
	old, err := open(cfg, true)
	if err != nil {
		return err
	}
	err = guarded(func() error {
		defer old.db.Close()
		return written(filepath.Join(cfg.Dir, fileName), func(db *bbolt.DB) error { return bbolt.Compact(db, old.db, 1<<20) })
	})
	if errors.Is(err, ErrBroken) || errors.Is(err, errNotKept) {
		return err
	}
	return nil
}

// OpenReader opens a store that no sidecar has open, without changing it.
func OpenReader(dir string) (*Store, error) {
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		return nil, fmt.Errorf("open the evidence: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := open(Config{Dir: dir, Wall: time.Now}, true)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

// lockDir keeps a second process off a store.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the evidence: %w", err)
	}
	for end := time.Now().Add(lockTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return nil, errors.Join(ErrInUse, f.Close())
		}
	}
}

func open(cfg Config, readOnly bool) (s *Store, err error) {
	path := filepath.Join(cfg.Dir, fileName)
	s = &Store{cfg: cfg, index: map[string]*Incident{}, lived: time.Now(), meta: meta{Next: 1, Head: genesis, Wall: cfg.Wall()}}
	if err := wholeHeads(path); err != nil {
		return nil, err
	}
	err = guarded(func() error {
		if s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly}); err != nil {
			return fmt.Errorf("open the evidence: %w", err)
		}
		s.db.AllocSize = 1 << 20
		return s.load()
	})
	if err != nil {
		if s.db != nil {
			_ = guarded(s.db.Close)
		}
		return nil, err
	}
	return s, nil
}

func makeBuckets(tx *bbolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// load reads the index, and all entries to see that they are whole.
func (s *Store) load() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		if slices.ContainsFunc(buckets, func(name []byte) bool { return tx.Bucket(name) == nil }) {
			return fmt.Errorf("%w: it is no store of evidence", ErrBroken)
		}
		if text := tx.Bucket(metaBucket).Get(metaKey); text != nil {
			if err := json.Unmarshal(text, &s.meta); err != nil {
				return fmt.Errorf("%w: %w", ErrBroken, err)
			}
		}
		err := tx.Bucket(incidentsBucket).ForEach(func(id, text []byte) error {
			i := &Incident{}
			if err := json.Unmarshal(text, i); err != nil || i.ID != string(id) || len(s.index) >= maxIncidents {
				return fmt.Errorf("%w: the incident %.20q cannot be read", ErrBroken, id)
			}
			s.index[i.ID] = i
			return nil
		})
		if err != nil {
			return err
		}
		if s.meta.Wall.IsZero() {
			s.meta.Wall = s.cfg.Wall()
		}
		s.meta.Lived += away(s.cfg.Wall().Sub(s.meta.Wall))
		s.meta.Wall = s.cfg.Wall()
		return s.verify(tx)
	})
}

// maxAway is how much of the time between two runs counts at most: a clock that
// jumps must not make evidence old.
const maxAway = 24 * time.Hour

func away(d time.Duration) int64 { return int64(min(max(d, 0), maxAway) / time.Second) }

// guarded runs what reads a file that may be damaged: bbolt panics at what it
// cannot read, and a page beyond the end of the file is a fault.
func guarded(do func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrBroken, p)
		}
	}()
	return do()
}

// setAside gives a damaged store another name.
func setAside(cfg Config) (string, error) {
	path := filepath.Join(cfg.Dir, fileName)
	aside := filepath.Join(cfg.Dir, "damaged-"+cfg.Wall().UTC().Format("20060102T150405.000000000Z")+".db")
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set the damaged evidence aside: %w", err)
	}
	return aside, nil
}
