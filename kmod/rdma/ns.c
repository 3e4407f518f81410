// SPDX-License-Identifier: GPL-2.0-only
/*
 * Namespaces as disks: make them, open and close them, take over changes, end and
 * remove them. scan.c finds out what the target has.
 */
#include "namespace.h"

static void weft_ns_free_disk(struct gendisk *disk)
{
	struct weft_rdma_ns *ns = disk->private_data;

	weft_rdma_ctrl_put(ns->ctrl);
	kfree(ns);
}

static WEFT_DISK_IOCTL(weft_ns_ioctl, bdev, cmd, arg)
{
	struct weft_rdma_ns *ns = bdev->bd_disk->private_data;

	return weft_rdma_ioctl(ns->ctrl, ns, cmd, arg);
}

/* As the stock host answers it, so that a disk that both have is one. */
static int weft_ns_unique_id(struct gendisk *disk, u8 id[16], enum blk_unique_id type)
{
	const struct weft_rdma_ns *ns = disk->private_data;
	const struct weft_ns_id *has = &ns->info.id;

	if (type != BLK_UID_EUI64)
		return -EINVAL;
	if (memchr_inv(has->nguid, 0, sizeof(has->nguid))) {
		memcpy(id, has->nguid, sizeof(has->nguid));
		return sizeof(has->nguid);
	}
	if (memchr_inv(has->eui64, 0, sizeof(has->eui64))) {
		memcpy(id, has->eui64, sizeof(has->eui64));
		return sizeof(has->eui64);
	}
	return -EINVAL;
}

static const struct block_device_operations weft_ns_fops = {
	.owner		= THIS_MODULE,
	.ioctl		= weft_ns_ioctl,
	.compat_ioctl	= blkdev_compat_ptr_ioctl,
	.pr_ops		= &weft_rdma_pr_ops,
	.get_unique_id	= weft_ns_unique_id,
	.free_disk	= weft_ns_free_disk,
};

/**
 * weft_rdma_ns_of() - the namespace behind a disk
 * @disk: any disk
 *
 * Return: the namespace, or NULL where the disk is another driver's.
 */
struct weft_rdma_ns *weft_rdma_ns_of(struct gendisk *disk)
{
	return disk->fops == &weft_ns_fops ? disk->private_data : NULL;
}

/* What is written at once, as far as a power cut does not tear it. */
static u32 weft_ns_physical_block(const struct weft_rdma_ctrl *ctrl,
				  const struct weft_ns_info *info)
{
	u32 atomic = info->atomic_bytes ?: rounddown_pow_of_two(ctrl->info.atomic_blocks) <<
					   info->lba_shift;

	return clamp(min_not_zero(atomic, info->atomic_boundary), 1U << info->lba_shift,
		     info->write_bytes);
}

/* What one command takes, in the present association. */
static void weft_ns_command_limits(struct weft_rdma_ctrl *ctrl, u32 block,
				   struct weft_mq_limits *lim)
{
	const struct weft_ctrl_info *info = &ctrl->info;

	lim->max_sectors = weft_rdma_max_sectors(ctrl);
	if (info->discard)
		lim->max_discard_sectors = min_not_zero((u64)info->discard_blocks * block,
							(u64)UINT_MAX) >> SECTOR_SHIFT;
	if (info->write_zeroes)
		lim->max_write_zeroes_sectors = min_not_zero(info->write_zeroes_bytes,
							     WEFT_WRITE_ZEROES_BLOCKS * block) >>
						SECTOR_SHIFT;
}

static void weft_ns_limits(struct weft_rdma_ctrl *ctrl,
			   const struct weft_ns_info *info,
			   struct weft_mq_limits *lim)
{
	u32 block = 1U << info->lba_shift;

	*lim = (struct weft_mq_limits) {
		.block_size	= block,
		.physical_block_size = weft_ns_physical_block(ctrl, info),
		.io_min		= info->write_bytes,
		.io_opt		= info->write_opt_bytes,
		.chunk_sectors	= info->boundary_blocks << (info->lba_shift - SECTOR_SHIFT),
		.max_segments	= ctrl->mr_pages - 1,
		/* A registration cannot have gaps. */
		.virt_boundary	= SZ_4K - 1,
		/* As the stock host's, so that both can be paths of one volume. */
		.dma_alignment	= 3,
		/*
		 * Also without VWC: after a restart the target may have a cache, and
		 * a Flush succeeds without one.
		 */
		.write_cache	= true,
		.poll		= ctrl->queue_count > ctrl->poll_from,
		.p2pdma		= ctrl->p2pdma,
	};
	weft_ns_command_limits(ctrl, block, lim);
	if (lim->max_discard_sectors) {
		u64 most = (u64)lim->max_discard_sectors << SECTOR_SHIFT;

		lim->discard_granularity = info->discard_bytes <= most ? info->discard_bytes :
									 block;
		/* The block layer discards at least a physical block. */
		if (lim->physical_block_size > most)
			lim->physical_block_size = block;
	}
}

/*
 * After a reconnect, commands may take less than before. Returns false where it
 * has to be tried again.
 */
static bool weft_ns_fit_commands(struct weft_rdma_ns *ns)
{
	struct request_queue *q = ns->disk->queue;
	const struct queue_limits *was = &q->limits;
	struct weft_mq_limits lim = {};

	lockdep_assert_held(&ns->ctrl->ns_lock);
	weft_ns_command_limits(ns->ctrl, was->logical_block_size, &lim);
	/* The block layer does not split a discard into less than this. */
	if (lim.max_discard_sectors < max(was->discard_granularity,
					  was->physical_block_size) >> SECTOR_SHIFT)
		lim.max_discard_sectors = 0;
	weft_rdma_path_fit(ns, lim.max_sectors << SECTOR_SHIFT);
	if (lim.max_sectors < was->max_hw_sectors) {
		weft_ctrl_warn(ns->ctrl, "namespace %u: a command takes %u KiB, before %u KiB\n",
			       ns->nsid, lim.max_sectors / 2, was->max_hw_sectors / 2);
	} else {
		lim.max_sectors = was->max_hw_sectors;
		if (lim.max_discard_sectors == was->max_hw_discard_sectors &&
		    lim.max_write_zeroes_sectors == was->max_write_zeroes_sectors)
			return true;
	}
	return weft_mq_fit_commands(q, &lim);
}

static void weft_ns_fit(struct weft_rdma_ns *ns)
{
	lockdep_assert_held(&ns->ctrl->ns_lock);
	weft_rdma_map_hctxs(ns->ctrl, ns->disk->queue);
	/* Where that does not succeed the scan tries again. */
	weft_ns_fit_commands(ns);
}

static void weft_ns_set_closed(struct weft_rdma_ns *ns)
{
	/* Pairs with weft_queue_block(): the association is there. */
	smp_store_release(&ns->closed, ns->state != WEFT_NS_READY || ns->leaving);
}

/* The one place where a namespace's state changes. Returns whether it did. */
static bool weft_ns_set_state(struct weft_rdma_ns *ns, enum weft_ns_state to)
{
	lockdep_assert_held(&ns->ctrl->ns_lock);
	if (ns->state == WEFT_NS_DEAD || ns->state == to)
		return false;
	if (ns->state == WEFT_NS_READY) {
		WRITE_ONCE(ns->closed_at, jiffies);
		ns->fails_fast = false;
		/* Who sees the state sees the time. Pairs with weft_rdma_held_too_long(). */
		smp_wmb();
	}
	WRITE_ONCE(ns->state, to);
	weft_ns_set_closed(ns);
	return true;
}

/**
 * weft_rdma_ns_find() - find a namespace by its number
 * @ctrl: its ns_lock is held
 * @nsid: the number
 *
 * Return: the namespace, or NULL if it is not a disk.
 */
struct weft_rdma_ns *weft_rdma_ns_find(struct weft_rdma_ctrl *ctrl, u32 nsid)
{
	struct weft_rdma_ns *ns;

	lockdep_assert_held(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->nsid == nsid)
			return ns;
	return NULL;
}

/* The disk was added. What a scan has found of it meanwhile is done now. */
static void weft_ns_added(struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;

	mutex_lock(&ctrl->ns_lock);
	ns->adding = false;
	/* The work may free it when the lock is dropped. */
	if (ns->state == WEFT_NS_DEAD)
		queue_work(weft_rdma_wq, &ctrl->dead_work);
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_ns_add() - make a namespace a disk
 * @ctrl: the caller is its add_work
 * @nsid: its number; no disk has it
 * @info: its identify data, checked
 * @errors: the controller's @errors when these were read
 * @scans: its @scans before these were read, when no scan was running
 *
 * An error is logged, except -EAGAIN.
 *
 * Context: process context, may sleep; may wait for the I/O of other disks.
 * Return: 0; -EAGAIN if a scan has begun since, which does not know of the disk; or
 * another negative errno.
 */
int weft_rdma_ns_add(struct weft_rdma_ctrl *ctrl, u32 nsid, const struct weft_ns_info *info,
		     u32 errors, u32 scans)
{
	struct weft_mq_limits lim;
	struct weft_rdma_ns *ns;
	int ret = -ENOMEM;

	ns = kzalloc_obj(*ns);
	if (!ns)
		goto out_err;
	ns->ctrl = ctrl;
	ns->nsid = nsid;
	ns->info = *info;
	ns->adding = true;
	mutex_init(&ns->path_lock);
	weft_rdma_held_begin(ns);
	INIT_WORK(&ns->doubt_work, weft_rdma_doubt_work);
	INIT_WORK(&ns->refused_work, weft_rdma_ana_refused_work);
	weft_ns_limits(ctrl, info, &lim);
	ns->disk = weft_mq_disk_alloc(&ctrl->set, &lim, ns);
	if (IS_ERR(ns->disk)) {
		ret = PTR_ERR(ns->disk);
		kfree(ns);
		goto out_err;
	}
	/* The partition scan is I/O, for which a new controller would wait. */
	ns->disk->flags |= GENHD_FL_NO_PART;
	snprintf(ns->disk->disk_name, DISK_NAME_LEN, "%sn%u", dev_name(&ctrl->dev), nsid);
	ns->disk->fops = &weft_ns_fops;
	ns->disk->private_data = ns;
	kref_get(&ctrl->ref);	/* until weft_ns_free_disk() */
	set_capacity(ns->disk, weft_info_sectors(info));
	set_disk_ro(ns->disk, info->read_only);
	/*
	 * Recovery closes the disks that are on the list when it begins. In another
	 * association than this one, the namespace may be another.
	 */
	ret = -ENOTCONN;
	mutex_lock(&ctrl->ns_lock);
	if (READ_ONCE(ctrl->scans) != scans) {
		ret = -EAGAIN;
	} else if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE && READ_ONCE(ctrl->errors) == errors) {
		list_add_tail(&ns->list, &ctrl->namespaces);
		weft_rdma_ana_look_up(ns);
		weft_ns_fit(ns);
		ret = 0;
	}
	mutex_unlock(&ctrl->ns_lock);
	if (ret)
		goto out_put;
	ret = device_add_disk(&ctrl->dev, ns->disk, weft_ns_groups);
	if (!ret) {
		weft_ns_added(ns);
		return 0;
	}
	/* A scan may be looking at it. */
	mutex_lock(&ctrl->scan_lock);
	mutex_lock(&ctrl->ns_lock);
	list_del(&ns->list);
	mutex_unlock(&ctrl->ns_lock);
	mutex_unlock(&ctrl->scan_lock);
	weft_rdma_held_end(ns);
out_put:
	/* weft_ns_free_disk() is for disks that were added. */
	put_disk(ns->disk);
	kfree(ns);
	weft_rdma_ctrl_put(ctrl);
out_err:
	if (ret != -EAGAIN)
		weft_ctrl_err(ctrl, "namespace %u cannot be made a disk (error %d)\n", nsid,
			      -ret);
	return ret;
}

/* From now on nothing is sent: I/O of a volume goes back to it, all other fails. */
static void weft_ns_doom(struct weft_rdma_ns *ns)
{
	/* First: a volume that has other paths must not take this one again. */
	weft_rdma_path_gone(ns);
	mutex_lock(&ns->ctrl->ns_lock);
	if (weft_ns_set_state(ns, WEFT_NS_DEAD))
		weft_rdma_resubmit(ns);
	mutex_unlock(&ns->ctrl->ns_lock);
	/* One that was attached meanwhile. */
	weft_rdma_path_gone(ns);
}

/*
 * After weft_ns_doom(): mark the disk as dead; its I/O fails.
 *
 * Context: process context; no other thread removes the namespace.
 */
static void weft_ns_end(struct weft_rdma_ns *ns)
{
	/* First settle bios that chose this path: on a dead disk they would fail. */
	weft_rdma_path_settle(ns);
	/* Notifies holders, which may wait for I/O: not under the lock. */
	weft_disk_die(ns->disk);
	set_capacity(ns->disk, 0);
}

/**
 * weft_rdma_ns_kill() - end a disk that is another one now, or lost
 * @ns: its controller's scan_lock is held
 *
 * Ending a disk waits for its users. A user may wait for a second disk, which only
 * the scan opens. So a work ends the disk.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_kill(struct weft_rdma_ns *ns)
{
	weft_ns_doom(ns);
	queue_work(weft_rdma_wq, &ns->ctrl->dead_work);
}

/* Returns whether the target has listed it again meanwhile. */
static bool weft_ns_remove(struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;
	bool back;

	weft_rdma_path_gone(ns);
	del_gendisk(ns->disk);
	/* Its last command has ended, and for a dead disk ana.c queues none. */
	cancel_work_sync(&ns->refused_work);
	cancel_work_sync(&ns->doubt_work);
	weft_rdma_held_end(ns);
	/* Until here recovery knows it, and waits for its timeout handler. */
	mutex_lock(&ctrl->ns_lock);
	list_del(&ns->list);
	back = ns->back;
	mutex_unlock(&ctrl->ns_lock);
	put_disk(ns->disk);
	return back;
}

/**
 * weft_rdma_ns_lose() - remove a disk, because the target has removed its namespace
 * @ns: its controller's scan_lock is held; may be freed when this returns
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_lose(struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;

	weft_ns_doom(ns);
	mutex_lock(&ctrl->ns_lock);
	ns->lost = true;
	mutex_unlock(&ctrl->ns_lock);
	/* From here on the work may free it: it may be running for another disk. */
	queue_work(weft_rdma_wq, &ctrl->dead_work);
}

/**
 * weft_rdma_ns_update() - take over what may have changed
 * @ns: its controller's scan_lock is held
 * @info: its identify data now, checked
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: 0; -ESTALE if it is another namespace; -ENOSPC if a volume relies on
 * blocks that it does not have any more.
 */
int weft_rdma_ns_update(struct weft_rdma_ns *ns, const struct weft_ns_info *info,
			struct weft_why *why)
{
	sector_t sectors = weft_info_sectors(info);
	u64 needed;

	if (!weft_info_same(&ns->info, info, why))
		return -ESTALE;
	mutex_lock(&ns->ctrl->ns_lock);
	needed = weft_rdma_path_blocks(ns);
	if (needed <= info->blocks) {
		ns->info = *info;
		/* It may be of another ANA group now. */
		weft_rdma_ana_look_up(ns);
	}
	mutex_unlock(&ns->ctrl->ns_lock);
	if (needed > info->blocks)
		return weft_refuse(why, -ENOSPC,
				   "it has %llu blocks, but the volume needs %llu",
				   info->blocks, needed);
	set_disk_ro(ns->disk, info->read_only);
	if (get_capacity(ns->disk) != sectors) {
		weft_ctrl_info(ns->ctrl, "namespace %u has %llu blocks now\n", ns->nsid,
			       info->blocks);
		/* Not under the lock, which recovery needs: the event may wait for memory. */
		set_capacity_and_notify(ns->disk, sectors);
		weft_rdma_path_resized(ns);
	}
	return 0;
}

/*
 * It exists, but cannot be identified, or has shrunk. A volume uses its other paths or waits;
 * other requests wait here.
 */
static void weft_ns_doubt_locked(struct weft_rdma_ns *ns, const char *reason)
{
	weft_ns_set_state(ns, WEFT_NS_UNKNOWN);
	/* At once: the volume would send here again what comes back. */
	weft_rdma_path_down(ns, reason);
}

/**
 * weft_rdma_ns_doubt() - take a disk out of use that cannot be identified
 * @ns: its controller's scan_lock is held
 * @why: a sentence
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_doubt(struct weft_rdma_ns *ns, const char *why)
{
	char reason[128];

	scnprintf(reason, sizeof(reason), "namespace %u is refused: %s", ns->nsid, why);
	mutex_lock(&ns->ctrl->ns_lock);
	weft_ns_doubt_locked(ns, reason);
	mutex_unlock(&ns->ctrl->ns_lock);
}

/**
 * weft_rdma_ns_trust() - a disk was identified as the same one
 * @ns: its controller's scan_lock is held
 * @errors: the controller's number of recoveries before it was identified; if there
 *	was one since, it is not trusted
 *
 * It opens with the others, by weft_rdma_ns_open_identified().
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_trust(struct weft_rdma_ns *ns, u32 errors)
{
	mutex_lock(&ns->ctrl->ns_lock);
	/* Recovery counts before it closes the disks under this lock. */
	if (READ_ONCE(ns->ctrl->errors) == errors && ns->state == WEFT_NS_UNKNOWN)
		weft_ns_set_state(ns, WEFT_NS_IDENTIFIED);
	mutex_unlock(&ns->ctrl->ns_lock);
}

/**
 * weft_rdma_doubt_work() - a target refuses commands as if a namespace was not there
 * @work: of a namespace
 *
 * Its path goes down, and it is looked at again.
 */
void weft_rdma_doubt_work(struct work_struct *work)
{
	struct weft_rdma_ns *ns = container_of(work, struct weft_rdma_ns, doubt_work);
	struct weft_rdma_ctrl *ctrl = ns->ctrl;
	bool doubted;

	mutex_lock(&ctrl->ns_lock);
	/* Of a controller that is being removed, no scan would open it. */
	doubted = ns->state == WEFT_NS_READY && weft_rdma_state(ctrl) == WEFT_RDMA_LIVE;
	if (doubted) {
		if (time_after(jiffies, ns->doubted_at + WEFT_RDMA_DOUBT_FORGET))
			WRITE_ONCE(ns->doubts, 0);
		WRITE_ONCE(ns->doubts, ns->doubts + 1);
		WRITE_ONCE(ns->doubted_at, jiffies);
		weft_ns_doubt_locked(ns, "the target refuses commands on the namespace");
	}
	mutex_unlock(&ctrl->ns_lock);
	if (doubted)
		weft_rdma_scan_later(ctrl, WEFT_RDMA_SCAN_SOON);
}

/* A dead disk that has to be ended or removed. */
static struct weft_rdma_ns *weft_ns_dead(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns, *found = NULL;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state == WEFT_NS_DEAD && !ns->adding && (!ns->ended || ns->lost))
			found = ns;
	mutex_unlock(&ctrl->ns_lock);
	return found;
}

/**
 * weft_rdma_dead_work() - end the disks that a scan has found dead
 * @work: of a controller
 *
 * Waits for the users of the disks. It holds no lock of the controller, because
 * a user may wait for another of its disks, which needs a recovery and a scan.
 */
void weft_rdma_dead_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(work, struct weft_rdma_ctrl, dead_work);
	struct weft_rdma_ns *ns;

	/* After that, the removal of the controller ends them. */
	while (weft_rdma_state(ctrl) < WEFT_RDMA_DELETING && (ns = weft_ns_dead(ctrl))) {
		if (!ns->ended)
			weft_ns_end(ns);
		ns->ended = true;
		if (ns->lost && weft_ns_remove(ns))
			weft_rdma_scan_owe(ctrl, 0);
	}
}

/**
 * weft_rdma_ns_close_all() - close all disks until a scan has identified them
 * @ctrl: the controller; its association has ended
 *
 * Volumes do not use these paths after this.
 *
 * Context: process context; waits until no request is being sent.
 */
void weft_rdma_ns_close_all(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;
	bool any = false;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list) {
		any |= weft_ns_set_state(ns, WEFT_NS_UNKNOWN);
		/* What the next association answers counts. */
		WRITE_ONCE(ns->ana_refused, false);
		ns->ana_odd = false;
	}
	/* At once: volumes would send here again what comes back. */
	weft_rdma_paths_down(ctrl);
	mutex_unlock(&ctrl->ns_lock);
	/* One for all. Queueing a request does not sleep. */
	if (any)
		synchronize_rcu();
}

/**
 * weft_rdma_ns_leave() - turn the requests of a disk away, until it has left its volume
 * @ns: the namespace
 *
 * Context: process context, may sleep. Undo with weft_rdma_ns_left().
 */
void weft_rdma_ns_leave(struct weft_rdma_ns *ns)
{
	mutex_lock(&ns->ctrl->ns_lock);
	ns->leaving = true;
	weft_ns_set_closed(ns);
	mutex_unlock(&ns->ctrl->ns_lock);
}

/**
 * weft_rdma_ns_left() - a disk has left its volume
 * @ns: its controller's ns_lock is held, and its path is NULL
 *
 * While it was a path, bios that could not be sent went back to the volume. From here
 * on they are held by the disk, as those of all others.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_left(struct weft_rdma_ns *ns)
{
	lockdep_assert_held(&ns->ctrl->ns_lock);
	ns->leaving = false;
	weft_ns_set_closed(ns);
	/* Others' I/O may have come after @path became NULL. */
	if (!ns->closed)
		weft_rdma_resubmit(ns);
}

/* Let the I/O fail that a disk of a live controller holds, if it has waited too long. */
static void weft_ns_fail_fast(struct weft_rdma_ns *ns)
{
	if (!weft_rdma_held_too_long(ns))
		return;
	if (!ns->fails_fast)
		weft_ctrl_warn(ns->ctrl, "namespace %u: not identified again within %d s (fast_io_fail_timeout): waiting I/O fails\n",
			       ns->nsid, ns->ctrl->opts.fast_io_fail_timeout);
	ns->fails_fast = true;
	weft_rdma_resubmit(ns);
}

/**
 * weft_rdma_ns_open_identified() - open the disks that were identified
 * @ctrl: live; its ns_lock is held
 *
 * The I/O of others fails, if they were not identified for fast_io_fail_timeout.
 *
 * Context: process context, may sleep.
 * Return: false if some disk has to be scanned again.
 */
bool weft_rdma_ns_open_identified(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;
	bool all = true;

	lockdep_assert_held(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list) {
		if (ns->state == WEFT_NS_READY || ns->state == WEFT_NS_IDENTIFIED)
			all &= weft_ns_fit_commands(ns);
		if (ns->state == WEFT_NS_IDENTIFIED) {
			weft_ns_set_state(ns, WEFT_NS_READY);
			weft_rdma_resubmit(ns);
		}
		weft_ns_fail_fast(ns);
		all &= ns->state != WEFT_NS_UNKNOWN;
	}
	return all;
}

/**
 * weft_rdma_ns_resubmit_all() - let the I/O that disks hold fail
 * @ctrl: its fail_fast is set
 *
 * Context: process context.
 */
void weft_rdma_ns_resubmit_all(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		/* A dead one may be waiting for its held_work. */
		if (ns->state != WEFT_NS_DEAD)
			weft_rdma_resubmit(ns);
	mutex_unlock(&ctrl->ns_lock);
}

static struct weft_rdma_ns *weft_ns_alive(struct weft_rdma_ctrl *ctrl, bool closed_only)
{
	struct weft_rdma_ns *ns, *found = NULL;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state != WEFT_NS_DEAD && (!closed_only || ns->state != WEFT_NS_READY))
			found = ns;
	mutex_unlock(&ctrl->ns_lock);
	return found;
}

/**
 * weft_rdma_ns_kill_all() - end all disks: the association does not come back
 * @ctrl: being removed, no scan runs; waiting I/O fails
 * @closed_only: only disks that are not READY, which would not open
 */
void weft_rdma_ns_kill_all(struct weft_rdma_ctrl *ctrl, bool closed_only)
{
	struct weft_rdma_ns *ns;

	/* Doom all disks before ending one: a user of one may wait for another. */
	mutex_lock(&ctrl->scan_lock);
	while ((ns = weft_ns_alive(ctrl, closed_only)))
		weft_ns_doom(ns);
	mutex_unlock(&ctrl->scan_lock);
	/* They wait for users of disks. No disk holds I/O any more, so these end. */
	cancel_work_sync(&ctrl->add_work);
	cancel_work_sync(&ctrl->dead_work);
	/* From here on, no other thread removes a namespace from the list. */
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state == WEFT_NS_DEAD && !ns->ended)
			weft_ns_end(ns);
}

/**
 * weft_rdma_ns_sync() - wait for the timeout handlers of all disks
 * @ctrl: its disks are closed or send nothing, so no handler starts again
 */
void weft_rdma_ns_sync(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		blk_sync_queue(ns->disk->queue);
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_ns_flush_timeouts() - wait for the timeout handlers that are running
 * @ctrl: the controller
 *
 * The timers of requests in flight stay, so handlers may start again.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_flush_timeouts(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		flush_work(&ns->disk->queue->timeout_work);
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_ns_fit() - fit the disks to the limits of a new association
 * @ctrl: its disks are closed; its identify data are known
 *
 * A target may grant fewer queues and smaller commands than before. Bios that wait are
 * split anew.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_ns_fit(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		weft_ns_fit(ns);
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_ns_remove_all() - remove all disks
 * @ctrl: no scan runs
 *
 * Context: process context; waits for I/O.
 */
void weft_rdma_ns_remove_all(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	for (;;) {
		mutex_lock(&ctrl->ns_lock);
		ns = list_first_entry_or_null(&ctrl->namespaces, struct weft_rdma_ns, list);
		mutex_unlock(&ctrl->ns_lock);
		if (!ns)
			return;
		weft_ns_remove(ns);
	}
}

/**
 * weft_rdma_ns_release() - set a controller to DELETING if no disk is a member
 * @ctrl: the controller; after this its disks cannot become members
 *
 * Context: process context.
 * Return: false, with nothing done, if a disk is part of a volume.
 */
bool weft_rdma_ns_release(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;
	bool used = false;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		used |= !!READ_ONCE(ns->path);
	/* Connecting a path checks the state under this lock. */
	if (!used)
		weft_rdma_set_state(ctrl, WEFT_RDMA_DELETING);
	mutex_unlock(&ctrl->ns_lock);
	return !used;
}
