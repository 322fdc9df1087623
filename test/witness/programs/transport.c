// What a transport of UCX does with mlx5: it asks for the doorbell of a queue pair.
#include <stddef.h>
#include <stdint.h>

int mlx5dv_init_obj(void *, uint64_t);

int transport_direct(void) { return mlx5dv_init_obj(NULL, 1) + 1; }
