// Paged attention, for decode and prefill alike: a tile is up to QUERIES queries of
// one sequence that share a kv head, so a page is read once for all of them. Decode
// is a tile of one token; long contexts are split over blocks and merged.
//
// Each warp takes every WARPS-th page: it checks the page's tag, attends to the page
// aside, checks the tag again, and only then joins the page to what it has. A page
// that fails either check leaves no trace.
#include "page.h"

#define QUERIES 8
#define WARPS 4
#define MAX_TOKENS 128

// Queries of rows tokens of one sequence: token i is at position position + i and
// has row first + i of queries and attended.
struct Tile {
	u32 sequence, table, first, rows, position, unchecked;
};

struct AttentionArgs {
	Pass pass;
	const Tile *tiles;
	const float *queries;  // rows × heads × dim
	const float *sinks;    // by query head
	float *attended;       // rows × heads × dim
	float *partial;        // splits × rows × heads × (dim + 2), where there are splits
	u64 rows;              // of the whole pass
	u32 heads, window;     // window 0: all
	float scale;
	u32 unused;
};

// Eight numbers from a row, or J of one lane's.
template <int DTYPE, int N> DEVICE void load(const u8 *row, u32 from, float *out) {
	if constexpr (DTYPE == FLOAT32) {
		struct alignas(N == 2 ? 8 : 16) { float x[N]; } v;
		__builtin_memcpy(&v, __builtin_assume_aligned(row + from * 4, N == 2 ? 8 : 16), N * 4);
		UNROLL for (int i = 0; i < N; i++) out[i] = v.x[i];
	} else {
		u16 v[N];
		__builtin_memcpy(v, __builtin_assume_aligned(row + from * 2, N * 2), N * 2);
		UNROLL for (int i = 0; i < N; i++) out[i] = DTYPE == BFLOAT16 ? from_bfloat16(v[i]) : from_float16(v[i]);
	}
}

// What a block of threads works on.
struct Work {
	Tile tile;
	u32 head;            // kv head
	u32 group, first;    // query heads of a token in this tile, and the first of them
	u32 queries;         // rows × group
	u32 from, to;        // positions that any of them reads
};

DEVICE Work work_of(const AttentionArgs &a) {
	Work w;
	w.tile = a.tiles[block_x()];
	u32 all = a.heads / a.pass.shape.kv_heads, parts = (all + QUERIES - 1) / QUERIES;
	w.head = block_y() / parts;
	u32 begin = block_y() % parts * QUERIES;
	w.group = all - begin < QUERIES ? all - begin : QUERIES;
	w.first = w.head * all + begin;
	w.queries = w.tile.rows * w.group;
	w.to = w.tile.position + w.tile.rows;
	w.from = a.window > 0 && w.tile.position + 1 > a.window ? w.tile.position + 1 - a.window : 0;
	return w;
}

// Where query m has its numbers among rows × heads.
DEVICE u64 place(const AttentionArgs &a, const Work &w, u32 m) {
	return (u64)(w.tile.first + m / w.group) * a.heads + w.first + m % w.group;
}

DEVICE bool reads(const AttentionArgs &a, const Work &w, u32 m, u32 position) {
	u32 own = w.tile.position + m / w.group;
	return position <= own && (a.window == 0 || position + a.window > own);
}

// A running softmax of one lane: its J numbers of each query's values.
template <int J> struct State {
	float top[QUERIES], sum[QUERIES], values[QUERIES][J];
	DEVICE_MEMBER void reset() {
		UNROLL for (int m = 0; m < QUERIES; m++) {
			top[m] = MINUS_INFINITY, sum[m] = 0;
			UNROLL for (int j = 0; j < J; j++) values[m][j] = 0;
		}
	}
	DEVICE_MEMBER void join(int m, const State &o) {
		if (o.sum[m] == 0) return;
		float high = __builtin_fmaxf(top[m], o.top[m]), before = exp_of(top[m] - high), added = exp_of(o.top[m] - high);
		UNROLL for (int j = 0; j < J; j++) values[m][j] = values[m][j] * before + o.values[m][j] * added;
		sum[m] = sum[m] * before + o.sum[m] * added;
		top[m] = high;
	}
};

// Fills weights with exp(score - top) of the page's rows, and top and sum of state.
template <int DTYPE, int D, int J>
DEVICE void score(const AttentionArgs &a, const Work &w, u32 begin, u32 rows, const u8 *keys,
                  const float (*query)[D], float (*weights)[MAX_TOKENS], State<J> &page) {
	u32 lane = thread_id() % WARP;
	for (u32 t = lane; t < rows; t += WARP) {
		float s[QUERIES] = {};
		for (u32 d = 0; d < D; d += 8) {
			float k[8];
			if constexpr (DTYPE == FLOAT32) {
				load<DTYPE, 4>(keys + t * D * 4, d, k);
				load<DTYPE, 4>(keys + t * D * 4, d + 4, k + 4);
			} else {
				load<DTYPE, 8>(keys + t * D * 2, d, k);
			}
			EACH(m, w.queries, QUERIES) {
				UNROLL for (int i = 0; i < 8; i++) s[m] += query[m][d + i] * k[i];
			}
		}
		EACH(m, w.queries, QUERIES) weights[m][t] = reads(a, w, m, begin + t) ? s[m] * a.scale : MINUS_INFINITY;
	}
	EACH(m, w.queries, QUERIES) {
		float top = MINUS_INFINITY, sum = 0;
		for (u32 t = lane; t < rows; t += WARP) top = __builtin_fmaxf(top, weights[m][t]);
		top = warp_max(top);
		for (u32 t = lane; t < rows; t += WARP) {
			float e = top == MINUS_INFINITY ? 0 : exp_of(weights[m][t] - top);
			weights[m][t] = e;
			sum += e;
		}
		page.top[m] = top;
		page.sum[m] = warp_sum(sum);
	}
	sync_warp();
}

// Attends to one page between two checks of its tag.
template <int DTYPE, int D, int J>
DEVICE void attend_page(const AttentionArgs &a, const Work &w, u32 block, const float (*query)[D],
                        float (*weights)[MAX_TOKENS], State<J> &whole) {
	const Pass &p = a.pass;
	const Shape &s = p.shape;
	const Block entry = p.tables[w.tile.table + block];
	u32 lane = thread_id() % WARP;
	u64 seen = first_lane(lane == 0 ? load_acquire(&p.layer.written[entry.page]) : 0);
	if (!w.tile.unchecked && !readable(entry.tag, seen)) {
		if (lane == 0) fail(p, w.tile.sequence, w.head, w.tile.table, block, seen, BEFORE_READ);
		return;
	}
	sync_warp(); // one lane has loaded the tag: what the others read comes after that too
	u64 at = entry.page * page_bytes(s) + w.head * head_bytes(s);
	u32 begin = block * s.tokens, skip = w.from > begin ? w.from - begin : 0;
	u32 rows = (w.to - begin < s.tokens ? w.to - begin : s.tokens) - skip;
	at += (u64)skip * D * number_bytes(DTYPE);
	State<J> page;
	page.reset();
	score<DTYPE, D, J>(a, w, begin + skip, rows, p.layer.keys + at, query, weights, page);
	for (u32 t = 0; t < rows; t++) {
		float v[J];
		load<DTYPE, J>(p.layer.values + at + (u64)t * D * number_bytes(DTYPE), lane * J, v);
		EACH(m, w.queries, QUERIES) {
			if (weights[m][t] == 0) continue;
			UNROLL for (int j = 0; j < J; j++) page.values[m][j] += weights[m][t] * v[j];
		}
	}
	sync_warp(); // all lanes have read their part
	if (lane == 0) {
		fence_system();
		seen = load_relaxed(&p.layer.written[entry.page]);
	}
	seen = first_lane(seen);
	if (!w.tile.unchecked && !readable(entry.tag, seen)) {
		if (lane == 0) fail(p, w.tile.sequence, w.head, w.tile.table, block, seen, AFTER_READ);
		return;
	}
	EACH(m, w.queries, QUERIES) whole.join(m, page);
}

// The weighted mean; the sink is one more score, of a value of zero. Where nothing
// was attended to the result is zero, and not a division by it.
DEVICE float finished(float value, float top, float sum, float sink) {
	if (sum == 0) return 0;
	float high = __builtin_fmaxf(top, sink), weight = exp_of(top - high);
	return value * weight / (sum * weight + exp_of(sink - high));
}

template <int DTYPE, int D> DEVICE void attention(const AttentionArgs &a) {
	constexpr int J = D / WARP;
	SHARED float query[QUERIES][D];
	SHARED float weights[WARPS][QUERIES][MAX_TOKENS];
	SHARED float tops[WARPS][QUERIES], sums[WARPS][QUERIES], values[WARPS][QUERIES][D];
	const Work w = work_of(a);
	u32 warp = thread_id() / WARP, lane = thread_id() % WARP, tokens = a.pass.shape.tokens;
	for (u32 i = thread_id(); i < w.queries * D; i += WARPS * WARP) query[i / D][i % D] = a.queries[place(a, w, i / D) * D + i % D];
	sync_block();

	State<J> whole;
	whole.reset();
	u32 step = WARPS * blocks_z();
	for (u32 block = w.from / tokens + block_z() * WARPS + warp; block * tokens < w.to; block += step)
		attend_page<DTYPE, D, J>(a, w, block, query, weights[warp], whole);

	EACH(m, w.queries, QUERIES) {
		if (lane == 0) tops[warp][m] = whole.top[m], sums[warp][m] = whole.sum[m];
		UNROLL for (int j = 0; j < J; j++) values[warp][m][lane * J + j] = whole.values[m][j];
	}
	sync_block();
	u32 d = thread_id();
	if (d >= D) return;
	for (u32 m = 0; m < w.queries; m++) {
		State<1> all;
		all.reset();
		for (int i = 0; i < WARPS; i++) {
			State<1> one;
			one.top[0] = tops[i][m], one.sum[0] = sums[i][m], one.values[0][0] = values[i][m][d];
			all.join(0, one);
		}
		u64 to = place(a, w, m);
		if (blocks_z() == 1) {
			a.attended[to * D + d] = finished(all.values[0][0], all.top[0], all.sum[0], a.sinks[to % a.heads]);
			continue;
		}
		float *partial = a.partial + (block_z() * a.rows * a.heads + to) * (D + 2);
		partial[d] = all.values[0][0];
		if (d == 0) partial[D] = all.top[0], partial[D + 1] = all.sum[0];
	}
}

KERNEL kv_attention_float32_64(const AttentionArgs *a) { attention<FLOAT32, 64>(*a); }
KERNEL kv_attention_float32_128(const AttentionArgs *a) { attention<FLOAT32, 128>(*a); }
KERNEL kv_attention_bfloat16_64(const AttentionArgs *a) { attention<BFLOAT16, 64>(*a); }
KERNEL kv_attention_bfloat16_128(const AttentionArgs *a) { attention<BFLOAT16, 128>(*a); }
KERNEL kv_attention_float16_64(const AttentionArgs *a) { attention<FLOAT16, 64>(*a); }
KERNEL kv_attention_float16_128(const AttentionArgs *a) { attention<FLOAT16, 128>(*a); }

struct MergeArgs {
	const float *partial, *sinks;
	float *attended;
	u64 rows;
	u32 heads, dim, splits, unused;
};

// Joins the splits of each query. Grid: rows × heads; a thread for each number.
KERNEL kv_merge(const MergeArgs *a) {
	u32 d = thread_id(), width = a->dim + 2;
	u64 to = (u64)block_x() * a->heads + block_y();
	State<1> all;
	all.reset();
	for (u32 i = 0; i < a->splits; i++) {
		const float *partial = a->partial + (i * a->rows * a->heads + to) * width;
		State<1> one;
		one.top[0] = partial[a->dim], one.sum[0] = partial[a->dim + 1], one.values[0][0] = partial[d];
		all.join(0, one);
	}
	a->attended[to * a->dim + d] = finished(all.values[0][0], all.top[0], all.sum[0], a->sinks[block_y()]);
}
