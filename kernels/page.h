// Pages, their tags and what is recorded of a wrong one. The structures are those of
// kernels/layout.go; all is defined by kernels/reference.
#pragma once
#include "device.h"

enum { FLOAT32, BFLOAT16, FLOAT16 };
enum { BEFORE_APPEND = 1, BEFORE_READ, AFTER_READ };

// The shape of a page in HND order: for each kv head, tokens rows of dim numbers.
struct Shape {
	u32 dtype, tokens, kv_heads, dim;
};

// One layer of the pool: page p lies at p × page bytes, its written tag at p.
struct Layer {
	u8 *keys, *values;
	u64 *written;
};

// One entry of a block table.
struct Block {
	i32 page;
	u32 unused;
	u64 tag; // handed out
};

// The first fault of a sequence; claimed is its flag.
struct Fault {
	u32 claimed, layer, head, block, page, moment;
	u64 expected, seen;
};

// What kernels that check tags know of a pass. tables are the block tables of all
// sequences one after the other, skipped a bit for each entry of them.
struct Pass {
	Shape shape;
	Layer layer;
	u64 number; // of the layer
	const Block *tables;
	Fault *faults; // by sequence
	u32 *skipped;
};

DEVICE u32 number_bytes(u32 dtype) { return dtype == FLOAT32 ? 4 : 2; }
DEVICE u32 row_bytes(const Shape &s) { return s.dim * number_bytes(s.dtype); }
DEVICE u64 head_bytes(const Shape &s) { return (u64)s.tokens * row_bytes(s); }
DEVICE u64 page_bytes(const Shape &s) { return s.kv_heads * head_bytes(s); }

DEVICE bool readable(u64 handed_out, u64 written) { return handed_out == written && handed_out != 0; }

DEVICE u64 generation(u64 tag) { return tag & ((1ull << 40) - 1); }

DEVICE bool may_append(u64 handed_out, u64 written, u32 slot) {
	if (slot > 0 || written == handed_out) return readable(handed_out, written);
	return handed_out != 0 && generation(written) < generation(handed_out);
}

// Records that a page was left out; by one thread of those that saw it.
DEVICE void fail(const Pass &p, u32 sequence, u32 head, u32 table, u32 block, u64 seen, u32 moment) {
	u32 entry = table + block;
	set_bits(&p.skipped[entry / 32], 1u << entry % 32);
	Fault *f = &p.faults[sequence];
	if (!claim(&f->claimed)) return;
	f->layer = (u32)p.number;
	f->head = head;
	f->block = block;
	f->page = (u32)p.tables[entry].page;
	f->moment = moment;
	f->expected = p.tables[entry].tag;
	f->seen = seen;
}
