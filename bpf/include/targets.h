/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The processes that are watched, by the number of their thread group in the
 * node's first PID namespace. All probes share one such map.
 */
#pragma once
#include "helpers.h"

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, u64);
} targets SEC(".maps");
