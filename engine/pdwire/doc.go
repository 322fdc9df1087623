// Package pdwire knows the control messages with which prefill and decode
// agree on a transfer: SGLang's, in its Mooncake and its NIXL flavour, those of
// vLLM's Mooncake connector and NIXL side channel, and SGLang's bootstrap
// server over HTTP. It encodes what kvengine sends and decodes what a watcher
// sees of any of them.
//
// It is pure: bytes in, typed values out, no I/O and no state. It imports
// engine/zmtp for the type of a frame, and a msgpack runtime. It promises:
//   - every count, length and number is bounded by a limit named in limits.go,
//     and judged before anything is allocated for it;
//   - a message of an older version decodes with what it has; what a newer one
//     adds is counted in [Layout], never guessed at;
//   - content is not kept: of AUX_DATA its length, of a failure's reason its
//     length, of a prompt's digest nothing. [Keep] drops the same at the frame
//     header, before it is stored.
//
// Frame positions are those of SGLang at d315eb7250 and vLLM at 7cfb97e337, of
// August 2026. Numbers are in ASCII unless a field says otherwise; packed
// integers are little-endian.
package pdwire
