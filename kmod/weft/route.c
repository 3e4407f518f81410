// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which of its paths a member's bios take, and what becomes of them when a
 * path, or the last one, is lost.
 *
 * DOC: paths
 *
 * A member has one path or several; each is a disk that leads to the same
 * namespace. While exactly one can carry I/O, member->route is its device and
 * a bio goes there without another look. Otherwise it is NULL and
 * weft_route_submit() takes the paths in turn (all, or with the iopolicy numa the
 * nearest ones), or keeps the bio.
 *
 * A transport that owns its requests (rdma) gives bios back when their path
 * failed: they go to another path with their sector unchanged, never through
 * the map again. A write that may have reached the target comes with the time
 * from which it cannot execute any more, and is kept until then. The errors of
 * a transport that does not (bdev) are final.
 *
 * With no path left, I/O waits no_path_timeout seconds since the last one was
 * lost, and fails then; -1 is for ever. While a volume comes up or goes down
 * nothing waits.
 *
 * A path that is taken away is waited for, see weft_route_remove().
 */
#include "route.h"

#include "../compat/blk_mq.h"

/* Held from the choice of a path until the bio, or operation, is its queue's. */
DEFINE_SRCU(weft_route_srcu);

static bool weft_route_may_wait(struct weft_member *member)
{
	struct weft_volume *vol = member->volume;
	enum weft_volume_state state = READ_ONCE(vol->state);

	return (state == WEFT_VOLUME_STATE_LIVE || state == WEFT_VOLUME_STATE_FAILED) &&
	       READ_ONCE(vol->no_path_timeout) && !READ_ONCE(member->gone);
}

/**
 * weft_route_kick() - look again at what waits
 * @member: of a volume whose state, or patience, changed
 */
void weft_route_kick(struct weft_member *member)
{
	mod_delayed_work(member->volume->wq, &member->paths.work, 0);
}

/* Kept until a path is there, or patience is over. */
static void weft_route_hold(struct weft_member *member, struct bio *bio)
{
	struct weft_route *route = &member->paths;
	unsigned long flags;

	if (!weft_route_may_wait(member)) {
		bio_io_error(bio);
		return;
	}
	if (bio->bi_opf & REQ_NOWAIT) {
		bio_wouldblock_error(bio);
		return;
	}
	spin_lock_irqsave(&route->lock, flags);
	bio_list_add(&route->held, bio);
	spin_unlock_irqrestore(&route->lock, flags);
	/* A path may have come back before it was on the list. */
	weft_route_kick(member);
}

/* Of these paths those whose devices are nearest to this processor. */
static unsigned long weft_route_near(struct weft_route *route, unsigned long usable)
{
	unsigned long near = 0, index;
	int nearest = INT_MAX, here = numa_node_id();

	for_each_set_bit(index, &usable, WEFT_PATHS_MAX) {
		struct weft_path *path = READ_ONCE(route->path[index]);
		int distance;

		/* Taken since, see weft_route_take(). */
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
 * weft_route_choose() - of several paths one, in turn
 * @member: which
 * @usable: of its paths those to choose of, by index
 *
 * Context: any, under SRCU.
 * Return: @usable, of which the lowest bit is the one; 0 where there is none.
 */
unsigned long weft_route_choose(struct weft_member *member, unsigned long usable)
{
	struct weft_route *route = &member->paths;
	unsigned int turn;

	if (READ_ONCE(member->volume->iopolicy) == WEFT_IOPOLICY_NUMA)
		usable = weft_route_near(route, usable);
	if (!usable)
		return 0;
	for (turn = this_cpu_inc_return(*route->turn) % hweight_long(usable); turn; turn--)
		usable &= usable - 1;
	return usable;
}

/**
 * weft_route_submit() - send a bio by whichever path can carry it
 * @member: which
 * @bio: its sector is the member's
 *
 * Context: process context; sleeps as submit_bio_noacct() does.
 */
void weft_route_submit(struct weft_member *member, struct bio *bio)
{
	int srcu = srcu_read_lock(&weft_route_srcu);
	struct weft_path *path;
	unsigned long usable;

	/* One that is being removed was still usable, and is not there: the others are. */
	do {
		usable = READ_ONCE(member->paths.usable);
		path = weft_route_pick(member, usable);
		smp_rmb();	/* who sees that it is gone sees that it is not usable */
	} while (unlikely(!path && usable));
	if (path) {
		bio_set_dev(bio, path->bdev);
		submit_bio_noacct(bio);
	}
	srcu_read_unlock(&weft_route_srcu, srcu);
	if (!path)
		weft_route_hold(member, bio);
}

/* Under the lock: what the hot path may take without asking. */
static void weft_route_update(struct weft_member *member)
{
	struct weft_route *route = &member->paths;
	unsigned long usable = route->usable;

	lockdep_assert_held(&route->lock);
	WRITE_ONCE(member->route, usable && !(usable & (usable - 1)) ?
				  route->path[__ffs(usable)]->bdev : NULL);
	if (usable) {
		route->stalled = false;
	} else if (!route->stalled) {
		route->stalled = true;
		route->stalled_at = jiffies;
	}
}

static u32 weft_route_index(struct weft_route *route, const struct weft_path *path)
{
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++)
		if (route->path[i] == path)
			return i;
	return WEFT_PATHS_MAX;
}

/* Returns whether it changed; a path that is not in the route yet is noted in it. */
static bool weft_route_set_usable(struct weft_member *member, struct weft_path *path,
				  bool usable)
{
	struct weft_route *route = &member->paths;
	unsigned long flags, before;
	u32 index;

	spin_lock_irqsave(&route->lock, flags);
	before = route->usable;
	path->usable = usable && !path->dead;
	index = weft_route_index(route, path);
	if (index < WEFT_PATHS_MAX) {
		__assign_bit(index, &route->usable, path->usable);
		weft_route_update(member);
	}
	spin_unlock_irqrestore(&route->lock, flags);
	return route->usable != before;
}

static void weft_route_lost(struct weft_path *path, const char *reason)
{
	struct weft_member *member = path->owner_data;
	struct weft_why text = {};

	if (!weft_route_set_usable(member, path, false))
		return;
	weft_refuse(&text, 0, "path %s of member %u is lost: %s", path->bdev->bd_disk->disk_name,
		    member->index, reason);
	weft_warn(member->volume, "%s\n", text.text);
	weft_event(member->volume, WEFT_EVENT_TYPE_PATH_LOST, member, ENOTCONN, text.text);
	if (!READ_ONCE(member->paths.stalled))
		return;
	weft_warn(member->volume, "member %u has no path left, I/O to it waits\n", member->index);
	weft_event(member->volume, WEFT_EVENT_TYPE_STALLED, member, ENOTCONN,
		   "no path to the member is left, I/O to it waits");
}

static void weft_route_restored(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;
	struct weft_why text = {};

	if (!weft_route_set_usable(member, path, true))
		return;
	weft_refuse(&text, 0, "path %s of member %u is back", path->bdev->bd_disk->disk_name,
		    member->index);
	weft_info(member->volume, "%s\n", text.text);
	weft_event(member->volume, WEFT_EVENT_TYPE_PATH_RESTORED, member, 0, text.text);
	weft_route_kick(member);
}

static void weft_route_moved(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;

	weft_peers_changed(member->volume);
}

static void weft_route_gone(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;
	struct weft_route *route = &member->paths;
	bool last = true;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&route->lock, flags);
	if (path->dead) {
		spin_unlock_irqrestore(&route->lock, flags);
		return;
	}
	path->dead = true;
	for (i = 0; i < WEFT_PATHS_MAX; i++)
		last &= !route->path[i] || route->path[i]->dead;
	i = weft_route_index(route, path);
	if (!last && i < WEFT_PATHS_MAX) {
		__clear_bit(i, &route->usable);
		weft_route_update(member);
	}
	spin_unlock_irqrestore(&route->lock, flags);
	/* Of the last one the device itself fails what comes. */
	if (last)
		weft_member_gone(member);
	else
		weft_event(member->volume, WEFT_EVENT_TYPE_PATH_LOST, member, ENODEV,
			   "the disk of one of its paths was removed");
	weft_route_kick(member);
}

/* A path could not carry them; see weft_route_requeue(). */
static void weft_route_give_back(struct weft_member *member, struct bio_list *bios,
				 unsigned long after)
{
	struct weft_route *route = &member->paths;
	bool quiet = time_after(after, jiffies);
	unsigned long flags;
	struct bio *bio;

	spin_lock_irqsave(&route->lock, flags);
	bio_list_for_each(bio, bios) {
		/* The path may go while it waits, and its disk. */
		bio_set_dev(bio, member->bdev);
		/* Who polls would do so where it is not, and it waits in any case. */
		bio_clear_polled(bio);
		WRITE_ONCE(bio->bi_cookie, BLK_QC_T_NONE);
		bio->bi_opf &= ~REQ_NOWAIT;
	}
	bio_list_merge(quiet ? &route->quiet : &route->held, bios);
	if (quiet && (!route->quiet_until || time_after(after, route->quiet_until)))
		route->quiet_until = after;
	route->retried++;
	spin_unlock_irqrestore(&route->lock, flags);
	weft_route_kick(member);
}

/*
 * Context: any; where requests complete. From @after on a write cannot execute
 * any more where it was sent.
 */
static void weft_route_requeue(struct weft_path *path, struct bio_list *bios,
			       unsigned long after)
{
	weft_route_give_back(path->owner_data, bios, after);
}

const struct weft_path_events weft_route_events = {
	.gone		= weft_route_gone,
	.down		= weft_route_lost,
	.up		= weft_route_restored,
	.peers		= weft_route_moved,
	.requeue	= weft_route_requeue,
};

/* Sends on, or ends, what may be; and comes back for the rest. */
static void weft_route_work(struct work_struct *work)
{
	struct weft_route *route = container_of(to_delayed_work(work), struct weft_route, work);
	struct weft_member *member = container_of(route, struct weft_member, paths);
	struct bio_list bios = BIO_EMPTY_LIST;
	unsigned long later = MAX_JIFFY_OFFSET;
	bool fail = false;
	struct bio *bio;

	spin_lock_irq(&route->lock);
	if (!route->usable) {
		later = weft_route_patience(member, route->stalled_at);
		fail = !later;
	}
	if (route->usable || fail) {
		bio_list_merge(&bios, &route->held);
		bio_list_init(&route->held);
		later = MAX_JIFFY_OFFSET;
		if (!bio_list_empty(&route->quiet)) {
			/* Nor may they fail before: who wrote would write again. */
			if (time_before(jiffies, route->quiet_until)) {
				later = route->quiet_until - jiffies;
			} else {
				bio_list_merge(&bios, &route->quiet);
				bio_list_init(&route->quiet);
				route->quiet_until = 0;
			}
		}
	}
	if (later != MAX_JIFFY_OFFSET)
		queue_delayed_work(member->volume->wq, &route->work, later + 1);
	spin_unlock_irq(&route->lock);

	while ((bio = bio_list_pop(&bios))) {
		if (fail)
			bio_io_error(bio);
		else
			weft_route_submit(member, bio);
	}
}

/**
 * weft_route_look_for_dead() - notice a removed device where nobody tells (6.1)
 * @member: which
 *
 * Context: process context, may sleep.
 */
void weft_route_look_for_dead(struct weft_member *member)
{
	int srcu = srcu_read_lock(&weft_route_srcu);
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_route_path(member, i);

		if (path && test_bit(GD_DEAD, &path->bdev->bd_disk->state))
			weft_route_gone(path);
	}
	srcu_read_unlock(&weft_route_srcu, srcu);
}

/**
 * weft_route_mem() - what a member's paths can do with memory that has no pages
 * @member: which
 *
 * Context: process context.
 * Return: of several paths the least.
 */
enum weft_path_mem weft_route_mem(struct weft_member *member)
{
	enum weft_path_mem mem = WEFT_PATH_MEM_DEVICE;
	int srcu = srcu_read_lock(&weft_route_srcu);
	bool any = false;
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_route_path(member, i);

		if (!path)
			continue;
		any = true;
		mem = min(mem, path->mem);
	}
	srcu_read_unlock(&weft_route_srcu, srcu);
	return any ? mem : WEFT_PATH_MEM_NONE;
}

/**
 * weft_route_peer_others() - send an operation that the first choice could not carry
 * @member: which
 * @op: its sector is the member's
 * @first: that one, or NULL
 *
 * Context: as weft_route_peer(), under SRCU.
 * Return: as ->peer_submit().
 */
int weft_route_peer_others(struct weft_member *member, struct weft_mem_op *op,
			   const struct weft_path *first)
{
	unsigned long usable = READ_ONCE(member->paths.usable), index;
	int ret = -ENOTCONN;

	for_each_set_bit(index, &usable, WEFT_PATHS_MAX) {
		struct weft_path *path = READ_ONCE(member->paths.path[index]);

		if (!path || path == first || !path->ops->peer_submit)
			continue;
		ret = path->ops->peer_submit(path, op);
		if (ret != -ENOTCONN)
			break;
	}
	return ret;
}

/**
 * weft_route_patience() - how long I/O may still wait for a path
 * @member: which
 * @since: when it began to, in jiffies
 *
 * Return: in jiffies; 0 where it fails now, MAX_JIFFY_OFFSET for ever.
 */
unsigned long weft_route_patience(struct weft_member *member, unsigned long since)
{
	int timeout = READ_ONCE(member->volume->no_path_timeout);
	unsigned long end;

	if (!weft_route_may_wait(member))
		return 0;
	if (timeout < 0)
		return MAX_JIFFY_OFFSET;
	end = since + (unsigned long)timeout * HZ;
	return time_before(jiffies, end) ? end - jiffies : 0;
}

/**
 * weft_route_again() - send a bio again that failed with its path
 * @member: which
 * @bio: set up anew, for whichever path can carry it
 *
 * Context: any. For a flush of the block layer's own making, which its
 * transport cannot give back.
 */
void weft_route_again(struct weft_member *member, struct bio *bio)
{
	struct bio_list one = BIO_EMPTY_LIST;

	bio_list_add(&one, bio);
	weft_route_give_back(member, &one, jiffies);
}

/**
 * weft_route_init() - a member without paths
 * @member: being opened
 *
 * Return: 0 or -ENOMEM; undo by weft_route_exit().
 */
int weft_route_init(struct weft_member *member)
{
	struct weft_route *route = &member->paths;

	/* A member's own: neighbours in a stripe are asked in turn, too. */
	route->turn = alloc_percpu(unsigned int);
	if (!route->turn)
		return -ENOMEM;
	spin_lock_init(&route->lock);
	mutex_init(&route->prepare_lock);
	bio_list_init(&route->held);
	bio_list_init(&route->quiet);
	INIT_DELAYED_WORK(&route->work, weft_route_work);
	return 0;
}

/**
 * weft_route_exit() - undo weft_route_init()
 * @member: no bio is in flight on it
 */
void weft_route_exit(struct weft_member *member)
{
	struct weft_route *route = &member->paths;
	struct bio *bio;

	cancel_delayed_work_sync(&route->work);
	/* Of others, who read the disk beside the volume while its path was lost. */
	bio_list_merge(&route->held, &route->quiet);
	while ((bio = bio_list_pop(&route->held)))
		bio_io_error(bio);
	free_percpu(route->turn);
}

/**
 * weft_route_add() - a path may be used
 * @member: which
 * @path: connected
 *
 * Context: process context.
 * Return: 0, or -ENOSPC where the member has WEFT_PATHS_MAX paths.
 */
int weft_route_add(struct weft_member *member, struct weft_path *path)
{
	struct weft_route *route = &member->paths;
	u32 index;

	spin_lock_irq(&route->lock);
	index = weft_route_index(route, NULL);
	if (index < WEFT_PATHS_MAX) {
		WRITE_ONCE(route->path[index], path);
		smp_wmb();	/* who sees it usable sees it; the index is the dependency */
		__assign_bit(index, &route->usable, path->usable && !path->dead);
		weft_route_update(member);
	}
	spin_unlock_irq(&route->lock);
	if (index == WEFT_PATHS_MAX)
		return -ENOSPC;
	weft_route_kick(member);
	return 0;
}

/**
 * weft_route_remove() - nobody chooses a path any more
 * @member: which has others
 * @path: of it
 *
 * Context: process context; waits for those who have chosen it, but for no I/O;
 * and for who prepares memory on one of the member's, as long as targets take.
 */
void weft_route_remove(struct weft_member *member, struct weft_path *path)
{
	struct weft_volume *vol = member->volume;
	struct weft_route *route = &member->paths;
	struct bio *bio;
	u32 i, index;

	mutex_lock(&route->prepare_lock);
	spin_lock_irq(&route->lock);
	index = weft_route_index(route, path);
	__clear_bit(index, &route->usable);
	weft_route_update(member);
	smp_wmb();	/* see weft_route_submit() */
	WRITE_ONCE(route->path[index], NULL);
	for (i = 0; i < WEFT_PATHS_MAX; i++)
		if (route->path[i])
			WRITE_ONCE(member->bdev, route->path[i]->bdev);
	bio_list_for_each(bio, &route->held)
		bio_set_dev(bio, member->bdev);
	bio_list_for_each(bio, &route->quiet)
		bio_set_dev(bio, member->bdev);
	spin_unlock_irq(&route->lock);
	mutex_unlock(&route->prepare_lock);

	/* Those who took member->route: within weft_submit_bio(), and in works. */
	weft_queue_settle(vol->disk->queue);
	flush_work(&vol->deferred.work);
	/* Those who found it, to send something by it. */
	synchronize_srcu(&weft_route_srcu);
}

/**
 * weft_route_take() - nobody chooses any path any more
 * @member: no bio of its volume is in flight
 * @taken: WEFT_PATHS_MAX, set: the paths it had, or NULL
 *
 * Context: process context, may sleep.
 */
void weft_route_take(struct weft_member *member, struct weft_path **taken)
{
	struct weft_route *route = &member->paths;
	u32 i;

	spin_lock_irq(&route->lock);
	route->usable = 0;
	weft_route_update(member);
	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		taken[i] = route->path[i];
		WRITE_ONCE(route->path[i], NULL);
	}
	spin_unlock_irq(&route->lock);
	synchronize_srcu(&weft_route_srcu);
}

/**
 * weft_route_path() - a member's path by its place
 * @member: which
 * @index: 0 to WEFT_PATHS_MAX - 1
 *
 * Context: weft_volumes_lock is held, or weft_route_srcu, or the route's
 * prepare_lock, each of which keeps the path; or nobody else knows the member.
 * Return: the path, or NULL where there is none.
 */
struct weft_path *weft_route_path(const struct weft_member *member, u32 index)
{
	return READ_ONCE(member->paths.path[index]);
}
