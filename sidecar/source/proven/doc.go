// Package proven makes facts of what the probe saw: claims of what prefill and
// decode said to each other (src wire), observations of the bytes that arrived
// (src tcp), and when the sight of an instance's incoming data was complete.
//
// It is a pure state machine: frames of the probe in, facts out, no clock but
// that of the records. It imports engine/lifecycle, engine/pdwire, engine/zmtp,
// sidecar/probe, and the readers of the four probes. What engines say, and what
// they post, is hostile input. It promises:
//
//  1. Facts come in the order of their times, as far as the probe says that it
//     has come; a record of before that is taken in when it comes.
//  2. A message that was seen at both ends is one fact.
//  3. Sight of a peer's writes is declared complete only after one of them was
//     mapped into a region, with nothing lost since, no connection to the same
//     port that is not followed, and no layout that goes by a staging buffer; it
//     is withdrawn, with the reason, as soon as one of these does not hold.
//  4. The same of what is posted to RDMA devices: after a write was mapped by where
//     its queue pair leads and by its address, with nothing lost since, every
//     context of the writing process attached to, no way around post_send, and no
//     queue pair that may lead there and is not known to. A peer whose bytes come
//     over TCP and over RDMA is seen over neither.
//  5. Everything that is remembered is bounded by a named limit. Beyond it things
//     are counted and not said: their handoffs are unwitnessed.
//  6. No content: of a message addresses, lengths, numbers of pages and the names
//     of rooms, requests and instances are kept.
//
// Instances are known by the address of their control socket, as SGLang and
// kvengine name it to each other; a decode of vLLM by its Mooncake session. Which
// process is which instance is learned from who sent and who received a message.
//
// Of SGLang's NIXL flavour the wire tells registrations and pages, and not how a
// handoff ends: that is said over UCX. Nothing of it is clean here.
//
// RDMA. What is written is seen where it is posted, so at the sender; a READ at who
// reads. Bytes are `posted`, and count once their transfer completes; where
// completions are seen (the probe's --completions) they are `ok` when their request
// is done, or `error`, which says nothing of the bytes before. A queue pair leads to
// a process of this node that has one which leads back, if its GID is of this node
// (Config.Local); else to the instances whose control address, or session, is the
// address that the GID is. One that was connected before the witness was there leads
// nowhere that is known, until it connects anew. region_registered is told of each
// memory once, peer_gone when the last queue pair of a writer to an instance is
// destroyed: where a room of theirs is open, once it is over, as a writer whose try
// failed connects anew and tries again.
//
// UCX. What is put or got with it is seen where it is handed over, and told as of RDMA
// (src rdma), whatever carries it. Bytes that are put are `posted`; `ok` says that a
// flush after them has ended, which is seen where it ends at once or the probe is told
// to look at requests; bytes that are got are `ok` when their call or request is. An
// endpoint leads to the process of this node that was seen to ask for the address from
// which it was made; one that leads to another node leads nowhere that is known. The
// addresses are those of the owner's memory; which key goes with them is not told.
//
// What cannot be known from outside: how many pages a pool has and how many
// tokens a page (see Config.Known; without it the distance of two regions bounds
// the pages, and nothing is owed by tokens), the id of a request, what came
// before the probe. A READ is seen at the process that is read from; where its
// bytes go there is no address for, so that pulls over TCP are not witnessed.
package proven
