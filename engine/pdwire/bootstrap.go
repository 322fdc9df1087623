package pdwire

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
)

// DefaultBootstrapPort is where SGLang's prefill serves bootstrap over HTTP.
const DefaultBootstrapPort = 8998

// RouteRegistration is the body of PUT /route: one rank of prefill says where
// its control socket is.
type RouteRegistration struct {
	AttnTPSize   int    `json:"attn_tp_size"`
	AttnTPRank   int    `json:"attn_tp_rank"`
	AttnCPSize   int    `json:"attn_cp_size"`
	AttnCPRank   int    `json:"attn_cp_rank"`
	AttnDPSize   int    `json:"attn_dp_size"`
	AttnDPRank   int    `json:"attn_dp_rank"`
	PPSize       int    `json:"pp_size"`
	PPRank       int    `json:"pp_rank"`
	SystemDPSize int    `json:"system_dp_size"`
	SystemDPRank int    `json:"system_dp_rank"`
	RankIP       string `json:"rank_ip"`
	RankPort     int    `json:"rank_port"` // of a ZMQ PULL socket
	PageSize     int    `json:"page_size"` // tokens of a page
	KVCacheDtype string `json:"kv_cache_dtype"`
	LoadBalance  string `json:"load_balance_method,omitempty"`
	HTTPPort     int    `json:"prefill_http_port,omitempty"`
}

// ServerInfo answers GET /route with all four ranks −1: how prefill is cut.
type ServerInfo struct {
	AttnTPSize          int    `json:"attn_tp_size"`
	AttnCPSize          int    `json:"attn_cp_size"`
	DPSize              int    `json:"dp_size"`
	PPSize              int    `json:"pp_size"`
	PageSize            int    `json:"page_size"` // tokens of a page; 0 where null
	KVCacheDtype        string `json:"kv_cache_dtype"`
	FollowBootstrapRoom bool   `json:"follow_bootstrap_room"`
	HTTPPort            int    `json:"prefill_http_port,omitempty"`
}

// RankInfo answers GET /route for one rank.
type RankInfo struct {
	RankIP   string `json:"rank_ip"`
	RankPort int    `json:"rank_port"`
}

// RoomRank is the body of POST /register_dp_rank.
type RoomRank struct {
	Room   int64 `json:"bootstrap_room"`
	DPRank int   `json:"dp_rank"`
}

// RoomQuery is the body of POST /query_dp_ranks; it is answered by a map from
// the room, in decimal, to its rank, without the rooms that are not known.
type RoomQuery struct {
	Rooms []int64 `json:"bootstrap_rooms"`
}

// RouteQuery is the query of GET /route.
type RouteQuery struct {
	DPRank, CPRank, TPRank, PPRank int
}

// Server says that the query asks for [ServerInfo] and not for one rank.
func (q RouteQuery) Server() bool { return q == RouteQuery{-1, -1, -1, -1} }

var routeKeys = [...]string{"prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"}

// Values encodes the query.
func (q RouteQuery) Values() url.Values {
	v := url.Values{}
	for i, rank := range [...]int{q.DPRank, q.CPRank, q.TPRank, q.PPRank} {
		v.Set(routeKeys[i], strconv.Itoa(rank))
	}
	return v
}

// ParseRouteQuery reads the query; each rank is −1 or more.
func ParseRouteQuery(v url.Values) (RouteQuery, error) {
	var q RouteQuery
	for i, field := range [...]*int{&q.DPRank, &q.CPRank, &q.TPRank, &q.PPRank} {
		n, err := strconv.Atoi(v.Get(routeKeys[i]))
		if err != nil || n < -1 || n > MaxRank {
			return RouteQuery{}, fmt.Errorf("read query: %s is no rank: %w", routeKeys[i], ErrMalformed)
		}
		*field = n
	}
	return q, nil
}

// ParseRouteRegistration reads and checks the body of PUT /route.
func ParseRouteRegistration(body []byte) (*RouteRegistration, error) {
	var r RouteRegistration
	if err := decodeJSON("registration", body, &r); err != nil {
		return nil, err
	}
	for _, g := range []struct {
		name       string
		rank, size int
	}{
		{"attn_tp", r.AttnTPRank, r.AttnTPSize},
		{"attn_cp", r.AttnCPRank, r.AttnCPSize},
		{"attn_dp", r.AttnDPRank, r.AttnDPSize},
		{"pp", r.PPRank, r.PPSize},
		{"system_dp", r.SystemDPRank, r.SystemDPSize},
	} {
		if g.size < 1 || g.size > MaxRank || g.rank < 0 || g.rank >= g.size {
			return nil, fmt.Errorf("read registration: %s rank %d of %d: %w", g.name, g.rank, g.size, ErrMalformed)
		}
	}
	if r.PageSize < 1 || len(r.KVCacheDtype) > MaxNameBytes || len(r.LoadBalance) > MaxNameBytes {
		return nil, fmt.Errorf("read registration: page_size %d or a name: %w", r.PageSize, ErrMalformed)
	}
	return &r, checkAddress("registration", r.RankIP, r.RankPort)
}

// ParseServerInfo reads and checks an answer of GET /route.
func ParseServerInfo(body []byte) (*ServerInfo, error) {
	var s ServerInfo
	if err := decodeJSON("server info", body, &s); err != nil {
		return nil, err
	}
	for _, size := range []int{s.AttnTPSize, s.AttnCPSize, s.DPSize, s.PPSize} {
		if size < 1 || size > MaxRank {
			return nil, fmt.Errorf("read server info: group of %d: %w", size, ErrMalformed)
		}
	}
	if s.PageSize < 0 || len(s.KVCacheDtype) > MaxNameBytes {
		return nil, fmt.Errorf("read server info: page_size %d or a name: %w", s.PageSize, ErrMalformed)
	}
	return &s, nil
}

// ParseRankInfo reads and checks an answer of GET /route.
func ParseRankInfo(body []byte) (*RankInfo, error) {
	var r RankInfo
	if err := decodeJSON("rank info", body, &r); err != nil {
		return nil, err
	}
	return &r, checkAddress("rank info", r.RankIP, r.RankPort)
}

// ParseRoomRank reads and checks the body of POST /register_dp_rank.
func ParseRoomRank(body []byte) (*RoomRank, error) {
	var r RoomRank
	if err := decodeJSON("room", body, &r); err != nil {
		return nil, err
	}
	if r.DPRank < 0 || r.DPRank > MaxRank {
		return nil, fmt.Errorf("read room: rank %d: %w", r.DPRank, ErrMalformed)
	}
	return &r, nil
}

// ParseRoomQuery reads and checks the body of POST /query_dp_ranks.
func ParseRoomQuery(body []byte) (*RoomQuery, error) {
	var q RoomQuery
	if err := decodeJSON("query", body, &q); err != nil {
		return nil, err
	}
	if len(q.Rooms) > MaxRooms {
		return nil, fmt.Errorf("read query: %d rooms, at most %d: %w", len(q.Rooms), MaxRooms, ErrTooLarge)
	}
	return &q, nil
}

func checkAddress(what, host string, port int) error {
	if host == "" || len(host) > MaxNameBytes || port < 1 || port > 65535 {
		return fmt.Errorf("read %s: address with port %d: %w", what, port, ErrMalformed)
	}
	return nil
}

func decodeJSON(what string, body []byte, v any) error {
	if len(body) > MaxBootstrapBytes {
		return fmt.Errorf("read %s: %d bytes, at most %d: %w", what, len(body), MaxBootstrapBytes, ErrTooLarge)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read %s: %v: %w", what, err, ErrMalformed)
	}
	return nil
}
