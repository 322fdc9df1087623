package pdwire

import "encoding/binary"

// Frames encodes the registration in the newest known layout.
func (r *Registration) Frames() [][]byte {
	var staging, stagingBytes []byte
	if r.StagingPtr != 0 || r.StagingBytes != 0 {
		staging, stagingBytes = pack(nil, []uint64{r.StagingPtr}), ascii(r.StagingBytes)
	}
	return [][]byte{
		[]byte(tagRegistration), []byte(r.Host), ascii(r.Port), []byte(r.Session),
		pack(nil, r.KVPtrs), pack(nil, r.AuxPtrs), packLists(r.StatePtrs),
		ascii(r.TPRank), ascii(r.AttnTPSize), ascii(r.KVItemBytes),
		packLists(r.StateItemBytes), packLists(r.StateDims),
		pack(nil, r.KVLayerIDs), packLists(r.StateLayerIDs),
		staging, stagingBytes, ascii(max(1, r.DCPSize)), ascii(r.DCPRank),
		pack(nil, r.StagingLayerIDs),
	}
}

// Frames encodes the request in the newest known layout.
func (r *TransferRequest) Frames() [][]byte {
	var pages, aux, state, device []byte
	if !r.Dummy {
		pages, aux = pack(nil, r.Pages), []byte("None")
		if r.AuxIndex >= 0 {
			aux = ascii(r.AuxIndex)
		}
		state, device = packLists(r.StateIndices), pack(nil, r.DevicePages)
	}
	return [][]byte{
		ascii(r.Room), []byte(r.Host), ascii(r.Port), []byte(r.Session),
		pages, aux, state, ascii(r.RequiredDst), ascii(r.PrefixLen), device,
	}
}

// Frames encodes the message.
func (a *Abort) Frames() [][]byte {
	return [][]byte{[]byte(tagAbort), ascii(a.Room), []byte(a.Host), ascii(a.Port)}
}

// Frames encodes the message.
func (w *Watermark) Frames() [][]byte {
	return [][]byte{[]byte(tagWatermark), ascii(w.Round), ascii(w.Tail), []byte(w.Session)}
}

// Frames encodes the message.
func (s *StagingResponse) Frames() [][]byte {
	return [][]byte{
		[]byte(tagStagingRsp), ascii(s.Room), ascii(s.Chunk), ascii(s.Offset),
		ascii(s.Round), ascii(s.End), []byte(s.Session),
	}
}

// Frames encodes the message; Reason goes along if it is set.
func (s *Status) Frames() [][]byte {
	out := [][]byte{ascii(s.Room), ascii(int(s.Status)), given(s.PrefillRank)}
	if s.Reason != "" {
		out = append(out, []byte(s.Reason)[:min(len(s.Reason), MaxReasonBytes)])
	}
	return out
}

// Frames encodes the message, in the older form where PrefillRank is negative.
func (a *AbortAck) Frames() [][]byte {
	out := [][]byte{[]byte(tagAbortAck), ascii(a.Room)}
	if a.PrefillRank >= 0 {
		out = append(out, ascii(a.PrefillRank))
	}
	return out
}

// Frames encodes the message around BodyBytes zero bytes: the content is for
// the one that holds it to put in.
func (a *AuxData) Frames() [][]byte {
	return [][]byte{
		[]byte(tagAuxData), ascii(a.Room), ascii(a.BufferIndex), given(a.AuxIndex),
		binary.BigEndian.AppendUint32(nil, a.Length), make([]byte, min(a.BodyBytes, 4*MaxPages)),
	}
}

// Frames encodes the message.
func (c *ChunkReady) Frames() [][]byte {
	return [][]byte{
		[]byte(tagChunkReady), ascii(c.Room), ascii(c.Chunk), ascii(c.PageStart),
		ascii(c.Pages), []byte(c.Session), given(c.PrefillRank),
	}
}

// Frames encodes the message.
func (s *StagingRequest) Frames() [][]byte {
	out := [][]byte{
		[]byte(tagStagingReq), ascii(s.Room), ascii(s.Chunk), ascii(s.Pages), []byte(s.Session),
	}
	if s.PPRank >= 0 {
		out = append(out, ascii(s.PPRank))
	}
	return out
}
