//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// What a user of UCX puts into the memory of others and gets from there. The
// layouts are those of the public header ucp/api/ucp.h, which only grow at their
// ends. All that is read here lies in the target's memory and is hostile.
//
// Nothing here sleeps, writes into the target or reads what is transferred.

#include "moving.h"
#include "objects.h"

char LICENSE[] SEC("license") = "GPL";
