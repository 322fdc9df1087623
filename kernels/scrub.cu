// Scrub: pages are zeroed where it is asked for.
#include "page.h"

struct ScrubArgs {
	Shape shape;
	const Layer *layers;
	u64 layer_count;
	const u32 *pages; // one a block of threads
};

// First of the two launches: nobody takes a half-zeroed page for whole.
KERNEL kv_clear_tags(const ScrubArgs *a) {
	for (u32 i = thread_id(); i < a->layer_count; i += block_threads())
		store_relaxed(&a->layers[i].written[a->pages[block_x()]], 0);
	fence_system();
}

struct alignas(16) Lane {
	u64 a, b;
};

// Grid: pages × (layers × 2), keys before values.
KERNEL kv_scrub(const ScrubArgs *a) {
	const Layer &l = a->layers[block_y() / 2];
	u64 size = page_bytes(a->shape);
	Lane *page = (Lane *)((block_y() % 2 ? l.values : l.keys) + a->pages[block_x()] * size);
	for (u64 i = thread_id(); i < size / sizeof(Lane); i += block_threads()) page[i] = Lane{0, 0};
}
