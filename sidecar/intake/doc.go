// Package intake puts the facts of several sources in order for the judge: each
// source has a bounded queue, and one goroutine takes facts out, by time, as far
// as every source is known to have come.
//
// It imports engine/lifecycle. It promises:
//
//  1. A source that is full waits; the others are not held back by it.
//  2. Facts of one source come out in the order in which they were put in, and
//     those of several by their times, unless one came later than promised.
//  3. A fact far ahead of the node's clock, or far behind it, is refused and
//     counted: it would make the facts of all others late, or be late itself.
//  4. Put = taken + lost by reason + what waits, for each source.
//
// How far time has come is the least of what the sources have reached. One that
// is live has reached its last fact, or the present less the delay with which
// its facts are expected, whichever is later: an engine tells in turns of some
// milliseconds, and one that says nothing has nothing to say. Expected is half as
// much again as the longest delay of late, and what the caller itself has
// overslept: on a node that is short of processors nobody speaks in time, and an
// engine that was silent until now shows no delay of its own. One that is catching
// up has reached its last fact and holds the others back, until it has said
// something and then nothing for a quarter of a second, and in all for no longer than
// [HoldLimit], which grows again slowly: an engine that never ends its snapshot
// costs the others that time once. One that is away holds nobody back.
//
// An instance of which bytes were seen to arrive, or to be read where they say from
// which address, or of which the wire told, is waited for until it was heard of that
// time or later, and for no longer than [MaxDelay]: bytes where no transfer is known
// accuse, and what the instance said of them may be on its way. One that lets that
// time pass and says nothing is waited for half as long the next time; nobody is
// while a source waits for room.
//
// A source that says itself how far it has come ([Source.Reached]) is believed while it
// goes on saying so, however far behind it is: it works off a backlog, whose bounds are
// its own, and facts that are late for its sake would cost verdicts. One that says
// nothing is waited for until [SilenceLimit]: what it would have seen is no evidence by
// its absence, so that its owner must say that it is not seen before that.
//
// Facts that another node hands on are in order by their times on this node's clock.
// Such a source has come as far as the other node says with each thing that it
// sends: what is on its way is waited for, since its absence would accuse.
package intake
