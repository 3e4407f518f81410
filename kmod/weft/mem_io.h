/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands on registered memory: mem_io.c checks them, mem_bio.c sends them as
 * bios, mem_part.c as parts, past the block layer, and mem_cmd.c ends them.
 */
#ifndef WEFT_MEM_IO_H
#define WEFT_MEM_IO_H

#include "mem.h"
#include "qos.h"
#include "stock.h"

#include <linux/pagemap.h>
#include <linux/pid.h>

#include "../compat/uring.h"

struct weft_mem_io;

/**
 * struct weft_mem_part - a part of a command, on one member
 * @op: the operation for a path
 * @io: the command
 * @member: the member
 * @list: in the node's held
 * @lost_at: when its path was lost first, in jiffies
 * @qos: holds it for its class
 * @late: until then its target may execute a copy of it whose path was lost, in
 *	jiffies; 0 if there is none
 * @since: when it began to wait, in jiffies; 0 if it does not wait
 * @sent: when it was first sent, in nanoseconds
 * @error: it fails with that at @late; 0 if it is sent again
 * @losses: how often its path was lost while it was in flight
 * @due: it has to be tried again before it gives up for lack of a path
 * @classed: it is counted by weft_qos_begin()
 */
struct weft_mem_part {
	struct weft_mem_op	op;
	struct weft_mem_io	*io;
	struct weft_member	*member;
	struct list_head	list;
	unsigned long		lost_at;
	struct weft_qos_item	qos;
	/* Zero for a new part, from here on. */
	unsigned long		late;
	unsigned long		since;
	u64			sent;
	int			error;
	u32			losses;
	bool			due;
	bool			classed;
};

/**
 * struct weft_mem_io - a command in flight
 * @cmd: the command of io_uring
 * @mf: the file; the command keeps it open
 * @remaining: with bios: bios in flight, plus one while they are submitted.
 *	With parts: parts in flight, plus one while the last is not submitted
 * @mark: marks it for io_uring when a part or a bio of it is held, here or for its class
 * @op: read or write; a flush is a write without a memory
 * @class: its class, if the volume has classes
 * @background: its parts are background I/O
 * @ioprio: the I/O priority of its bios, if the command has a class
 * @at: offset in the memory
 * @offset: offset in the target
 * @length: in bytes
 * @work: after a read, copies from @pages; after a write, drops cached pages
 * @first: its first part; most commands have only one
 * @target: the target, with a reference
 * @memory: the memory, with a reference; NULL for a flush
 * @pages: bounce buffer in host pages, if the bytes are copied
 * @submitter: its process, if a part was held for its class; with a reference
 * @cancelled: when io_uring cancelled it because its submitter exits, in
 *	jiffies; 0 if it did not
 * @page_count: number of @pages
 * @bounced: pages of it that are counted in @mf
 * @error: one of the errors, as a negative errno
 * @beyond: so many of its bytes are beyond the end of a file, and not in the result
 */
struct weft_mem_io {
	struct io_uring_cmd		*cmd;
	struct weft_mem_file		*mf;
	atomic_t			remaining;
	struct weft_mem_mark		mark;
	enum req_op			op;
	u8				class;
	bool				background;
	u16				ioprio;
	u64				at;
	u64				offset;
	u32				length;
	struct work_struct		work;
	struct weft_mem_part		first;
	/* Zero for a new command, from here on. */
	struct weft_mem_target_ref	*target;
	struct weft_memory		*memory;
	struct page			**pages;
	struct pid			*submitter;
	unsigned long			cancelled;
	u32				page_count;
	u32				bounced;
	int				error;
	u32				beyond;
};

/**
 * struct weft_mem_buffer - the bounce buffer of a command
 * @rcu: frees it: a command may end where nothing may sleep
 * @pages: host pages
 */
struct weft_mem_buffer {
	struct rcu_head		rcu;
	struct page		*pages[];
};

/* Map an offset of the target to the volume. */
static inline struct weft_run weft_mem_run(const struct weft_mem_io *io, u64 offset)
{
	if (io->target->sealed)
		return weft_sealed_run(io->target->sealed, offset);
	return (struct weft_run) { .at = offset, .length = U64_MAX };
}

/* A held command looks so often whether it can go on. */
#define WEFT_MEM_AGAIN	(HZ / 20)

/* Does a read need a lease that is over? Of a sealed file, which another owner may have deleted. */
static __always_inline bool weft_mem_read_lacks_lease(const struct weft_mem_io *io)
{
	return io->target->sealed && unlikely(weft_lease_is_over(&io->mf->vol->lease));
}

/* Does a command? A write does, too. */
static __always_inline bool weft_mem_lacks_lease(const struct weft_mem_io *io)
{
	return io->op == REQ_OP_WRITE ? unlikely(weft_lease_is_over(&io->mf->vol->lease)) :
					weft_mem_read_lacks_lease(io);
}

/* mem_cmd.c */
extern struct kmem_cache *weft_mem_io_cache;
DECLARE_PER_CPU(struct weft_stock, weft_mem_io_stock);
WEFT_URING_TW(weft_mem_io_done);
void weft_mem_unbounce(struct weft_mem_io *io);
int weft_mem_io_invalidate(struct weft_mem_io *io);
void weft_mem_io_end_cached(struct weft_mem_io *io);
void weft_mem_io_mark(struct weft_mem_io *io);
bool weft_mem_is_abandoned(const struct weft_mem_io *io);

/* mem_bio.c */
int weft_mem_bounce(struct weft_mem_io *io);
void weft_mem_submit_bios(struct weft_mem_io *io, bool may_wait);
void weft_mem_submit_flush(struct weft_mem_io *io);

/* Context: any. */
static __always_inline void weft_mem_io_free(struct weft_mem_io *io)
{
	weft_stock_free(&weft_mem_io_stock, weft_mem_io_cache, io);
}

/* Drop the references early: the submitter itself may wait for them. */
static inline void weft_mem_io_release(struct weft_mem_io *io)
{
	if (unlikely(io->bounced))
		weft_mem_unbounce(io);
	if (io->memory)
		weft_mem_put(&io->memory->ref);
	if (io->target)
		weft_mem_put(&io->target->ref);
}

/* Is some of it in the block device's page cache? Never for a sealed file. */
static inline bool weft_mem_io_is_cached(const struct weft_mem_io *io)
{
	struct address_space *mapping = io->mf->mapping;

	if (likely(!READ_ONCE(mapping->nrpages)))
		return false;
	return io->length && !io->target->sealed &&
	       filemap_range_has_page(mapping, io->offset, io->offset + io->length - 1);
}

/* @parts: it had parts, and so a memory and a target, and no bounce buffer. Context: any. */
static __always_inline void weft_mem_io_finish(struct weft_mem_io *io, bool parts)
{
	struct weft_memory *memory = io->memory;

	if (!io->error && (parts || memory)) {
		this_cpu_add(*memory->moved, io->length);
		this_cpu_add(*memory->moved_all, io->length);
	}
	if (parts) {
		weft_mem_put(&memory->ref);
		weft_mem_put(&io->target->ref);
	} else {
		weft_mem_io_release(io);
	}
	if (unlikely(io->mark.state != WEFT_MEM_MARK_NONE)) {
		put_pid(io->submitter);
		if (!weft_mem_mark_end(io->mf, &io->mark))
			return;
	}
	weft_uring_in_task(io->cmd, weft_mem_io_done);
}

/**
 * weft_mem_io_end() - end a command whose bios or parts have all ended
 * @io: the command; it may be gone afterwards
 * @parts: these were parts
 *
 * Inline, because it runs for every command.
 *
 * Context: any.
 */
static __always_inline void weft_mem_io_end(struct weft_mem_io *io, bool parts)
{
	if (unlikely(io->op == REQ_OP_WRITE && weft_mem_io_is_cached(io)))
		weft_mem_io_end_cached(io);
	else
		weft_mem_io_finish(io, parts);
}

#endif /* WEFT_MEM_IO_H */
