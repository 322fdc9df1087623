package zmtp

import (
	"errors"
	"fmt"
)

// ErrHandshake is returned where a peer opens a connection in a way that a
// NULL handshake does not know, or with a socket that does not fit ours.
var ErrHandshake = errors.New("handshake refused")

// Type is a kind of socket, by the name that it has on the wire.
type Type string

// The types that this package speaks, and those that it speaks to.
const (
	PubType    Type = "PUB"
	SubType    Type = "SUB"
	XPubType   Type = "XPUB"
	XSubType   Type = "XSUB"
	PushType   Type = "PUSH"
	PullType   Type = "PULL"
	RouterType Type = "ROUTER"
	DealerType Type = "DEALER"
	ReqType    Type = "REQ"
	RepType    Type = "REP"
)

// fits says which types may talk to which, from 23/ZMTP.
var fits = map[Type][]Type{
	PubType:    {SubType, XSubType},
	SubType:    {PubType, XPubType},
	PushType:   {PullType},
	PullType:   {PushType},
	RouterType: {ReqType, DealerType, RouterType},
	DealerType: {RepType, DealerType, RouterType},
	ReqType:    {RepType, RouterType},
}

// maxIdentity is the longest routing id that the specification allows.
const maxIdentity = 255

// PeerInfo is what a handshake learned.
type PeerInfo struct {
	Minor    uint8 // minor version that both sides speak
	Type     Type
	Identity string
}

// Handshake is the opening of a NULL connection as a state machine: events of
// the peer's [Decoder] go in, and it says when the peer may be talked to.
type Handshake struct {
	own     Type
	greeted bool
	ready   bool
	info    PeerInfo
}

// NewHandshake returns the state machine for a socket of this type.
func NewHandshake(own Type) *Handshake { return &Handshake{own: own} }

// Step takes the peer's next event. done says that the handshake is over;
// after that Step must not be called again.
func (h *Handshake) Step(ev Event) (done bool, err error) {
	switch {
	case h.ready:
		return false, fmt.Errorf("handshake: event after READY: %w", ErrHandshake)
	case ev.Kind == GreetingEvent && !h.greeted:
		h.greeted = true
		h.info.Minor = min(ev.Greeting.Minor, ourMinor)
		if ev.Greeting.Major > 3 {
			// A newer peer must step down to what we announced.
			h.info.Minor = ourMinor
		}
		return false, nil
	case ev.Kind == CommandEvent && h.greeted:
		return h.command(ev.Command)
	}
	return false, fmt.Errorf("handshake: message before READY: %w", ErrHandshake)
}

// Info returns what was learned, once Step has said done.
func (h *Handshake) Info() PeerInfo { return h.info }

func (h *Handshake) command(c Command) (bool, error) {
	switch c.Name {
	case CommandError:
		return false, fmt.Errorf("handshake: peer says %q: %w", errorReason(c.Body), ErrHandshake)
	case CommandReady:
	default:
		return false, fmt.Errorf("handshake: command %q before READY: %w", c.Name, ErrHandshake)
	}
	r, err := ParseReady(c.Body)
	if err != nil {
		return false, fmt.Errorf("handshake: %w", err)
	}
	if len(r.Identity) > maxIdentity {
		return false, fmt.Errorf("handshake: identity of %d bytes: %w", len(r.Identity), ErrHandshake)
	}
	if !compatible(h.own, Type(r.SocketType)) {
		return false, fmt.Errorf("handshake: a %s does not talk to a %q: %w", h.own, r.SocketType, ErrHandshake)
	}
	h.ready = true
	h.info.Type, h.info.Identity = Type(r.SocketType), r.Identity
	return true, nil
}

func compatible(own, peer Type) bool {
	for _, t := range fits[own] {
		if t == peer {
			return true
		}
	}
	return false
}
