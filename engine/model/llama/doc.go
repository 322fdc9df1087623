// Package llama is the Llama architecture: root-mean-square norms, rotary positions,
// grouped queries, SwiGLU; its weights from a GGUF file. Open gives such a model
// with its vocabulary.
//
// It imports engine/model and the packages below it, and engine/team. It promises:
// a file is refused, with the reason, unless every tensor and every setting in it is
// understood here; a token's numbers are the same to the last bit in whatever batch
// they are computed; the weights stay in the file, mapped, as they are stored.
//
// The names of keys and tensors are those of the ggml project's docs/gguf.md, and so
// is the order of the rows of query and key: neighbours are rotated together.
package llama

import "errors"

// ErrModel says that a file's model is not one that can be computed here.
var ErrModel = errors.New("model of the file")

// Bounds on a model's shape.
const (
	MaxLayers = 1 << 10
	MaxSide   = 1 << 20 // of a matrix, and of the vocabulary
	MaxHeads  = 1 << 10
)
