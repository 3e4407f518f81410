// SPDX-License-Identifier: GPL-2.0-only
/*
 * Adding paths to a member, and removing them, while it is in use.
 *
 * DOC: disks that are kept
 *
 * A bio may refer to a disk that has completed a part of it, until all its parts
 * have ended: other members may hold these for long. And a disk splits a bio that
 * is larger than its limits, and allocates the parts from a pool of its own; if it
 * gave them back, other paths carry them. A path of the transport bdev is removed
 * while its bios are in flight. So the volume keeps the block device of a removed
 * path, which may be a partition, in memory until it stops. The disk's controller
 * can be deleted before.
 */
#include "mem.h"
#include "weft.h"

#include <linux/sched/mm.h>

/* How long after a failure the superblock of a path in standby is read again. */
#define WEFT_PATH_CHECK_AGAIN	(60 * HZ)

/* A block device that is kept, with a reference to it and to its driver. */
struct weft_kept_disk {
	struct list_head	list;
	struct block_device	*bdev;
};

/*
 * Have the disks different identifiers? A copy of a disk has its superblock as well.
 * Disks without an identifier, or with ones of different kinds, do not tell.
 */
static bool weft_disk_differs(struct block_device *a, struct block_device *b)
{
	static const enum blk_unique_id types[] = { BLK_UID_EUI64, BLK_UID_NAA };
	struct gendisk *x = a->bd_disk, *y = b->bd_disk;
	u8 id[2][16] = {};
	u32 i;

	if (x == y)
		return a != b;
	if (!x->fops->get_unique_id || !y->fops->get_unique_id)
		return false;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		int n = x->fops->get_unique_id(x, id[0], types[i]);

		if (n > 0 && n == y->fops->get_unique_id(y, id[1], types[i]))
			return memcmp(id[0], id[1], min_t(size_t, n, sizeof(id[0]))) ||
			       get_start_sect(a) != get_start_sect(b);
	}
	return false;
}

/* Is its disk the one of the member's other paths, as far as identifiers tell? */
static int weft_path_compare(struct weft_member *member, const struct weft_path *path,
			     struct weft_why *why)
{
	struct weft_volume *vol = member->volume;
	int srcu = srcu_read_lock(&vol->path_srcu), ret = 0;
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX && !ret; i++) {
		const struct weft_path *other = weft_member_path(member, i);

		if (!other || other == path || READ_ONCE(other->standby) ||
		    READ_ONCE(other->dead) || !weft_disk_differs(path->bdev, other->bdev))
			continue;
		ret = weft_refuse(why, -EINVAL,
				  "%s leads to another disk than member %u of volume %s: its identifier is not that of %s",
				  path->address, member->index, vol->name,
				  other->bdev->bd_disk->disk_name);
	}
	srcu_read_unlock(&vol->path_srcu, srcu);
	return ret;
}

/* A path must lead to the same disk as the member's other paths. */
static int weft_path_identify(struct weft_member *member, struct weft_path *path,
			      struct weft_why *why)
{
	struct weft_why detail = {};
	struct weft_sb_info info;
	int ret;

	ret = weft_path_compare(member, path, why);
	if (ret)
		return ret;
	ret = weft_member_find_sb(member, path, &info, &detail);
	if (ret)
		return weft_refuse(why, ret, "%s: %s", path->address, detail.text);
	if (memcmp(info.volume_uuid, member->sb.volume_uuid, WEFT_UUID_SIZE) ||
	    memcmp(info.member_uuid, member->sb.member_uuid, WEFT_UUID_SIZE))
		return weft_refuse(why, -EINVAL, "%s leads to another disk than member %u of volume %s",
				   path->address, member->index, member->volume->name);
	return 0;
}

/* A path that was added in standby is usable: it carries I/O if it leads to the member. */
static void weft_path_check_work(struct work_struct *work)
{
	struct weft_path *path = container_of(to_delayed_work(work), struct weft_path, check);
	struct weft_member *member = path->owner_data;
	unsigned int noio = memalloc_noio_save();
	struct weft_why why = {};
	int ret;

	ret = weft_path_identify(member, path, &why);
	if (!ret) {
		weft_mpath_identified(path);
	} else if (ret != -ENOLINK && READ_ONCE(path->usable)) {
		/* The return of a lost path starts the work. */
		weft_warn(member->volume, "path %s of member %u is not used: %s\n",
			  path->bdev->bd_disk->disk_name, member->index, why.text);
		weft_event(member->volume, WEFT_EVENT_TYPE_PATH_LOST, member, -ret, why.text);
		queue_delayed_work(member->volume->wq, &path->check, WEFT_PATH_CHECK_AGAIN);
	}
	memalloc_noio_restore(noio);
}

/* Is its disk of the size of the member's? */
static bool weft_path_fits(struct weft_member *member, const struct weft_path *path)
{
	sector_t sectors = bdev_nr_sectors(path->bdev), was = bdev_nr_sectors(member->bdev);

	if (bdev_logical_block_size(path->bdev) != bdev_logical_block_size(member->bdev))
		return false;
	/* A dead disk has no size: then only require the sectors that the volume uses. */
	return was ? sectors == was : sectors >= weft_member_sectors(member);
}

/* A path in standby cannot be read: weft_path_check_work() does it when it is usable. */
static int weft_path_check(struct weft_member *member, struct weft_path *path,
			   struct weft_why *why)
{
	bool usable = READ_ONCE(path->usable);
	const char *misses;
	int ret;

	if (READ_ONCE(path->dead) || (!usable && !path->standby))
		return weft_refuse(why, -ENOTCONN, "%s is not connected now", path->address);
	if (READ_ONCE(member->gone))
		return weft_refuse(why, -ENODEV,
				   "member %u is gone permanently: stop volume %s and assemble it again",
				   member->index, member->volume->name);
	if (!weft_path_fits(member, path))
		return weft_refuse(why, -EINVAL, "%s has another size than member %u",
				   path->address, member->index);
	/* The volume's limits are fixed, and the new device must fit them. */
	misses = weft_disk_misses(member->volume->disk, path->bdev);
	if (misses)
		return weft_refuse(why, -EOPNOTSUPP, "%s does not support %s, and volume %s does",
				   path->address, misses, member->volume->name);
	if (!usable)
		return 0;
	ret = weft_path_identify(member, path, why);
	if (!ret)
		path->standby = false;
	return ret;
}

/* A path of that transport, which leads to the member's disk; or NULL. */
static const struct weft_path *weft_path_like(struct weft_member *member, const char *transport)
{
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		const struct weft_path *path = weft_member_path(member, i);

		if (path && !READ_ONCE(path->standby) && !strcmp(path->ops->name, transport))
			return path;
	}
	return NULL;
}

static struct weft_member *weft_path_begin(const struct weft_path_change *change,
					   struct weft_why *why)
{
	struct weft_volume *vol = weft_volume_begin(change->volume, why);

	if (IS_ERR(vol))
		return ERR_CAST(vol);
	if (change->member < vol->member_count)
		return vol->members[change->member];
	weft_volume_done(vol);
	return ERR_PTR(weft_refuse(why, -EINVAL, "volume %s has no member %u",
				   change->volume, change->member));
}

/* A namespace that is back has the name of its former disk, which may still be a path. */
static int weft_path_check_name(struct weft_volume *vol, const struct weft_path *path,
				struct weft_why *why)
{
	const char *name = path->bdev->bd_disk->disk_name;
	u32 i, k;

	for (i = 0; i < vol->member_count; i++)
		for (k = 0; k < WEFT_PATHS_MAX; k++) {
			const struct weft_path *other = weft_member_path(vol->members[i], k);

			if (other && READ_ONCE(other->dead) &&
			    !strcmp(other->bdev->bd_disk->disk_name, name))
				return weft_refuse(why, -EEXIST,
						   "member %u has a path called %s already, whose disk was removed: remove that path first",
						   i, name);
		}
	return 0;
}

static int weft_path_attach(struct weft_member *member, struct weft_path *path,
			    struct weft_why *why)
{
	struct weft_volume *vol = member->volume;
	int ret;

	ret = weft_path_check(member, path, why) ?: weft_path_check_name(vol, path, why);
	if (ret)
		return ret;
	WRITE_ONCE(path->sectors, weft_member_sectors(member));
	ret = bd_link_disk_holder(path->bdev, vol->disk);
	if (ret)
		return ret;
	ret = weft_mpath_add(member, path);
	if (!ret)
		return 0;
	bd_unlink_disk_holder(path->bdev, vol->disk);
	return weft_refuse(why, ret, "member %u has %d paths already, which is the maximum",
			   member->index, WEFT_PATHS_MAX);
}

/**
 * weft_volume_path_add() - add a path to a member
 * @change: the path, from the user
 * @why: gets the reason of a failure
 *
 * Context: process context; reads from the path.
 * Return: 0, or a negative errno with everything undone.
 */
int weft_volume_path_add(const struct weft_path_change *change, struct weft_why *why)
{
	struct weft_path_request req = { .events = &weft_mpath_events };
	/* Reclaim may need I/O on this volume, which may wait for this path. */
	unsigned int noio = memalloc_noio_save();
	struct weft_member *member;
	struct weft_path *path;
	char *address;
	int ret = -ENOMEM;

	address = kstrdup(change->address, GFP_KERNEL);
	if (!address)
		goto out_restore;
	member = weft_path_begin(change, why);
	if (IS_ERR(member)) {
		ret = PTR_ERR(member);
		goto out_free;
	}
	req.address = address;
	req.devt = change->devt;
	req.lookup = change->lookup;
	req.writable = !member->volume->read_only;
	req.like = weft_path_like(member, change->transport);
	req.owner_data = member;
	req.lease = &member->volume->lease;
	path = weft_path_connect(change->transport, &req, why);
	if (IS_ERR(path)) {
		ret = PTR_ERR(path);
		goto out_done;
	}
	INIT_DELAYED_WORK(&path->check, weft_path_check_work);
	ret = weft_path_attach(member, path, why);
	if (ret) {
		weft_path_disconnect(path);
		goto out_done;
	}
	weft_info(member->volume, "member %u has path %s as well%s\n", member->index,
		  path->bdev->bd_disk->disk_name,
		  READ_ONCE(path->standby) ? ", which is not accessible now" : "");
	weft_peers_path_added(member, path);
out_done:
	weft_volume_done(member->volume);
out_free:
	if (ret)
		kfree(address);
out_restore:
	memalloc_noio_restore(noio);
	return ret;
}

/* The path's disk is still open. */
static void weft_path_keep_disk(struct weft_volume *vol, struct weft_path *path,
				struct weft_kept_disk *kept)
{
	kept->bdev = path->bdev;
	__module_get(kept->bdev->bd_disk->fops->owner);
	get_device(&kept->bdev->bd_device);
	list_add(&kept->list, &vol->kept_disks);
}

/**
 * weft_paths_put_disks() - drop the disks that were kept for bios in flight
 * @vol: no bio is in flight on it
 *
 * Context: process context, may sleep.
 */
void weft_paths_put_disks(struct weft_volume *vol)
{
	struct weft_kept_disk *kept, *next;

	list_for_each_entry_safe(kept, next, &vol->kept_disks, list) {
		struct module *owner = kept->bdev->bd_disk->fops->owner;

		put_device(&kept->bdev->bd_device);
		module_put(owner);
		kfree(kept);
	}
}

/**
 * weft_volume_path_remove() - remove a path from a member
 * @change: the path; its address is the name of the path's disk
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the I/O on it, if the transport does (rdma).
 * Return: 0 or a negative errno.
 */
int weft_volume_path_remove(const struct weft_path_change *change, struct weft_why *why)
{
	unsigned int noio = memalloc_noio_save();
	struct weft_path *path = NULL, *other;
	struct weft_kept_disk *kept;
	struct weft_member *member;
	u32 i, count = 0, living = 0;
	int ret = -ENOMEM;

	kept = kzalloc_obj(*kept);
	if (!kept)
		goto out_restore;
	member = weft_path_begin(change, why);
	if (IS_ERR(member)) {
		ret = PTR_ERR(member);
		goto out_free;
	}
	ret = 0;
	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		other = weft_member_path(member, i);
		if (!other)
			continue;
		if (!READ_ONCE(other->standby)) {
			count++;
			living += !READ_ONCE(other->dead);
		}
		if (!strcmp(other->bdev->bd_disk->disk_name, change->address))
			path = other;
	}
	if (!path)
		ret = weft_refuse(why, -ENOENT, "member %u of volume %s has no path %s",
				  member->index, member->volume->name, change->address);
	else if (!READ_ONCE(path->standby) &&
		 (count == 1 || (living == 1 && !READ_ONCE(path->dead))))
		ret = weft_refuse(why, -EBUSY, "%s is the last path of member %u of volume %s",
				  change->address, member->index, member->volume->name);
	if (ret)
		goto out_done;
	weft_mpath_remove(member, path);
	weft_path_keep_disk(member->volume, path, kept);
	kept = NULL;
	weft_peers_changed(member->volume);
	bd_unlink_disk_holder(path->bdev, member->volume->disk);
	weft_info(member->volume, "member %u: path %s is removed\n", member->index,
		  path->bdev->bd_disk->disk_name);
	weft_member_drop_path(member, path);
out_done:
	weft_volume_done(member->volume);
out_free:
	kfree(kept);
out_restore:
	memalloc_noio_restore(noio);
	return ret;
}
