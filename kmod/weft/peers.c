// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memories that the transport does I/O on itself: brought to the paths of a
 * volume, and which of these are nearest to them.
 *
 * DOC: which paths
 *
 * A memory is prepared on every path of every member. One of each member has to
 * be able; one that is not goes by the others. Of those that are able, commands
 * take the nearest that are there (struct weft_mem_op's @near). What is near
 * changes when a path comes, goes, or is connected again: then it is looked at
 * anew, by a work that never waits for weft_volumes_lock, so that whoever holds
 * that may wait for the work.
 *
 * To prepare may take as long as targets do. It is done under the member's
 * prepare_lock, which keeps the paths: status and all other volumes need
 * weft_volumes_lock, which protects the list of memories and what is found out
 * about them.
 */
#include "mem.h"

#include <linux/delay.h>
#include <linux/sched/mm.h>

/* A path that is being connected again is waited for so long. */
#define WEFT_PEERS_CONNECT	(20 * HZ)
#define WEFT_PEERS_AGAIN	(HZ / 10)

static int weft_peers_prepare(struct weft_memory *mem, struct weft_path *path,
			      struct weft_why *why)
{
	if (!path->ops->peer_prepare || path->ops != mem->transport)
		return weft_refuse(why, -EOPNOTSUPP,
				   "no direct route: path %s does no I/O on peer memory",
				   path->bdev->bd_disk->disk_name);
	return path->ops->peer_prepare(mem->peer, path, why);
}

/* No operation moves more than any path can, at once. */
static void weft_peers_fit(struct weft_memory *mem, struct weft_member *member,
			   const struct weft_path *path)
{
	u32 block = queue_logical_block_size(member->volume->disk->queue);

	lockdep_assert_held(&weft_volumes_lock);
	WRITE_ONCE(mem->piece, min(mem->piece, round_down(path->mem_bytes, block)));
}

/* Of a member's paths those that have the memory and are nearest to it; and what all can move. */
static void weft_peers_look(struct weft_memory *mem, struct weft_member *member)
{
	int nearest = INT_MAX, distance;
	u8 near = 0;
	u32 i;

	lockdep_assert_held(&weft_volumes_lock);
	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_route_path(member, i);

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

/* -ENOTCONN where none is able now, and one may be later. */
static int weft_peers_prepare_member(struct weft_memory *mem, struct weft_member *member,
				     struct weft_why *why)
{
	struct mutex *lock = &member->paths.prepare_lock;
	bool able = false, later = false;
	int ret = -ENOTCONN, err;
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path;

		mutex_lock(lock);
		path = weft_route_path(member, i);
		err = path ? weft_peers_prepare(mem, path, why) : 0;
		mutex_unlock(lock);
		if (!path)
			continue;
		if (!err)
			able = true;
		else if (err == -ENOTCONN)
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
	/* Of a path that cannot, where others can. */
	why->text[0] = 0;
	return 0;
}

/* The last memory is gone: paths are as before the first. */
static void weft_peers_leave(struct weft_volume *vol)
{
	u32 i, j;

	for (i = 0; i < vol->member_count; i++) {
		for (j = 0; j < WEFT_PATHS_MAX; j++) {
			struct weft_path *path = weft_route_path(vol->members[i], j);

			if (path && path->ops->peer_leave)
				path->ops->peer_leave(path);
		}
	}
}

/**
 * weft_peers_remove() - undo weft_peers_add()
 * @mem: a memory, which may be none of these; no command is in flight on it
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
	mem->transport->peer_remove(mem->peer);
	mem->peer = NULL;
	mutex_lock(&weft_volumes_lock);
	if (list_empty(&vol->peers))
		weft_peers_leave(vol);
	mutex_unlock(&weft_volumes_lock);
}

/* What the first path is; the others must be the same. */
static const struct weft_transport_ops *weft_peers_transport(struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_route_path(vol->members[0], i);

		if (path)
			return path->ops->peer_add ? path->ops : NULL;
	}
	return NULL;
}

/* From then on paths that come are prepared as well. */
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

	lockdep_assert_held(&weft_volumes_lock);
	mem->transport = weft_peers_transport(vol);
	if (!mem->transport)
		return weft_refuse(why, -EOPNOTSUPP,
				   "no direct route: no path of %s does I/O on registered memory",
				   vol->name);
	mem->piece = U32_MAX;
	peer = mem->transport->peer_add(&req);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	mem->peer = peer;
	list_add_tail(&mem->list, &vol->peers);
	return 0;
}

static int weft_peers_try(struct weft_memory *mem, struct weft_volume *vol, struct weft_why *why)
{
	unsigned int noio;
	int ret;

	/* To free memory may take I/O on this very volume, and adding a path to it the lock. */
	noio = memalloc_noio_save();
	mutex_lock(&weft_volumes_lock);
	ret = weft_peers_begin(mem, vol, why);
	mutex_unlock(&weft_volumes_lock);
	/* Not under it, but for a path that is added: a target may be slow, and all wait for the lock. */
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
 * weft_peers_add() - the transport does I/O on a memory
 * @mem: not known by its id yet
 * @vol: the volume
 * @why: gets the reason of a failure
 *
 * A path that is being connected again is waited for, some seconds.
 *
 * Context: process context, the user's.
 * Return: 0; -EOPNOTSUPP where there is no such route; or another negative
 * errno. Undo by weft_peers_remove().
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

/**
 * weft_peers_path_added() - a member has one path more
 * @member: the member
 * @path: the path, which may not be chosen yet
 *
 * Where it cannot do I/O on a memory, that goes by the others.
 *
 * Context: process context; weft_volumes_lock is held.
 */
void weft_peers_path_added(struct weft_member *member, struct weft_path *path)
{
	struct weft_volume *vol = member->volume;
	struct weft_memory *mem;

	lockdep_assert_held(&weft_volumes_lock);
	/* Of all, before the first may take its time: the path is usable. */
	list_for_each_entry(mem, &vol->peers, list)
		if (path->ops == mem->transport)
			weft_peers_fit(mem, member, path);
	list_for_each_entry(mem, &vol->peers, list) {
		struct weft_why why = {};

		if (weft_peers_prepare(mem, path, &why))
			pr_warn_ratelimited("%s: path %s carries no I/O on registered memory: %s\n",
					    vol->name, path->bdev->bd_disk->disk_name, why.text);
		weft_peers_look(mem, member);
	}
}

/**
 * weft_peers_changed() - what is near to a volume's memories may be another path now
 * @vol: the volume
 *
 * Context: any; not after its paths are gone.
 */
void weft_peers_changed(struct weft_volume *vol)
{
	queue_delayed_work(weft_mem_wq, &vol->near_work, 0);
}

/**
 * weft_peers_near_work() - look at it
 * @work: of a volume
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
