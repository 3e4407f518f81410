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
 * still execute, waits for that (resend.c). A held part fails when its member has
 * had no path for the volume's no_path_timeout, or one minute after its submitter
 * exits or a task that waits for it is killed. A part also fails when WEFT_MEM_LOSSES
 * associations have ended with it in flight, over at least WEFT_MEM_LOSING: such
 * a part breaks them itself, for example because the adapter cannot reach its
 * memory. An association that ended because an exporter took its memory away
 * does not count. A part that is held for its class (qos.c) fails when its
 * submitter exits, or when io_uring cancels its command.
 */
#include "mem_part.h"

#include <linux/sched/signal.h>

/* A part fails after this number of associations has ended with it in flight, ... */
#define WEFT_MEM_LOSSES		16
/* ... but not before this time after the first: a bad network loses several at once. */
#define WEFT_MEM_LOSING		(30 * HZ)

static struct kmem_cache *weft_mem_part_cache;

/* Drop a count in @io->remaining. */
static __always_inline void weft_mem_part_over(struct weft_mem_io *io)
{
	if (atomic_dec_and_test(&io->remaining))
		weft_mem_io_end(io, true);
}

/* Not inline, so that parts without a class do not pay. */
static noinline void weft_mem_part_class_done(struct weft_mem_part *part, u64 nsecs)
{
	if (part->classed)
		weft_qos_end(part->member, &part->qos, nsecs);
	if (nsecs)
		weft_qos_measure(part->member, part->io->class, part->op.length, nsecs);
	else
		weft_qos_failed(part->member, part->io->class);
}

/* @nsecs: since it was sent; 0 if it failed. */
static __always_inline void weft_mem_part_end(struct weft_mem_part *part, u64 nsecs)
{
	struct weft_mem_io *io = part->io;

	if (weft_qos_is_used() && io->class != WEFT_IO_CLASS_NONE)
		weft_mem_part_class_done(part, nsecs);
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
	/*
	 * While it waits, others get what its class may have at the member, if they
	 * have a path.
	 */
	if (part->classed && READ_ONCE(part->member->mpath.usable)) {
		part->classed = false;
		weft_qos_end(part->member, &part->qos, 0);
	}
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
	if (part->late)
		weft_resend_op_ended(part->member, &part->op);
	weft_mem_part_end(part, 0);
}

static __always_inline void weft_mem_part_count(struct weft_mem_part *part,
						enum weft_stat_group group, u64 nsecs)
{
	weft_member_count(part->member, group, part->op.length >> SECTOR_SHIFT, nsecs);
}

static void weft_mem_part_failed(struct weft_mem_part *part)
{
	weft_mem_part_count(part, part->op.write ? WEFT_STAT_WRITE : WEFT_STAT_READ,
			    ktime_get_ns() - part->sent);
	weft_volume_member_failed(part->member);
}

/**
 * weft_mem_part_unsent() - no path took a part
 * @part: the part; it may be gone afterwards
 * @error: of weft_mpath_peer()
 *
 * Context: any.
 */
void weft_mem_part_unsent(struct weft_mem_part *part, int error)
{
	/* It waits for another write, or for the lease, but not for a path. */
	if (error == -EBUSY || (error == -ENOTCONN && weft_mem_lacks_lease(part->io))) {
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
		/* It waited for a tag, and no path took it then. */
		weft_mem_part_unsent(part, -ENOTCONN);
		return;
	}
	weft_mem_part_failed(part);
	weft_mem_part_fail(part, blk_status_to_errno(status));
}

/**
 * weft_mem_part_done() - a part came back from its path
 * @op: the part's
 * @status: the path's
 * @after: its target may execute it until then, in jiffies
 *
 * Context: any; runs where requests complete.
 */
void weft_mem_part_done(struct weft_mem_op *op, blk_status_t status, unsigned long after)
{
	struct weft_mem_part *part = container_of(op, struct weft_mem_part, op);
	u64 nsecs;

	if (unlikely(status)) {
		weft_mem_part_undone(part, status, after);
		return;
	}
	nsecs = ktime_get_ns() - part->sent;
	/* A constant group each, which no bounds check needs. */
	if (op->write) {
		weft_mem_part_count(part, WEFT_STAT_WRITE, nsecs);
		if (unlikely(part->late))
			weft_resend_op_ended(part->member, op);
	} else {
		/* Another host may have had the volume when the target read. */
		if (weft_mem_read_lacks_lease(part->io)) {
			part->since = 0;
			part->due = true;
			weft_mem_part_hold(part);
			return;
		}
		weft_mem_part_count(part, WEFT_STAT_READ, nsecs);
	}
	weft_mem_part_end(part, nsecs);
}

/* A part that was held is sent again, or for the first time. */
static void weft_mem_part_send_again(struct weft_mem_part *part)
{
	if (!part->sent)
		part->sent = ktime_get_ns();
	part->due = false;
	weft_mem_part_send(part);
}

static struct weft_mem_part *weft_mem_part_of(const struct weft_qos_item *item)
{
	return container_of(item, struct weft_mem_part, qos);
}

/*
 * Here the submitter's task still runs, or its io_uring worker. The mark is made so
 * that io_uring cancels the command when the submitter exits.
 */
static void weft_mem_qos_held(struct weft_qos_item *item)
{
	struct weft_mem_io *io = weft_mem_part_of(item)->io;

	if (!io->submitter)
		WRITE_ONCE(io->submitter, get_task_pid(current, PIDTYPE_TGID));
	weft_mem_io_mark(io);
}

/*
 * The submitter exits or is killed. io_uring says so later (6.7), or not at all, and
 * a write that QoS would send then would overwrite what another program wrote since.
 */
static bool weft_mem_is_left(const struct weft_mem_io *io)
{
	struct task_struct *task;
	bool left;

	rcu_read_lock();
	task = pid_task(READ_ONCE(io->submitter), PIDTYPE_TGID);
	left = !task || READ_ONCE(task->signal->flags) & SIGNAL_GROUP_EXIT;
	rcu_read_unlock();
	return left;
}

/* A killed task waits for the end of the command: it removes the memory or the target. */
static bool weft_mem_is_awaited(const struct weft_mem_io *io)
{
	return READ_ONCE(io->mf->killed_at) && (percpu_ref_is_dying(&io->memory->ref.count) ||
						percpu_ref_is_dying(&io->target->ref.count));
}

/* A part that was never sent does not get the minute that others get. */
static bool weft_mem_qos_is_over(const struct weft_qos_item *item)
{
	const struct weft_mem_io *io = weft_mem_part_of(item)->io;

	return weft_mem_is_left(io) || READ_ONCE(io->cancelled) || weft_mem_is_awaited(io) ||
	       weft_mem_is_abandoned(io);
}

static void weft_mem_qos_send(struct weft_qos_item *item)
{
	struct weft_mem_part *part = weft_mem_part_of(item);

	if (weft_mem_qos_is_over(item))
		weft_mem_part_fail(part, -ECANCELED);
	else
		weft_mem_part_send_again(part);
}

static const struct weft_qos_item_ops weft_mem_qos_ops = {
	.send		= weft_mem_qos_send,
	.held		= weft_mem_qos_held,
	.is_over	= weft_mem_qos_is_over,
};

/**
 * weft_mem_part_is_held() - hold a part for its class, if it has to wait
 * @part: the part; not sent yet
 *
 * Context: process context.
 * Return: true if it is held. It may be gone then.
 */
bool weft_mem_part_is_held(struct weft_mem_part *part)
{
	part->classed = true;
	part->qos.ops = &weft_mem_qos_ops;
	part->qos.class = part->io->class;
	part->qos.bytes = part->op.length;
	return weft_qos_begin(part->member, &part->qos);
}

/*
 * Returns the error if a held part must fail now, or 0: -EIO if that is the member's
 * failure, -EREMOTEIO if the volume's owner or the submitter is the reason.
 */
static int weft_mem_part_gives_up(const struct weft_mem_part *part)
{
	struct weft_memory *memory = part->io->memory;

	if (memory->transport->peer_lost(memory->peer))
		return -EFAULT;
	if (weft_mem_is_abandoned(part->io))
		return -EREMOTEIO;
	if (part->losses >= WEFT_MEM_LOSSES &&
	    time_after(jiffies, part->lost_at + WEFT_MEM_LOSING)) {
		pr_warn_ratelimited("%s: I/O on registered memory failed: %u associations ended while it was in flight; the adapter may not reach the memory\n",
				    part->member->volume->name, part->losses);
		return -EIO;
	}
	if (weft_mem_lacks_lease(part->io))
		return weft_owner_waits(part->member->volume) ? 0 : -EREMOTEIO;
	if (part->due)
		return 0;
	return weft_mpath_is_patient(part->member, part->since) ? 0 : -EIO;
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
	rest = kmem_cache_alloc(weft_mem_part_cache, GFP_NOIO);
	if (!rest)
		return false;
	*rest = *part;
	rest->classed = false;	/* @part counts all of it */
	if (weft_qos_is_used())
		weft_qos_begun(rest->member, rest->io->class);
	rest->op.at += piece;
	rest->op.length -= piece;
	rest->op.sector += piece >> SECTOR_SHIFT;
	part->op.length = piece;
	atomic_inc(&part->io->remaining);
	weft_mem_part_hold(rest);
	return true;
}

/**
 * weft_mem_held_parts() - send held parts again, or fail them
 * @node: the volume's device
 *
 * Context: process context.
 */
void weft_mem_held_parts(struct weft_mem_node *node)
{
	struct weft_mem_part *part, *next;
	LIST_HEAD(parts);
	int error;

	spin_lock_irq(&node->held_lock);
	list_splice_init(&node->held, &parts);
	spin_unlock_irq(&node->held_lock);
	list_for_each_entry_safe(part, next, &parts, list) {
		weft_mem_io_mark(part->io);
		error = part->error;
		if (!error) {
			error = weft_mem_part_gives_up(part);
			/* As a bio that waited for a path. Lost memory is the fault of its exporter. */
			if (error == -EIO)
				weft_mem_part_failed(part);
			else if (error == -EREMOTEIO)
				error = -EIO;
		}
		if (error)
			weft_mem_part_fail(part, error);
		else if (!weft_mem_part_cut(part))
			weft_mem_part_hold(part);
		else
			weft_mem_part_send_again(part);
	}
}

/**
 * weft_mem_part_another() - a part of a command, after its first
 * @io: the command
 *
 * Context: process context.
 * Return: the part, not initialized; NULL if there is no memory. Then the submitter's count
 * in @io->remaining has been dropped, and the command may be gone.
 */
struct weft_mem_part *weft_mem_part_another(struct weft_mem_io *io)
{
	struct weft_mem_part *part = kmem_cache_alloc(weft_mem_part_cache, GFP_KERNEL);

	if (!part) {
		WRITE_ONCE(io->error, -ENOMEM);
		weft_mem_part_over(io);
	}
	return part;
}

/**
 * weft_mem_submit_rest() - submit a command's parts after its first
 * @io: the command; the submitter's count in @io->remaining keeps it
 * @length: of the command, in bytes
 * @done: of the first part
 *
 * Drops the submitter's count.
 *
 * Context: process context.
 */
void weft_mem_submit_rest(struct weft_mem_io *io, u32 length, u32 done)
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

int weft_mem_part_init(void)
{
	weft_mem_part_cache = KMEM_CACHE(weft_mem_part, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	return weft_mem_part_cache ? 0 : -ENOMEM;
}

void weft_mem_part_exit(void)
{
	kmem_cache_destroy(weft_mem_part_cache);
}
