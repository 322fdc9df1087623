// Package matrix multiplies vectors by the matrices of a model file, which stay in
// the file as they are stored: a few rows at a time are widened to float32 and
// multiplied while they are near.
//
// It imports engine/model/gguf, engine/team and golang.org/x/sys/cpu. On amd64 with
// AVX2, FMA and F16C the inner loops are in assembly, which the processor is asked
// for when the process starts; elsewhere they are in Go. It promises that a product
// is the same to the last bit whatever else is computed with it and by how many
// goroutines: each number is one sum, taken in one order.
package matrix
