// SPDX-License-Identifier: GPL-2.0-only
/* Namespaces: found, made disks, changed, lost. */
#include "rdma.h"

#define WEFT_NSIDS_PER_LIST	(NVME_IDENTIFY_DATA_SIZE / sizeof(__le32))

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

static const struct block_device_operations weft_ns_fops = {
	.owner		= THIS_MODULE,
	.ioctl		= weft_ns_ioctl,
	.compat_ioctl	= blkdev_compat_ptr_ioctl,
	.pr_ops		= &weft_rdma_pr_ops,
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

static void weft_ns_limits(struct weft_rdma_ctrl *ctrl,
			   const struct weft_ns_info *info,
			   struct weft_mq_limits *lim)
{
	u32 sectors = min(ctrl->info.max_bytes >> SECTOR_SHIFT,
			  (ctrl->mr_pages - 1) * (SZ_4K >> SECTOR_SHIFT));

	*lim = (struct weft_mq_limits) {
		.block_size	= 1U << info->lba_shift,
		.max_sectors	= sectors,
		.max_segments	= ctrl->mr_pages - 1,
		/* A registration has gaps nowhere. */
		.virt_boundary	= SZ_4K - 1,
		.write_cache	= ctrl->info.write_cache,
		.poll		= ctrl->queue_count > ctrl->poll_from,
		.p2pdma		= ctrl->p2pdma,
	};
	if (ctrl->info.discard)
		lim->max_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	if (ctrl->info.write_zeroes)
		lim->max_write_zeroes_sectors = 65536U << (info->lba_shift - SECTOR_SHIFT);
}

static int weft_identify_ns(struct weft_rdma_ctrl *ctrl, u32 nsid,
			    struct weft_ns_info *info, struct weft_why *why)
{
	struct nvme_command cmd;
	void *data;
	int ret;

	data = kzalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!data)
		return -ENOMEM;
	weft_capsule_identify(&cmd, NVME_ID_CNS_NS, nsid);
	ret = weft_rdma_command(ctrl->admin_q, &cmd, data, NVME_IDENTIFY_DATA_SIZE,
				NULL, WEFT_RDMA_SETUP_TIMEOUT, 0, NULL);
	if (ret)
		ret = weft_refuse(why, ret < 0 ? ret : -EIO,
				  "Identify Namespace failed (status %d)", ret);
	else
		ret = weft_info_namespace(data, info, why);
	if (ret)
		goto out_free;
	memset(data, 0, NVME_IDENTIFY_DATA_SIZE);
	weft_capsule_identify(&cmd, NVME_ID_CNS_NS_DESC_LIST, nsid);
	ret = weft_rdma_command(ctrl->admin_q, &cmd, data, NVME_IDENTIFY_DATA_SIZE,
				NULL, WEFT_RDMA_SETUP_TIMEOUT, 0, NULL);
	/* Not known before NVMe 1.3: then the ids are those of Identify alone. */
	if (ret < 0 || (ret > 0 && !(ret & WEFT_SC_DNR)))
		ret = weft_refuse(why, ret < 0 ? ret : -EIO,
				  "its descriptors cannot be read (status %d)", ret);
	else
		ret = ret ? 0 : weft_info_descriptors(data, &info->id, why);
out_free:
	kfree(data);
	return ret;
}

static struct weft_rdma_ns *weft_ns_find(struct weft_rdma_ctrl *ctrl, u32 nsid)
{
	struct weft_rdma_ns *ns;

	lockdep_assert_held(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->nsid == nsid)
			return ns;
	return NULL;
}

static void weft_ns_add(struct weft_rdma_ctrl *ctrl, u32 nsid,
			const struct weft_ns_info *info)
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
	weft_ns_limits(ctrl, info, &lim);
	ns->disk = weft_mq_disk_alloc(&ctrl->set, &lim, ns);
	if (IS_ERR(ns->disk)) {
		ret = PTR_ERR(ns->disk);
		kfree(ns);
		goto out_err;
	}
	/* To look for partitions is I/O, which a scan may not wait for: it is what lets I/O go on. */
	ns->disk->flags |= GENHD_FL_NO_PART;
	snprintf(ns->disk->disk_name, DISK_NAME_LEN, "%sn%u", dev_name(&ctrl->dev), nsid);
	ns->disk->fops = &weft_ns_fops;
	ns->disk->private_data = ns;
	kref_get(&ctrl->ref);	/* until weft_ns_free_disk() */
	set_capacity(ns->disk, info->blocks << (info->lba_shift - SECTOR_SHIFT));
	set_disk_ro(ns->disk, info->read_only);
	/* Recovery pauses what is on the list when it begins. */
	ret = -ENOTCONN;
	mutex_lock(&ctrl->ns_lock);
	if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE) {
		list_add_tail(&ns->list, &ctrl->namespaces);
		ret = 0;
	}
	mutex_unlock(&ctrl->ns_lock);
	if (ret)
		goto out_put;
	ret = device_add_disk(&ctrl->dev, ns->disk, weft_ns_groups);
	if (!ret)
		return;
	mutex_lock(&ctrl->ns_lock);
	list_del(&ns->list);
	mutex_unlock(&ctrl->ns_lock);
out_put:
	/* weft_ns_free_disk() is for disks that were added. */
	put_disk(ns->disk);
	kfree(ns);
	weft_rdma_ctrl_put(ctrl);
out_err:
	weft_ctrl_err(ctrl, "namespace %u cannot be made a disk (error %d)\n", nsid, -ret);
}

static bool weft_ns_same(const struct weft_ns_info *a, const struct weft_ns_info *b)
{
	return !memcmp(&a->id, &b->id, sizeof(a->id)) && a->lba_shift == b->lba_shift;
}

/*
 * From now on its I/O fails, and nothing is sent.
 *
 * Context: process context; nobody else takes the namespace off.
 */
static void weft_ns_kill(struct weft_rdma_ns *ns)
{
	mutex_lock(&ns->ctrl->ns_lock);
	WRITE_ONCE(ns->dead, true);
	if (ns->paused)
		blk_mq_unquiesce_queue(ns->disk->queue);
	ns->paused = false;
	mutex_unlock(&ns->ctrl->ns_lock);
	/* Tells who has it open, who may wait for I/O: not under the lock, nor while paused. */
	blk_mark_disk_dead(ns->disk);
	set_capacity(ns->disk, 0);
}

static void weft_ns_remove(struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;

	mutex_lock(&ctrl->ns_lock);
	list_del(&ns->list);
	mutex_unlock(&ctrl->ns_lock);
	weft_rdma_path_gone(ns);
	del_gendisk(ns->disk);
	put_disk(ns->disk);
}

/* The target does not have it any more. */
static void weft_ns_lose(struct weft_rdma_ns *ns)
{
	weft_ns_kill(ns);
	weft_ns_remove(ns);
}

static void weft_ns_update(struct weft_rdma_ns *ns, const struct weft_ns_info *info)
{
	sector_t sectors = info->blocks << (info->lba_shift - SECTOR_SHIFT);

	if (!weft_ns_same(&ns->info, info)) {
		weft_ctrl_err(ns->ctrl, "namespace %u is another one than before: its disk is refused\n",
			      ns->nsid);
		weft_ns_kill(ns);
		weft_rdma_path_gone(ns);
		return;
	}
	ns->info = *info;
	set_disk_ro(ns->disk, info->read_only);
	if (get_capacity(ns->disk) != sectors) {
		weft_ctrl_info(ns->ctrl, "namespace %u has %llu blocks now\n", ns->nsid,
			       info->blocks);
		set_capacity_and_notify(ns->disk, sectors);
	}
}

/* One namespace that the target lists. Returns false when the target is lost. */
static bool weft_scan_one(struct weft_rdma_ctrl *ctrl, u32 nsid)
{
	struct weft_ns_info info;
	struct weft_why why = {};
	struct weft_rdma_ns *ns;
	int ret;

	ret = weft_identify_ns(ctrl, nsid, &info, &why);
	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return false;
	mutex_lock(&ctrl->ns_lock);
	ns = weft_ns_find(ctrl, nsid);
	mutex_unlock(&ctrl->ns_lock);
	if (ret) {
		weft_ctrl_warn(ctrl, "namespace %u: %s\n", nsid, why.text);
		if (ns && (ret == -ENODEV || ret == -EOPNOTSUPP))
			weft_ns_lose(ns);
		/* A disk that is there and of which nothing is known may not go on. */
		else if (ns)
			return false;
	} else if (!ns) {
		weft_ns_add(ctrl, nsid, &info);
	} else if (!ns->dead) {
		weft_ns_update(ns, &info);
	}
	return true;
}

/* Namespaces from @from to before @to are not listed: they are gone. */
static void weft_scan_gone(struct weft_rdma_ctrl *ctrl, u32 from, u32 to)
{
	struct weft_rdma_ns *ns, *found;

	do {
		found = NULL;
		mutex_lock(&ctrl->ns_lock);
		list_for_each_entry(ns, &ctrl->namespaces, list)
			if (ns->nsid >= from && ns->nsid < to)
				found = ns;
		mutex_unlock(&ctrl->ns_lock);
		if (found) {
			weft_ctrl_warn(ctrl, "namespace %u is gone\n", found->nsid);
			weft_ns_lose(found);
		}
	} while (found);
}

/* Returns whether the whole list was seen. */
static bool weft_scan_list(struct weft_rdma_ctrl *ctrl, __le32 *list)
{
	struct nvme_command cmd;
	u32 last = 0, nsid, i;
	int ret;

	do {
		weft_capsule_identify(&cmd, NVME_ID_CNS_NS_ACTIVE_LIST, last);
		ret = weft_rdma_command(ctrl->admin_q, &cmd, list,
					NVME_IDENTIFY_DATA_SIZE, NULL,
					WEFT_RDMA_SETUP_TIMEOUT, 0, NULL);
		if (ret) {
			weft_ctrl_err(ctrl, "the list of namespaces cannot be read (status %d)\n",
				      ret);
			return false;
		}
		for (i = 0; i < WEFT_NSIDS_PER_LIST; i++) {
			nsid = le32_to_cpu(list[i]);
			if (!nsid)
				break;
			/* Ascending, or a target could keep us here for ever. */
			if (nsid <= last || nsid == NVME_NSID_ALL) {
				weft_ctrl_err(ctrl, "the list of namespaces has %u after %u\n",
					      nsid, last);
				return false;
			}
			weft_scan_gone(ctrl, last + 1, nsid);
			if (!weft_scan_one(ctrl, nsid))
				return false;
			last = nsid;
		}
	} while (i == WEFT_NSIDS_PER_LIST);
	weft_scan_gone(ctrl, last + 1, U32_MAX);
	return true;
}

static void weft_resume_locked(struct weft_rdma_ctrl *ctrl, bool paths_only)
{
	struct weft_rdma_ns *ns;

	lockdep_assert_held(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list) {
		if (ns->paused && (!paths_only || READ_ONCE(ns->path))) {
			blk_mq_unquiesce_queue(ns->disk->queue);
			ns->paused = false;
		}
	}
}

/**
 * weft_rdma_scan() - bring the disks in line with the target's namespaces
 * @ctrl: live; its disks resume when all have been seen to be what they were
 *
 * Context: process context, may sleep.
 */
void weft_rdma_scan(struct weft_rdma_ctrl *ctrl)
{
	__le32 *list;
	bool whole;

	list = kzalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!list)
		return;
	mutex_lock(&ctrl->scan_lock);
	whole = weft_scan_list(ctrl, list);
	mutex_unlock(&ctrl->scan_lock);
	kfree(list);
	if (!whole) {
		/* A disk of which nothing is known may not go on. */
		weft_rdma_error(ctrl, "its namespaces cannot be read");
		return;
	}
	/* Recovery may have begun, which pauses under this lock. */
	mutex_lock(&ctrl->ns_lock);
	if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE) {
		weft_resume_locked(ctrl, false);
		weft_rdma_paths_tell(ctrl, true);
	}
	mutex_unlock(&ctrl->ns_lock);
}

void weft_rdma_scan_work(struct work_struct *work)
{
	weft_rdma_scan(container_of(work, struct weft_rdma_ctrl, scan_work));
}

/**
 * weft_rdma_pause() - nothing more is sent
 * @ctrl: the controller
 *
 * Context: process context; returns when nobody is sending.
 */
void weft_rdma_pause(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list) {
		if (!ns->paused && !ns->dead) {
			blk_mq_quiesce_queue(ns->disk->queue);
			ns->paused = true;
		}
	}
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_resume() - undo weft_rdma_pause()
 * @ctrl: the controller
 * @paths_only: of disks that are a volume's alone
 *
 * Context: process context.
 */
void weft_rdma_resume(struct weft_rdma_ctrl *ctrl, bool paths_only)
{
	mutex_lock(&ctrl->ns_lock);
	weft_resume_locked(ctrl, paths_only);
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_ns_kill_all() - the association does not come back
 * @ctrl: being removed, no scan runs; whatever waits fails
 * @paused_only: those that nobody would resume
 */
void weft_rdma_ns_kill_all(struct weft_rdma_ctrl *ctrl, bool paused_only)
{
	struct weft_rdma_ns *ns;

	/* Nobody else takes any off: the list stays as it is. */
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (!paused_only || ns->paused)
			weft_ns_kill(ns);
}

/**
 * weft_rdma_ns_sync() - no timeout handler runs, and none begins
 * @ctrl: its disks are paused, or send nothing
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
 * weft_rdma_ns_remove_all() - take all disks off
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
 * weft_rdma_ns_release() - no disk becomes a member any more, unless one is
 * @ctrl: the controller, which is then DELETING
 *
 * Context: process context.
 * Return: false, and nothing was done, where a disk is part of a volume.
 */
bool weft_rdma_ns_release(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;
	bool used = false;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		used |= !!READ_ONCE(ns->path);
	/* Whoever makes one a path looks at the state under this lock. */
	if (!used)
		weft_rdma_set_state(ctrl, WEFT_RDMA_DELETING);
	mutex_unlock(&ctrl->ns_lock);
	return !used;
}
