// One module of all kernels.
#include "append.cu"
#include "attention.cu"
#include "digest.cu"
#include "scrub.cu"
#include "sizes.cu"
