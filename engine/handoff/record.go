package handoff

import (
	"encoding/binary"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// recordBytes is the size of what one writer puts into a metadata slot.
const recordBytes = 64

// Record is what a writer leaves in a metadata slot: the first token of the
// answer, and the digest of everything that it sent, with its key.
type Record struct {
	First     int32
	HasDigest bool
	Key       [2]uint64
	Digest    uint64
}

func (r Record) bytes() []byte {
	b := make([]byte, recordBytes)
	binary.LittleEndian.PutUint32(b, uint32(r.First))
	if r.HasDigest {
		b[4] = 1
	}
	binary.LittleEndian.PutUint64(b[8:], r.Key[0])
	binary.LittleEndian.PutUint64(b[16:], r.Key[1])
	binary.LittleEndian.PutUint64(b[24:], r.Digest)
	return b
}

// Record reads what a writer left in a slot.
func (m *Memory) Record(slot kvcache.PageID, rank int) Record {
	m.Lock()
	defer m.Unlock()
	b := m.slots[(int(slot)*m.ranks+rank)*recordBytes:][:recordBytes]
	return Record{
		First: int32(binary.LittleEndian.Uint32(b)), HasDigest: b[4] == 1,
		Key:    [2]uint64{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])},
		Digest: binary.LittleEndian.Uint64(b[24:]),
	}
}
