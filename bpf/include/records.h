/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What records of probes that hang on functions begin with, and how many counters
 * these probes have in common. */
#pragma once
#include "kernel.h"

enum flag {
	TRUNCATED = 1, /* something was longer than is followed: the rest was not seen */
	UNREADABLE = 2, /* memory that a pointer named could not be read */
};

struct head {
	u64 time; /* CLOCK_MONOTONIC, ns */
	u32 tgid;
	u32 tid;
	u16 kind;
	u16 flags;
	u32 n; /* entries that follow, where there are any */
};

struct about { /* something that has ended, or goes by unseen */
	struct head head;
	u64 what;
};

enum common_counter {
	RECORDS_SENT = 0,
	RECORDS_LOST, /* no room in the ring */
	LOST_CALLS, /* a call was not remembered until its return */
	LOST_OBJECTS, /* of RECORDS_LOST: about what lasts */
	NUM_COMMON_COUNTERS,
};
