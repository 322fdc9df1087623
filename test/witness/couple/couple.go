// Package couple is a prefill and a decode that are not ours: two Python processes
// in which unmodified Mooncake moves pages, and which say to each other by pyzmq what
// SGLang's halves say, or those of vLLM's Mooncake connector. What they are told to
// hand over, whole or short of it, is played over any transport that Mooncake has.
//
// It imports engine/pdwire for what they say, and nothing of the sidecar's.
package couple

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	wire "github.com/kvwitness/kvwitness/engine/pdwire"
)

// The memory of both halves: regions one after the other.
const (
	Regions   = 4
	Pages     = 32
	PageBytes = 4096
)

// Transport is how Mooncake moves pages.
type Transport struct {
	Host     string // the address that a half goes by
	Protocol string // tcp or rdma
	Device   string // of rdma
}

// Couple is a prefill and a decode.
type Couple struct {
	Prefill, Decode *Half
	from, to        Answer // what Mooncake opened
}

// Handoff is what decode names, and what Mooncake is told to write of it.
type Handoff struct {
	Named []int
	Moves [][3]uint64 // offset in prefill's memory, address in decode's, bytes
	// Renewed: decode registered its memory anew, so that Mooncake's first try goes by
	// a key that is no more, and fails.
	Renewed bool
}

// Open has both halves register their memory with Mooncake.
func Open(prefill, decode *Half, t Transport) (c *Couple, err error) {
	c = &Couple{Prefill: prefill, Decode: decode}
	how := map[string]any{"bytes": Regions * Pages * PageBytes, "host": t.Host, "protocol": t.Protocol, "device": t.Device}
	if c.from, err = prefill.Do("open", how); err != nil {
		return nil, err
	}
	if c.to, err = decode.Do("open", how); err != nil {
		return nil, err
	}
	return c, nil
}

// Session is what decode's memory is written by.
func (c *Couple) Session() string { return c.to.Session }

func (c *Couple) bases() (out []uint64) {
	for i := range Regions {
		out = append(out, c.to.Address+uint64(i*Pages*PageBytes))
	}
	return out
}

// Whole moves each page of each region at once.
func (c *Couple) Whole(list ...int) (moves [][3]uint64) {
	for _, base := range c.bases() {
		for _, p := range list {
			moves = append(moves, [3]uint64{uint64(p) * PageBytes, base + uint64(p)*PageBytes, PageBytes})
		}
	}
	return moves
}

// Straddling moves a run of pages in pieces that end within pages.
func (c *Couple) Straddling(first, count int) (moves [][3]uint64) {
	const piece = 3000
	for _, base := range c.bases() {
		for at := first * PageBytes; at < (first+count)*PageBytes; at += piece {
			n := min(piece, (first+count)*PageBytes-at)
			moves = append(moves, [3]uint64{uint64(at), base + uint64(at), uint64(n)})
		}
	}
	return moves
}

func (c *Couple) write(h Handoff) error {
	if h.Renewed {
		if _, err := c.Decode.Do("renew", nil); err != nil {
			return err
		}
	}
	_, err := c.Prefill.Do("write", map[string]any{"target": c.to.Session, "moves": h.Moves})
	return err
}

// rooms are numbers of those that were played, by all couples.
var rooms atomic.Int64

// Play plays one handoff and returns its room.
type Play func(Handoff) (room string, err error)

// each does one thing after the other, until one fails.
func each(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// done is a step of which nothing but its success matters.
func done(h *Half, op string, fields map[string]any) func() error {
	return func() error {
		_, err := h.Do(op, fields)
		return err
	}
}

// say is that one half says something and the other hears it.
func say(from, to *Half, frames [][]byte) func() error {
	return func() error {
		if _, err := from.Do("send", Frames(frames)); err != nil {
			return err
		}
		got, err := to.Do("recv", nil)
		if err == nil && got.Frames != len(frames) {
			err = fmt.Errorf("%d frames arrived of %d", got.Frames, len(frames))
		}
		return err
	}
}

// bind has a half listen.
func bind(h *Half, kind string) (at string, port int, err error) {
	a, err := h.Do("bind", map[string]any{"kind": kind})
	return fmt.Sprintf("127.0.0.1:%d", a.Port), a.Port, err
}

// SGLang has decode register with prefill in SGLang's frames, and returns how a
// handoff is played from then on; decode is known by instance.
func (c *Couple) SGLang() (instance string, play Play, err error) {
	at, _, err := bind(c.Prefill, "PULL")
	if err != nil {
		return "", nil, err
	}
	instance, port, err := bind(c.Decode, "PULL")
	if err != nil {
		return "", nil, err
	}
	self := wire.Address{Host: "127.0.0.1", Port: uint16(port)}
	registration := &wire.Registration{Address: self, Session: c.to.Session, KVPtrs: c.bases(), KVItemBytes: PageBytes, AttnTPSize: 1, DCPSize: 1}
	err = each(
		done(c.Decode, "connect", map[string]any{"kind": "PUSH", "to": at}),
		done(c.Prefill, "connect", map[string]any{"kind": "PUSH", "to": instance}),
		say(c.Decode, c.Prefill, registration.Frames()),
	)
	return instance, func(h Handoff) (string, error) {
		room := rooms.Add(1)
		name := fmt.Sprint(room)
		request := &wire.TransferRequest{Room: room, Address: self, Session: c.to.Session, AuxIndex: 1, RequiredDst: 1}
		for _, p := range h.Named {
			request.Pages = append(request.Pages, int32(p))
		}
		success := &wire.Status{Room: room, Status: wire.StatusSuccess}
		return name, each(
			say(c.Decode, c.Prefill, request.Frames()),
			func() error { return c.write(h) },
			say(c.Prefill, c.Decode, [][]byte{[]byte("AUX_DATA"), []byte(name), []byte("0"), []byte("1"), {0, 0, 0, 3}, []byte("abc")}),
			say(c.Prefill, c.Decode, success.Frames()),
		)
	}, err
}

// VLLM has decode connect to prefill as vLLM's Mooncake connector does, and returns
// how a handoff is played from then on; decode is known by instance.
func (c *Couple) VLLM() (instance string, play Play, err error) {
	host, number, err := net.SplitHostPort(c.to.Session)
	if err != nil {
		return "", nil, fmt.Errorf("read the session of decode: %w", err)
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return "", nil, fmt.Errorf("read the session of decode: %w", err)
	}
	at, _, err := bind(c.Prefill, "ROUTER")
	if err != nil {
		return "", nil, err
	}
	_, err = c.Decode.Do("connect", map[string]any{"kind": "DEALER", "to": at})
	lengths := []int{PageBytes, PageBytes, PageBytes, PageBytes}
	requests := 0
	return c.to.Session, func(h Handoff) (string, error) {
		requests++
		id := fmt.Sprintf("request-%d", requests)
		asked := map[string]any{
			"remote_hostname": host, "remote_port": port, "remote_tp_size": 1, "remote_tp_rank": 0,
			"req_blocks":          map[string]any{id: []any{"transfer-" + id, [][]int{h.Named}}},
			"kv_caches_base_addr": c.bases(), "block_lens": lengths, "kv_block_lens": lengths,
		}
		return id, each(
			done(c.Decode, "map", map[string]any{"value": asked}),
			done(c.Prefill, "recv", nil),
			func() error { return c.write(h) },
			done(c.Prefill, "map", map[string]any{"value": map[string]any{"status": 0, "ok_reqs": []string{id}}}),
			done(c.Decode, "recv", map[string]any{"outward": true}),
		)
	}, err
}
