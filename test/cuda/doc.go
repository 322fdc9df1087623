// Package cuda is a stand-in for the memory calls of NVIDIA's driver: a libcuda.so.1,
// written in C, whose addresses lead nowhere, and a program that calls it as it is told
// and keeps books of its own (test/commanded runs it). test/fakecuda, which runs kernels, has none of these calls
// but two, and needs cuda.h.
//
// It imports nothing of kvwitness, and needs gcc. It promises what matters to who watches
// the driver: addresses and handles that are freed are given out again at once, to
// whatever thread asks; some functions call others that are exported too; some names lead
// to one function.
package cuda
