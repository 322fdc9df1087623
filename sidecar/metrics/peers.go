package metrics

import (
	"github.com/kvwitness/kvwitness/sidecar/peer"
)

// The closed sets of what is told of the sidecars of other nodes.
var (
	ofPeer   = Label{Name: "peer"}
	ofFate   = Label{"outcome", []string{"taken", "twice", "passed over"}}
	ofEnd    = Label{"reason", named(peer.NumEnd)}
	ofTurned = Label{"reason", named(peer.NumTurned)}
)

var (
	peerConnected = gauge("peer_connected", "1 while facts of the peer's node come.", ofPeer)
	peerFollowing = gauge("peer_instances", "Instances of the peer's node whose streams are followed.", ofPeer)
	peerOffset    = gauge("peer_clock_offset_seconds", "How far the peer's clock is ahead of this node's.", ofPeer)
	peerError     = gauge("peer_clock_error_seconds", "By how much that may be wrong at most.", ofPeer)
	peerRound     = gauge("peer_round_trip_seconds", "Time there and back of the exchange that the offset is taken from.", ofPeer)
	peerReceived  = counter("peer_facts_received_total", "Facts that came from the peer. Received = handled by outcome + lost by reason.", ofPeer)
	peerHandled   = counter("peer_facts_handled_total", "Facts of the peer that reached the judge, came twice, or are of no use here.", ofPeer, ofFate)
	peerLost      = counter("peer_facts_lost_total", "Facts of the peer that were refused, and ended the connection.", ofPeer, ofEnd)
	peerEnds      = counter("peer_disconnects_total", "Connections to the peer that ended or did not come about; meanwhile its engines are out of sight.", ofPeer, ofEnd)
	peersServed   = gauge("peers_served", "Sidecars of other nodes that are told what this one knows.")
	peersSent     = counter("peers_facts_sent_total", "Facts that were handed on to them.")
	peersMissed   = counter("peers_facts_missed_total", "Facts of own engines that their subscriptions missed; they are told of the gap.")
	peersTurned   = counter("peers_turned_away_total", "Connections of those who were turned away, or were served no longer.", ofTurned)
)

// others says how the sidecars of other nodes stand.
func (e emitter) others() {
	for i := range e.Peers {
		e.peer(&e.Peers[i])
	}
	if !e.Serving {
		return
	}
	e.put(peersServed, float64(e.Served.Connected))
	e.put(peersSent, float64(e.Served.Sent))
	e.put(peersMissed, float64(e.Served.Missed))
	for t, n := range e.Served.Turned {
		e.put(peersTurned, float64(n), peer.Turned(t).String())
	}
}

func (e emitter) peer(s *peer.Status) {
	e.put(peerConnected, number(s.Connected), s.Name)
	e.put(peerFollowing, float64(s.Following), s.Name)
	if s.Known {
		e.put(peerOffset, s.Clock.Offset.Seconds(), s.Name)
		e.put(peerError, s.Clock.Error.Seconds(), s.Name)
		e.put(peerRound, s.Clock.RoundTrip.Seconds(), s.Name)
	}
	e.put(peerReceived, float64(s.Received), s.Name)
	for i, n := range [...]uint64{s.Taken, s.Twice, s.PassedOver} {
		e.put(peerHandled, float64(n), s.Name, ofFate.Values[i])
	}
	for end := range peer.NumEnd {
		e.put(peerLost, float64(s.Lost[end]), s.Name, end.String())
		e.put(peerEnds, float64(s.Ends[end]), s.Name, end.String())
	}
}
