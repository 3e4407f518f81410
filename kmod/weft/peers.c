// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memories that the transport does I/O on: preparing them on the paths of a
 * volume, and finding the paths that are nearest to them.
 *
 * DOC: which paths
 *
 * A memory is prepared on every path of every member. At least one path of each
 * member has to be able to use it. Commands go over the nearest of the able
 * paths (@near of struct weft_mem_op). The nearest paths may change when a path
 * is added, removed or connected again. A work then finds them again. This work
 * never waits for weft_volumes_lock, so a holder of that lock may wait for the
 * work.
 *
 * Preparation may wait for targets, so it runs without weft_volumes_lock, which
 * status and all other volumes need. The paths are kept by the member's
 * prepare_lock, or, while a path is being added, by the volume's busy flag.
 * weft_volumes_lock protects the list of memories and their @near.
 */
#include "mem.h"

#include <linux/delay.h>
#include <linux/sched/mm.h>

/* How long a registration waits for a path that is being connected again. */
#define WEFT_PEERS_CONNECT	(20 * HZ)
#define WEFT_PEERS_AGAIN	(HZ / 10)

/* For weft_peers_remove(): wait until a memory is not being prepared. */
static DECLARE_WAIT_QUEUE_HEAD(weft_peers_idle);

static int weft_peers_prepare(struct weft_memory *mem, struct weft_path *path,
			      struct weft_why *why)
{
	if (!path->ops->peer_prepare || path->ops != mem->transport)
		return weft_refuse(why, -EOPNOTSUPP,
				   "no direct route: path %s cannot do I/O on peer memory",
				   path->bdev->bd_disk->disk_name);
	return path->ops->peer_prepare(mem->peer, path, why);
}

/* Limit operations to the largest one that this path can do. */
static void weft_peers_fit(struct weft_memory *mem, struct weft_member *member,
			   const struct weft_path *path)
{
	u32 block = queue_logical_block_size(member->volume->disk->queue);

	lockdep_assert_held(&weft_volumes_lock);
	WRITE_ONCE(mem->piece, min(mem->piece, round_down(path->mem_bytes, block)));
}

/* Find the member's paths that are nearest to the memory, and their limits. */
static void weft_peers_look(struct weft_memory *mem, struct weft_member *member)
{
	int nearest = INT_MAX, distance;
	u8 near = 0;
	u32 i;

	lockdep_assert_held(&weft_volumes_lock);
	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_member_path(member, i);

		if (!path || path->ops != mem->transport)
			continue;
		weft_peers_fit(mem, member, path);
		distance = path->ops->peer_distance(mem->peer, path);
		if (distance < nearest) {
			nearest = distance;
			near = 0;
		}
		if (distance == nearest && distance != INT_MAX)
			near |= BIT(i);
	}
	WRITE_ONCE(mem->near[member->index], near);
}

static void weft_peers_look_all(struct weft_memory *mem, struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < vol->member_count; i++)
		weft_peers_look(mem, vol->members[i]);
}

/* -ENOTCONN if no path is able now, but one may be later. */
static int weft_peers_prepare_member(struct weft_memory *mem, struct weft_member *member,
				     struct weft_why *why)
{
	struct mutex *lock = &member->mpath.prepare_lock;
	bool able = false, later = false, standby;
	int ret = -ENOTCONN, err;
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path;

		mutex_lock(lock);
		path = weft_member_path(member, i);
		err = path ? weft_peers_prepare(mem, path, why) : 0;
		standby = path && READ_ONCE(path->standby);
		mutex_unlock(lock);
		if (!path)
			continue;
		if (!err && !standby)
			able = true;
		else if (!err || err == -ENOTCONN)
			later = true;
		else
			ret = err;
	}
	if (able)
		return 0;
	return later ? -ENOTCONN : ret;
}

static int weft_peers_prepare_all(struct weft_memory *mem, struct weft_volume *vol,
				  struct weft_why *why)
{
	u32 i;
	int ret;

	for (i = 0; i < vol->member_count; i++) {
		ret = weft_peers_prepare_member(mem, vol->members[i], why);
		if (ret)
			return ret;
	}
	/* It may be about a path that is not able, where another one is. */
	why->text[0] = 0;
	return 0;
}

static bool weft_peers_are_none(struct weft_volume *vol)
{
	bool none;

	mutex_lock(&weft_volumes_lock);
	none = list_empty(&vol->peers);
	mutex_unlock(&weft_volumes_lock);
	return none;
}

/* With prepare_lock, a memory that is added meanwhile sets the paths up after this. */
static void weft_peers_leave_member(struct weft_member *member)
{
	u32 i;

	mutex_lock(&member->mpath.prepare_lock);
	for (i = 0; i < WEFT_PATHS_MAX && weft_peers_are_none(member->volume); i++) {
		struct weft_path *path = weft_member_path(member, i);

		if (path && path->ops->peer_leave)
			path->ops->peer_leave(path);
	}
	mutex_unlock(&member->mpath.prepare_lock);
}

/*
 * If the last memory is gone, the paths undo their setup for peer memory. While
 * there are others, their preparation may hold prepare_lock for long: do not
 * wait for it.
 */
static void weft_peers_leave(struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < vol->member_count && weft_peers_are_none(vol); i++)
		weft_peers_leave_member(vol->members[i]);
}

/**
 * weft_peers_remove() - undo weft_peers_add()
 * @mem: a memory without commands in flight; without a peer nothing happens
 * @vol: the volume
 *
 * Context: process context.
 */
void weft_peers_remove(struct weft_memory *mem, struct weft_volume *vol)
{
	if (!mem->peer)
		return;
	mutex_lock(&weft_volumes_lock);
	list_del(&mem->list);
	mutex_unlock(&weft_volumes_lock);
	wait_event(weft_peers_idle, !READ_ONCE(mem->preparing));
	mem->transport->peer_remove(mem->peer);
	mem->peer = NULL;
	/* Without weft_volumes_lock: a path may be waiting for its target. */
	weft_peers_leave(vol);
}

/* The transport of the first path. Only its paths can use the memory. */
static const struct weft_transport_ops *weft_peers_transport(struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_member_path(vol->members[0], i);

		if (path)
			return path->ops->peer_add ? path->ops : NULL;
	}
	return NULL;
}

/* From here on, paths that are added prepare the memory too. */
static int weft_peers_begin(struct weft_memory *mem, struct weft_volume *vol,
			    struct weft_why *why)
{
	struct weft_peer_request req = {
		.volume		= vol->uuid,
		.dmabuf		= mem->pages ? NULL : mem->dmabuf,
		.pages		= mem->pages,
		.page_count	= mem->page_count,
		.start		= mem->first,
		.length		= mem->length,
		.read_only	= mem->read_only,
		.persistent	= mem->persistent,
	};
	struct weft_peer *peer;

	mutex_lock(&weft_volumes_lock);
	mem->transport = weft_peers_transport(vol);
	mutex_unlock(&weft_volumes_lock);
	if (!mem->transport)
		return weft_refuse(why, -EOPNOTSUPP,
				   "no direct route: no path of %s can do I/O on registered memory",
				   vol->name);
	/* Without weft_volumes_lock: the transport may wait for an exporter. */
	peer = mem->transport->peer_add(&req);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	mem->peer = peer;
	mem->piece = U32_MAX;
	mutex_lock(&weft_volumes_lock);
	/* weft_peers_prepare_all() handles the paths that exist now. */
	mem->paths_added = vol->paths_added;
	list_add_tail(&mem->list, &vol->peers);
	mutex_unlock(&weft_volumes_lock);
	return 0;
}

static int weft_peers_try(struct weft_memory *mem, struct weft_volume *vol, struct weft_why *why)
{
	unsigned int noio;
	int ret;

	/*
	 * Reclaim may need I/O on this volume, which may wait for a new path,
	 * and adding a path needs the lock.
	 */
	noio = memalloc_noio_save();
	ret = weft_peers_begin(mem, vol, why);
	if (!ret)
		ret = weft_peers_prepare_all(mem, vol, why);
	if (!ret) {
		mutex_lock(&weft_volumes_lock);
		weft_peers_look_all(mem, vol);
		mutex_unlock(&weft_volumes_lock);
	}
	memalloc_noio_restore(noio);
	if (ret)
		weft_peers_remove(mem, vol);
	return ret;
}

/**
 * weft_peers_add() - let the transport do I/O on a memory
 * @mem: the memory; it has no id yet
 * @vol: the volume
 * @why: gets the reason of a failure
 *
 * Waits up to 20 seconds for a path that is being connected again.
 *
 * Context: process context, the user's.
 * Return: 0; -EOPNOTSUPP if there is no such route; or another negative errno.
 * Undo with weft_peers_remove().
 */
int weft_peers_add(struct weft_memory *mem, struct weft_volume *vol, struct weft_why *why)
{
	unsigned long end = jiffies + WEFT_PEERS_CONNECT;
	int ret;

	if (!mem->near)
		mem->near = kcalloc(vol->member_count, sizeof(*mem->near), GFP_KERNEL_ACCOUNT);
	if (!mem->near)
		return -ENOMEM;
	for (;;) {
		why->text[0] = 0;
		ret = weft_peers_try(mem, vol, why);
		if (ret != -ENOTCONN || time_after(jiffies, end))
			return ret;
		if (msleep_interruptible(100))
			return -EINTR;
	}
}

/* Find a memory to prepare for the added path, and keep it meanwhile. */
static struct weft_memory *weft_peers_next(struct weft_volume *vol)
{
	struct weft_memory *mem;

	lockdep_assert_held(&weft_volumes_lock);
	list_for_each_entry(mem, &vol->peers, list) {
		if (mem->paths_added == vol->paths_added)
			continue;
		mem->paths_added = vol->paths_added;
		WRITE_ONCE(mem->preparing, true);
		return mem;
	}
	return NULL;
}

/**
 * weft_peers_path_added() - prepare all memories on a path that was added
 * @member: the member
 * @path: the path; I/O may already use it
 *
 * If it cannot do I/O on a memory, that I/O goes over the other paths.
 *
 * Context: process context; may wait for targets. The caller has set the
 * volume's busy flag, which keeps the path.
 */
void weft_peers_path_added(struct weft_member *member, struct weft_path *path)
{
	struct weft_volume *vol = member->volume;
	struct weft_memory *mem;

	mutex_lock(&weft_volumes_lock);
	vol->paths_added++;
	/* The path is usable: limit all memories before the slow part. */
	list_for_each_entry(mem, &vol->peers, list)
		if (path->ops == mem->transport)
			weft_peers_fit(mem, member, path);
	while ((mem = weft_peers_next(vol))) {
		struct weft_why why = {};

		mutex_unlock(&weft_volumes_lock);
		mutex_lock(&member->mpath.prepare_lock);
		if (weft_peers_prepare(mem, path, &why))
			pr_warn_ratelimited("%s: path %s cannot do I/O on registered memory: %s\n",
					    vol->name, path->bdev->bd_disk->disk_name, why.text);
		mutex_unlock(&member->mpath.prepare_lock);
		mutex_lock(&weft_volumes_lock);
		weft_peers_look(mem, member);
		WRITE_ONCE(mem->preparing, false);
		wake_up_all(&weft_peers_idle);
	}
	mutex_unlock(&weft_volumes_lock);
}

/**
 * weft_peers_changed() - have the nearest paths of all memories found again
 * @vol: the volume
 *
 * Context: any; not after the volume's paths are removed.
 */
void weft_peers_changed(struct weft_volume *vol)
{
	queue_delayed_work(weft_mem_wq, &vol->near_work, 0);
}

/**
 * weft_peers_path_changed() - a path can do I/O on other memory now, or from nearer
 * @path: the path
 *
 * Context: as weft_peers_changed().
 */
void weft_peers_path_changed(struct weft_path *path)
{
	struct weft_member *member = path->owner_data;

	weft_peers_changed(member->volume);
}

/**
 * weft_peers_near_work() - find the nearest paths of all memories again
 * @work: the volume's near_work
 */
void weft_peers_near_work(struct work_struct *work)
{
	struct weft_volume *vol = container_of(to_delayed_work(work), struct weft_volume,
					       near_work);
	struct weft_memory *mem;

	if (!mutex_trylock(&weft_volumes_lock)) {
		queue_delayed_work(weft_mem_wq, &vol->near_work, WEFT_PEERS_AGAIN);
		return;
	}
	list_for_each_entry(mem, &vol->peers, list)
		weft_peers_look_all(mem, vol);
	mutex_unlock(&weft_volumes_lock);
}
