package pdwire

import (
	"bytes"
	"net/url"
	"reflect"
	"testing"

	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// FuzzParse cuts the input into frames as a ZMTP stream and holds what decodes
// to one promise: encoded and decoded again, it is the same message.
func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(zmtp.AppendMessage(nil, g.frames...))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := zmtp.NewDecoder(zmtp.DecoderConfig{Joined: true, Keep: Keep, Limits: zmtp.Limits{FrameBytes: 1 << 16, MessageBytes: 1 << 16}})
		_, ev, err := d.Next(stream)
		if err != nil || ev.Kind != zmtp.MessageEvent {
			return
		}
		m, err := Parse(ev.Message)
		if err != nil {
			return
		}
		again, err := ParseBodies(m.Frames())
		if err != nil {
			t.Fatalf("%+v does not decode once encoded: %v", m, err)
		}
		if !reflect.DeepEqual(normal(m), normal(again)) {
			t.Fatalf("decodes to\n%+v\nand then to\n%+v", m, again)
		}
	})
}

// normal takes away what encoding in the newest layout may change: the number
// of frames, texts that are not kept, and zeros that were not given.
func normal(m Message) Message {
	v := reflect.ValueOf(m).Elem()
	v.FieldByName("Layout").SetZero()
	switch m := m.(type) {
	case *Status:
		m.ReasonBytes = 0
	case *Registration:
		m.DCPSize = max(1, m.DCPSize)
	case *TransferRequest:
		if m.Dummy {
			m.StateIndices, m.DevicePages = nil, nil
		}
		if len(m.Pages) == 0 && m.AuxIndex == -1 {
			m.Dummy = false // nothing was given: None and empty mean the same
		}
	}
	return m
}

func FuzzVLLM(f *testing.F) {
	f.Add(goldenTransfer)
	f.Add(AppendVLLMTransfer(nil, wantTransfer))
	f.Add(AppendVLLMReply(nil, &VLLMReply{Status: 2, OK: []string{"a"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := ParseVLLMTransfer(b); err == nil {
			once := AppendVLLMTransfer(nil, m)
			again, err := ParseVLLMTransfer(once)
			if err != nil || !bytes.Equal(once, AppendVLLMTransfer(nil, again)) {
				t.Fatalf("%+v does not survive encoding: %+v, %v", m, again, err)
			}
		}
		if m, err := ParseVLLMReply(b); err == nil {
			if _, err := ParseVLLMReply(AppendVLLMReply(nil, m)); err != nil {
				t.Fatalf("%+v does not survive encoding: %v", m, err)
			}
		}
		if m, err := ParseNixlMetadata(b); err == nil && len(m.BaseAddrs) > MaxRegions {
			t.Fatalf("%d regions", len(m.BaseAddrs))
		}
		if rank, err := ParseNixlQuestion(b); err == nil && (rank < -1 || rank > MaxRank) {
			t.Fatalf("rank %d", rank)
		}
	})
}

func FuzzBootstrap(f *testing.F) {
	f.Add([]byte(goldenRoute))
	f.Add([]byte(`{"bootstrap_rooms":[1]}`))
	f.Add([]byte(`{"bootstrap_room":1,"dp_rank":2}`))
	f.Add([]byte(RouteQuery{-1, -1, -1, -1}.Values().Encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseRouteRegistration(b); err == nil && (r.AttnTPRank >= r.AttnTPSize || r.RankPort > 65535 || r.RankIP == "") {
			t.Fatalf("accepted %+v", r)
		}
		if q, err := ParseRoomQuery(b); err == nil && len(q.Rooms) > MaxRooms {
			t.Fatalf("accepted %d rooms", len(q.Rooms))
		}
		if r, err := ParseRoomRank(b); err == nil && (r.DPRank < 0 || r.DPRank > MaxRank) {
			t.Fatalf("accepted rank %d", r.DPRank)
		}
		if s, err := ParseServerInfo(b); err == nil && (min(s.AttnTPSize, s.AttnCPSize, s.DPSize, s.PPSize) < 1 || s.PageSize < 0) {
			t.Fatalf("accepted %+v", s)
		}
		if r, err := ParseRankInfo(b); err == nil && (r.RankIP == "" || r.RankPort < 1 || r.RankPort > 65535) {
			t.Fatalf("accepted %+v", r)
		}
		if v, err := url.ParseQuery(string(b)); err == nil {
			if q, err := ParseRouteQuery(v); err == nil && min(q.DPRank, q.CPRank, q.TPRank, q.PPRank) < -1 {
				t.Fatalf("accepted %+v", q)
			}
		}
	})
}

func FuzzNixlNotification(f *testing.F) {
	f.Add("77_kv_3_1_0")
	f.Add("req:8")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseNixlNotification(s); err == nil && (n.Kind == "" || n.Chunk < -1 || n.PP < -1) {
			t.Fatalf("accepted %+v", n)
		}
		if id, n, err := ParseNixlDone(s); err == nil && (id == "" || n < 1) {
			t.Fatalf("accepted %q %d", id, n)
		}
	})
}
