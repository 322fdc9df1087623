// Faults at a moment: a test arms a change of one tag, which happens right before a
// kernel's load of it.
#include "fibres.h"

static struct {
	const u64 *word;
	u32 loads; // before the change
	u64 to;
	u64 done;
} change;

extern "C" __attribute__((visibility("default"))) void fakecuda_change(u64 word, u32 loads, u64 to) {
	change = {(const u64 *)word, loads, to, 0};
}

extern "C" __attribute__((visibility("default"))) u64 fakecuda_changed() { return change.done; }

void before_load(const u64 *p) {
	if (p != change.word || change.loads-- > 0) return;
	__atomic_store_n((u64 *)p, change.to, __ATOMIC_SEQ_CST);
	change.word = nullptr;
	change.done = 1;
}
