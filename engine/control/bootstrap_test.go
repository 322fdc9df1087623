package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/pdwire"
)

const goldenRegistration = `{"attn_tp_size":1,"attn_tp_rank":0,"attn_cp_size":1,"attn_cp_rank":0,"attn_dp_size":1,"attn_dp_rank":0,
"pp_size":1,"pp_rank":0,"system_dp_size":1,"system_dp_rank":0,"rank_ip":"127.0.0.1","rank_port":7,"page_size":64,"kv_cache_dtype":"float32"}`

func serve(h http.Handler, method, target, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// Promise: what a rank says of a room is what decode is told, in SGLang's shapes;
// rooms that nobody spoke of are left out.
func TestARoomsRankIsTheOneThatWasTold(t *testing.T) {
	h := (&bootstrap{}).handler()
	for _, step := range []struct{ method, path, body, want string }{
		{"POST", "/query_dp_ranks", `{"bootstrap_rooms":[7]}`, `{}`},
		{"POST", "/register_dp_rank", `{"bootstrap_room":7,"dp_rank":3}`, "OK"},
		{"POST", "/register_dp_rank", `{"bootstrap_room":9223372036854775807,"dp_rank":0}`, "OK"},
		{"POST", "/query_dp_ranks", `{"bootstrap_rooms":[7,8,9223372036854775807]}`, `{"7":3,"9223372036854775807":0}`},
		{"POST", "/register_dp_rank", `{"bootstrap_room":7,"dp_rank":1}`, "OK"},
		{"POST", "/query_dp_ranks", `{"bootstrap_rooms":[7]}`, `{"7":1}`},
	} {
		if status, got := serve(h, step.method, step.path, step.body); status != 200 || got != step.want {
			t.Errorf("%s %s: %d %s, want %s", step.path, step.body, status, got, step.want)
		}
	}
}

// Promise: what is no registration or query is refused, and nothing is kept of it.
func TestBootstrapRefusesWhatItCannotRead(t *testing.T) {
	b := &bootstrap{}
	h := b.handler()
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/register_dp_rank", "", 405},
		{"POST", "/register_dp_rank", "", 400},
		{"POST", "/register_dp_rank", `{"bootstrap_room":1,"dp_rank":-1}`, 400},
		{"POST", "/register_dp_rank", `{"bootstrap_room":1e99,"dp_rank":0}`, 400},
		{"POST", "/query_dp_ranks", `{"bootstrap_rooms":"all"}`, 400},
		{"POST", "/query_dp_ranks", `{"bootstrap_rooms":[` + strings.Repeat("1,", pdwire.MaxRooms) + `1]}`, 400},
		{"POST", "/register_dp_rank", strings.Repeat(" ", pdwire.MaxBootstrapBytes+1) + `{}`, 413},
		{"PUT", "/route", `{}`, 400},
		{"GET", "/route?prefill_dp_rank=x", "", 400},
	} {
		if status, got := serve(h, c.method, c.path, c.body); status != c.want {
			t.Errorf("%s %s %.60q: %d %s, want %d", c.method, c.path, c.body, status, got, c.want)
		}
	}
	if len(b.rooms.by) != 0 || b.first != nil {
		t.Errorf("kept: %v %v", b.rooms.by, b.first)
	}
}

// Promise: a room's rank is remembered for the named time and no longer, and never
// more than the named number of them, the latest.
func TestRoomRanksAreBoundedAndExpire(t *testing.T) {
	var d dpRanks
	begin := time.Now()
	for room := range int64(maxRoomRanks + 10) {
		d.put(begin, pdwire.RoomRank{Room: room, DPRank: 2})
	}
	if len(d.by) != maxRoomRanks || len(d.order) != maxRoomRanks {
		t.Errorf("%d rooms, %d in order", len(d.by), len(d.order))
	}
	if got := d.find(begin, []int64{9, 10}); len(got) != 1 || got["10"] != 2 {
		t.Errorf("found %v", got)
	}
	if got := d.find(begin.Add(roomRankLife), []int64{10}); len(got) != 0 {
		t.Errorf("found %v after its time", got)
	}
	d.put(begin.Add(roomRankLife), pdwire.RoomRank{Room: -1})
	if len(d.by) != 1 {
		t.Errorf("%d rooms are kept after their time", len(d.by))
	}
}

// Promise: a peer that says nothing to the bootstrap server, or the half of
// something, or promises too much, is refused or dropped within bootstrapTimeout.
func TestHostilePeersOfBootstrapAreDroppedWithinItsTime(t *testing.T) {
	p, err := BindPrefill(t.Context(), PrefillConfig{Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for name, c := range map[string]struct{ say, want string }{
		"nothing":       {"", ""},
		"half a header": {"PUT /rou", ""},
		"half a body":   {"PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{", "HTTP/1.1 400"},
		"2^62 bytes":    {"PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: 4611686018427387904\r\n\r\n{", "HTTP/1.1 413"},
		"garbage":       {"\x00garbage\r\n\r\n", "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", p.Bootstrap())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.say); err != nil {
				t.Fatal(err)
			}
			const slack = 3 * time.Second
			_ = conn.SetReadDeadline(time.Now().Add(bootstrapTimeout + slack))
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(answer), c.want) {
				t.Errorf("%v, answered %.80q, want %q", err, answer, c.want)
			}
		})
	}
}

// Promise: no request to the bootstrap server panics; it answers with one of a few
// statuses, and a 200 with what can be read again.
func FuzzBootstrapServer(f *testing.F) {
	f.Add(uint8(0), "", []byte(goldenRegistration))
	f.Add(uint8(1), "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1", []byte{})
	f.Add(uint8(2), "", []byte(`{"bootstrap_room":7,"dp_rank":3}`))
	f.Add(uint8(3), "", []byte(`{"bootstrap_rooms":[7,8]}`))
	routes := [...][2]string{{"PUT", "/route"}, {"GET", "/route"}, {"POST", "/register_dp_rank"}, {"POST", "/query_dp_ranks"}}
	b := &bootstrap{}
	h := b.handler()
	f.Fuzz(func(t *testing.T, which uint8, query string, body []byte) {
		route := routes[int(which)%len(routes)]
		r := httptest.NewRequest(route[0], route[1], strings.NewReader(string(body)))
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code == 400 || w.Code == 404 || w.Code == 413:
		case w.Code != 200:
			t.Errorf("%v: status %d", route, w.Code)
		case route[0] != "PUT" && route[1] != "/register_dp_rank":
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%v answers %q", route, w.Body)
			}
		}
		if len(b.rooms.by) > maxRoomRanks || len(b.rooms.order) != len(b.rooms.by) {
			t.Error(fmt.Sprint("rooms kept: ", len(b.rooms.by), len(b.rooms.order)))
		}
	})
}
