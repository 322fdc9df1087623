// Launches of kernels on the CPU.
#pragma once
#include "../../../kernels/device.h"

typedef void (*Kernel)(const void *);

struct Grid {
	u32 x, y, z;
};

// launch runs a kernel with its one argument; false: no GPU has such a block. One at
// a time.
bool launch(Kernel k, const void *args, Grid grid, u32 threads);
