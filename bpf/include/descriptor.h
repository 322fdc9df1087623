/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * From a descriptor of the running process to its open file. Processes that share an
 * open file have the same, whatever its number with each; its address is another's once
 * it is closed by all.
 */
#pragma once
#include "kernel.h"

INLINE struct fdtable *descriptors(void)
{
	struct task_struct *task = current_task();
	struct files_struct *files;
	struct fdtable *table;

	READ(files, &task->files);
	READ(table, &files->fdt);
	return table;
}

/* file_at is for a descriptor that is below the table's max_fds. */
INLINE struct file *file_at(struct fdtable *table, u64 descriptor)
{
	struct file **fds;
	struct file *file;

	READ(fds, &table->fd);
	READ(file, &fds[(u32)descriptor]);
	return file;
}
