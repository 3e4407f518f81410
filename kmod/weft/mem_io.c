// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands: from io_uring to the members, and back.
 *
 * DOC: two ways
 *
 * A command names a target and a memory by id. Where the memory has pages, or
 * its bytes are copied by pages, those go to the volume as bios of its own
 * block device: chunks, paths and what becomes of lost ones are that one's.
 * Where the transport does I/O on the memory itself, a command is split here,
 * where the member changes and where one operation cannot move more, and each
 * part goes past the block layer to a path of its member.
 *
 * A command completes once, in its submitter's task, when its last bio or part
 * has. What is registered it gives back before that, where it ended: the
 * submitter may be waiting for just that.
 *
 * DOC: parts that wait
 *
 * A part that no path can carry now, or whose memory is being moved, is held,
 * and tried again every twentieth of a second. A write that a path may have
 * carried is held at least until that can not execute any more. Patience is
 * that of the volume for bios, and a minute where a task that has the file open
 * is exiting. One whose path is lost under it again and again is what breaks it:
 * memory that the adapter does not reach, whatever was said of it. It fails.
 */
#include "mem.h"
#include "route.h"

#include <linux/timekeeping.h>

#include "../compat/uring.h"

#define WEFT_MEM_AGAIN		(HZ / 20)
#define WEFT_MEM_DYING		(60 * HZ)
/* Associations that may end with a part in flight. */
#define WEFT_MEM_LOSSES		16

struct weft_mem_io;

/**
 * struct weft_mem_part - a part of a command, on one member
 * @op: for a path
 * @io: the command
 * @member: the member
 * @list: in the node's held
 * @not_before: in jiffies, while it is held
 * @since: it began to wait then, in jiffies, 0 for it does not
 * @losses: how often its path was lost with it in flight
 * @sent: when, in nanoseconds
 */
struct weft_mem_part {
	struct weft_mem_op	op;
	struct weft_mem_io	*io;
	struct weft_member	*member;
	struct list_head	list;
	unsigned long		not_before;
	unsigned long		since;
	u32			losses;
	u64			sent;
};

/**
 * struct weft_mem_io - a command in flight
 * @cmd: io_uring's
 * @mf: the file; the command keeps it
 * @target: with a reference
 * @memory: with a reference, or NULL for a flush
 * @pages: host pages that carry its bytes, where they are copied
 * @page_count: of @pages
 * @bounced: counted of them in @mf
 * @remaining: bios, and one for who submits; or parts, of which the last one has
 *	that one
 * @error: one of the errors, as a negative errno
 * @op: read, write, or flush as a write without a memory
 * @at: within the memory
 * @length: in bytes
 * @result: of it without an error: less than @length where a file ends before
 * @copy: from @pages, when they were read
 * @first: its first part; most have no other
 */
struct weft_mem_io {
	struct io_uring_cmd		*cmd;
	struct weft_mem_file		*mf;
	struct weft_mem_target_ref	*target;
	struct weft_memory		*memory;
	struct page			**pages;
	u32				page_count;
	u32				bounced;
	atomic_t			remaining;
	int				error;
	enum req_op			op;
	u64				at;
	u32				length;
	u32				result;
	struct work_struct		copy;
	struct weft_mem_part		first;
};

/* What may take the CPU long, beside the volume's own, on which its heart beats. */
struct workqueue_struct *weft_mem_wq;
static struct kmem_cache *weft_mem_io_cache;
static struct kmem_cache *weft_mem_part_cache;
static struct bio_set weft_mem_bios;

/* Undoes weft_mem_bounce(), as far as that came. */
static noinline void weft_mem_unbounce(struct weft_mem_io *io)
{
	u32 i;

	for (i = 0; i < io->page_count; i++)
		__free_page(io->pages[i]);
	kvfree(io->pages);
	atomic_sub(io->bounced, &io->mf->bounced);
}

/* Gives back what was registered: whoever waits for that may be the submitter itself. */
static inline void weft_mem_io_release(struct weft_mem_io *io)
{
	if (unlikely(io->bounced))
		weft_mem_unbounce(io);
	if (io->memory)
		weft_mem_put(&io->memory->ref);
	if (io->target)
		weft_mem_put(&io->target->ref);
}

static void weft_mem_io_free(struct weft_mem_io *io)
{
	atomic_dec(&io->mf->in_flight);
	kmem_cache_free(weft_mem_io_cache, io);
}

static WEFT_URING_TW(weft_mem_io_done)
{
	struct io_uring_cmd *cmd = weft_uring_tw_cmd();
	struct weft_mem_io *io = *io_uring_cmd_to_pdu(cmd, struct weft_mem_io *);
	int ret = io->error ?: io->result;

	weft_mem_io_free(io);
	weft_uring_tw_done(cmd, ret);
}

/* Context: any. */
static __always_inline void weft_mem_io_end(struct weft_mem_io *io)
{
	if (!io->error && io->memory) {
		this_cpu_add(*io->memory->moved, io->length);
		this_cpu_add(*io->memory->moved_all, io->length);
	}
	weft_mem_io_release(io);
	weft_uring_in_task(io->cmd, weft_mem_io_done);
}

/* What was read by host pages goes where it belongs. */
static void weft_mem_io_copy(struct work_struct *work)
{
	struct weft_mem_io *io = container_of(work, struct weft_mem_io, copy);

	weft_memory_copy(io->memory, io->at, io->pages, io->length, false);
	weft_mem_io_end(io);
}

/* Context: any. */
static void weft_mem_io_put(struct weft_mem_io *io)
{
	if (!atomic_dec_and_test(&io->remaining))
		return;
	if (io->pages && io->op == REQ_OP_READ && !io->error)
		queue_work(weft_mem_wq, &io->copy);
	else
		weft_mem_io_end(io);
}

static void weft_mem_end_bio(struct bio *bio)
{
	struct weft_mem_io *io = bio->bi_private;

	/* One of several errors. */
	if (unlikely(bio->bi_status))
		WRITE_ONCE(io->error, blk_status_to_errno(bio->bi_status));
	bio_put(bio);
	weft_mem_io_put(io);
}

static struct bio *weft_mem_bio(struct weft_mem_io *io, sector_t sector, u32 vecs, blk_opf_t opf)
{
	struct bio *bio = bio_alloc_bioset(io->mf->vol->disk->part0, vecs, io->op | opf,
					   GFP_KERNEL, &weft_mem_bios);

	bio->bi_iter.bi_sector = sector;
	bio->bi_private = io;
	bio->bi_end_io = weft_mem_end_bio;
	atomic_inc(&io->remaining);
	return bio;
}

/* Fill a bio with pages from a place on. Returns how many bytes, whole blocks. */
static u32 weft_mem_fill(struct bio *bio, struct page **pages, u64 from, u32 length)
{
	u32 block = queue_logical_block_size(bdev_get_queue(bio->bi_bdev)) - 1, filled = 0;

	while (filled < length) {
		u64 at = from + filled;
		u32 n = min_t(u32, length - filled, PAGE_SIZE - offset_in_page(at));

		if (bio_add_page(bio, pages[at >> PAGE_SHIFT], n, offset_in_page(at)) != n)
			break;
		filled += n;
	}
	/* Where the first page is used from its middle on, the last may end within a block. */
	filled &= ~block;
	bio->bi_iter.bi_size = filled;
	return filled;
}

/* Where on the volume is an offset of the target, and how many bytes from there on? */
static u64 weft_mem_run(const struct weft_mem_io *io, u64 offset, u64 *at)
{
	if (io->target->sealed)
		return weft_sealed_run(io->target->sealed, offset, at);
	*at = offset;
	return U64_MAX;
}

/*
 * By bios. As the other ways it has the submitter's part in @io->remaining. Who
 * has no bios does not pay for the plug on the stack.
 */
static noinline void weft_mem_submit(struct weft_mem_io *io, u64 offset)
{
	blk_opf_t opf = io->op == REQ_OP_WRITE ? REQ_SYNC | REQ_IDLE : REQ_SYNC;
	struct page **pages = io->pages ?: io->memory->pages;
	u64 from = io->pages ? 0 : io->memory->first + io->at;
	struct blk_plug plug;
	u32 done = 0;

	blk_start_plug(&plug);
	while (done < io->length) {
		u64 at = from + done, place;
		u32 left = min_t(u64, io->length - done, weft_mem_run(io, offset + done, &place));
		u32 vecs = min_t(u32, DIV_ROUND_UP(offset_in_page(at) + left, PAGE_SIZE),
				 BIO_MAX_VECS);
		struct bio *bio = weft_mem_bio(io, place >> SECTOR_SHIFT, vecs, opf);

		done += weft_mem_fill(bio, pages, at, left);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	weft_mem_io_put(io);
}

static void weft_mem_submit_flush(struct weft_mem_io *io)
{
	submit_bio(weft_mem_bio(io, 0, 0, REQ_PREFLUSH | REQ_SYNC));
	weft_mem_io_put(io);
}

/* Host pages for bytes that are copied; what is written is there before it is sent. */
static int weft_mem_bounce(struct weft_mem_io *io)
{
	u32 count = DIV_ROUND_UP(io->length, PAGE_SIZE);

	INIT_WORK(&io->copy, weft_mem_io_copy);
	io->bounced = count;
	if (atomic_add_return(count, &io->mf->bounced) > WEFT_MEM_BOUNCE_MAX >> PAGE_SHIFT)
		return -EBUSY;
	io->pages = kvcalloc(count, sizeof(*io->pages), GFP_KERNEL);
	if (!io->pages)
		return -ENOMEM;
	for (; io->page_count < count; io->page_count++) {
		io->pages[io->page_count] = alloc_page(GFP_KERNEL_ACCOUNT);
		if (!io->pages[io->page_count])
			return -ENOMEM;
	}
	if (io->op == REQ_OP_WRITE)
		weft_memory_copy(io->memory, io->at, io->pages, io->length, true);
	return 0;
}

static __always_inline void weft_mem_part_end(struct weft_mem_part *part)
{
	struct weft_mem_io *io = part->io;

	if (part != &io->first)
		kmem_cache_free(weft_mem_part_cache, part);
	/* No bytes of parts are copied. */
	if (atomic_dec_and_test(&io->remaining))
		weft_mem_io_end(io);
}

static noinline void weft_mem_part_fail(struct weft_mem_part *part, int error)
{
	WRITE_ONCE(part->io->error, error);
	weft_mem_part_end(part);
}

static void weft_mem_part_hold(struct weft_mem_part *part, unsigned long not_before)
{
	struct weft_mem_node *node = part->io->mf->node;
	unsigned long flags;

	part->not_before = not_before;
	if (!part->since)
		part->since = jiffies | 1;
	spin_lock_irqsave(&node->held_lock, flags);
	list_add_tail(&part->list, &node->held);
	/* With the lock: once it is dropped the part may end, and the file with it. */
	queue_delayed_work(node->vol->wq, &node->held_work, WEFT_MEM_AGAIN);
	spin_unlock_irqrestore(&node->held_lock, flags);
}

/* Its path was lost, or the target refused it. */
static noinline void weft_mem_part_undone(struct weft_mem_part *part, blk_status_t status,
					  unsigned long after)
{
	if (status == BLK_STS_TRANSPORT) {
		part->losses++;
		part->since = 0;
		weft_mem_part_hold(part, after);
		return;
	}
	weft_volume_member_failed(part->member);
	weft_mem_part_fail(part, blk_status_to_errno(status));
}

/* Context: any; where requests complete. */
static void weft_mem_part_done(struct weft_mem_op *op, blk_status_t status, unsigned long after)
{
	struct weft_mem_part *part = container_of(op, struct weft_mem_part, op);

	this_cpu_add(part->member->stats->nsecs[op->write ? WEFT_STAT_WRITE : WEFT_STAT_READ],
		     ktime_get_ns() - part->sent);
	if (unlikely(status))
		weft_mem_part_undone(part, status, after);
	else
		weft_mem_part_end(part);
}

/* Writes pass while the volume is ours for certain, as in weft_submit_bio(). */
static bool weft_mem_may_write(struct weft_volume *vol)
{
	return !time_after(jiffies, READ_ONCE(vol->lease));
}

static __always_inline void weft_mem_part_send(struct weft_mem_part *part)
{
	struct weft_member *member = part->member;
	enum weft_stat_group group = part->op.write ? WEFT_STAT_WRITE : WEFT_STAT_READ;
	u32 sectors = part->op.length >> SECTOR_SHIFT;
	int ret = -ENOTCONN;

	part->sent = ktime_get_ns();
	if (likely(!part->op.write || weft_mem_may_write(member->volume)))
		ret = weft_route_peer(member, &part->op);
	if (unlikely(ret == -ENOTCONN)) {
		weft_mem_part_hold(part, jiffies);
		return;
	}
	if (unlikely(ret)) {
		weft_mem_part_fail(part, ret);
		return;
	}
	/*
	 * The part may have ended, and is not looked at any more. The member stays:
	 * the file is there, for io_uring or for who sends what was held.
	 */
	this_cpu_inc(member->stats->ios[group]);
	this_cpu_add(member->stats->sectors[group], sectors);
}

/* Is there an end to waiting, and has it come? Returns the error, or 0. */
static int weft_mem_part_gives_up(const struct weft_mem_part *part)
{
	struct weft_memory *memory = part->io->memory;
	unsigned long dying = READ_ONCE(part->io->mf->dying);
	enum weft_ownership ownership;

	if (memory->transport->peer_lost(memory->peer))
		return -EFAULT;
	if (dying && time_after(jiffies, dying + WEFT_MEM_DYING))
		return -EIO;
	if (part->losses >= WEFT_MEM_LOSSES) {
		pr_warn_ratelimited("%s: I/O on registered memory failed: %u associations ended with it in flight, as where an adapter does not reach the memory\n",
				    part->member->volume->name, part->losses);
		return -EIO;
	}
	if (part->op.write && !weft_mem_may_write(part->member->volume)) {
		ownership = weft_owner_state(part->member->volume);
		return ownership == WEFT_OWNERSHIP_HELD ||
		       ownership == WEFT_OWNERSHIP_SUSPENDED ? 0 : -EIO;
	}
	return weft_route_patience(part->member, part->since) ? 0 : -EIO;
}

/**
 * weft_mem_held_work() - try what waits again, or fail it
 * @work: of a node
 */
void weft_mem_held_work(struct work_struct *work)
{
	struct weft_mem_node *node = container_of(to_delayed_work(work), struct weft_mem_node,
						  held_work);
	struct weft_mem_part *part, *next;
	LIST_HEAD(parts);
	int error;

	spin_lock_irq(&node->held_lock);
	list_splice_init(&node->held, &parts);
	spin_unlock_irq(&node->held_lock);
	list_for_each_entry_safe(part, next, &parts, list) {
		/* Nor may it fail before: who wrote would write again. */
		if (time_before(jiffies, part->not_before)) {
			weft_mem_part_hold(part, part->not_before);
			continue;
		}
		error = weft_mem_part_gives_up(part);
		if (error)
			weft_mem_part_fail(part, error);
		else
			weft_mem_part_send(part);
	}
}

/*
 * Sends the part that begins @done bytes behind the command's begin, which ends
 * where file or member change places, or one operation cannot move more. Returns
 * how long it is, 0 where there is no memory for it. With the last one, or 0, the
 * submitter's part in @io->remaining is gone, and perhaps the command.
 */
static u32 weft_mem_submit_part(struct weft_mem_io *io, u64 offset, u32 done)
{
	struct weft_volume *vol = io->mf->vol;
	struct weft_memory *memory = io->memory;
	u64 at, run = weft_mem_run(io, offset + done, &at);
	sector_t sector = at >> SECTOR_SHIFT;
	struct weft_place place = weft_map_sector(&vol->map, sector);
	u32 left = io->length - done, length;
	struct weft_mem_part *part = &io->first;

	if (done) {
		part = kmem_cache_zalloc(weft_mem_part_cache, GFP_KERNEL);
		if (!part) {
			WRITE_ONCE(io->error, -ENOMEM);
			weft_mem_io_put(io);
			return 0;
		}
	}
	run = min(run, (u64)weft_map_contiguous(&vol->map, sector) << SECTOR_SHIFT);
	length = min3(run, (u64)left, (u64)READ_ONCE(memory->piece));
	part->io = io;
	part->member = vol->members[place.member];
	part->op.done = weft_mem_part_done;
	part->op.peer = memory->peer;
	part->op.write = io->op == REQ_OP_WRITE;
	part->op.near = READ_ONCE(memory->near[place.member]);
	part->op.sector = place.sector;
	part->op.at = io->at + done;
	if (memory->persistent)
		length = min_t(u32, length, round_up(WEFT_PEER_RUN - part->op.at % WEFT_PEER_RUN,
						     io->mf->block));
	part->op.length = length;
	if (length < left)
		atomic_inc(&io->remaining);
	weft_mem_part_send(part);
	return length;
}

/* Most commands are one part. */
static void weft_mem_submit_parts(struct weft_mem_io *io, u64 offset)
{
	u32 length = io->length, done = weft_mem_submit_part(io, offset, 0), n;
	struct blk_plug plug;

	if (likely(done == length))
		return;
	blk_start_plug(&plug);
	do {
		n = weft_mem_submit_part(io, offset, done);
		done += n;
	} while (n && done < length);
	blk_finish_plug(&plug);
}

/* What is registered with an id, with a reference; both kinds begin with that. Under RCU. */
static inline void *weft_mem_find(struct xarray *registered, u32 id)
{
	struct weft_mem_ref *ref = xa_load(registered, id);

	return ref && weft_mem_get(ref) ? ref : NULL;
}

/* From the user, each field read once. */
static void weft_mem_read_cmd(struct io_uring_cmd *cmd, struct weft_mem_cmd *to)
{
	const struct weft_mem_cmd *from = weft_uring_payload(cmd, struct weft_mem_cmd);

	to->target = READ_ONCE(from->target);
	to->memory = READ_ONCE(from->memory);
	to->offset = READ_ONCE(from->offset);
	to->memory_offset = READ_ONCE(from->memory_offset);
	to->length = READ_ONCE(from->length);
	to->flags = READ_ONCE(from->flags);
}

/* What of a command does not depend on what is registered. */
static int weft_mem_check(struct weft_mem_file *mf, u32 op, const struct weft_mem_cmd *c)
{
	u32 block = mf->block - 1;

	if (c->flags)
		return -EINVAL;
	switch (op) {
	case WEFT_MEM_CMD_FLUSH:
		return c->memory || c->length || c->offset || c->memory_offset ? -EINVAL : 0;
	case WEFT_MEM_CMD_READ:
	case WEFT_MEM_CMD_WRITE:
		if (!c->length || c->length > WEFT_MEM_CMD_BYTES_MAX || c->length & block ||
		    c->offset & block)
			return -EINVAL;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int weft_mem_bind(struct weft_mem_io *io, const struct weft_mem_cmd *c)
{
	u32 access = io->op == REQ_OP_READ ? WEFT_MEM_MAY_READ : WEFT_MEM_MAY_WRITE;
	struct weft_mem_file *mf = io->mf;
	struct weft_mem_target_ref *target;
	struct weft_memory *memory = NULL;
	u64 end;

	rcu_read_lock();
	target = weft_mem_find(&mf->targets, c->target);
	if (c->length)
		memory = weft_mem_find(&mf->memories, c->memory);
	rcu_read_unlock();
	io->target = target;
	io->memory = memory;
	if (!target)
		return -ENOENT;
	if (!(target->access & access))
		return -EACCES;
	/* Another host writes there now, and the file may be gone. */
	if (target->sealed && weft_owner_state(mf->vol) == WEFT_OWNERSHIP_LOST)
		return -EIO;
	/* A file may end within a block, which is read to its end. */
	end = round_up(target->size, mf->block);
	if (c->offset > end || c->length > end - c->offset)
		return -ERANGE;
	if (!c->length)
		return 0;
	io->result = min_t(u64, c->length, target->size - c->offset);
	if (!memory)
		return -ENOENT;
	if (io->op == REQ_OP_READ && memory->read_only)
		return -EACCES;
	/* Block I/O is on pages, from where its devices can begin. */
	if (!memory->peer && memory->pages &&
	    c->memory_offset & queue_dma_alignment(mf->vol->disk->queue))
		return -EINVAL;
	if (c->memory_offset > memory->length || c->length > memory->length - c->memory_offset)
		return -ERANGE;
	io->at = c->memory_offset;
	io->length = c->length;
	return 0;
}

static struct weft_mem_io *weft_mem_io_alloc(struct weft_mem_file *mf, struct io_uring_cmd *cmd)
{
	struct weft_mem_io *io;

	if (atomic_inc_return(&mf->in_flight) > WEFT_MEM_COMMANDS_MAX) {
		atomic_dec(&mf->in_flight);
		return ERR_PTR(-EBUSY);
	}
	io = kmem_cache_zalloc(weft_mem_io_cache, GFP_KERNEL);
	if (!io) {
		atomic_dec(&mf->in_flight);
		return ERR_PTR(-ENOMEM);
	}
	io->cmd = cmd;
	io->mf = mf;
	atomic_set(&io->remaining, 1);
	return io;
}

/**
 * weft_mem_uring_cmd() - IORING_OP_URING_CMD on a file of /dev/weft/NAME.mem
 * @cmd: the command
 * @issue_flags: io_uring's
 *
 * Context: the submitter's task, or a worker of it; may wait for requests.
 * Return: -EIOCBQUEUED, or why it was not begun: -EINVAL for a field that is
 * out of range or not aligned, -ENOENT for an id that nobody has, -ERANGE
 * beyond a target's or a memory's end, -EACCES, -EBUSY for too many at once.
 */
int weft_mem_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct weft_mem_file *mf = cmd->file->private_data;
	struct weft_mem_io *io;
	struct weft_mem_cmd c;
	int ret;

	if (!(issue_flags & IO_URING_F_SQE128))
		return -EINVAL;
	weft_mem_read_cmd(cmd, &c);
	ret = weft_mem_check(mf, cmd->cmd_op, &c);
	if (ret)
		return ret;
	io = weft_mem_io_alloc(mf, cmd);
	if (IS_ERR(io))
		return PTR_ERR(io);
	io->op = cmd->cmd_op == WEFT_MEM_CMD_READ ? REQ_OP_READ : REQ_OP_WRITE;
	ret = weft_mem_bind(io, &c);
	if (!ret && io->memory && io->memory->route == WEFT_MEM_ROUTE_BOUNCE)
		ret = weft_mem_bounce(io);
	if (ret) {
		weft_mem_io_release(io);
		weft_mem_io_free(io);
		return ret;
	}
	*io_uring_cmd_to_pdu(cmd, struct weft_mem_io *) = io;
	if (io->memory && io->memory->peer)
		weft_mem_submit_parts(io, c.offset);
	else if (io->memory)
		weft_mem_submit(io, c.offset);
	else
		weft_mem_submit_flush(io);
	return -EIOCBQUEUED;
}

int weft_mem_io_init(void)
{
	int ret = -ENOMEM;

	BUILD_BUG_ON(offsetof(struct weft_memory, ref) ||
		     offsetof(struct weft_mem_target_ref, ref));
	weft_mem_io_cache = KMEM_CACHE(weft_mem_io, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!weft_mem_io_cache)
		return ret;
	weft_mem_part_cache = KMEM_CACHE(weft_mem_part, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!weft_mem_part_cache)
		goto out_io;
	ret = bioset_init(&weft_mem_bios, BIO_POOL_SIZE, 0, BIOSET_NEED_BVECS);
	if (ret)
		goto out_part;
	ret = -ENOMEM;
	weft_mem_wq = alloc_workqueue("weft-mem", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!weft_mem_wq)
		goto out_bios;
	return 0;

out_bios:
	bioset_exit(&weft_mem_bios);
out_part:
	kmem_cache_destroy(weft_mem_part_cache);
out_io:
	kmem_cache_destroy(weft_mem_io_cache);
	return ret;
}

void weft_mem_io_exit(void)
{
	destroy_workqueue(weft_mem_wq);
	bioset_exit(&weft_mem_bios);
	kmem_cache_destroy(weft_mem_part_cache);
	kmem_cache_destroy(weft_mem_io_cache);
}
