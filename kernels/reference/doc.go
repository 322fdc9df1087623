// Package reference defines the memory algorithms of the engine in plain Go:
// KV append, paged attention, page tags, the page digest and the scrub. The CPU
// backend runs on it, and a CUDA kernel is right when it agrees with it.
//
// It imports the standard library only, and neither allocates in its inner loops
// nor starts a goroutine.
//
// What it promises:
//  1. A page is written, read, digested or scrubbed only within its own bytes.
//  2. A page that failed its tag check contributes nothing: not its values times
//     zero, which would still spread a NaN.
//  3. Keys and values are stored as float32, bfloat16 or float16; sums are float32.
package reference
