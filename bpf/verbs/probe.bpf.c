//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// What a user of libibverbs posts to its NICs, whatever the provider. The
// layouts are rdma-core's from v44 to v65 (x86-64). All that is read here lies
// in the target's memory and is hostile: every length, chain and count is
// bounded, and a record says what was cut off.
//
// Nothing here sleeps, writes into the target or reads page content.

#include "completing.h"
#include "extended.h"
#include "objects.h"
#include "posting.h"

char LICENSE[] SEC("license") = "GPL";
