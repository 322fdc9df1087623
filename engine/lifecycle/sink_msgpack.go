package lifecycle

import (
	"encoding/binary"

	"github.com/tinylib/msgp/msgp"
)

// msgpackSink writes msgpack. The number of members of a map is known only at
// its end, so maps have the 16-bit header and are counted while written.
type msgpackSink struct {
	buf   []byte
	maps  [4]openMap // a fact nests maps two deep
	depth int
}

type openMap struct {
	at      int // where the count stands in buf
	members uint16
}

func (m *msgpackSink) objectBegin() {
	m.buf = append(m.buf, 0xde, 0, 0)
	m.maps[m.depth] = openMap{at: len(m.buf) - 2}
	m.depth++
}

func (m *msgpackSink) objectEnd() {
	m.depth--
	o := m.maps[m.depth]
	binary.BigEndian.PutUint16(m.buf[o.at:], o.members)
}

func (m *msgpackSink) arrayBegin(n int) { m.buf = msgp.AppendArrayHeader(m.buf, uint32(n)) }
func (m *msgpackSink) arrayEnd()        {}

func (m *msgpackSink) key(name string) {
	m.maps[m.depth-1].members++
	m.text(name)
}

func (m *msgpackSink) text(s string)     { m.buf = msgp.AppendString(m.buf, s) }
func (m *msgpackSink) signed(v int64)    { m.buf = msgp.AppendInt64(m.buf, v) }
func (m *msgpackSink) unsigned(v uint64) { m.buf = msgp.AppendUint64(m.buf, v) }
func (m *msgpackSink) boolean(v bool)    { m.buf = msgp.AppendBool(m.buf, v) }
