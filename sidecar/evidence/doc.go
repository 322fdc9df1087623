// Package evidence keeps what is known of each incident: a bounded memory of
// recent facts, and a store on disk in which every incident has its findings, the
// facts of its request and of its pages before and after, the page map of that
// moment, and how engines and witness stood.
//
// It imports sidecar/finding and engine/lifecycle, and go.etcd.io/bbolt for the
// store. It promises:
//
//  1. What [Store.Put] has acknowledged is on the disk, whenever the process is
//     killed, and verifies.
//  2. Entries form a chain of hashes: whoever knows the head that an alert named
//     can tell that an entry is the one of that moment.
//  3. The store is bounded in bytes and age. Each kind of finding has its own share,
//     and its first incidents stay, so that cheap findings push out no other.
//  4. A damaged store is set aside, whole, and said; a new one is begun.
//  5. Memory is bounded, and nothing here waits for a disk but who asks for it.
//  6. There is no content in it: facts have none, and a tenant is a keyed hash.
package evidence
