// KV append: rows of new tokens go into the pages of their sequence.
#include "page.h"

// Consecutive rows of one sequence within one page: rows first, first+1, … of the
// keys and values go to slots slot, slot+1, …
struct Run {
	u32 sequence, table, block, slot, first, rows, unchecked, unused;
};

struct AppendArgs {
	Pass pass;
	const Run *runs;             // one a block of threads
	const float *keys, *values;  // rows × kv heads × dim
};

DEVICE void store(u8 *at, u32 i, u32 dtype, float x) {
	switch (dtype) {
	case FLOAT32: ((float *)at)[i] = x; break;
	case BFLOAT16: ((u16 *)at)[i] = to_bfloat16(x); break;
	default: ((u16 *)at)[i] = to_float16(x);
	}
}

// Before the first row of a page its tag is cleared, after the last it is set: a
// reader of any generation who overlaps sees a tag that changed. The tag is written
// by the thread that fenced after the barrier, so that it follows the rows of all.
KERNEL kv_append(const AppendArgs *a) {
	SHARED u32 allowed;
	const Pass &p = a->pass;
	const Shape &s = p.shape;
	const Run &r = a->runs[block_x()];
	const Block &entry = p.tables[r.table + r.block];
	u64 *written = &p.layer.written[entry.page];
	if (thread_id() == 0) {
		u64 seen = load_acquire(written);
		allowed = r.unchecked || may_append(entry.tag, seen, r.slot);
		if (!allowed) fail(p, r.sequence, 0, r.table, r.block, seen, BEFORE_APPEND);
		if (allowed && r.slot == 0) {
			store_relaxed(written, 0);
			fence_system();
		}
	}
	sync_block();
	if (!allowed) return;
	u64 page = entry.page * page_bytes(s);
	u32 width = s.kv_heads * s.dim;
	for (u32 i = thread_id(); i < r.rows * width; i += block_threads()) {
		u32 row = i / width, head = i % width / s.dim, at = i % s.dim;
		u64 to = page + head * head_bytes(s) + (r.slot + row) * row_bytes(s);
		store(p.layer.keys + to, at, s.dtype, a->keys[(u64)r.first * width + i]);
		store(p.layer.values + to, at, s.dtype, a->values[(u64)r.first * width + i]);
	}
	sync_block();
	if (thread_id() == 0 && r.slot == 0) {
		fence_system();
		store_relaxed(written, entry.tag);
	}
}
