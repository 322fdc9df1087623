/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the programs share. */
#pragma once
#include "ucp.h"

#define NUM_COUNTERS NUM_COMMON_COUNTERS
#define PASSES(kind) ((kind) >= KIND_MOVED && (kind) <= KIND_DONE)

#include "uprobe.h"

/* A field of a struct of the target's; 0 where it cannot be read. */
#define FIELD(type, base, offset)                                             \
	({                                                                    \
		type field = 0;                                               \
		read_user(&field, sizeof(field), (void *)((base) + (offset))); \
		field;                                                        \
	})
