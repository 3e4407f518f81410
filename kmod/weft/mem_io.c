// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands from io_uring: checked, and sent to the members.
 *
 * DOC: bios or parts
 *
 * A command names a target and a memory by id. If the memory has pages, or its
 * bytes are copied through host pages, these pages go to the volume as bios
 * (mem_bio.c). If the transport does I/O on the memory itself, parts of the
 * command go to the members past the block layer (mem_part.c).
 *
 * Pages of the volume's block device may be in the page cache, from access
 * without O_DIRECT. They are handled as direct I/O handles them: written back
 * before a command, and dropped before and after a write.
 */
#include "mem_part.h"

#include <linux/build_bug.h>

/*
 * Limits of a command that is submitted without waiting: copied bytes, and
 * chunks. A larger command goes to a worker of io_uring, so that other commands
 * of the ring do not wait for it.
 */
#define WEFT_MEM_INLINE_BOUNCE	SZ_64K
#define WEFT_MEM_INLINE_PARTS	32
/* Not too large for any volume, whose chunks have at least 4 KiB. */
#define WEFT_MEM_SHORT		SZ_64K

/* Before submission: write back cached pages, and drop them for a write. */
static noinline int weft_mem_io_clean(struct weft_mem_io *io)
{
	int ret;

	ret = filemap_write_and_wait_range(io->mf->mapping, io->offset,
					   io->offset + io->length - 1);
	if (!ret && io->op == REQ_OP_WRITE)
		ret = weft_mem_io_invalidate(io);
	return ret;
}

/* Find a memory or a target by id and take a reference. Under RCU. */
static inline void *weft_mem_find(struct weft_mem_registry *registry, u32 id)
{
	struct weft_mem_ref *ref;
	u32 slot = id;

	/*
	 * The processor may speculate past the test: the mask, which the compiler must not
	 * drop, keeps it within the array, as array_index_nospec() does for any length.
	 */
	BUILD_BUG_ON_NOT_POWER_OF_2(WEFT_MEM_FIRST_IDS);
	OPTIMIZER_HIDE_VAR(slot);
	if (likely(id < WEFT_MEM_FIRST_IDS))
		ref = READ_ONCE(registry->first[slot & (WEFT_MEM_FIRST_IDS - 1)]);
	else
		ref = xa_load(&registry->all, id);
	return ref && weft_mem_get(ref) ? ref : NULL;
}

/* The rest of a command: the ids of its target and memory, and its flags. */
struct weft_mem_ids {
	u32	target;
	u32	memory;
	u32	flags;
};

/* Read each field once: the user may change them meanwhile. */
static void weft_mem_read_cmd(struct weft_mem_io *io, struct weft_mem_ids *ids)
{
	const struct weft_mem_cmd *from = weft_uring_payload(io->cmd, struct weft_mem_cmd);

	io->op = io->cmd->cmd_op == WEFT_MEM_CMD_READ ? REQ_OP_READ : REQ_OP_WRITE;
	io->at = READ_ONCE(from->memory_offset);
	io->offset = READ_ONCE(from->offset);
	io->length = READ_ONCE(from->length);
	ids->target = READ_ONCE(from->target);
	ids->memory = READ_ONCE(from->memory);
	ids->flags = READ_ONCE(from->flags);
}

/* Check the fields that do not depend on the target and the memory. */
static int weft_mem_check(const struct weft_mem_io *io, const struct weft_mem_ids *ids)
{
	u32 block = io->mf->block - 1;

	if (unlikely(ids->flags)) {
		if (ids->flags != WEFT_MEM_CMD_FEED && ids->flags != WEFT_MEM_CMD_BACKGROUND)
			return -EINVAL;
		if (ids->flags == WEFT_MEM_CMD_FEED && !io->mf->may_feed)
			return -EPERM;
	}
	switch (io->cmd->cmd_op) {
	case WEFT_MEM_CMD_FLUSH:
		return ids->memory || io->length || io->offset || io->at ? -EINVAL : 0;
	case WEFT_MEM_CMD_READ:
	case WEFT_MEM_CMD_WRITE:
		if (!io->length || io->length > WEFT_MEM_CMD_BYTES_MAX || io->length & block ||
		    io->offset & block)
			return -EINVAL;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* Find the target and the memory, and check the command's ranges in them. */
static int weft_mem_bind(struct weft_mem_io *io, const struct weft_mem_ids *ids)
{
	u32 access = io->op == REQ_OP_READ ? WEFT_MEM_MAY_READ : WEFT_MEM_MAY_WRITE;
	struct weft_mem_file *mf = io->mf;
	struct weft_mem_target_ref *target;
	struct weft_memory *memory = NULL;
	u64 end;

	rcu_read_lock();
	target = weft_mem_find(&mf->targets, ids->target);
	if (io->length)
		memory = weft_mem_find(&mf->memories, ids->memory);
	rcu_read_unlock();
	io->target = target;
	io->memory = memory;
	if (!target)
		return -ENOENT;
	if (!(target->access & access))
		return -EACCES;
	/* Another host may have moved or deleted the file. */
	if (target->sealed && weft_owner_state(mf->vol) == WEFT_OWNERSHIP_LOST)
		return -EIO;
	if (unlikely(io->offset > target->size || io->length > target->size - io->offset)) {
		/* A file may end within a block: the whole block is read. */
		end = round_up(target->size, mf->block);
		if (io->offset >= target->size || io->length > end - io->offset)
			return -ERANGE;
		io->beyond = io->offset + io->length - target->size;
	}
	if (!io->length)
		return 0;
	if (!memory)
		return -ENOENT;
	if (io->op == REQ_OP_READ && memory->read_only)
		return -EACCES;
	/* Bios must start at the alignment that the members need. */
	if (!memory->peer && memory->pages &&
	    io->at & queue_dma_alignment(mf->vol->disk->queue))
		return -EINVAL;
	if (io->at > memory->length || io->length > memory->length - io->at)
		return -ERANGE;
	return 0;
}

/*
 * Does its submission take long, or wait? A part is at most a chunk, or a path's
 * largest operation. A queue refuses a bio with REQ_NOWAIT that has too many
 * segments.
 */
static noinline bool weft_mem_may_be_long(const struct weft_mem_io *io)
{
	const struct weft_volume *vol = io->mf->vol;
	u32 part = vol->member_count > 1 ? 1U << (vol->map.chunk_shift + SECTOR_SHIFT) : U32_MAX;

	if (io->memory && io->memory->route == WEFT_MEM_ROUTE_BOUNCE)
		return io->length > WEFT_MEM_INLINE_BOUNCE;
	if (io->memory && io->memory->peer)
		part = min(part, READ_ONCE(io->memory->piece));
	else if ((min_t(u64, min(io->length, part), (u64)vol->max_sectors << SECTOR_SHIFT) >>
		  PAGE_SHIFT) + 2 > queue_max_segments(vol->disk->queue))
		return true;
	return io->length / WEFT_MEM_INLINE_PARTS > part;
}

/* Few chunks, each in one operation: most commands. */
static inline bool weft_mem_is_long(const struct weft_mem_io *io)
{
	return (!io->memory || !io->memory->peer || io->length > WEFT_MEM_SHORT) &&
	       weft_mem_may_be_long(io);
}

/* The class that the command says, or that its task or its kind has. */
static noinline void weft_mem_classify(struct weft_mem_io *io, u32 flags)
{
	if (flags == WEFT_MEM_CMD_FEED)
		io->class = WEFT_IO_CLASS_FEED;
	else if (flags == WEFT_MEM_CMD_BACKGROUND)
		io->class = WEFT_IO_CLASS_BACKGROUND;
	if (io->class != WEFT_IO_CLASS_NONE)
		io->ioprio = weft_qos_ioprio(io->class);
	io->class = weft_qos_class_of_task(io->mf->vol, io->class, io->op == REQ_OP_WRITE,
					   io->length);
	io->background = flags == WEFT_MEM_CMD_BACKGROUND ||
			 io->class == WEFT_IO_CLASS_BACKGROUND;
}

/* Returns NULL if there is no memory. */
static struct weft_mem_io *weft_mem_io_alloc(struct weft_mem_file *mf, struct io_uring_cmd *cmd)
{
	struct weft_mem_io *io = weft_stock_alloc(&weft_mem_io_stock, weft_mem_io_cache, GFP_KERNEL);

	if (unlikely(!io))
		return NULL;
	io->cmd = cmd;
	io->mf = mf;
	atomic_set(&io->remaining, 1);
	memset_startat(io, 0, target);
	io->mark.state = WEFT_MEM_MARK_NONE;
	io->class = WEFT_IO_CLASS_NONE;
	io->background = false;
	io->ioprio = 0;
	return io;
}

/*
 * io_uring cancels a command. The ring's lock keeps it from being freed. While a
 * command does not end, io_uring calls this again at once, and without a sleep
 * here the exiting task would take a whole processor.
 */
static void weft_mem_cancel(struct io_uring_cmd *cmd)
{
	struct weft_mem_io *io = *io_uring_cmd_to_pdu(cmd, struct weft_mem_io *);

	if (!io->cancelled) {
		WRITE_ONCE(io->cancelled, jiffies | 1);
	} else if (time_before(READ_ONCE(io->mf->cancelled_at), jiffies)) {
		schedule_timeout_uninterruptible(1);
		WRITE_ONCE(io->mf->cancelled_at, jiffies);
	} else {
		return;
	}
	/* Again each time: a worker may have submitted more of its parts since. */
	if (io->class != WEFT_IO_CLASS_NONE)
		weft_mem_drop_held(io->mf);
}

/**
 * weft_mem_uring_cmd() - IORING_OP_URING_CMD on a file of /dev/weft/NAME.mem
 * @cmd: the command
 * @issue_flags: io_uring's
 *
 * Context: the submitter's task, or its io_uring worker, which may wait for
 * requests.
 * Return: -EIOCBQUEUED if it was started. -EAGAIN makes io_uring start it again
 * in a worker, where it may wait. Otherwise -EINVAL for a field that is out of
 * range or not aligned, -ENOENT for an unknown id, -ERANGE beyond the end of a
 * target or a memory, -EACCES for missing access, -EBUSY for too many commands
 * or bounce pages in flight, or where another program writes to the same page of
 * the page cache, or another negative errno.
 */
int weft_mem_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct weft_mem_file *mf = cmd->file->private_data;
	struct weft_mem_io *io;
	struct weft_mem_ids ids;
	bool cached;
	int ret;

	if (unlikely(issue_flags & WEFT_URING_F_CANCEL)) {
		weft_mem_cancel(cmd);
		return 0;
	}
	if (!(issue_flags & IO_URING_F_SQE128))
		return -EINVAL;
	/* The process that opened the file exited, but another one uses it. */
	if (unlikely(READ_ONCE(mf->dying)) && !(current->flags & PF_EXITING))
		WRITE_ONCE(mf->dying, 0);
	if (unlikely(atomic_inc_return(&mf->in_flight) > WEFT_MEM_COMMANDS_MAX)) {
		ret = -EBUSY;
		goto out_count;
	}
	io = weft_mem_io_alloc(mf, cmd);
	if (unlikely(!io)) {
		ret = -ENOMEM;
		goto out_count;
	}
	weft_mem_read_cmd(io, &ids);
	ret = weft_mem_check(io, &ids) ?: weft_mem_bind(io, &ids);
	if (unlikely(ret))
		goto out_free;
	/* Its target keeps the volume from here on. */
	cached = weft_mem_io_is_cached(io);
	if (issue_flags & IO_URING_F_NONBLOCK && (cached || weft_mem_is_long(io))) {
		ret = -EAGAIN;
		goto out_free;
	}
	if (weft_qos_is_used() || unlikely(ids.flags))
		weft_mem_classify(io, ids.flags);
	if (unlikely(cached))
		ret = weft_mem_io_clean(io);
	if (unlikely(ret))
		goto out_free;
	*io_uring_cmd_to_pdu(cmd, struct weft_mem_io *) = io;
	if (likely(io->memory && io->memory->peer)) {
		weft_mem_submit_parts(io);
		return -EIOCBQUEUED;
	}
	if (io->memory && io->memory->route == WEFT_MEM_ROUTE_BOUNCE)
		ret = weft_mem_bounce(io);
	if (unlikely(ret))
		goto out_free;
	if (io->memory)
		weft_mem_submit_bios(io, !(issue_flags & IO_URING_F_NONBLOCK));
	else
		weft_mem_submit_flush(io);
	return -EIOCBQUEUED;

out_free:
	weft_mem_io_release(io);
	weft_mem_io_free(io);
out_count:
	weft_mem_uncount(mf);
	return ret;
}
