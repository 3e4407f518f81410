// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands on memory that a transport does I/O on itself: they are split into
 * parts, at each change of the member and at the largest operation. Each part
 * bypasses the block layer and goes to a path of its member.
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
#include "mem_io.h"
#include "multipath.h"

#include <linux/ioprio.h>
#include <linux/timekeeping.h>

#define WEFT_MEM_AGAIN		(HZ / 20)
#define WEFT_MEM_DYING		(60 * HZ)
/* A part fails after so many associations have ended with it in flight, ... */
#define WEFT_MEM_LOSSES		16
/* ... but not before so long after the first: a bad network loses several at once. */
#define WEFT_MEM_LOSING		(30 * HZ)

static struct kmem_cache *weft_mem_part_cache;

/* Drop a count in @io->remaining. */
static __always_inline void weft_mem_part_over(struct weft_mem_io *io)
{
	if (atomic_dec_and_test(&io->remaining))
		weft_mem_io_end(io);
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
	weft_mem_part_over(io);
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
static __always_inline u32 weft_mem_submit_part(struct weft_mem_io *io, u32 done)
{
	struct weft_volume *vol = io->mf->vol;
	struct weft_memory *memory = io->memory;
	u64 at, run = weft_mem_run(io, io->offset + done, &at);
	sector_t sector = at >> SECTOR_SHIFT;
	struct weft_place place = weft_map_sector(&vol->map, sector);
	u32 left = io->length - done, length;
	struct weft_mem_part *part = &io->first;

	if (done) {
		part = kmem_cache_zalloc(weft_mem_part_cache, GFP_KERNEL);
		if (!part) {
			WRITE_ONCE(io->error, -ENOMEM);
			weft_mem_part_over(io);
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

/* Not inline, so that a command of one part does not pay for the plug on the stack. */
static noinline void weft_mem_submit_rest(struct weft_mem_io *io, u32 length, u32 done)
{
	struct blk_plug plug;
	u32 n;

	blk_start_plug(&plug);
	do {
		n = weft_mem_submit_part(io, done);
		done += n;
	} while (n && done < length);
	blk_finish_plug(&plug);
}

/**
 * weft_mem_submit_parts() - submit a command by parts
 * @io: the command; its memory has a peer
 *
 * Drops the submitter's count in @io->remaining.
 *
 * Context: process context.
 */
void weft_mem_submit_parts(struct weft_mem_io *io)
{
	u32 length = io->length, done = weft_mem_submit_part(io, 0);

	/* Most commands have one part, which needs no plug. */
	if (unlikely(done != length))
		weft_mem_submit_rest(io, length, done);
}

int weft_mem_part_init(void)
{
	weft_mem_part_cache = KMEM_CACHE(weft_mem_part, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	return weft_mem_part_cache ? 0 : -ENOMEM;
}

void weft_mem_part_exit(void)
{
	kmem_cache_destroy(weft_mem_part_cache);
}
