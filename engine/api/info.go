package api

import (
	"net/http"
	"runtime/debug"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// reserve is what SGLang keeps back of a context for a request's own ends: its
// max_req_input_len is min(context, pool) - 1 - 5. Here it is one token to answer
// with.
const reserve = 1

// modes are SGLang's words for the roles.
var modes = map[scheduler.Role]string{scheduler.Unified: "null", scheduler.Prefill: "prefill", scheduler.Decode: "decode"}

// Info is what server_info says: SGLang's keys, and this engine's own.
type Info struct {
	MaxTotalNumTokens int             `json:"max_total_num_tokens"`
	MaxReqInputLen    int             `json:"max_req_input_len"`
	PageSize          int             `json:"page_size"`
	DPSize            int             `json:"dp_size"`
	TPSize            int             `json:"tp_size"`
	PPSize            int             `json:"pp_size"`
	PPRank            int             `json:"pp_rank"`
	ContextLength     int             `json:"context_length"`
	KVCacheDtype      string          `json:"kv_cache_dtype"`
	Mode              string          `json:"disaggregation_mode"`
	BootstrapPort     int             `json:"disaggregation_bootstrap_port,omitempty"`
	ModelPath         string          `json:"model_path"`
	ServedModelName   string          `json:"served_model_name"`
	Version           string          `json:"version"`
	KVEvents          *string         `json:"kv_events"`
	InternalStates    []InternalState `json:"internal_states"`
	Engine            string          `json:"engine"`
	Instance          string          `json:"instance"`
	Control           string          `json:"control_address,omitempty"`
	// Bootstrap is where a prefill and its other ranks are found; Prefills are those
	// to which decode has a connection (null where it is not known).
	Bootstrap     string           `json:"bootstrap_address,omitempty"`
	Prefills      []string         `json:"connected_prefills"`
	Drill         string           `json:"drill"`
	RequestDrills bool             `json:"request_drills"`
	Protections   map[string]State `json:"protections"`
	Queues        map[string]int   `json:"queues"`
}

// InternalState is one rank's.
type InternalState struct {
	MemoryUsage struct {
		TokenCapacity int `json:"token_capacity"`
	} `json:"memory_usage"`
}

// State of a protection.
type State struct {
	On      bool   `json:"on"`
	Ran     uint64 `json:"ran"`
	Stopped uint64 `json:"stopped"`
}

// serverInfo asks for no key: it tells of no request, and a decode engine asks
// prefill's.
func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) {
	c := s.worker.Config()
	i := Info{
		PageSize: c.PageTokens, DPSize: 1, TPSize: 1, PPSize: c.Ranks, PPRank: c.Rank, ContextLength: c.ContextTokens, KVCacheDtype: c.DType.String(),
		Mode: modes[c.Role], BootstrapPort: s.cfg.BootstrapPort, ModelPath: s.cfg.Model, ServedModelName: s.cfg.Model,
		Version: version(), Engine: "kvengine", Instance: c.Instance, Control: s.cfg.Control, Drill: c.Drill.String(),
		RequestDrills: c.AllowRequestDrill, InternalStates: make([]InternalState, 1), Bootstrap: s.cfg.Bootstrap,
	}
	if s.cfg.Prefills != nil {
		i.Prefills = s.cfg.Prefills()
	}
	if s.cfg.Events != "" {
		i.KVEvents = &s.cfg.Events
	}
	if err := s.inspect(r.Context(), i.look); err != nil {
		WriteError(w, failure(http.StatusServiceUnavailable, err))
		return
	}
	WriteJSON(w, http.StatusOK, i)
}

func (i *Info) look(v worker.View) {
	i.MaxTotalNumTokens = v.KV.Capacity()
	i.InternalStates[0].MemoryUsage.TokenCapacity = v.KV.Capacity()
	i.MaxReqInputLen = min(v.Scheduler.Limit(), v.KV.Capacity()) - reserve
	i.Queues = v.Scheduler.Queues()
	i.Protections = map[string]State{}
	stats, on := v.Scheduler.Stats(), v.Scheduler.Protections()
	for p := range scheduler.NumProtections {
		i.Protections[p.String()] = State{On: on[p], Ran: stats.Ran[p], Stopped: stats.Stopped[p]}
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
