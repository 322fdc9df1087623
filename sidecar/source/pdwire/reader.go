package pdwire

import (
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
)

// Bounds of what is put together at a time.
const (
	// MaxStreams bounds the directions of connections that are followed.
	MaxStreams = 8192
	// MaxWaiting bounds the bytes that wait for the end of their message, over
	// all streams.
	MaxWaiting = 64 << 20
	// MaxFrame is the longest frame that is kept: 2 million pages.
	MaxFrame = 8 << 20
	// anyFrame lets frames of every length go by: those beyond MaxFrame are cut in
	// the kernel, and nothing of them is kept here either.
	anyFrame = 1 << 62
)

// Message is one message that went over a connection.
type Message struct {
	T      int64 // ns, when its last byte was sent or received
	TGID   uint32
	Inode  uint64
	Sent   bool
	Ends   socket.Ends
	Flow   socket.Flow
	End    uint64 // offset of the byte after it
	Frames []zmtp.Frame
}

// Stats counts what became of the records. Records = Handled + Unplaced +
// Refused.
type Stats struct {
	Records  uint64
	Handled  uint64
	Unplaced uint64 // of a stream whose boundary is not known
	Refused  uint64 // beyond MaxStreams

	Messages uint64
	Holes    uint64 // gaps that records left
	Lost     uint64 // times that a stream's boundary was lost
	Overfull uint64 // of those, because of MaxWaiting
	Streams  int    // now
	Waiting  int    // bytes, now, of MaxWaiting
}

// Reader puts messages together. It is for one goroutine.
type Reader struct {
	message func(*Message)
	lost    func(r *Record, why string)
	streams map[key]*stream
	stats   Stats
}

type key struct {
	inode uint64
	sent  bool
}

// stream is one direction; dec is nil where its boundary is not known.
type stream struct {
	dec     *zmtp.Decoder
	next    uint64 // offset
	waiting int    // bytes since the last whole message
}

// NewReader returns a Reader that calls message for each message, whose frames
// are the callee's, and lost where a stream that was followed is not any more.
func NewReader(message func(*Message), lost func(r *Record, why string)) *Reader {
	return &Reader{message: message, lost: lost, streams: map[key]*stream{}}
}

// Stats returns the counts so far.
func (rd *Reader) Stats() Stats {
	out := rd.stats
	out.Streams = len(rd.streams)
	return out
}

// keep is how much of a frame is kept.
func keep(first []byte, index int, size uint64) int64 {
	if size > MaxFrame {
		return 0
	}
	return wire.Keep(first, index, size)
}

// Take takes a record in, in the order in which the probe handed it on.
func (rd *Reader) Take(r *Record) {
	rd.stats.Records++
	k := key{r.Inode, r.Sent}
	switch r.Kind {
	case Closed:
		rd.Forget(r.Inode)
	case Blind, Refused:
		why := "it is encrypted or of an old version"
		if r.Kind == Blind {
			why = r.Reason.String()
		}
		rd.forget(k)
		rd.stats.Lost++
		rd.lost(r, why)
	case Data, Cut:
		rd.take(k, r)
		return
	case Opened, Joined:
	}
	rd.stats.Handled++
}

// Forget drops a connection that is gone.
func (rd *Reader) Forget(inode uint64) {
	rd.forget(key{inode, false})
	rd.forget(key{inode, true})
}

func (rd *Reader) forget(k key) {
	if s := rd.streams[k]; s != nil {
		rd.stats.Waiting -= s.waiting
		delete(rd.streams, k)
	}
}

func (rd *Reader) take(k key, r *Record) {
	s := rd.streams[k]
	if s == nil {
		if len(rd.streams) >= MaxStreams {
			rd.stats.Refused++
			return
		}
		s = &stream{}
		rd.streams[k] = s
	}
	if s.dec != nil && r.Offset != s.next {
		rd.gap(s, r)
	}
	if s.dec == nil {
		if !r.Begins {
			rd.stats.Unplaced++
			return
		}
		s.dec = zmtp.NewDecoder(zmtp.DecoderConfig{Joined: true, Keep: keep, Limits: zmtp.Limits{FrameBytes: anyFrame}})
	}
	s.next = r.Offset + r.Length
	rd.feed(s, r)
	rd.stats.Handled++
}

// gap accounts for bytes between the last record and this one.
func (rd *Reader) gap(s *stream, r *Record) {
	rd.stats.Holes++
	if r.Offset < s.next || s.dec.Gap(r.Offset-s.next) != nil {
		rd.lose(s, r, "records of it were lost")
		return
	}
	s.next = r.Offset
	rd.events(s, r, nil)
}

func (rd *Reader) lose(s *stream, r *Record, why string) {
	rd.stats.Lost++
	rd.stats.Waiting -= s.waiting
	s.dec, s.waiting = nil, 0
	rd.lost(r, why)
}

func (rd *Reader) feed(s *stream, r *Record) {
	if r.Kind == Cut {
		if err := s.dec.Gap(r.Length); err != nil {
			rd.lose(s, r, err.Error())
			return
		}
		rd.events(s, r, nil)
		return
	}
	s.waiting += len(r.Data)
	rd.stats.Waiting += len(r.Data)
	rd.events(s, r, r.Data)
	if s.dec != nil && rd.stats.Waiting > MaxWaiting {
		rd.stats.Overfull++
		rd.lose(s, r, "too much waits for the end of its message")
	}
}

// events takes out what bytes, or a gap before them, completed.
func (rd *Reader) events(s *stream, r *Record, b []byte) {
	for {
		n, ev, err := s.dec.Next(b)
		b = b[n:]
		if err != nil {
			rd.lose(s, r, err.Error())
			return
		}
		switch ev.Kind {
		case zmtp.NeedMore:
			return
		case zmtp.MessageEvent:
			rd.stats.Messages++
			rd.stats.Waiting += len(b) - s.waiting
			s.waiting = len(b)
			rd.message(&Message{
				T: r.T, TGID: r.TGID, Inode: r.Inode, Sent: r.Sent, Ends: r.Ends, Flow: r.Flow(),
				End: s.next - uint64(len(b)), Frames: ev.Message,
			})
		}
	}
}
