package peer

import "sync/atomic"

// End is why a connection that one dialled ended, or did not come about.
type End uint8

// The ends of a connection.
const (
	Unreachable End = iota // nobody could be connected to
	Refused                // a certificate, the token, or what the peer says it is
	Closed                 // the peer ended it
	Silent                 // it said nothing for longer than the patience
	BehindTime             // what it says is older than the patience
	Malformed              // what came is none of the protocol, or came twice
	NotTheirs              // a fact that is not the peer's to say
	TooMuch                // pools, pages or peers beyond the bounds of one peer
	ClockJumped            // a clock was set, or what was said of it cannot be
	Unread                 // the judge did not take facts in time
	NumEnd
)

var ends = [NumEnd]string{
	"unreachable", "refused", "closed", "silent", "behind", "malformed", "not theirs", "too much", "clock", "unread",
}

func (e End) String() string { return ends[e] }

// Turned is why one who dialled was turned away, or was no longer served.
type Turned uint8

// The reasons to turn one away.
const (
	BadCertificate Turned = iota // none, or one that the CA did not sign
	BadToken
	BadGreeting // another version, no name, or what is none of the protocol
	TooMany     // connections
	Flooding    // it says more than one has to say
	TooSlow     // it did not take facts as fast as they came
	Left        // it went
	NumTurned
)

var turns = [NumTurned]string{"certificate", "token", "greeting", "too many", "flooding", "too slow", "left"}

func (t Turned) String() string { return turns[t] }

// Served is what a Server has come to.
type Served struct {
	Connected int // now
	Sent      uint64
	// Missed are facts that a peer's subscription missed at the engine; the peer is
	// told.
	Missed uint64
	Turned [NumTurned]uint64
}

// Status is how a Link stands.
type Status struct {
	Name      string
	Node      string // what the peer calls itself; "" while it is not known
	Connected bool
	Clock     Reading
	Known     bool // of Clock
	Following int  // instances of the peer
	Problem   string

	// Received = Taken + Twice + PassedOver + Lost by reason.
	Received   uint64 // facts
	Taken      uint64 // by the intake
	Twice      uint64 // came before
	PassedOver uint64 // of an unknown event, or said better by this node itself
	Lost       [NumEnd]uint64
	Ends       [NumEnd]uint64
	Waiting    int // facts in the intake
}

// counters are those of a Link.
type counters struct {
	received, taken, twice, passed atomic.Uint64
	lost, ends                     [NumEnd]atomic.Uint64
}
