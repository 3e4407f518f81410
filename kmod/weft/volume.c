// SPDX-License-Identifier: GPL-2.0-only
/*
 * Volumes: assemble them, find them by name, stop them.
 *
 * DOC: life of a volume
 *
 * A volume is on the list from the reservation of its name until everything of
 * it is released. Meanwhile no second volume can have its name or UUID.
 * Assembly may wait for another host's heartbeat, and a stop waits for I/O.
 * Both wait without weft_volumes_lock, and the state (ASSEMBLING, STOPPING)
 * makes other commands fail. A command that changes paths also waits without
 * the lock, and @busy makes other commands fail. A volume holds a module
 * reference: the module can only be unloaded when all volumes are stopped, so
 * it never leaves an owner record behind.
 */
#include "weft.h"
#include "mem.h"
#include "qos.h"

#include <linux/delay.h>
#include <linux/gcd.h>
#include <linux/sched/mm.h>

static WEFT_DISK_OPEN(weft_open, arg)
{
	struct weft_volume *vol = weft_disk_opened(arg)->private_data;

	/* Under open_mutex, as in weft_volume_close_door(). */
	return vol->stopping ? -ENXIO : 0;
}

static const struct block_device_operations weft_fops = {
	.owner		= THIS_MODULE,
	.open		= weft_open,
	.submit_bio	= weft_submit_bio,
};

/*
 * Wait for the tracked bios in flight. The disk is removed and not open, so
 * there are no new bios, and the sum falls to zero.
 */
static void weft_volume_drain(struct weft_volume *vol)
{
	long sum;
	int cpu;

	for (;;) {
		sum = 0;
		for_each_possible_cpu(cpu)
			sum += READ_ONCE(*per_cpu_ptr(vol->in_flight, cpu));
		if (!sum)
			break;
		usleep_range(1000, 2000);
	}
	/* A completion that has decremented may not have returned yet. */
	synchronize_rcu();
}

/*
 * Runs one second after a member's first error, so there is at most one event
 * per second. It also finds removed devices: Linux 6.1 does not notify holders.
 */
static void weft_volume_event_work(struct work_struct *work)
{
	struct weft_volume *vol = container_of(to_delayed_work(work),
					       struct weft_volume, event_work);
	u32 i;

	for_each_set_bit(i, vol->errored, vol->member_count) {
		clear_bit(i, vol->errored);
		weft_event(vol, WEFT_EVENT_TYPE_MEMBER_ERROR, vol->members[i],
			   EIO, "the member failed an I/O");
		weft_mpath_look_for_dead(vol->members[i]);
	}
}

static void weft_volume_free(struct weft_volume *vol)
{
	u32 i;

	weft_qos_exit(vol);
	for (i = 0; i < vol->member_count; i++)
		weft_member_close(vol->members[i]);
	weft_paths_put_disks(vol);
	/* After the paths: weft_mpath_left() uses the disk. */
	if (vol->disk)
		put_disk(vol->disk);
	/* Paths queue this work, and none is left. */
	cancel_delayed_work_sync(&vol->near_work);
	weft_owner_exit(vol);
	destroy_workqueue(vol->split_wq);
	destroy_workqueue(vol->again_wq);
	destroy_workqueue(vol->wq);
	cleanup_srcu_struct(&vol->path_srcu);
	free_percpu(vol->in_flight);
	bioset_exit(&vol->bios);
	kvfree(vol);
	module_put(THIS_MODULE);
}

static struct weft_volume *weft_volume_alloc(const struct weft_assemble_request *req)
{
	struct weft_volume *vol;
	int ret = -ENOMEM;

	vol = kvzalloc(struct_size(vol, members, req->count), GFP_KERNEL);
	if (!vol)
		return ERR_PTR(-ENOMEM);
	strscpy(vol->name, req->name, sizeof(vol->name));
	vol->read_only = req->read_only;
	vol->state = WEFT_VOLUME_STATE_ASSEMBLING;
	vol->stopping = true;
	vol->no_path_timeout = WEFT_NO_PATH_TIMEOUT;
	INIT_DELAYED_WORK(&vol->event_work, weft_volume_event_work);
	weft_flush_init(vol);
	weft_deferred_init(vol, weft_bio_continue);
	ret = bioset_init(&vol->bios, BIO_POOL_SIZE, 0, 0);
	if (ret)
		goto out_free;
	ret = -ENOMEM;
	INIT_LIST_HEAD(&vol->peers);
	INIT_LIST_HEAD(&vol->kept_disks);
	INIT_DELAYED_WORK(&vol->near_work, weft_peers_near_work);
	vol->in_flight = alloc_percpu(long);
	if (!vol->in_flight)
		goto out_bioset;
	vol->wq = alloc_workqueue("weft-%s", WQ_MEM_RECLAIM | WQ_UNBOUND, 0,
				  vol->name);
	if (!vol->wq)
		goto out_in_flight;
	/* Works sleep for a member's tag: those of one member must not use them all up. */
	vol->split_wq = alloc_workqueue("weft-split-%s", WQ_MEM_RECLAIM | WQ_UNBOUND,
					WQ_MAX_ACTIVE, vol->name);
	if (!vol->split_wq)
		goto out_wq;
	vol->again_wq = alloc_workqueue("weft-again-%s", WQ_MEM_RECLAIM | WQ_UNBOUND,
					WQ_MAX_ACTIVE, vol->name);
	if (!vol->again_wq)
		goto out_split_wq;
	ret = init_srcu_struct(&vol->path_srcu);
	if (ret)
		goto out_again_wq;
	ret = weft_owner_init(vol);
	if (ret)
		goto out_srcu;
	/* Fails during module unload, which waits for this command. */
	if (!try_module_get(THIS_MODULE)) {
		ret = -ENODEV;
		goto out_owner;
	}
	return vol;

out_owner:
	weft_owner_exit(vol);
out_srcu:
	cleanup_srcu_struct(&vol->path_srcu);
out_again_wq:
	destroy_workqueue(vol->again_wq);
out_split_wq:
	destroy_workqueue(vol->split_wq);
out_wq:
	destroy_workqueue(vol->wq);
out_in_flight:
	free_percpu(vol->in_flight);
out_bioset:
	bioset_exit(&vol->bios);
out_free:
	kvfree(vol);
	return ERR_PTR(ret);
}

/* Reserve the name. The UUID follows when it is known. */
static int weft_volume_reserve(struct weft_volume *vol, struct weft_why *why)
{
	static unsigned long reserved;
	int ret = 0;

	mutex_lock(&weft_volumes_lock);
	if (weft_volume_find(vol->name))
		ret = weft_refuse(why, -EEXIST,
				  "a volume called %s is assembled already",
				  vol->name);
	if (!ret) {
		vol->number = ++reserved;
		list_add_tail(&vol->list, &weft_volumes);
	}
	mutex_unlock(&weft_volumes_lock);
	return ret;
}

static int weft_volume_reserve_uuid(struct weft_volume *vol, const u8 *uuid,
				    struct weft_why *why)
{
	struct weft_volume *other;
	int ret = 0;

	mutex_lock(&weft_volumes_lock);
	list_for_each_entry(other, &weft_volumes, list)
		if (other != vol && !memcmp(other->uuid, uuid, WEFT_UUID_SIZE))
			ret = weft_refuse(why, -EEXIST,
					  "a volume with the UUID %pUb is assembled already, as %s",
					  uuid, other->name);
	if (!ret)
		memcpy(vol->uuid, uuid, WEFT_UUID_SIZE);
	mutex_unlock(&weft_volumes_lock);
	return ret;
}

static void weft_volume_unreserve(struct weft_volume *vol)
{
	mutex_lock(&weft_volumes_lock);
	list_del(&vol->list);
	mutex_unlock(&weft_volumes_lock);
}

static int weft_volume_open_members(struct weft_volume *vol,
				    const struct weft_assemble_request *req,
				    struct weft_why *why)
{
	struct weft_member *member;
	u32 i;

	for (i = 0; i < req->count; i++) {
		member = weft_member_open(vol, &req->members[i],
					  !req->read_only, why);
		if (IS_ERR(member))
			return PTR_ERR(member);
		vol->members[i] = member;
		vol->member_count = i + 1;
	}
	return 0;
}

/* The user may name the members in any order: sort them by index. */
static int weft_volume_sort_members(struct weft_volume *vol, struct weft_why *why)
{
	u32 count = vol->members[0]->sb.member_count;
	DECLARE_BITMAP(seen, WEFT_MEMBERS_MAX) = {};
	struct weft_member *first = vol->members[0];
	u32 i, j;
	int ret;

	for (i = 0; i < vol->member_count; i++) {
		struct weft_member *member = vol->members[i];
		struct weft_why detail = {};

		ret = weft_sb_same_volume(&first->sb, &member->sb, &detail);
		if (ret)
			return weft_refuse(why, ret, "member %s: %s",
					   member->address, detail.text);
		for (j = 0; j < i; j++)
			if (vol->members[j]->index == member->index ||
			    !memcmp(vol->members[j]->sb.member_uuid,
				    member->sb.member_uuid, WEFT_UUID_SIZE))
				return weft_refuse(why, -EEXIST,
						   "members %s and %s both claim to be member %u",
						   vol->members[j]->address,
						   member->address, member->index);
		__set_bit(member->index, seen);
	}
	i = find_first_zero_bit(seen, count);
	if (i < count)
		return weft_refuse(why, -ENXIO,
				   "member %u of %u is missing (%u given)",
				   i, count, vol->member_count);
	/* Each index occurs once, so swaps sort them. */
	for (i = 0; i < count; i++) {
		while (vol->members[i]->index != i) {
			j = vol->members[i]->index;
			swap(vol->members[i], vol->members[j]);
		}
	}
	return 0;
}

static int weft_volume_check(struct weft_volume *vol,
			     const struct weft_assemble_request *req,
			     struct weft_why *why)
{
	const struct weft_sb_info *sb = &vol->members[0]->sb;
	u64 unknown = sb->feature_ro_compat & ~WEFT_FEATURE_RO_COMPAT_KNOWN;

	if (strcmp(sb->name, req->name))
		return weft_refuse(why, -EINVAL,
				   "the members belong to volume %s, not to %s",
				   sb->name, req->name);
	if (req->uuid && memcmp(sb->volume_uuid, req->uuid, WEFT_UUID_SIZE))
		return weft_refuse(why, -EINVAL,
				   "the members belong to a volume with the UUID %pUb, not %pUb",
				   sb->volume_uuid, req->uuid);
	if (unknown && !req->read_only)
		return weft_refuse(why, -EROFS,
				   "volume %s uses features this version can only read (bits 0x%llx); assemble it with --read-only",
				   sb->name, unknown);
	return 0;
}

static void weft_volume_set_boundary(struct weft_volume *vol, u32 chunk)
{
	u32 i, sectors;

	for (i = 0; i < vol->member_count; i++) {
		sectors = bdev_get_queue(vol->members[i]->bdev)->limits.chunk_sectors;
		if (sectors)
			vol->boundary = gcd(vol->boundary ?: chunk, sectors);
	}
}

static int weft_volume_alloc_disk(struct weft_volume *vol, bool iostats)
{
	struct weft_limits limits = {
		.io_min		= 1U << (vol->map.chunk_shift + SECTOR_SHIFT),
		.io_opt		= weft_map_io_opt(&vol->map),
		.chunk_sectors	= 1U << vol->map.chunk_shift,
		.data_start	= vol->map.data_start,
	};
	struct block_device **bdevs;
	struct gendisk *disk;
	u32 i;

	bdevs = kcalloc(vol->member_count, sizeof(*bdevs), GFP_KERNEL);
	if (!bdevs)
		return -ENOMEM;
	for (i = 0; i < vol->member_count; i++)
		bdevs[i] = vol->members[i]->bdev;
	disk = weft_disk_alloc(&limits, bdevs, vol->member_count, iostats);
	kfree(bdevs);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	vol->max_sectors = max(queue_max_sectors(disk->queue),
			       queue_logical_block_size(disk->queue) >> SECTOR_SHIFT);
	vol->physical_mask = (queue_physical_block_size(disk->queue) >> SECTOR_SHIFT) - 1;
	weft_volume_set_boundary(vol, limits.chunk_sectors);
	vol->whole_sectors = weft_map_whole(vol->max_sectors, vol->boundary, vol->physical_mask);

	/* The kernel replaces '!' in the name by '/' in /dev. */
	snprintf(disk->disk_name, DISK_NAME_LEN, "weft!%.*s", WEFT_NAME_MAX,
		 vol->name);
	disk->fops = &weft_fops;
	disk->private_data = vol;
	disk->flags |= GENHD_FL_NO_PART;
	set_capacity(disk, vol->map.capacity);
	set_disk_ro(disk, vol->read_only);
	WRITE_ONCE(vol->disk, disk);
	return 0;
}

static void weft_volume_unlink_members(struct weft_volume *vol, u32 count)
{
	struct weft_path *path;
	u32 i;

	while (count--) {
		for (i = 0; i < WEFT_PATHS_MAX; i++) {
			path = weft_member_path(vol->members[count], i);
			if (path)
				bd_unlink_disk_holder(path->bdev, vol->disk);
		}
	}
}

/* Make the holder links that lsblk draws its tree from. */
static int weft_volume_link_members(struct weft_volume *vol)
{
	u32 i;
	int ret;

	for (i = 0; i < vol->member_count; i++) {
		ret = bd_link_disk_holder(vol->members[i]->bdev, vol->disk);
		if (ret) {
			weft_volume_unlink_members(vol, i);
			return ret;
		}
	}
	return 0;
}

/* Allow opening the disk. Until here the assembly could still be undone. */
static void weft_volume_open_door(struct weft_volume *vol)
{
	mutex_lock(&vol->disk->open_mutex);
	vol->stopping = false;
	mutex_unlock(&vol->disk->open_mutex);
	weft_mem_close(vol, false);
}

static int weft_volume_add_disk(struct weft_volume *vol)
{
	int ret;

	ret = device_add_disk(NULL, vol->disk, weft_disk_groups);
	if (ret)
		return ret;
	ret = weft_volume_link_members(vol);
	if (ret)
		goto out_del_disk;
	ret = weft_sysfs_add_members(vol);
	if (ret)
		goto out_unlink;
	ret = weft_mem_add(vol);
	if (ret)
		goto out_sysfs;
	weft_volume_open_door(vol);
	return 0;

out_sysfs:
	weft_sysfs_del_members(vol);
out_unlink:
	weft_volume_unlink_members(vol, vol->member_count);
out_del_disk:
	del_gendisk(vol->disk);
	return ret;
}

static int weft_volume_bring_up(struct weft_volume *vol,
				const struct weft_assemble_request *req,
				struct weft_why *why)
{
	const struct weft_sb_info *sb;
	int ret;

	ret = weft_volume_open_members(vol, req, why);
	if (!ret)
		ret = weft_volume_sort_members(vol, why);
	if (!ret)
		ret = weft_volume_check(vol, req, why);
	if (ret)
		return ret;
	sb = &vol->members[0]->sb;
	ret = weft_volume_reserve_uuid(vol, sb->volume_uuid, why);
	if (ret)
		return ret;
	ret = weft_map_init(&vol->map, sb->member_count, sb->chunk_size,
			    sb->data_offset, sb->data_size);
	if (ret)
		return ret;
	if (!vol->read_only) {
		ret = weft_owner_take(vol, req, why);
		if (ret)
			return ret;
	}
	ret = weft_volume_alloc_disk(vol, req->iostats);
	if (ret)
		goto out_release;
	ret = weft_volume_add_disk(vol);
	if (ret)
		goto out_release;
	return 0;

out_release:
	weft_owner_release(vol);
	return ret;
}

/**
 * weft_volume_assemble() - assemble a volume
 * @req: from the user; the caller has checked the lengths of its strings and
 *	that it has 1 to WEFT_MEMBERS_MAX members
 * @why: gets the reason of a failure
 *
 * Context: process context; may wait until another host's heartbeat counts as
 * stopped, and ends early if the user gives up.
 * Return: 0, or a negative errno with everything undone.
 */
int weft_volume_assemble(const struct weft_assemble_request *req,
			 struct weft_why *why)
{
	struct weft_volume *vol;
	unsigned int noio;
	u32 i;
	int ret;

	ret = weft_name_check(req->name, why);
	if (ret)
		return ret;
	if (!req->read_only && (!req->host_nqn || !req->host_nqn[0]))
		return weft_refuse(why, -EINVAL,
				   "volume %s: the host's NQN is missing; a host needs one to own a volume",
				   req->name);
	vol = weft_volume_alloc(req);
	if (IS_ERR(vol))
		return PTR_ERR(vol);
	ret = weft_volume_reserve(vol, why);
	if (ret)
		goto out_free;
	ret = weft_volume_bring_up(vol, req, why);
	if (ret)
		goto out_unreserve;

	/* A LIVE volume may be stopped: the lock delays a stop until here. */
	noio = memalloc_noio_save();
	mutex_lock(&weft_volumes_lock);
	weft_volume_set_state(vol, WEFT_VOLUME_STATE_LIVE);
	/* udev could not open it before. Make it run its rules again. */
	kobject_uevent(&disk_to_dev(vol->disk)->kobj, KOBJ_CHANGE);
	weft_info(vol, "assembled %s of %u members, %llu bytes\n",
		  vol->read_only ? "read-only" : "read-write", vol->member_count,
		  (u64)vol->map.capacity << SECTOR_SHIFT);
	weft_event(vol, WEFT_EVENT_TYPE_ASSEMBLED, NULL, 0,
		   vol->read_only ? "assembled read-only" : "assembled");
	for (i = 0; i < vol->member_count; i++)
		if (READ_ONCE(vol->members[i]->gone))
			weft_volume_member_gone(vol->members[i]);
	mutex_unlock(&weft_volumes_lock);
	memalloc_noio_restore(noio);
	return 0;

out_unreserve:
	weft_volume_unreserve(vol);
out_free:
	weft_volume_free(vol);
	return ret;
}

/* Refuse new openers. Returns -EBUSY if there are openers or users now. */
static int weft_volume_close_door(struct weft_volume *vol, struct weft_why *why)
{
	int ret = 0;

	if (!weft_mem_close(vol, true))
		return weft_refuse(why, -EBUSY, "volume %s: a program uses %s.mem",
				   vol->name, vol->name);
	mutex_lock(&vol->disk->open_mutex);
	if (disk_openers(vol->disk))
		ret = weft_refuse(why, -EBUSY,
				  "volume %s is open: mounted, part of something else, or in use by a program",
				  vol->name);
	else
		vol->stopping = true;
	mutex_unlock(&vol->disk->open_mutex);
	if (ret)
		weft_mem_close(vol, false);
	return ret;
}

static void weft_volume_take_down(struct weft_volume *vol)
{
	u32 i;

	/* The volume is STOPPING: fail the I/O that waits for a path. */
	for (i = 0; i < vol->member_count; i++)
		weft_mpath_kick(vol->members[i]);
	weft_mem_del(vol);
	weft_sysfs_del_members(vol);
	weft_volume_unlink_members(vol, vol->member_count);
	del_gendisk(vol->disk);
	weft_volume_drain(vol);
	/* After the last bio, nothing queues this work. */
	flush_delayed_work(&vol->event_work);
	for (i = 0; i < vol->member_count; i++)
		weft_resend_outlast(vol->members[i]);
	weft_owner_release(vol);
	/* Works queued until now; paths may still queue others. */
	flush_workqueue(vol->split_wq);
	flush_workqueue(vol->again_wq);
	flush_workqueue(vol->wq);
}

/**
 * weft_volume_stop() - stop a volume
 * @name: of the volume
 * @why: gets the reason of a failure
 *
 * It also waits until no target can execute an older copy of a write.
 *
 * Context: process context, may sleep.
 * Return: 0; -ENOENT; -EBUSY while it is open, or while another command works
 * on it.
 */
int weft_volume_stop(const char *name, struct weft_why *why)
{
	struct weft_volume *vol = weft_volume_begin(name, why);
	int ret;

	if (IS_ERR(vol))
		return PTR_ERR(vol);
	/* Not under weft_volumes_lock: a close may write back in open_mutex. */
	ret = weft_volume_close_door(vol, why);
	mutex_lock(&weft_volumes_lock);
	if (!ret)
		weft_volume_set_state(vol, WEFT_VOLUME_STATE_STOPPING);
	vol->busy = false;
	mutex_unlock(&weft_volumes_lock);
	if (ret)
		return ret;

	weft_volume_take_down(vol);
	weft_info(vol, "stopped\n");
	weft_event(vol, WEFT_EVENT_TYPE_STOPPED, NULL, 0, "stopped");
	weft_volume_unreserve(vol);
	weft_volume_free(vol);
	return 0;
}
