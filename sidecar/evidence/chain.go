package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
)

// Link is an entry without its body: what binds it to the entry before.
type Link struct {
	Seq      uint64 `json:"seq"` // from 1
	Prev     string `json:"prev"`
	At       string `json:"at"` // wall clock, RFC 3339
	Incident string `json:"incident"`
	Body     string `json:"body_sha256"`
	Hash     string `json:"hash"`
}

// genesis is what the first entry of a store follows.
const genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// ErrBroken is wrapped by all that does not verify.
var ErrBroken = errors.New("the evidence does not verify")

// seal makes the link of a body that follows prev.
func seal(seq uint64, prev, at, incident string, body []byte) Link {
	l := Link{Seq: seq, Prev: prev, At: at, Incident: incident, Body: digest(body)}
	l.Hash = l.sum()
	return l
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// sum is the hash of the link: over each field with its length, so that no two
// links have the same text.
func (l *Link) sum() string {
	h := sha256.New()
	add(h, "kvwitness evidence v1")
	add(h, strconv.FormatUint(l.Seq, 10))
	for _, field := range []string{l.Prev, l.At, l.Incident, l.Body} {
		add(h, field)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func add(h hash.Hash, field string) { fmt.Fprintf(h, "%d:%s\n", len(field), field) }

// check reports whether the link is what its hash says, and follows prev.
func (l *Link) check(prev *Link) error {
	switch {
	case l.Hash != l.sum():
		return fmt.Errorf("%w: entry %d is not what its hash says", ErrBroken, l.Seq)
	case prev != nil && l.Seq != prev.Seq+1:
		return fmt.Errorf("%w: entry %d comes after entry %d", ErrBroken, l.Seq, prev.Seq)
	case prev != nil && l.Prev != prev.Hash:
		return fmt.Errorf("%w: entry %d does not follow entry %d", ErrBroken, l.Seq, prev.Seq)
	case l.Seq == 1 && l.Prev != genesis:
		return fmt.Errorf("%w: the first entry follows another", ErrBroken)
	}
	return nil
}

// holds reports whether the body is the one that was sealed.
func (l *Link) holds(body []byte) error {
	if digest(body) != l.Body {
		return fmt.Errorf("%w: the body of entry %d was changed", ErrBroken, l.Seq)
	}
	return nil
}
