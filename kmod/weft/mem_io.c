// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands from io_uring: checked, sent to the members, and completed.
 *
 * DOC: bios or parts
 *
 * A command names a target and a memory by id. If the memory has pages, or its
 * bytes are copied through host pages, these pages go to the volume as bios to
 * its block device, which handles chunks, paths and lost paths. If the
 * transport does I/O on the memory itself, the command is split here into
 * parts: at each change of the member, and at the largest operation. Each part
 * bypasses the block layer and goes to a path of its member.
 *
 * A command completes once, in its submitter's task, after its last bio or
 * part. It drops its references to the memory and the target earlier, where
 * the last bio or part completes, because the submitter may be waiting for
 * these references.
 *
 * Pages of the volume's block device may be in the page cache, from access
 * without O_DIRECT. They are handled as direct I/O handles them: written back
 * before a command, and dropped before and after a write.
 *
 * DOC: parts that wait
 *
 * A part is held while no path can carry it or its memory is being moved. It is
 * tried again every 50 ms. A write that overlaps another one, which a target may
 * still execute, waits for that (resend.c). A held part fails after
 * the volume's no_path_timeout, or one minute after its submitter exits or a
 * task that waits for it is killed. A part also fails when WEFT_MEM_LOSSES
 * associations have ended with it in flight, over at least WEFT_MEM_LOSING: such
 * a part breaks them itself, for example because the adapter cannot reach its
 * memory. An association that ended because an exporter took its memory away
 * does not count. A part that is held for its class (qos.c) fails when io_uring
 * cancels its command.
 */
#include "mem.h"
#include "multipath.h"
#include "qos.h"

#include <linux/ioprio.h>
#include <linux/pagemap.h>
#include <linux/timekeeping.h>

#include "../compat/uring.h"

#define WEFT_MEM_AGAIN		(HZ / 20)
#define WEFT_MEM_DYING		(60 * HZ)
/*
 * Limits of a command that is submitted without waiting: copied bytes, and
 * chunks. A larger command goes to a worker of io_uring, so that other commands
 * of the ring do not wait for it.
 */
#define WEFT_MEM_INLINE_BOUNCE	SZ_64K
#define WEFT_MEM_INLINE_PARTS	32
/* Not too large for any volume, whose chunks have at least 4 KiB. */
#define WEFT_MEM_SHORT		SZ_64K
/* A part fails after so many associations have ended with it in flight, ... */
#define WEFT_MEM_LOSSES		16
/* ... but not before so long after the first: a bad network loses several at once. */
#define WEFT_MEM_LOSING		(30 * HZ)

struct weft_mem_io;

/**
 * struct weft_mem_part - a part of a command, on one member
 * @op: the operation for a path
 * @io: the command
 * @member: the member
 * @list: in the node's held
 * @late: until then its target may execute a copy of it whose path was lost, in
 *	jiffies; 0 if there is none
 * @error: it fails with that at @late; 0 if it is sent again
 * @since: when it began to wait, in jiffies; 0 if it does not wait
 * @losses: how often its path was lost while it was in flight
 * @lost_at: when that was first, in jiffies
 * @due: it has to be tried again before it gives up for lack of a path
 * @sent: when it was first sent, in nanoseconds
 * @qos: holds it for its class
 * @classed: it is counted by weft_qos_begin()
 */
struct weft_mem_part {
	struct weft_mem_op	op;
	struct weft_mem_io	*io;
	struct weft_member	*member;
	struct list_head	list;
	unsigned long		late;
	int			error;
	unsigned long		since;
	u32			losses;
	unsigned long		lost_at;
	bool			due;
	bool			classed;
	u64			sent;
	struct weft_qos_item	qos;
};

/**
 * struct weft_mem_io - a command in flight
 * @cmd: the command of io_uring
 * @mf: the file; the command keeps it open
 * @target: the target, with a reference
 * @memory: the memory, with a reference; NULL for a flush
 * @pages: bounce buffer in host pages, if the bytes are copied
 * @page_count: number of @pages
 * @bounced: pages of it that are counted in @mf
 * @remaining: with bios: bios in flight, plus one while they are submitted.
 *	With parts: parts in flight, plus one while the last is not submitted
 * @error: one of the errors, as a negative errno
 * @mark: io_uring is told when a part of it is held, here or for its class
 * @cancelled: when io_uring cancelled it because its submitter exits, in
 *	jiffies; 0 if it did not
 * @op: read or write; a flush is a write without a memory
 * @class: its class, if classes are told apart
 * @ioprio: the I/O priority of its bios, if the command has a class
 * @at: offset in the memory
 * @offset: offset in the target
 * @length: in bytes
 * @result: its result without an error; less than @length at the end of a file
 * @work: after a read, copies from @pages; after a write, drops cached pages
 * @first: its first part; most commands have only one
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
	struct weft_mem_mark		mark;
	unsigned long			cancelled;
	enum req_op			op;
	u8				class;
	u16				ioprio;
	u64				at;
	u64				offset;
	u32				length;
	u32				result;
	struct work_struct		work;
	struct weft_mem_part		first;
};

/* For work that takes the processor for long: a volume's own has the heartbeat. */
struct workqueue_struct *weft_mem_wq;
static struct kmem_cache *weft_mem_io_cache;
static struct kmem_cache *weft_mem_part_cache;

/* Undo weft_mem_bounce(), also after it failed. */
static noinline void weft_mem_unbounce(struct weft_mem_io *io)
{
	u32 i;

	for (i = 0; i < io->page_count; i++)
		__free_page(io->pages[i]);
	kvfree(io->pages);
	atomic_sub(io->bounced, &io->mf->bounced);
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

/* Is some of it in the block device's page cache? Never for a sealed file. */
static inline bool weft_mem_io_is_cached(const struct weft_mem_io *io)
{
	struct address_space *mapping = io->mf->mapping;

	if (likely(!READ_ONCE(mapping->nrpages)))
		return false;
	return io->length && !io->target->sealed &&
	       filemap_range_has_page(mapping, io->offset, io->offset + io->length - 1);
}

static int weft_mem_io_invalidate(struct weft_mem_io *io)
{
	return invalidate_inode_pages2_range(io->mf->mapping, io->offset >> PAGE_SHIFT,
					     (io->offset + io->length - 1) >> PAGE_SHIFT);
}

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

/* Context: any. */
static __always_inline void weft_mem_io_finish(struct weft_mem_io *io)
{
	if (!io->error && io->memory) {
		this_cpu_add(*io->memory->moved, io->length);
		this_cpu_add(*io->memory->moved_all, io->length);
	}
	weft_mem_io_release(io);
	if (unlikely(io->mark.state != WEFT_MEM_MARK_NONE) &&
	    !weft_mem_mark_end(io->mf, &io->mark))
		return;
	weft_uring_in_task(io->cmd, weft_mem_io_done);
}

static void weft_mem_io_marked(struct weft_mem_mark *mark)
{
	weft_uring_in_task(mark->cmd, weft_mem_io_done);
}

/* Another process read the range into the page cache during the write. */
static void weft_mem_io_drop(struct work_struct *work)
{
	struct weft_mem_io *io = container_of(work, struct weft_mem_io, work);

	/* Pages that stay belong to another process that writes there, too. */
	weft_mem_io_invalidate(io);
	weft_mem_io_finish(io);
}

/* Context: any. */
static __always_inline void weft_mem_io_end(struct weft_mem_io *io)
{
	if (unlikely(io->op == REQ_OP_WRITE && weft_mem_io_is_cached(io))) {
		INIT_WORK(&io->work, weft_mem_io_drop);
		queue_work(weft_mem_wq, &io->work);
		return;
	}
	weft_mem_io_finish(io);
}

/* Copy from the bounce buffer to the memory after a read. */
static void weft_mem_io_copy(struct work_struct *work)
{
	struct weft_mem_io *io = container_of(work, struct weft_mem_io, work);

	weft_memory_copy(io->memory, io->at, io->pages, io->length, false);
	weft_mem_io_finish(io);
}

/* Context: any. */
static void weft_mem_io_put(struct weft_mem_io *io)
{
	if (!atomic_dec_and_test(&io->remaining))
		return;
	if (io->pages && io->op == REQ_OP_READ && !io->error)
		queue_work(weft_mem_wq, &io->work);
	else
		weft_mem_io_end(io);
}

static void weft_mem_bio_again_work(struct work_struct *work)
{
	submit_bio_noacct(&container_of(work, struct weft_mem_bio, again)->bio);
}

/*
 * The submitter must not wait, and the bio has to: nothing of it was issued. It
 * starts again where it may wait, for example for a tag.
 */
static noinline void weft_mem_bio_again(struct weft_mem_io *io, struct bio *bio)
{
	struct weft_mem_bio *mem_bio = container_of(bio, struct weft_mem_bio, bio);

	/* As in weft_io_retry(). */
	atomic_set(&bio->__bi_remaining, 1);
	bio->bi_status = BLK_STS_OK;
	bio->bi_iter = mem_bio->start;
	bio->bi_opf &= ~REQ_NOWAIT;
	weft_bio_forget_queue(bio);
	bio_set_dev(bio, io->mf->vol->disk->part0);
	INIT_WORK(&mem_bio->again, weft_mem_bio_again_work);
	queue_work(io->mf->node->wq, &mem_bio->again);
}

static void weft_mem_end_bio(struct bio *bio)
{
	struct weft_mem_io *io = bio->bi_private;

	if (unlikely(bio->bi_status == BLK_STS_AGAIN && bio->bi_opf & REQ_NOWAIT)) {
		weft_mem_bio_again(io, bio);
		return;
	}
	/* Keep any one of several errors. */
	if (unlikely(bio->bi_status))
		WRITE_ONCE(io->error, blk_status_to_errno(bio->bi_status));
	bio_put(bio);
	weft_mem_io_put(io);
}

static struct bio *weft_mem_bio(struct weft_mem_io *io, sector_t sector, u32 vecs, blk_opf_t opf)
{
	struct bio *bio = bio_alloc_bioset(io->mf->vol->disk->part0, vecs, io->op | opf,
					   GFP_KERNEL, &io->mf->node->bios);

	bio->bi_iter.bi_sector = sector;
	bio->bi_private = io;
	bio->bi_ioprio = io->ioprio;
	bio->bi_end_io = weft_mem_end_bio;
	atomic_inc(&io->remaining);
	return bio;
}

/* Add pages to a bio. Returns the number of bytes added, in whole blocks. */
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
	/* If the data starts within a page, the bio may end within a block. */
	filled &= ~block;
	bio->bi_iter.bi_size = filled;
	return filled;
}

/* Map an offset of the target to the volume. Returns the length of the run. */
static u64 weft_mem_run(const struct weft_mem_io *io, u64 offset, u64 *at)
{
	if (io->target->sealed)
		return weft_sealed_run(io->target->sealed, offset, at);
	*at = offset;
	return U64_MAX;
}

/* How many bytes from there on neither the volume nor a member's queue splits. */
static u64 weft_mem_piece(const struct weft_volume *vol, u64 at)
{
	sector_t sectors = weft_map_contiguous(&vol->map, at >> SECTOR_SHIFT);

	return (u64)weft_unsplit(vol, at >> SECTOR_SHIFT, sectors) << SECTOR_SHIFT;
}

/*
 * Submit by bios, and drop the submitter's count in @io->remaining. Unless the
 * submitter may wait, for example for a tag, a bio that has to wait goes to
 * weft_mem_bio_again(). Not inline, so that other commands do not pay for the
 * plug on the stack.
 */
static noinline void weft_mem_submit(struct weft_mem_io *io, u64 offset, bool may_wait)
{
	blk_opf_t opf = io->op == REQ_OP_WRITE ? REQ_SYNC | REQ_IDLE : REQ_SYNC;
	struct page **pages = io->pages ?: io->memory->pages;
	u64 from = io->pages ? 0 : io->memory->first + io->at;
	struct weft_volume *vol = io->mf->vol;
	struct blk_plug plug;
	u32 done = 0;

	if (!may_wait && bdev_nowait(vol->disk->part0))
		opf |= REQ_NOWAIT;
	blk_start_plug(&plug);
	while (done < io->length) {
		u64 at = from + done, place;
		u64 run = weft_mem_run(io, offset + done, &place);
		u32 left = min3((u64)(io->length - done), run, weft_mem_piece(vol, place));
		u32 vecs = min_t(u32, DIV_ROUND_UP(offset_in_page(at) + left, PAGE_SIZE),
				 BIO_MAX_VECS);
		struct bio *bio = weft_mem_bio(io, place >> SECTOR_SHIFT, vecs, opf);
		u32 filled = weft_mem_fill(bio, pages, at, left);

		/* Pages of two kinds, such as a device's, do not share a bio. */
		if (unlikely(!filled)) {
			bio->bi_status = BLK_STS_INVAL;
			bio_endio(bio);
			break;
		}
		done += filled;
		container_of(bio, struct weft_mem_bio, bio)->start = bio->bi_iter;
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

/* Allocate a bounce buffer. For a write, also copy the bytes to it. */
static int weft_mem_bounce(struct weft_mem_io *io)
{
	u32 count = DIV_ROUND_UP(io->length, PAGE_SIZE);

	INIT_WORK(&io->work, weft_mem_io_copy);
	io->bounced = count;
	if (atomic_add_return(count, &io->mf->bounced) > WEFT_MEM_BOUNCE_MAX >> PAGE_SHIFT)
		return -EBUSY;
	io->pages = kvcalloc(count, sizeof(*io->pages), GFP_KERNEL_ACCOUNT);
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

/* @nsecs: since it was sent; 0 if it failed. */
static __always_inline void weft_mem_part_end(struct weft_mem_part *part, u64 nsecs)
{
	struct weft_mem_io *io = part->io;

	if (unlikely(part->late))
		weft_resend_op_ended(part->member, &part->op);
	if (weft_qos_is_used() && io->class != WEFT_IO_CLASS_NONE) {
		if (part->classed)
			weft_qos_end(part->member, &part->qos, nsecs);
		if (nsecs)
			weft_qos_measure(part->member, io->class, part->op.length, nsecs);
	}
	if (part != &io->first)
		kmem_cache_free(weft_mem_part_cache, part);
	/* Parts have no bounce buffer, so there is nothing to copy. */
	if (atomic_dec_and_test(&io->remaining))
		weft_mem_io_end(io);
}

static void weft_mem_part_hold(struct weft_mem_part *part)
{
	struct weft_mem_node *node = part->io->mf->node;
	unsigned long flags;

	if (!part->since)
		part->since = jiffies | 1;
	spin_lock_irqsave(&node->held_lock, flags);
	list_add_tail(&part->list, &node->held);
	/* Under the lock: after it, the part and the file may be gone. */
	queue_delayed_work(weft_mem_wq, &node->held_work, WEFT_MEM_AGAIN);
	spin_unlock_irqrestore(&node->held_lock, flags);
}

static noinline void weft_mem_part_fail(struct weft_mem_part *part, int error)
{
	/* After the error, the caller may write something else there. */
	if (part->late && time_before(jiffies, part->late)) {
		part->error = error;
		weft_mem_part_hold(part);
		return;
	}
	WRITE_ONCE(part->io->error, error);
	weft_mem_part_end(part, 0);
}

static __always_inline u64 weft_mem_part_count(struct weft_mem_part *part)
{
	enum weft_stat_group group = part->op.write ? WEFT_STAT_WRITE : WEFT_STAT_READ;
	struct weft_stats __percpu *stats = part->member->stats;
	u64 nsecs = ktime_get_ns() - part->sent;

	this_cpu_inc(stats->ios[group]);
	this_cpu_add(stats->sectors[group], part->op.length >> SECTOR_SHIFT);
	this_cpu_add(stats->nsecs[group], nsecs);
	return nsecs;
}

static void weft_mem_part_failed(struct weft_mem_part *part)
{
	weft_mem_part_count(part);
	weft_volume_member_failed(part->member);
}

static noinline void weft_mem_part_unsent(struct weft_mem_part *part, int error)
{
	/* It waits for another write, or for the lease, but not for a path. */
	if (error == -EBUSY || (error == -ENOTCONN && part->op.write &&
				weft_lease_is_over(&part->member->volume->lease))) {
		part->since = 0;
		part->due = true;
	}
	if (error == -ENOTCONN || error == -EBUSY)
		weft_mem_part_hold(part);
	else
		weft_mem_part_fail(part, error);
}

/* Its path was lost, or the target failed it. */
static noinline void weft_mem_part_undone(struct weft_mem_part *part, blk_status_t status,
					  unsigned long after)
{
	if (status == BLK_STS_TRANSPORT) {
		if (!part->op.blameless && !part->losses++)
			part->lost_at = jiffies;
		part->since = 0;
		part->due = true;
		if (part->op.write && time_after(after, jiffies)) {
			if (!part->late || time_after(after, part->late))
				part->late = after | 1;
			weft_mpath_op_lost(part->member, &part->op, after);
		}
		weft_mem_part_hold(part);
		return;
	}
	if (status == BLK_STS_AGAIN) {
		weft_mem_part_unsent(part, -ENOTCONN);
		return;
	}
	weft_mem_part_failed(part);
	weft_mem_part_fail(part, blk_status_to_errno(status));
}

/* Context: any; runs where requests complete. */
static void weft_mem_part_done(struct weft_mem_op *op, blk_status_t status, unsigned long after)
{
	struct weft_mem_part *part = container_of(op, struct weft_mem_part, op);

	if (unlikely(status)) {
		weft_mem_part_undone(part, status, after);
		return;
	}
	weft_mem_part_end(part, weft_mem_part_count(part));
}

static __always_inline void weft_mem_part_send(struct weft_mem_part *part)
{
	struct weft_member *member = part->member;
	int ret = -ENOTCONN;

	if (likely(!part->sent))
		part->sent = ktime_get_ns();
	part->due = false;
	/* Once it is sent, it and its volume may be gone. */
	if (likely(!part->op.write || !weft_lease_is_over(&member->volume->lease)))
		ret = weft_mpath_peer(member, &part->op);
	if (unlikely(ret))
		weft_mem_part_unsent(part, ret);
}

static bool weft_mem_is_over(unsigned long since)
{
	return since && time_after(jiffies, since + WEFT_MEM_DYING);
}

/* The minute of an exiting submitter or a killed task is over. */
static bool weft_mem_is_abandoned(const struct weft_mem_io *io)
{
	return weft_mem_is_over(READ_ONCE(io->cancelled)) ||
	       weft_mem_is_over(READ_ONCE(io->mf->dying)) ||
	       weft_mem_is_over(READ_ONCE(io->mf->killed_at));
}

static struct weft_mem_part *weft_mem_part_of(const struct weft_qos_item *item)
{
	return container_of(item, struct weft_mem_part, qos);
}

/* So that io_uring cancels it when its submitter exits. */
static void weft_mem_qos_held(struct weft_qos_item *item)
{
	struct weft_mem_io *io = weft_mem_part_of(item)->io;

	weft_mem_mark(io->mf, &io->mark);
}

/* A part that was never sent does not get the minute that others get. */
static bool weft_mem_qos_is_over(const struct weft_qos_item *item)
{
	const struct weft_mem_io *io = weft_mem_part_of(item)->io;

	return READ_ONCE(io->cancelled) || weft_mem_is_abandoned(io);
}

static void weft_mem_qos_send(struct weft_qos_item *item)
{
	struct weft_mem_part *part = weft_mem_part_of(item);

	if (weft_mem_qos_is_over(item))
		weft_mem_part_fail(part, -ECANCELED);
	else
		weft_mem_part_send(part);
}

static const struct weft_qos_item_ops weft_mem_qos_ops = {
	.send		= weft_mem_qos_send,
	.held		= weft_mem_qos_held,
	.is_over	= weft_mem_qos_is_over,
};

/* Returns true if the part is held for its class. It may be gone then. */
static noinline bool weft_mem_part_is_held(struct weft_mem_part *part)
{
	part->classed = true;
	part->qos.ops = &weft_mem_qos_ops;
	part->qos.class = part->io->class;
	part->qos.bytes = part->op.length;
	return weft_qos_begin(part->member, &part->qos);
}

/* Returns the error if a held part must fail now, or 0. */
static int weft_mem_part_gives_up(const struct weft_mem_part *part)
{
	struct weft_memory *memory = part->io->memory;
	enum weft_ownership ownership;

	if (memory->transport->peer_lost(memory->peer))
		return -EFAULT;
	if (weft_mem_is_abandoned(part->io))
		return -EIO;
	if (part->losses >= WEFT_MEM_LOSSES &&
	    time_after(jiffies, part->lost_at + WEFT_MEM_LOSING)) {
		pr_warn_ratelimited("%s: I/O on registered memory failed: %u associations ended with it in flight, as where an adapter does not reach the memory\n",
				    part->member->volume->name, part->losses);
		return -EIO;
	}
	if (part->op.write && weft_lease_is_over(&part->member->volume->lease)) {
		ownership = weft_owner_state(part->member->volume);
		return ownership == WEFT_OWNERSHIP_HELD ||
		       ownership == WEFT_OWNERSHIP_SUSPENDED ? 0 : -EIO;
	}
	return part->due || weft_mpath_patience(part->member, part->since) ? 0 : -EIO;
}

/*
 * Cut a part to the largest operation, which is smaller now if a target took
 * less when it was connected again. The rest is held as a part of its own.
 * Returns false if there is no memory for that.
 */
static bool weft_mem_part_cut(struct weft_mem_part *part)
{
	u32 piece = READ_ONCE(part->io->memory->piece);
	struct weft_mem_part *rest;

	if (likely(part->op.length <= piece))
		return true;
	rest = kmem_cache_zalloc(weft_mem_part_cache, GFP_NOIO);
	if (!rest)
		return false;
	*rest = *part;
	rest->classed = false;	/* @part counts all of it */
	rest->op.at += piece;
	rest->op.length -= piece;
	rest->op.sector += piece >> SECTOR_SHIFT;
	part->op.length = piece;
	atomic_inc(&part->io->remaining);
	weft_mem_part_hold(rest);
	return true;
}

/**
 * weft_mem_held_work() - send held parts again, or fail them
 * @work: the node's held_work
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
		weft_mem_mark(part->io->mf, &part->io->mark);
		error = part->error;
		if (!error) {
			error = weft_mem_part_gives_up(part);
			/* As a bio that waited for a path. Lost memory is no fault of the member. */
			if (error == -EIO)
				weft_mem_part_failed(part);
		}
		if (error)
			weft_mem_part_fail(part, error);
		else if (!weft_mem_part_cut(part))
			weft_mem_part_hold(part);
		else
			weft_mem_part_send(part);
	}
}

/*
 * Send the part that starts @done bytes after the command's start. It ends at
 * the end of the file's extent, of the chunk or of the largest operation.
 * Returns its length, or 0 if there is no memory. After the last part, or after
 * 0, the submitter's count in @io->remaining is dropped, and the command may be
 * gone.
 */
static __always_inline u32 weft_mem_submit_part(struct weft_mem_io *io, u64 offset, u32 done)
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
	part->op.background = io->class == WEFT_IO_CLASS_BACKGROUND ||
			      IOPRIO_PRIO_CLASS(io->ioprio) == IOPRIO_CLASS_IDLE;
	part->op.near = READ_ONCE(memory->near[place.member]);
	part->op.sector = place.sector;
	part->op.at = io->at + done;
	if (memory->persistent)
		length = min_t(u32, length, round_up(WEFT_PEER_RUN - part->op.at % WEFT_PEER_RUN,
						     io->mf->block));
	if (weft_qos_is_used() && io->class == WEFT_IO_CLASS_BACKGROUND)
		length = min_t(u32, length, WEFT_QOS_PIECE);
	part->op.length = length;
	if (length < left)
		atomic_inc(&io->remaining);
	if (weft_qos_is_used() && io->class != WEFT_IO_CLASS_NONE &&
	    !weft_qos_passes(part->member, io->class) && weft_mem_part_is_held(part))
		return length;
	weft_mem_part_send(part);
	return length;
}

/* The parts from there on. Not inline, as weft_mem_submit(). */
static noinline void weft_mem_submit_rest(struct weft_mem_io *io, u64 offset, u32 length, u32 done)
{
	struct blk_plug plug;
	u32 n;

	blk_start_plug(&plug);
	do {
		n = weft_mem_submit_part(io, offset, done);
		done += n;
	} while (n && done < length);
	blk_finish_plug(&plug);
}

/* Most commands have one part, which needs no plug. */
static __always_inline void weft_mem_submit_parts(struct weft_mem_io *io, u64 offset)
{
	u32 length = io->length, done = weft_mem_submit_part(io, offset, 0);

	if (unlikely(done != length))
		weft_mem_submit_rest(io, offset, length, done);
}

/* Find a memory or a target by id and take a reference. Under RCU. */
static inline void *weft_mem_find(struct xarray *registered, u32 id)
{
	struct weft_mem_ref *ref = xa_load(registered, id);

	return ref && weft_mem_get(ref) ? ref : NULL;
}

/* Read each field once: the user may change them meanwhile. */
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

/* Check the fields that do not depend on the target and the memory. */
static int weft_mem_check(struct weft_mem_file *mf, u32 op, const struct weft_mem_cmd *c)
{
	u32 block = mf->block - 1;

	if (c->flags && c->flags != WEFT_MEM_CMD_FEED && c->flags != WEFT_MEM_CMD_BACKGROUND)
		return -EINVAL;
	if (c->flags == WEFT_MEM_CMD_FEED && !mf->may_feed)
		return -EPERM;
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
	/* Another host may have moved or deleted the file. */
	if (target->sealed && weft_owner_state(mf->vol) == WEFT_OWNERSHIP_LOST)
		return -EIO;
	io->result = c->length;
	if (unlikely(c->offset > target->size || c->length > target->size - c->offset)) {
		/* A file may end within a block: the whole block is read. */
		end = round_up(target->size, mf->block);
		if (c->offset >= target->size || c->length > end - c->offset)
			return -ERANGE;
		io->result = target->size - c->offset;
	}
	if (!c->length)
		return 0;
	if (!memory)
		return -ENOENT;
	if (io->op == REQ_OP_READ && memory->read_only)
		return -EACCES;
	/* Bios must start at the alignment that the members need. */
	if (!memory->peer && memory->pages &&
	    c->memory_offset & queue_dma_alignment(mf->vol->disk->queue))
		return -EINVAL;
	if (c->memory_offset > memory->length || c->length > memory->length - c->memory_offset)
		return -ERANGE;
	io->at = c->memory_offset;
	io->offset = c->offset;
	io->length = c->length;
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
static noinline void weft_mem_classify(struct weft_mem_io *io, const struct weft_mem_cmd *c)
{
	if (c->flags == WEFT_MEM_CMD_FEED) {
		io->class = WEFT_IO_CLASS_FEED;
		io->ioprio = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, IOPRIO_NORM);
	} else if (c->flags == WEFT_MEM_CMD_BACKGROUND) {
		io->class = WEFT_IO_CLASS_BACKGROUND;
		io->ioprio = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
	}
	io->class = weft_qos_class_of_task(io->mf->vol, io->class, io->op == REQ_OP_WRITE,
					   io->length);
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
	io->mark.cmd = cmd;
	io->mark.done = weft_mem_io_marked;
	io->class = WEFT_IO_CLASS_NONE;
	atomic_set(&io->remaining, 1);
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
		if (weft_qos_is_used() && io->class != WEFT_IO_CLASS_NONE)
			weft_mem_drop_held(io->mf);
	} else if (time_before(READ_ONCE(io->mf->cancelled_at), jiffies)) {
		schedule_timeout_uninterruptible(1);
		WRITE_ONCE(io->mf->cancelled_at, jiffies);
	}
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
 * or bounce pages in flight, or another negative errno.
 */
int weft_mem_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct weft_mem_file *mf = cmd->file->private_data;
	struct weft_mem_io *io;
	struct weft_mem_cmd c;
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
	weft_mem_read_cmd(cmd, &c);
	ret = weft_mem_check(mf, cmd->cmd_op, &c);
	if (ret)
		return ret;
	io = weft_mem_io_alloc(mf, cmd);
	if (IS_ERR(io))
		return PTR_ERR(io);
	io->op = cmd->cmd_op == WEFT_MEM_CMD_READ ? REQ_OP_READ : REQ_OP_WRITE;
	ret = weft_mem_bind(io, &c);
	cached = !ret && weft_mem_io_is_cached(io);
	if (!ret && issue_flags & IO_URING_F_NONBLOCK && (cached || weft_mem_is_long(io)))
		ret = -EAGAIN;
	/* Without its target, the command does not keep the volume. */
	if (!ret && (weft_qos_is_used() || unlikely(c.flags)))
		weft_mem_classify(io, &c);
	if (!ret && unlikely(cached))
		ret = weft_mem_io_clean(io);
	if (!ret && io->memory && io->memory->route == WEFT_MEM_ROUTE_BOUNCE)
		ret = weft_mem_bounce(io);
	if (unlikely(ret)) {
		weft_mem_io_release(io);
		weft_mem_io_free(io);
		return ret;
	}
	*io_uring_cmd_to_pdu(cmd, struct weft_mem_io *) = io;
	if (likely(io->memory && io->memory->peer))
		weft_mem_submit_parts(io, c.offset);
	else if (io->memory)
		weft_mem_submit(io, c.offset, !(issue_flags & IO_URING_F_NONBLOCK));
	else
		weft_mem_submit_flush(io);
	return -EIOCBQUEUED;
}

int weft_mem_io_init(void)
{
	BUILD_BUG_ON(offsetof(struct weft_memory, ref) ||
		     offsetof(struct weft_mem_target_ref, ref));
	weft_mem_io_cache = KMEM_CACHE(weft_mem_io, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!weft_mem_io_cache)
		return -ENOMEM;
	weft_mem_part_cache = KMEM_CACHE(weft_mem_part, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!weft_mem_part_cache)
		goto out_io;
	weft_mem_wq = alloc_workqueue("weft-mem", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!weft_mem_wq)
		goto out_part;
	return 0;

out_part:
	kmem_cache_destroy(weft_mem_part_cache);
out_io:
	kmem_cache_destroy(weft_mem_io_cache);
	return -ENOMEM;
}

void weft_mem_io_exit(void)
{
	destroy_workqueue(weft_mem_wq);
	kmem_cache_destroy(weft_mem_part_cache);
	kmem_cache_destroy(weft_mem_io_cache);
}
