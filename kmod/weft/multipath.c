// SPDX-License-Identifier: GPL-2.0-only
/*
 * The choice of a path for a member's bios, and what happens to bios when a
 * path, or the last path, is lost.
 *
 * DOC: paths
 *
 * A member has one or several paths. Each is a disk that leads to the same
 * namespace. While exactly one path can carry I/O, and no write has to wait,
 * member->fast_bdev is its device, and bios go there directly. Otherwise
 * member->fast_bdev is NULL, and weft_mpath_submit() takes the paths in turn (with
 * the iopolicy numa only the nearest ones), or holds the bio.
 *
 * A transport that owns its requests (rdma) gives bios back when their path
 * fails. They go to another path with the same sector, and not through the map
 * again. For a write that may have reached the target, the transport gives the
 * time after which the target cannot execute it any more. Until then, other
 * writes to its range wait (resend.c). A write that was held, for this or for
 * lack of a path, is sent only while the lease on the volume lasts (owner.c).
 * Errors of other transports (bdev) are final.
 *
 * After the last path is lost, I/O waits no_path_timeout seconds and then
 * fails; -1 means that it waits without limit. While a volume is stopped, I/O
 * without a path fails at once. The volume's own I/O on a member
 * (weft_member_rw()) always does.
 *
 * Removing a path waits for its users, see weft_mpath_remove().
 */
#include "multipath.h"

#include <linux/rcupdate.h>

#include "../compat/blk_mq.h"

/* May a path come that carries its I/O? */
static bool weft_mpath_has_future(struct weft_member *member)
{
	return READ_ONCE(member->volume->state) != WEFT_VOLUME_STATE_STOPPING &&
	       !READ_ONCE(member->gone);
}

static bool weft_mpath_may_wait(struct weft_member *member)
{
	return READ_ONCE(member->volume->no_path_timeout) && weft_mpath_has_future(member);
}

/* Do not hold a heartbeat: a late one could overwrite another host's record. */
static void weft_mpath_refuse(struct bio *bio)
{
	bio->bi_status = BLK_STS_TRANSPORT;
	bio_endio(bio);
}

/* Hold a bio until a path can carry it or the timeout is over. */
static void weft_mpath_hold(struct weft_member *member, struct bio *bio)
{
	struct weft_mpath *mpath = &member->mpath;
	unsigned long flags;

	if (!weft_mpath_may_wait(member)) {
		bio_io_error(bio);
		return;
	}
	if (weft_member_rw_is(member, bio)) {
		weft_mpath_refuse(bio);
		return;
	}
	if (bio->bi_opf & REQ_NOWAIT) {
		bio_wouldblock_error(bio);
		return;
	}
	spin_lock_irqsave(&mpath->lock, flags);
	/* Its device may be NULL, or of a path that was removed. */
	bio_set_dev(bio, member->bdev);
	bio_list_add(&mpath->held, bio);
	spin_unlock_irqrestore(&mpath->lock, flags);
	/* A path may have come back before the bio was on the list. */
	weft_mpath_kick(member);
}

/* Select the paths whose devices are nearest to this CPU. */
static unsigned long weft_mpath_near(struct weft_mpath *mpath, unsigned long usable)
{
	unsigned long near = 0, index;
	int nearest = INT_MAX, here = numa_node_id();

	for_each_set_bit(index, &usable, WEFT_PATHS_MAX) {
		struct weft_path *path = READ_ONCE(mpath->path[index]);
		int distance;

		/* Removed meanwhile, see weft_mpath_take(). */
		if (!path)
			continue;
		distance = path->node == NUMA_NO_NODE ? LOCAL_DISTANCE :
							node_distance(here, path->node);
		if (distance < nearest) {
			nearest = distance;
			near = 0;
		}
		if (distance == nearest)
			near |= BIT(index);
	}
	return near;
}

/**
 * weft_mpath_choose() - choose one of several paths, in turn
 * @member: the member
 * @usable: bitmap of the paths to choose from
 *
 * Context: any, under SRCU.
 * Return: a bitmap; its lowest bit is the chosen path. 0 if there is none.
 */
unsigned long weft_mpath_choose(struct weft_member *member, unsigned long usable)
{
	struct weft_mpath *mpath = &member->mpath;
	unsigned int turn;

	if (READ_ONCE(member->volume->iopolicy) == WEFT_IOPOLICY_NUMA)
		usable = weft_mpath_near(mpath, usable);
	if (!usable)
		return 0;
	for (turn = this_cpu_inc_return(*mpath->turn) % hweight_long(usable); turn; turn--)
		usable &= usable - 1;
	return usable;
}

/**
 * weft_mpath_submit() - send a bio over any usable path, or hold it
 * @member: the member
 * @bio: the bio; its sector is relative to the member
 *
 * Context: process context; sleeps as submit_bio_noacct() does.
 */
void weft_mpath_submit(struct weft_member *member, struct bio *bio)
{
	struct weft_path *path;
	unsigned long best;
	int srcu;

	if (unlikely(weft_shadows_any(&member->mpath.shadows)) && !weft_member_rw_is(member, bio) &&
	    weft_resend_stops(member, bio))
		return;
	srcu = srcu_read_lock(&member->volume->path_srcu);
	/* The chosen path was just removed: choose again among the others. */
	do {
		best = READ_ONCE(member->mpath.best);
		path = weft_mpath_pick(member, best);
		smp_rmb();	/* pairs with smp_wmb(), weft_mpath_remove() */
	} while (unlikely(!path && best));
	if (path) {
		bio_set_dev(bio, path->bdev);
		submit_bio_noacct(bio);
	}
	srcu_read_unlock(&member->volume->path_srcu, srcu);
	if (!path)
		weft_mpath_hold(member, bio);
}

/* Set what the hot path uses. Under the lock of the paths. */
static void weft_mpath_update(struct weft_member *member)
{
	struct weft_mpath *mpath = &member->mpath;
	unsigned long best = mpath->usable, index;

	lockdep_assert_held(&mpath->lock);
	for_each_set_bit(index, &mpath->usable, WEFT_PATHS_MAX)
		if (READ_ONCE(mpath->path[index]->nonoptimized))
			__clear_bit(index, &best);
	if (!best)
		best = mpath->usable;
	WRITE_ONCE(mpath->best, best);
	/* Its readers follow the pointer. */
	smp_store_release(&mpath->only, is_power_of_2(best) ? mpath->path[__ffs(best)] : NULL);
	WRITE_ONCE(member->fast_bdev,
		   mpath->only && !weft_shadows_any(&mpath->shadows) ? mpath->only->bdev : NULL);
	if (mpath->stalled != !best) {
		mpath->stalled = !best;
		mpath->stall_changed_at = jiffies;
	}
}

/* The device that stands for the member, of a path that is not dead if there is one. */
static void weft_mpath_select_bdev(struct weft_member *member)
{
	struct weft_path *path, *found = NULL;
	u32 i;

	lockdep_assert_held(&member->mpath.lock);
	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		path = member->mpath.path[i];
		if (path && !path->standby && (!found || found->dead))
			found = path;
	}
	if (found)
		WRITE_ONCE(member->bdev, found->bdev);
}

static u32 weft_mpath_index(struct weft_mpath *mpath, const struct weft_path *path)
{
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++)
		if (mpath->path[i] == path)
			return i;
	return WEFT_PATHS_MAX;
}

enum weft_mpath_change {
	WEFT_MPATH_SAME,
	WEFT_MPATH_USABLE,
	WEFT_MPATH_RANK,
};

/*
 * Under the lock of the paths. Returns what changed. A path not yet added keeps it
 * for weft_mpath_add(); one in standby until its superblock has been read.
 */
static enum weft_mpath_change weft_mpath_apply(struct weft_path *path, bool usable,
					       bool nonoptimized)
{
	struct weft_member *member = path->owner_data;
	enum weft_mpath_change change = WEFT_MPATH_SAME;
	struct weft_mpath *mpath = &member->mpath;
	u32 index = weft_mpath_index(mpath, path);
	bool ranked = nonoptimized != path->nonoptimized;
	bool rose = usable && !path->usable, was;

	lockdep_assert_held(&mpath->lock);
	usable &= !path->dead;
	path->usable = usable;
	path->nonoptimized = nonoptimized;
	if (index == WEFT_PATHS_MAX)
		return change;
	if (path->standby) {
		if (usable && rose)
			mod_delayed_work(member->volume->wq, &path->check, 0);
		return change;
	}
	was = test_bit(index, &mpath->usable);
	if (usable != was)
		change = WEFT_MPATH_USABLE;
	else if (ranked)
		change = WEFT_MPATH_RANK;
	if (change) {
		__assign_bit(index, &mpath->usable, usable);
		weft_mpath_update(member);
	}
	return change;
}

static enum weft_mpath_change weft_mpath_set(struct weft_path *path, bool usable,
					     bool nonoptimized)
{
	struct weft_member *member = path->owner_data;
	enum weft_mpath_change change;
	unsigned long flags;

	spin_lock_irqsave(&member->mpath.lock, flags);
	change = weft_mpath_apply(path, usable, nonoptimized);
	spin_unlock_irqrestore(&member->mpath.lock, flags);
	return change;
}

static void weft_mpath_tell_stalled(struct weft_member *member)
{
	weft_warn(member->volume, "member %u has no path left, I/O to it waits\n", member->index);
	weft_event(member->volume, WEFT_EVENT_TYPE_STALLED, member, ENOTCONN,
		   "no path to the member is left, I/O to it waits");
}

/* Under events_lock. */
static void weft_mpath_tell_lost(struct weft_path *path, const char *reason)
{
	struct weft_member *member = path->owner_data;
	struct weft_why text = {};

	weft_refuse(&text, 0, "path %s of member %u is lost: %s", path->bdev->bd_disk->disk_name,
		    member->index, reason);
	weft_warn(member->volume, "%s\n", text.text);
	weft_event(member->volume, WEFT_EVENT_TYPE_PATH_LOST, member, ENOTCONN, text.text);
	if (READ_ONCE(member->mpath.stalled))
		weft_mpath_tell_stalled(member);
}

static void weft_mpath_lost(struct weft_path *path, const char *reason)
{
	struct weft_member *member = path->owner_data;

	mutex_lock(&member->mpath.events_lock);
	if (weft_mpath_set(path, false, path->nonoptimized))
		weft_mpath_tell_lost(path, reason);
	mutex_unlock(&member->mpath.events_lock);
}

/* Under events_lock. */
static void weft_mpath_tell_restored(struct weft_path *path, bool nonoptimized,
				     enum weft_mpath_change change)
{
	struct weft_member *member = path->owner_data;
	struct weft_why text = {};
	const char *what;

	if (change == WEFT_MPATH_USABLE)
		what = nonoptimized ? "is back, non-optimized" : "is back";
	else
		what = nonoptimized ? "is non-optimized now" : "is optimized now";
	weft_refuse(&text, 0, "path %s of member %u %s", path->bdev->bd_disk->disk_name,
		    member->index, what);
	weft_info(member->volume, "%s\n", text.text);
	weft_event(member->volume,
		   change == WEFT_MPATH_USABLE ? WEFT_EVENT_TYPE_PATH_RESTORED :
						 WEFT_EVENT_TYPE_PATH_CHANGED,
		   member, 0, text.text);
	if (change == WEFT_MPATH_RANK)
		return;
	weft_mpath_kick(member);
	/* The last heartbeat may have failed without this path: do one now. */
	weft_owner_kick(member->volume);
}

static void weft_mpath_restored(struct weft_path *path, bool nonoptimized)
{
	struct weft_member *member = path->owner_data;
	enum weft_mpath_change change;

	mutex_lock(&member->mpath.events_lock);
	change = weft_mpath_set(path, true, nonoptimized);
	if (change)
		weft_mpath_tell_restored(path, nonoptimized, change);
	mutex_unlock(&member->mpath.events_lock);
}

/**
 * weft_mpath_identified() - let a path that was in standby carry I/O
 * @path: one of its member's paths; its superblock is the member's
 *
 * Context: process context, may sleep.
 */
void weft_mpath_identified(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;
	enum weft_mpath_change change;

	mutex_lock(&member->mpath.events_lock);
	spin_lock_irq(&member->mpath.lock);
	WRITE_ONCE(path->standby, false);
	smp_wmb();	/* before its bit; weft_mpath_requeue() reads it */
	change = weft_mpath_apply(path, path->usable, path->nonoptimized);
	/* The others may be dead. */
	weft_mpath_select_bdev(member);
	spin_unlock_irq(&member->mpath.lock);
	if (change)
		weft_mpath_tell_restored(path, path->nonoptimized, change);
	mutex_unlock(&member->mpath.events_lock);
}

static void weft_mpath_resized(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;
	struct weft_why text = {};

	weft_refuse(&text, 0, "path %s of member %u has %llu bytes now; the volume keeps its size",
		    path->bdev->bd_disk->disk_name, member->index, bdev_nr_bytes(path->bdev));
	weft_info(member->volume, "%s\n", text.text);
	weft_event(member->volume, WEFT_EVENT_TYPE_MEMBER_RESIZED, member, 0, text.text);
}

static bool weft_mpath_all_dead(struct weft_mpath *mpath)
{
	bool dead = true;
	u32 i;

	lockdep_assert_held(&mpath->lock);
	for (i = 0; i < WEFT_PATHS_MAX; i++)
		dead &= !mpath->path[i] || mpath->path[i]->dead;
	return dead;
}

static void weft_mpath_gone(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;
	struct weft_mpath *mpath = &member->mpath;
	struct weft_why text = {};
	bool last, was_stalled, stalled;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&mpath->lock, flags);
	if (path->dead) {
		spin_unlock_irqrestore(&mpath->lock, flags);
		return;
	}
	path->dead = true;
	was_stalled = mpath->stalled;
	last = weft_mpath_all_dead(mpath);
	i = weft_mpath_index(mpath, path);
	/*
	 * The last path stays usable if its device fails the I/O. A transport that
	 * owns its requests would give them back again and again.
	 */
	if (i < WEFT_PATHS_MAX && (!last || path->ops->owns_requests)) {
		path->usable = false;
		__clear_bit(i, &mpath->usable);
		weft_mpath_update(member);
	}
	if (!last)
		weft_mpath_select_bdev(member);
	stalled = mpath->stalled && !was_stalled;
	spin_unlock_irqrestore(&mpath->lock, flags);
	if (last) {
		weft_member_gone(member);
	} else if (READ_ONCE(path->bdev)) {
		/* Without it, the path is still being connected, and weft_path_check() refuses it. */
		weft_refuse(&text, 0, "path %s of member %u is lost: its disk was removed",
			    path->bdev->bd_disk->disk_name, member->index);
		weft_event(member->volume, WEFT_EVENT_TYPE_PATH_LOST, member, ENODEV, text.text);
		if (stalled)
			weft_mpath_tell_stalled(member);
	}
	weft_mpath_kick(member);
}

/*
 * Instead of bio_chain()'s, for a part that a path's disk split off: its parent,
 * whose own part that disk may have completed long ago, ends here. Then the disk
 * may be gone.
 */
static void weft_mpath_end_part(struct bio *bio)
{
	struct bio *parent = bio->bi_private;

	if (bio->bi_status && !parent->bi_status)
		parent->bi_status = bio->bi_status;
	bio_put(bio);
	if (!atomic_dec_and_test(&parent->__bi_remaining))
		return;
	/* This was its last part. */
	bio_clear_flag(parent, BIO_CHAIN);
	weft_bio_forget_queue(parent);
	bio_endio(parent);
}

/*
 * Take bios back that no path has carried, see weft_mpath_requeue(). @lost: one gave
 * them back.
 */
static void weft_mpath_give_back(struct weft_member *member, struct bio_list *bios,
				 unsigned long after, bool lost)
{
	struct bio_list refused = BIO_EMPTY_LIST;
	struct weft_mpath *mpath = &member->mpath;
	unsigned long flags;
	struct bio *bio;

	spin_lock_irqsave(&mpath->lock, flags);
	while ((bio = bio_list_pop(bios))) {
		if (weft_member_rw_is(member, bio)) {
			if (op_is_write(bio_op(bio)) && time_after(after, mpath->own_late))
				mpath->own_late = after;
			bio_list_add(&refused, bio);
			continue;
		}
		/* The path and its disk may be removed while the bio waits. */
		if (bio->bi_end_io == weft_chain_end_io)
			bio->bi_end_io = weft_mpath_end_part;
		weft_bio_forget_queue(bio);
		bio_set_dev(bio, member->bdev);
		/* A poller would poll the wrong queue; the bio waits anyway. */
		bio_clear_polled(bio);
		WRITE_ONCE(bio->bi_cookie, BLK_QC_T_NONE);
		bio->bi_opf &= ~REQ_NOWAIT;
		bio_list_add(weft_resend_lost(member, bio, after) ? &mpath->held : &mpath->quiet,
			     bio);
	}
	weft_mpath_update(member);
	mpath->retried += lost;
	spin_unlock_irqrestore(&mpath->lock, flags);
	while ((bio = bio_list_pop(&refused)))
		weft_mpath_refuse(bio);
	weft_mpath_kick(member);
}

/**
 * weft_mpath_outlast_own() - wait until no target can execute a lost write of the volume's own
 * @member: the member; none of them is in flight
 *
 * A late heartbeat or claim would overwrite the record of the next owner, or the data
 * of another program that uses the disk then.
 *
 * Context: process context; sleeps for as long as targets may execute writes.
 */
void weft_mpath_outlast_own(struct weft_member *member)
{
	struct weft_mpath *mpath = &member->mpath;
	long left;

	do {
		spin_lock_irq(&mpath->lock);
		left = mpath->own_late - jiffies;
		spin_unlock_irq(&mpath->lock);
		if (left > 0)
			schedule_timeout_idle(min(left, (long)HZ));
	} while (left > 0);
}

/*
 * Context: any; runs where requests complete. From @after on, in jiffies, the
 * target cannot execute these writes any more.
 */
static void weft_mpath_requeue(struct weft_path *path, struct bio_list *bios,
			       unsigned long after)
{
	struct bio *bio;

	if (likely(READ_ONCE(path->added) && !READ_ONCE(path->standby))) {
		weft_mpath_give_back(path->owner_data, bios, after, true);
		return;
	}
	/* Other programs' I/O on a disk that may not be the member's. */
	while ((bio = bio_list_pop(bios)))
		weft_mpath_refuse(bio);
}

/* Wait until all readers of member->fast_bdev or of this path have sent their bio. */
static void weft_mpath_settle(struct weft_volume *vol, struct weft_path *path)
{
	/* Readers of member->fast_bdev in weft_submit_bio(). */
	weft_queue_settle(vol->disk->queue);
	/* Readers of a path under SRCU, weft_range_fan_out(), and weft_part_again(). */
	synchronize_srcu(&vol->path_srcu);
	/*
	 * A bio that weft_submit_bio() sent is at the head of its task's list.
	 * It reaches the path's queue before the task sleeps.
	 */
	synchronize_rcu_tasks();
	/* There it may sleep, and have more. */
	if (path->ops->drain)
		path->ops->drain(path);
}

static void weft_mpath_left(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;
	struct weft_volume *vol = member->volume;

	/* During assembly there is no disk, and only readers under SRCU. */
	if (READ_ONCE(vol->disk))
		weft_mpath_settle(vol, path);
	else
		synchronize_srcu(&vol->path_srcu);
}

/* While it is claimed or released, a volume has no writes but its own. */
static bool weft_mpath_may_write(struct weft_path *path, const struct bio *bio)
{
	struct weft_member *member = path->owner_data;

	return !weft_owner_writes_wait(member->volume) ||
	       (bio && weft_member_rw_is(member, bio));
}

const struct weft_path_events weft_mpath_events = {
	.gone		= weft_mpath_gone,
	.settle		= weft_mpath_left,
	.down		= weft_mpath_lost,
	.up		= weft_mpath_restored,
	.resized	= weft_mpath_resized,
	.peers		= weft_peers_path_changed,
	.requeue	= weft_mpath_requeue,
	.may_write	= weft_mpath_may_write,
};

static void weft_mpath_put_kept(struct weft_member *member, struct bio_list *bios)
{
	struct weft_mpath *mpath = &member->mpath;
	struct bio *bio;

	if (bio_list_empty(bios))
		return;
	spin_lock_irq(&mpath->lock);
	/* The path that they point to may have been removed. */
	bio_list_for_each(bio, bios)
		bio_set_dev(bio, member->bdev);
	bio_list_merge_head(&mpath->held, bios);
	spin_unlock_irq(&mpath->lock);
}

/* Send or fail the held bios, and run again for the rest. */
static void weft_mpath_work(struct work_struct *work)
{
	struct weft_mpath *mpath = container_of(to_delayed_work(work), struct weft_mpath, work);
	struct weft_member *member = container_of(mpath, struct weft_member, mpath);
	struct bio_list bios = BIO_EMPTY_LIST, wait = BIO_EMPTY_LIST, failed = BIO_EMPTY_LIST;
	unsigned long patience = MAX_JIFFY_OFFSET, later;
	struct bio *bio;
	bool usable;

	spin_lock_irq(&mpath->lock);
	later = weft_resend_over(member, jiffies, &failed);
	weft_mpath_update(member);
	usable = mpath->usable;
	if (!usable)
		patience = weft_mpath_patience(member, mpath->stall_changed_at);
	if (usable || !patience || weft_owner_refuses(member->volume)) {
		bio_list_merge(&bios, &mpath->held);
		bio_list_init(&mpath->held);
	}
	if (patience)
		later = min(later, patience);
	if (later != MAX_JIFFY_OFFSET)
		queue_delayed_work(member->volume->wq, &mpath->work, later + 1);
	spin_unlock_irq(&mpath->lock);

	weft_resend_fail(&failed);
	while ((bio = bio_list_pop(&bios))) {
		enum weft_admission admission = WEFT_ADMISSION_PASS;

		if (op_is_write(bio->bi_opf))
			admission = weft_owner_admit(member->volume);
		if (!patience || admission == WEFT_ADMISSION_FAIL)
			bio_io_error(bio);
		else if (!usable || admission == WEFT_ADMISSION_WAIT)
			bio_list_add(&wait, bio);
		else
			weft_mpath_submit(member, bio);
	}
	weft_mpath_put_kept(member, &wait);
}

/**
 * weft_mpath_look_for_dead() - find removed devices
 * @member: the member
 *
 * Linux 6.1 does not notify the holder of a device that was removed.
 *
 * Context: process context, may sleep.
 */
void weft_mpath_look_for_dead(struct weft_member *member)
{
	int srcu = srcu_read_lock(&member->volume->path_srcu);
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_member_path(member, i);

		if (path && test_bit(GD_DEAD, &path->bdev->bd_disk->state))
			weft_mpath_gone(path);
	}
	srcu_read_unlock(&member->volume->path_srcu, srcu);
}

/**
 * weft_mpath_peer_others() - send an operation over another path
 * @member: the member
 * @op: the operation; its sector is relative to the member
 * @first: the path that could not carry it, or NULL
 *
 * Context: as weft_mpath_peer(), under SRCU.
 * Return: as ->peer_submit().
 */
int weft_mpath_peer_others(struct weft_member *member, struct weft_mem_op *op,
			   const struct weft_path *first)
{
	unsigned long usable = READ_ONCE(member->mpath.usable), index;
	int ret = -ENOTCONN;

	for_each_set_bit(index, &usable, WEFT_PATHS_MAX) {
		struct weft_path *path = READ_ONCE(member->mpath.path[index]);

		if (!path || path == first || !path->ops->peer_submit)
			continue;
		ret = path->ops->peer_submit(path, op);
		if (ret != -ENOTCONN)
			break;
	}
	return ret;
}

/**
 * weft_mpath_op_lost() - an operation on peer memory lost its path
 * @member: the member
 * @op: a write that its target may execute until @after; the caller sends it
 *	again, and calls weft_resend_op_ended() when it has ended
 * @after: in jiffies
 *
 * Context: any.
 */
void weft_mpath_op_lost(struct weft_member *member, const struct weft_mem_op *op,
			unsigned long after)
{
	struct weft_mpath *mpath = &member->mpath;
	unsigned long flags;

	spin_lock_irqsave(&mpath->lock, flags);
	weft_resend_op_lost(member, op, after);
	weft_mpath_update(member);
	spin_unlock_irqrestore(&mpath->lock, flags);
	/* It ends the shadow. */
	weft_mpath_kick(member);
}

/**
 * weft_mpath_patience() - how long I/O may still wait for a path
 * @member: the member
 * @since: when it began to wait, in jiffies
 *
 * Return: in jiffies; 0 if it fails now, MAX_JIFFY_OFFSET for no limit.
 */
unsigned long weft_mpath_patience(struct weft_member *member, unsigned long since)
{
	int timeout = READ_ONCE(member->volume->no_path_timeout);
	unsigned long now = jiffies, end;

	if (!weft_mpath_may_wait(member))
		return 0;
	if (timeout < 0)
		return MAX_JIFFY_OFFSET;
	end = since + (unsigned long)timeout * HZ;
	return time_before(now, end) ? end - now : 0;
}

/**
 * weft_mpath_is_patient() - does I/O to a member still wait?
 * @member: the member
 * @since: when it began to wait, in jiffies. The time counts since the member lost its
 *	last path, or since it has one again, if that was later
 *
 * Context: process context.
 * Return: true if it waits, false if it fails.
 */
bool weft_mpath_is_patient(struct weft_member *member, unsigned long since)
{
	struct weft_mpath *mpath = &member->mpath;
	bool patient;

	spin_lock_irq(&mpath->lock);
	if (mpath->stalled || time_after(mpath->stall_changed_at, since))
		since = mpath->stall_changed_at;
	/* It does not wait for a path: its memory is being moved or registered again. */
	if (!mpath->stalled && !READ_ONCE(member->volume->no_path_timeout))
		patient = weft_mpath_has_future(member) &&
			  time_before(jiffies, since + WEFT_NO_PATH_TIMEOUT * HZ);
	else
		patient = weft_mpath_patience(member, since);
	spin_unlock_irq(&mpath->lock);
	return patient;
}

static void weft_mpath_give_back_one(struct weft_member *member, struct bio *bio, bool lost)
{
	struct bio_list one = BIO_EMPTY_LIST;

	bio_list_add(&one, bio);
	weft_mpath_give_back(member, &one, jiffies, lost);
}

/**
 * weft_mpath_again() - send a bio again that failed with its path
 * @member: the member
 * @bio: the bio, initialized again, for any path that can carry it
 *
 * Used for a flush: its request is the block layer's own, so the transport
 * cannot give the bio back.
 *
 * Context: any.
 */
void weft_mpath_again(struct weft_member *member, struct bio *bio)
{
	weft_mpath_give_back_one(member, bio, true);
}

/**
 * weft_mpath_wait() - send a write when the volume has its lease again
 * @member: the member
 * @bio: the write; no path has it
 *
 * Context: any.
 */
void weft_mpath_wait(struct weft_member *member, struct bio *bio)
{
	weft_mpath_give_back_one(member, bio, false);
}

/**
 * weft_mpath_init() - initialize a member's paths
 * @member: the member; it has no path yet
 *
 * Return: 0 or -ENOMEM; undo by weft_mpath_exit().
 */
int weft_mpath_init(struct weft_member *member)
{
	struct weft_mpath *mpath = &member->mpath;

	/* One per member: striped I/O visits the members in turn, too. */
	mpath->turn = alloc_percpu(unsigned int);
	if (!mpath->turn)
		return -ENOMEM;
	mpath->stall_changed_at = jiffies;
	mpath->own_late = jiffies;
	spin_lock_init(&mpath->lock);
	mutex_init(&mpath->prepare_lock);
	mutex_init(&mpath->events_lock);
	bio_list_init(&mpath->held);
	bio_list_init(&mpath->quiet);
	weft_shadows_init(&mpath->shadows);
	INIT_DELAYED_WORK(&mpath->work, weft_mpath_work);
	return 0;
}

/**
 * weft_mpath_exit() - undo weft_mpath_init()
 * @member: no bio is in flight on it
 */
void weft_mpath_exit(struct weft_member *member)
{
	struct weft_mpath *mpath = &member->mpath;
	struct bio *bio;

	cancel_delayed_work_sync(&mpath->work);
	weft_resend_exit(member);
	/* Bios of other programs that used the disk while its path was lost. */
	bio_list_merge(&mpath->held, &mpath->quiet);
	while ((bio = bio_list_pop(&mpath->held)))
		bio_io_error(bio);
	free_percpu(mpath->turn);
}

/**
 * weft_mpath_add() - add a path to a member
 * @member: the member
 * @path: the path; it is connected
 *
 * Context: process context.
 * Return: 0, or -ENOSPC if the member has WEFT_PATHS_MAX paths.
 */
int weft_mpath_add(struct weft_member *member, struct weft_path *path)
{
	struct weft_mpath *mpath = &member->mpath;
	u32 index;

	spin_lock_irq(&mpath->lock);
	index = weft_mpath_index(mpath, NULL);
	if (index < WEFT_PATHS_MAX) {
		WRITE_ONCE(path->added, true);
		if (path->ops->owns_requests)
			WRITE_ONCE(member->owns_requests, true);
		WRITE_ONCE(mpath->path[index], path);
		smp_wmb();	/* before its bit; readers use the index */
		__assign_bit(index, &mpath->usable,
			     path->usable && !path->standby && !path->dead);
		weft_mpath_update(member);
		if (path->usable && path->standby)
			queue_delayed_work(member->volume->wq, &path->check, 0);
	}
	spin_unlock_irq(&mpath->lock);
	if (index == WEFT_PATHS_MAX)
		return -ENOSPC;
	weft_mpath_kick(member);
	/* How long its target may be late belongs into the record. */
	weft_owner_kick(member->volume);
	return 0;
}

/* The path has left the member, so nothing queues the work again. */
static void weft_mpath_end_check(struct weft_path *path)
{
	/* A member's first path has none. */
	if (path->check.work.func)
		cancel_delayed_work_sync(&path->check);
}

/**
 * weft_mpath_remove() - remove a path from a member
 * @member: the member; it has other paths
 * @path: one of its paths
 *
 * Context: process context; waits until tasks that have chosen the path have
 * submitted their I/O, and until a transport with @drain has none of it left. Also
 * waits while memory is prepared on one of the member's paths, which may wait for
 * targets.
 */
void weft_mpath_remove(struct weft_member *member, struct weft_path *path)
{
	struct weft_volume *vol = member->volume;
	struct weft_mpath *mpath = &member->mpath;
	struct bio *bio;
	bool gone;
	u32 index;

	mutex_lock(&mpath->prepare_lock);
	mutex_lock(&weft_volumes_lock);
	spin_lock_irq(&mpath->lock);
	index = weft_mpath_index(mpath, path);
	__clear_bit(index, &mpath->usable);
	weft_mpath_update(member);
	WRITE_ONCE(mpath->leaving, path);
	smp_wmb();	/* see weft_mpath_submit() and weft_mpath_end_writes() */
	WRITE_ONCE(mpath->path[index], NULL);
	weft_mpath_select_bdev(member);
	bio_list_for_each(bio, &mpath->held)
		bio_set_dev(bio, member->bdev);
	bio_list_for_each(bio, &mpath->quiet)
		bio_set_dev(bio, member->bdev);
	/* The others may have died since the caller looked. */
	gone = weft_mpath_all_dead(mpath);
	spin_unlock_irq(&mpath->lock);
	mutex_unlock(&weft_volumes_lock);
	mutex_unlock(&mpath->prepare_lock);

	if (gone) {
		weft_member_gone(member);
		weft_mpath_kick(member);
	}
	weft_mpath_end_check(path);
	/* Bios that the work took from the lists. */
	flush_delayed_work(&mpath->work);
	weft_mpath_settle(vol, path);
	WRITE_ONCE(mpath->leaving, NULL);
	synchronize_srcu(&vol->path_srcu);
}

/**
 * weft_mpath_take() - remove all paths of a member
 * @member: the member; no bio of its volume is in flight
 * @taken: set to the paths it had, or NULL; an array of WEFT_PATHS_MAX
 *
 * Context: process context, may sleep.
 */
void weft_mpath_take(struct weft_member *member, struct weft_path **taken)
{
	struct weft_mpath *mpath = &member->mpath;
	u32 i;

	spin_lock_irq(&mpath->lock);
	mpath->usable = 0;
	weft_mpath_update(member);
	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		taken[i] = mpath->path[i];
		WRITE_ONCE(mpath->path[i], NULL);
	}
	spin_unlock_irq(&mpath->lock);
	for (i = 0; i < WEFT_PATHS_MAX; i++)
		if (taken[i])
			weft_mpath_end_check(taken[i]);
	synchronize_srcu(&member->volume->path_srcu);
}
