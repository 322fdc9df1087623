package evidence

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ExportVersion is the version of an exported file.
const ExportVersion = 1

// maxLine bounds a line of an exported file, and maxLines their number.
const (
	maxLine  = MaxBody + 4096
	maxLines = MaxLinks + MaxEntries + 2
)

// Header is the first line of an exported file.
type Header struct {
	Evidence int      `json:"kvwitness_evidence"` // the version
	Incident string   `json:"incident"`
	Head     string   `json:"head"` // the hash of its first entry, which its alert names
	Entries  []uint64 `json:"entries"`
}

// line is an entry of an exported file; one that belongs to others has no body.
type line struct {
	Link
	Content jsontext.Value `json:"body,omitempty"`
}

// seam is the last line: the digest of all lines before it.
type seam struct {
	Sum string `json:"sha256"`
}

// sealOf is the last line of a file whose lines so far were summed.
func sealOf(sum hash.Hash) []byte {
	text, _ := json.Marshal(seam{hex.EncodeToString(sum.Sum(nil))}) // a string in hex always can be
	return append(text, '\n')
}

// Export writes the evidence of an incident as one file of JSON lines: what it is,
// then its entries, and between them the links of those of others, so that all of it
// is one chain; at last a digest.
func (s *Store) Export(id string, out io.Writer) error {
	i, err := s.Incident(id)
	if err != nil {
		return err
	}
	entries, err := s.Entries(id)
	if err != nil {
		return err
	}
	links, err := s.chain(i.Entries[0], i.Entries[len(i.Entries)-1])
	if err != nil {
		return err
	}
	sum := sha256.New()
	put := func(v any) {
		text, failed := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
		if err == nil {
			err = failed
		}
		text = append(text, '\n')
		sum.Write(text)
		if err == nil {
			_, err = out.Write(text)
		}
	}
	put(Header{ExportVersion, i.ID, i.Head, i.Entries})
	for _, l := range links {
		one := line{Link: l}
		if len(entries) > 0 && entries[0].Seq == l.Seq {
			one.Content, entries = entries[0].Body, entries[1:]
		}
		put(one)
	}
	if err == nil {
		_, err = out.Write(sealOf(sum))
	}
	return err
}

// Verified is what a file that verifies proves.
type Verified struct {
	Header
	Own   []Entry // of the incident, with bodies
	Links int
	Gaps  int // places where the links of long ago are no longer known
}

// VerifyFile reads an exported file. head is the hash that the alert named; without
// it the file is only known to agree with itself.
func VerifyFile(in io.Reader, head string) (v Verified, err error) {
	sum := sha256.New()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	lines.Split(wholeLines)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &v.Header) != nil || v.Evidence != ExportVersion {
		return v, fmt.Errorf("%w: it does not begin as an exported file does", errors.Join(ErrBroken, lines.Err()))
	}
	sum.Write(lines.Bytes())
	var last *Link
	sealed := false
	for lines.Scan() {
		switch {
		case sealed || v.Links >= maxLines:
			return v, fmt.Errorf("%w: it goes on after its end", ErrBroken)
		case json.Unmarshal(lines.Bytes(), new(seam), json.RejectUnknownMembers(true)) == nil:
			// No digest is over the seam, so it is compared as it is written.
			if sealed = true; !bytes.Equal(lines.Bytes(), sealOf(sum)) {
				return v, fmt.Errorf("%w: it was changed", ErrBroken)
			}
			continue
		}
		if last, err = v.take(lines.Bytes(), last); err != nil {
			return v, err
		}
		sum.Write(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		return v, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if !sealed {
		return v, fmt.Errorf("%w: its end is missing", ErrBroken)
	}
	return v, v.whole(head)
}

// wholeLines splits after line ends, and leaves them.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if n := bytes.IndexByte(data, '\n'); n >= 0 {
		return n + 1, data[:n+1], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// take reads an entry that follows last.
func (v *Verified) take(text []byte, last *Link) (*Link, error) {
	var one line
	if err := json.Unmarshal(text, &one, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: line %d cannot be read: %w", ErrBroken, v.Links+2, err)
	}
	if last != nil && one.Seq > last.Seq+1 {
		v.Gaps, last = v.Gaps+1, nil
	}
	if err := one.check(last); err != nil {
		return nil, err
	}
	v.Links++
	own := one.Incident == v.Incident
	if own != (one.Content != nil) {
		return nil, fmt.Errorf("%w: entry %d has lost its body, or belongs to another", ErrBroken, one.Seq)
	}
	if !own {
		return &one.Link, nil
	}
	v.Own = append(v.Own, Entry{one.Link, bytes.Clone(one.Content)})
	return &one.Link, one.holds(one.Content)
}

// whole reports whether all entries are there, and the first is that of the alert.
func (v *Verified) whole(head string) error {
	var have []uint64
	for _, e := range v.Own {
		have = append(have, e.Seq)
	}
	switch {
	case len(have) == 0 || !slices.Equal(have, v.Entries):
		return fmt.Errorf("%w: it has the entries %d, the incident has %d", ErrBroken, have, v.Entries)
	case v.Own[0].Hash != v.Head:
		return fmt.Errorf("%w: its first entry is another", ErrBroken)
	case head != "" && v.Head != head:
		return fmt.Errorf("%w: the alert named %.16s…, this begins with %.16s…", ErrBroken, head, v.Head)
	}
	return nil
}
