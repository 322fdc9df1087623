// Package stream is how lifecycle facts travel from an engine to whoever
// listens: the frames of the PUB socket, the requests and answers of the ROUTER
// beside it, and the places where both are found by default. It is DESIGN
// section 5, in code; engine/lifecycle/publish speaks it, and
// engine/lifecycle/subscribe listens.
//
// It imports engine/lifecycle and does no I/O. It promises that a parser never
// panics, allocates nothing that depends on a length it was told, and refuses
// what is beyond a named limit.
//
// PUB sends three frames a batch: the topic kvw1@<instance>, the batch's number
// as eight bytes big-endian, counted from 0 in each epoch, and a msgpack array
// [ts, events, rank]: seconds since 1970 as a float, the facts as maps, and the
// rank or nil. There is always at least one fact, so that the epoch is known.
//
// The ROUTER takes two requests, each after an empty delimiter frame:
//
//	[number, 8 bytes]  answered by ["", number, batch] for each batch kept from
//	                   that number on, then ["", 8×0xff, ""]
//	["kvw1.snapshot"]  answered by ["", number, batch] several times with one
//	                   number, then ["", 8×0xff, ""]
//
// A snapshot says what held when the batch of that number had been published:
// who continues with the next number misses nothing and hears nothing twice.
// Its facts carry no seq, for they are no news. The first is a watermark whose
// seq is that of the last fact said until then; absent, there was none.
//
// Two sequences are counted. The batch's number finds a lost frame: what came
// between is asked for again, and what is kept no longer becomes a stream_gap.
// The facts' own seq says which facts those were: a stream_gap of src sidecar
// names them, from the number after the last fact that came to the number
// before the next (or the watermark's, where a snapshot follows).
package stream
