package pdwire

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// A registration as SGLang's prefill sends it, with a key that is not read.
const goldenRoute = `{"attn_tp_size": 8, "attn_tp_rank": 3, "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1,
 "attn_dp_rank": 0, "pp_size": 1, "pp_rank": 0, "system_dp_size": 1, "system_dp_rank": 0, "rank_ip": "10.0.0.7",
 "rank_port": 40001, "page_size": 64, "kv_cache_dtype": "auto", "load_balance_method": "follow_bootstrap_room",
 "enable_dsa_cache_layer_split": false, "prefill_http_port": 30000}`

func TestBootstrapMessagesDecodeAndEncode(t *testing.T) {
	r, err := ParseRouteRegistration([]byte(goldenRoute))
	want := &RouteRegistration{
		AttnTPSize: 8, AttnTPRank: 3, AttnCPSize: 1, AttnDPSize: 1, PPSize: 1, SystemDPSize: 1, RankIP: "10.0.0.7",
		RankPort: 40001, PageSize: 64, KVCacheDtype: "auto", LoadBalance: "follow_bootstrap_room", HTTPPort: 30000,
	}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("registration %+v, %v", r, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseRouteRegistration(b); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("registration again %+v, %v", again, err)
	}
	info, err := ParseServerInfo([]byte(`{"attn_tp_size":8,"attn_cp_size":1,"dp_size":1,"pp_size":1,"page_size":null,"kv_cache_dtype":null,"follow_bootstrap_room":true}`))
	if err != nil || info.AttnTPSize != 8 || info.PageSize != 0 || !info.FollowBootstrapRoom {
		t.Errorf("server info %+v, %v", info, err)
	}
	if rank, err := ParseRankInfo([]byte(`{"rank_ip":"h","rank_port":1}`)); err != nil || *rank != (RankInfo{"h", 1}) {
		t.Errorf("rank info %+v, %v", rank, err)
	}
	if room, err := ParseRoomRank([]byte(`{"bootstrap_room":9223372036854775807,"dp_rank":2}`)); err != nil || *room != (RoomRank{1<<63 - 1, 2}) {
		t.Errorf("room %+v, %v", room, err)
	}
	if q, err := ParseRoomQuery([]byte(`{"bootstrap_rooms":[1,2]}`)); err != nil || len(q.Rooms) != 2 {
		t.Errorf("query %+v, %v", q, err)
	}
}

func TestRouteQueryRoundTrips(t *testing.T) {
	for _, q := range []RouteQuery{{-1, -1, -1, -1}, {0, 1, 2, 3}} {
		got, err := ParseRouteQuery(q.Values())
		if err != nil || got != q || got.Server() != (q.DPRank == -1) {
			t.Errorf("%+v: %+v, %v", q, got, err)
		}
	}
	for _, bad := range []url.Values{nil, {"prefill_dp_rank": {"-2"}}, {"prefill_dp_rank": {"x"}}} {
		if _, err := ParseRouteQuery(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v, want ErrMalformed", bad, err)
		}
	}
}

func TestHostileBootstrapBodiesAreRefused(t *testing.T) {
	big := []byte(`{"rank_ip":"` + strings.Repeat("x", MaxBootstrapBytes) + `"}`)
	if _, err := ParseRankInfo(big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large body: %v, want ErrTooLarge", err)
	}
	rooms := `{"bootstrap_rooms":[` + strings.Repeat("1,", MaxRooms) + `1]}`
	if _, err := ParseRoomQuery([]byte(rooms)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("many rooms: %v, want ErrTooLarge", err)
	}
	for _, change := range [][2]string{
		{`"attn_tp_rank": 3`, `"attn_tp_rank": 8`},
		{`"attn_tp_size": 8`, `"attn_tp_size": 0`},
		{`40001`, `70000`},
		{`"page_size": 64`, `"page_size": 0`},
		{`"10.0.0.7"`, `""`},
		{`"pp_rank": 0`, `"pp_rank": -1`},
		{`{"attn`, `["attn`},
		{`64`, `1e300`},
	} {
		if _, err := ParseRouteRegistration([]byte(strings.Replace(goldenRoute, change[0], change[1], 1))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", change[1], err)
		}
	}
}
