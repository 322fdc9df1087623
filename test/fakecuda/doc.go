// Package fakecuda stands in for NVIDIA's driver: build.sh makes a libcuda.so.1 of
// what is in driver/, which runs the same kernels on the CPU, threads as fibres. With
// it everything under the build tag cuda is tested on a machine without a GPU; with
// the tag fakecuda too, a test may change a tag at an exact moment (Change).
//
// What it cannot show: the order in which a GPU's memory becomes visible, its timing,
// its arithmetic to the last bit, what the real driver refuses.
//
// It imports the standard library only.
package fakecuda
