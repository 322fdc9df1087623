// Package logs is the source of facts that an engine's log gives: who was rejected,
// what each half of a request says of its length, how large the pool is, and that a
// protection ran.
//
// It imports engine/lifecycle. A log holds what anybody could get into it, so that it
// is hostile input; the package promises:
//
//  1. Of a line only numbers, names of requests and rooms, and words of closed sets are
//     kept; the text itself reaches nothing.
//  2. Lines are bounded in length; what is longer is passed over and counted.
//  3. A file that is put aside, cut short, or not there yet, is followed under its name.
//  4. The journal of a systemd unit is read by journalctl, a child that ends with its
//     reader and is started anew behind what was read; what journald dropped is counted.
//  5. A line that is none of those known is no loss: most are.
package logs
