/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Frames of ZMTP 3, and the shapes of messages whose content is known to be
 * addresses, lengths and numbers of pages. The shape of a message is decided by
 * the length and the first bytes of its first frame. What has none of them may
 * hold anything: KV events hold token ids, the internal messages of engines
 * hold prompts.
 */
#pragma once
#include "helpers.h"

enum frame_flag { FRAME_MORE = 1, FRAME_LONG = 2, FRAME_COMMAND = 4, FRAME_KNOWN = 7 };

/* Bytes of a first frame that are looked at. */
#define SHAPE_BYTES 8

enum shape {
	UNKNOWN = 0,
	PLAIN = 1, /* every frame may be handed on */
	AUX = 2,   /* AUX_DATA: content from AUX_CONTENT on */
};

/* The frame of AUX_DATA that holds output ids, log probabilities and hidden
 * states. What newer versions append is taken for content as well. */
#define AUX_CONTENT 5

/* text is up to eight bytes as they lie in memory. */
#define TEXT(a, b, c, d, e, f, g, h)                                                                      \
	((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 | (u64)(f) << 40 | \
	 (u64)(g) << 48 | (u64)(h) << 56)

/* The longest room in ASCII: the digits of a u64. */
#define MAX_ROOM 20

INLINE int is_room(const u8 *head, u64 have, u64 size)
{
	if (size > MAX_ROOM)
		return 0;
	for (int i = 0; i < SHAPE_BYTES; i++) {
		if ((u64)i >= have)
			break;
		if ((head[i] < '0' || head[i] > '9') && !(i == 0 && head[i] == '-' && size > 1))
			return 0;
	}
	return 1;
}

/* shape_of takes the first have bytes of a frame of size bytes. */
INLINE u8 shape_of(const u8 *head, u64 have, u64 size)
{
	u64 text = 0;

	for (int i = 0; i < SHAPE_BYTES; i++) {
		if ((u64)i < have)
			text |= (u64)head[i] << (8 * i);
	}
	switch (size) {
	case 4: /* SGLang, Mooncake: a registration */
		if (text == TEXT('N', 'o', 'n', 'e', 0, 0, 0, 0))
			return PLAIN;
		break;
	case 5:
		if (text == TEXT('A', 'B', 'O', 'R', 'T', 0, 0, 0))
			return PLAIN;
		break;
	case 8:
		if (text == TEXT('A', 'U', 'X', '_', 'D', 'A', 'T', 'A'))
			return AUX;
		break;
	case 9:
		if (text == TEXT('W', 'A', 'T', 'E', 'R', 'M', 'A', 'R') || text == TEXT('A', 'B', 'O', 'R', 'T', '_', 'A', 'C'))
			return PLAIN;
		break;
	case 11:
		if (text == TEXT('C', 'H', 'U', 'N', 'K', '_', 'R', 'E') || text == TEXT('S', 'T', 'A', 'G', 'I', 'N', 'G', '_'))
			return PLAIN;
		break;
	case 12: /* SGLang, NIXL: the guard of all its messages */
		if (text == TEXT('N', 'i', 'x', 'l', 'M', 's', 'g', 'G'))
			return PLAIN;
		break;
	}
	/* vLLM, Mooncake connector: a map that begins with remote_hostname or with
	 * status. Its first byte says how many keys follow. */
	if ((head[0] & 0xf0) == 0x80 && have == SHAPE_BYTES) {
		text &= ~0xffULL;
		if (text == TEXT(0, 0xaf, 'r', 'e', 'm', 'o', 't', 'e') || text == TEXT(0, 0xa6, 's', 't', 'a', 't', 'u', 's'))
			return PLAIN;
	}
	return is_room(head, have, size) ? PLAIN : UNKNOWN;
}

INLINE int is_content(u8 shape, u64 index)
{
	return shape == UNKNOWN || (shape == AUX && index >= AUX_CONTENT);
}
