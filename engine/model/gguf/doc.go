// Package gguf reads model files in the GGUF format, versions 2 and 3, little-endian:
// key-value metadata, and tensors that stay where they are in the mapped file.
//
// It imports the standard library and golang.org/x/sys/unix. It promises that a
// file is judged whole before anything of it is used: every count, length and
// offset is checked against a named limit and against the file's own size, so that
// a hostile file gives ErrFormat with what is wrong and at which byte, never a
// panic, and never more memory than a small multiple of its own size. A mapped file
// must not be cut short while it is in use: the system ends a process that reads
// beyond its end.
//
// The format is that of the ggml project's docs/gguf.md.
package gguf

import "errors"

// Bounds on what a file may hold.
const (
	MaxFileBytes = 1 << 40
	MaxKeys      = 1 << 12
	MaxTensors   = 1 << 16
	MaxNameBytes = 1 << 10 // of a key or a tensor
	MaxElements  = 1 << 24 // of an array
	MaxTextBytes = 1 << 20 // of a string value
	MaxDims      = 4
	MaxSide      = 1 << 32 // of a tensor
	MaxAlignment = 1 << 16
)

// ErrFormat says that a file is no GGUF file that can be read.
var ErrFormat = errors.New("not a GGUF file that can be read")

// ErrKey says that a key is missing, or not of the type that is asked for.
var ErrKey = errors.New("metadata of the model file")

// ErrTensor says that a tensor is missing, or not of the shape that is asked for.
var ErrTensor = errors.New("tensor of the model file")
