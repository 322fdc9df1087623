package sim

import "reflect"

// Mix says which features a simulated cluster has. Numbers between 0 and 1
// are probabilities: of an instance or cluster where the comment says so, of
// a request or transfer elsewhere.
type Mix struct {
	Name string

	Nodes           int // with clock offsets, where more than one
	Unified         int // instances that do both halves
	Prefills        int // workers, of one or two ranks
	Decodes         int
	TwoSenders      float64 // cluster: a prefill worker has two ranks
	TwoReceivers    float64 // cluster: a decode worker has two ranks
	WireOnly        float64 // cluster: decode has no engine stream
	SilentSender    float64 // cluster: nothing is known of prefill but its name
	SameAddresses   float64 // cluster: all instances use the same virtual addresses
	Observed        float64 // instance: incoming data is seen, and said to be
	PerPeer         float64 // instance: coverage is declared peer by peer
	PromisesWritten float64 // instance: claims include pages_written
	Steps           float64 // instance: facts carry the scheduling step
	Sequences       float64 // cluster: streams are numbered
	Window          float64 // cluster: there is a sliding window pool
	StatePool       float64 // cluster: there is a state pool
	Aux             float64 // cluster: there are metadata slots
	Host            float64 // cluster: there is host memory to offload to
	Staged          float64 // instance: transfers land in staging memory
	Attach          float64 // instance: the sidecar came late
	NullPages       float64 // cluster
	BigPages        float64 // cluster: a region's page is above 64 KiB

	Chunked    float64
	SideBySide float64 // of chunked
	Umbrella   float64 // of chunked: the receiver names all pages at once
	Pull       float64 // cluster
	Prefix     float64 // a request looks into the prefix cache and leaves its prefix there
	Domains    float64 // a request's domain is known
	Retract    float64 // a reservation is given back and made again before the transfer
	Preempt    float64
	Offload    float64 // of preempted: by way of the host pool
	Copies     float64
	Abort      float64
	Reject     float64
	Readmit    float64 // of rejected by the sender: admitted after all
	Recompute  float64 // of rejected by the sender: the receiver computes it itself
	Fail       float64 // a transfer fails and is drained
	Dummy      float64 // cluster with two sender ranks: the second sends nothing
	Synthetic  float64
	Fake       float64 // of synthetic: a transfer that completes without a byte
	Fork       float64 // a second answer shares the pages of the first
	Unnamed    float64 // instance: a receiver that does not say what its transfers target
	Scratch    float64 // instance: pages that it reserves for nobody
	OverTCP    float64 // instance: its bytes come over TCP
	Retries    float64 // bytes that are written twice
	Posted     float64 // bytes that are seen when posted only
	Errors     float64 // bytes that fail and are written again
	Scatter    float64 // a transfer's bytes come in small pieces
	XferOnByte float64 // a transfer's bytes name it
	FromAddr   float64 // a transfer's bytes name their source address
	NoFrom     float64 // a transfer's bytes do not say where they come from
	NoLast     float64 // the completion does not say that it was the last
	Digests    float64
	LateReads  float64 // a read is reported after the release of its step
	Batches    float64 // facts that belong together carry one t
	WireToo    float64 // what the engine says of a transfer is seen on the wire as well

	Restarts float64 // instance: restarts once
	Audits   float64 // instance: counts its pools now and then
	VRAM     float64 // instance: the driver is asked now and then

	Disorder   float64 // cluster: facts arrive late, within the settle time
	Duplicates float64 // facts that arrive twice, where numbered
}

// Mixes are the named presets, in the order in which a whole run goes
// through them.
func Mixes() []Mix {
	return []Mix{unified(), claims(), observed(), wireOnly(), multiRank(), rough(), attached(), mixed()}
}

// MixByName returns the preset of that name.
func MixByName(name string) (Mix, bool) {
	for _, m := range Mixes() {
		if m.Name == name {
			return m, true
		}
	}
	return Mix{}, false
}

// without leaves features out, by the names of the fields.
func (m Mix) without(features []string) Mix {
	v := reflect.ValueOf(&m).Elem()
	for _, name := range features {
		v.FieldByName(name).SetZero()
	}
	return m
}

func unified() Mix {
	return Mix{
		Name: "unified", Nodes: 1, Unified: 2, PromisesWritten: 0.8, Steps: 0.5, Sequences: 0.7,
		Window: 0.3, StatePool: 0.3, Host: 0.6, NullPages: 0.5,
		Prefix: 0.6, Domains: 0.8, Preempt: 0.2, Offload: 0.5, Copies: 0.2, Abort: 0.1, Reject: 0.1,
		Synthetic: 0.05, Fork: 0.1, Scratch: 0.1, LateReads: 0.4, Batches: 0.4, Audits: 0.7, VRAM: 0.5,
		Disorder: 0.6, Duplicates: 0.05,
	}
}

func claims() Mix {
	return Mix{
		Name: "disagg-claims", Nodes: 2, Prefills: 2, Decodes: 2, SameAddresses: 0.5,
		PromisesWritten: 0.7, Steps: 0.5, Sequences: 0.7,
		Window: 0.3, StatePool: 0.3, Aux: 0.5, Host: 0.4, NullPages: 0.4,
		Chunked: 0.6, SideBySide: 0.4, Umbrella: 0.3, Pull: 0.3, Prefix: 0.4, Domains: 0.8,
		Retract: 0.1, Preempt: 0.1, Offload: 0.5, Copies: 0.1, Abort: 0.1, Reject: 0.1, Readmit: 0.3,
		Recompute: 0.3, Fail: 0.05, Synthetic: 0.05, Fake: 0.3, Unnamed: 0.1, Scratch: 0.1, NoLast: 0.3, Digests: 0.2, LateReads: 0.3,
		Batches: 0.3, WireToo: 0.3, Audits: 0.5, Disorder: 0.6, Duplicates: 0.05,
	}
}

func observed() Mix {
	m := claims()
	m.Name, m.Observed, m.PerPeer = "disagg-observed", 1, 0.3
	m.BigPages, m.Retries, m.Posted, m.Errors, m.Scatter = 0.3, 0.1, 0.3, 0.1, 0.3
	m.XferOnByte, m.FromAddr, m.NoFrom, m.OverTCP = 0.4, 0.4, 0.1, 0.2
	return m
}

func wireOnly() Mix {
	m := observed()
	m.Name, m.WireOnly, m.SilentSender, m.Aux, m.Host = "wire-only", 1, 0.5, 0, 0
	m.Unnamed, m.Observed, m.Audits, m.Window, m.StatePool, m.WireToo = 0, 0.8, 0, 0.2, 0, 0
	return m
}

func multiRank() Mix {
	m := observed()
	m.Name, m.TwoSenders, m.TwoReceivers, m.Dummy, m.Observed = "multi-rank", 0.7, 0.7, 0.3, 0.7
	return m
}

// rough is everything that goes wrong without anybody being wrong.
func rough() Mix {
	m := observed()
	m.Name, m.Observed, m.Restarts = "rough", 0.7, 0.3
	m.Abort, m.Reject, m.Retract, m.Preempt, m.Fail = 0.3, 0.2, 0.2, 0.2, 0.15
	m.Retries, m.Errors = 0.3, 0.3
	return m
}

func attached() Mix {
	m := mixed()
	m.Name, m.Attach, m.Restarts = "attached", 0.5, 0
	return m
}

func mixed() Mix {
	m := observed()
	m.Name, m.Unified, m.Observed, m.TwoSenders, m.TwoReceivers, m.Dummy = "mixed", 1, 0.6, 0.3, 0.3, 0.2
	m.Fork = 0.1
	m.WireOnly, m.Staged, m.Restarts, m.VRAM, m.Abort = 0.15, 0.2, 0.1, 0.3, 0.15
	return m
}
