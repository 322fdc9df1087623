/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Memory that a watched process lends, and who opens it: by a handle, of which a keyed
 * digest is kept, or by a descriptor, of which its open file is. Who includes it has
 * defined digest_key, struct record and struct call, count and result.
 */
#pragma once
#include "descriptor.h"

/* Memory whose handle a watched process asked for, by the handle's digest. */
struct loan {
	u64 base; /* its address, or when it was lent: that names it */
	u32 owner;
	u32 unused;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, struct loan);
} exported SEC(".maps");

/* The same, by the open file that was made of it. Once that is closed by all, its address
 * is that of another's. But a file opened with the credentials that its owner still has is
 * of this owner, or of who was forked with it: each exec makes new ones. */
struct file_loan {
	struct loan loan;
	const struct cred *cred;
	struct task_struct *leader;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct file *);
	TYPE(value, struct file_loan);
} files SEC(".maps");

/* Where another process opened it. */
struct borrowed {
	u64 base;
	u32 tgid;
	u32 unused;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct borrowed);
	TYPE(value, struct loan);
} opened SEC(".maps");

#define HANDLE_WORDS 8

/* digest tells handles apart; 0: it cannot be read. */
INLINE u64 digest(u64 handle)
{
	u64 words[HANDLE_WORDS];
	u64 d = digest_key;

	if (read_user(words, sizeof(words), (void *)handle))
		return 0;
	for (int i = 0; i < HANDLE_WORDS; i++) {
		d = (d ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		d ^= d >> 29;
	}
	return d | 1;
}

/* file_of is the open file of a descriptor that a process names; 0: none. */
INLINE struct file *file_of(u64 descriptor)
{
	struct fdtable *table = descriptors();
	u32 most;

	READ(most, &table->max_fds);
	return (u32)descriptor < most ? file_at(table, descriptor) : 0;
}

INLINE const struct cred *opened_with(struct file *file)
{
	const struct cred *cred;

	READ(cred, &file->f_cred);
	return cred;
}

/* find_file is the loan of an open file; 0: none, or it is not sure that this is the file
 * that was lent. */
INLINE struct loan *find_file(struct file *file)
{
	struct file_loan *l = map_lookup(&files, &file);
	const struct cred *cred;
	int tgid, ended;

	if (!l)
		return 0;
	READ(tgid, &l->leader->tgid);
	READ(ended, &l->leader->exit_state);
	READ(cred, &l->leader->cred);
	if (tgid != l->loan.owner || ended || cred != l->cred || cred != opened_with(file))
		return 0;
	return &l->loan;
}

INLINE int opens(u64 kind)
{
	return kind == OPEN || kind == IMPORT || kind == IMPORT_POOL;
}

/* The handle of OPEN is passed by value: it lies behind the return address. Of the others
 * the second argument is a descriptor or the address of a handle, the third says which. */
INLINE void find_owner(struct call *c, u64 stack)
{
	struct loan *l = 0;

	if (c->kind != OPEN && (u32)c->third == BY_DESCRIPTOR) {
		l = find_file(file_of(c->second));
	} else if (c->kind == OPEN || (u32)c->third == BY_FABRIC) {
		u64 d = digest(c->kind == OPEN ? stack + 8 : c->second);

		l = map_lookup(&exported, &d);
	}
	if (l) {
		c->owner = l->owner;
		c->lent = l->base;
	}
}

INLINE int is_borrowed(u32 tgid, u64 base)
{
	struct borrowed b = { .base = base, .tgid = tgid };

	return map_lookup(&opened, &b) != 0;
}

/* note_handle remembers whose memory a handle is of. */
INLINE void note_handle(u64 handle, struct loan *l)
{
	u64 d = digest(handle);

	if (!d || map_update(&exported, &d, l, ANY))
		count(LOST_CALLS);
}

INLINE void lend(struct record *r, struct call *c)
{
	struct loan l = { .base = c->second, .owner = r->head.tgid };

	r->base = c->second;
	note_handle(c->first, &l);
}

/* lend_file remembers whose memory an open file is of. */
INLINE void lend_file(struct file *file, struct loan *loan)
{
	struct task_struct *task = current_task();
	struct file_loan l = { .loan = *loan, .cred = opened_with(file) };

	READ(l.leader, &task->group_leader);
	if (!file || map_update(&files, &file, &l, ANY))
		count(LOST_CALLS);
}

/* lend_further is for memory that has handles of its own, and pools of it. */
INLINE void lend_further(struct record *r, struct call *c)
{
	struct loan l = { .base = r->head.time, .owner = r->head.tgid };

	r->base = c->second;
	if ((u32)c->third == BY_FABRIC)
		note_handle(c->first, &l);
	if ((u32)c->third == BY_DESCRIPTOR)
		lend_file(file_of((u32)result(r, c->first)), &l);
}

INLINE void borrow(struct record *r, struct call *c)
{
	struct borrowed b = { .tgid = r->head.tgid };
	struct loan l = { .base = c->lent, .owner = c->owner };

	b.base = r->base = result(r, c->first);
	r->owner = c->owner;
	r->other = c->lent;
	if (c->owner && map_update(&opened, &b, &l, ANY))
		count(LOST_CALLS);
}

INLINE void give_back(struct record *r, struct call *c)
{
	struct borrowed b = { .base = c->first, .tgid = r->head.tgid };
	struct loan *l = map_lookup(&opened, &b);

	r->base = c->first;
	if (!l)
		return;
	r->owner = l->owner;
	r->other = l->base;
	map_delete(&opened, &b);
}
