// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scans: which namespaces the target has, what they are, and what has changed. ns.c
 * has the disks.
 */
#include "namespace.h"

#include <linux/sched/mm.h>

/* A namespace in the state UNKNOWN is scanned again after this. */
#define WEFT_SCAN_AGAIN		(5 * HZ)
/* The kernel's target lists a namespace before it exists: repeat the scan so often. */
#define WEFT_SCAN_TRIES		5
#define WEFT_NSIDS_PER_LIST	(NVME_IDENTIFY_DATA_SIZE / sizeof(__le32))
/* So much of what a target lists is looked at, and so many of its namespaces are disks. */
#define WEFT_SCAN_LISTS_MAX	4U
#define WEFT_SCAN_DISKS_MAX	1024U

static int weft_scan_identify(struct weft_rdma_ctrl *ctrl, u32 nsid,
			      struct weft_ns_info *info, struct weft_why *why)
{
	void *data;
	int ret;

	data = kzalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!data)
		return -ENOMEM;
	ret = weft_rdma_identify(ctrl, NVME_ID_CNS_NS, nsid, data, NULL);
	if (ret)
		ret = weft_refuse(why, ret < 0 ? ret : -EIO,
				  "Identify Namespace failed (status %d)", ret);
	else
		ret = weft_info_namespace(data, info, why);
	if (ret)
		goto out_free;
	memset(data, 0, NVME_IDENTIFY_DATA_SIZE);
	ret = weft_rdma_identify(ctrl, NVME_ID_CNS_NS_DESC_LIST, nsid, data, NULL);
	/* Not known before NVMe 1.3: then the ids are those of Identify alone. */
	if (ret > 0 && ctrl->info.version < NVME_VS(1, 3, 0) &&
	    ((ret & WEFT_STATUS_CODE) == NVME_SC_INVALID_FIELD ||
	     (ret & WEFT_STATUS_CODE) == NVME_SC_INVALID_OPCODE))
		ret = 0;
	else if (ret)
		ret = weft_refuse(why, ret < 0 ? ret : -EIO,
				  "its descriptors cannot be read (status %d)", ret);
	else
		ret = weft_info_descriptors(data, &info->id, why);
	weft_info_identity(&ctrl->info, &info->id);
out_free:
	kfree(data);
	return ret;
}

/**
 * enum weft_scanned - result of scanning a namespace
 * @WEFT_SCANNED: done
 * @WEFT_SCAN_NEW: it has no disk yet
 * @WEFT_SCAN_MISSED: it has no disk yet, and a later attempt to make one may succeed: the target
 *	may have listed it before it exists
 * @WEFT_SCAN_UNKNOWN: it is a disk that could not be identified
 * @WEFT_SCAN_FULL: the controller has as many disks as there may be
 * @WEFT_SCAN_LOST: the target is lost
 */
enum weft_scanned {
	WEFT_SCANNED,
	WEFT_SCAN_NEW,
	WEFT_SCAN_MISSED,
	WEFT_SCAN_UNKNOWN,
	WEFT_SCAN_FULL,
	WEFT_SCAN_LOST,
};

/* The association was lost since, or another one has begun. */
static bool weft_scan_is_lost(struct weft_rdma_ctrl *ctrl, u32 errors)
{
	return weft_rdma_state(ctrl) != WEFT_RDMA_LIVE || READ_ONCE(ctrl->errors) != errors;
}

static bool weft_scan_is_known(struct weft_rdma_ctrl *ctrl, u32 nsid)
{
	bool known;

	mutex_lock(&ctrl->ns_lock);
	known = weft_rdma_ns_find(ctrl, nsid);
	mutex_unlock(&ctrl->ns_lock);
	return known;
}

/* A target may list any number of namespaces. Each disk takes memory that nothing reclaims. */
static bool weft_scan_is_full(struct weft_rdma_ctrl *ctrl)
{
	bool full;

	mutex_lock(&ctrl->ns_lock);
	full = list_count_nodes(&ctrl->namespaces) >= WEFT_SCAN_DISKS_MAX;
	mutex_unlock(&ctrl->ns_lock);
	return full;
}

/* The scans that have begun. None is running when this returns. */
static u32 weft_scan_count(struct weft_rdma_ctrl *ctrl)
{
	u32 scans;

	mutex_lock(&ctrl->scan_lock);
	scans = ctrl->scans;
	mutex_unlock(&ctrl->scan_lock);
	return scans;
}

/* Make a disk of a namespace that the target lists, unless it has one. */
static enum weft_scanned weft_scan_new(struct weft_rdma_ctrl *ctrl, u32 nsid, u32 errors)
{
	struct weft_ns_info info;
	u32 scans;
	int ret;

	do {
		struct weft_why why = {};

		scans = weft_scan_count(ctrl);
		if (weft_scan_is_known(ctrl, nsid))
			return WEFT_SCANNED;
		if (weft_scan_is_full(ctrl))
			return WEFT_SCAN_FULL;
		ret = weft_scan_identify(ctrl, nsid, &info, &why);
		if (weft_scan_is_lost(ctrl, errors))
			return WEFT_SCAN_LOST;
		if (ret == -ENODEV && READ_ONCE(ctrl->scan_tries))
			return WEFT_SCAN_MISSED;
		/* The target may list any number of them. */
		if (ret)
			pr_warn_ratelimited("%s: namespace %u: %s\n", dev_name(&ctrl->dev), nsid,
					    why.text);
		else
			ret = weft_rdma_ns_add(ctrl, nsid, &info, errors, scans);
	} while (ret == -EAGAIN && READ_ONCE(ctrl->scans) != scans);
	if (weft_scan_is_lost(ctrl, errors))
		return WEFT_SCAN_LOST;
	return ret && ret != -EOPNOTSUPP ? WEFT_SCAN_MISSED : WEFT_SCANNED;
}

/*
 * The target has answered that a disk in use does not exist. The kernel's target lists a
 * namespace before it exists, so one such answer is not final. Returns true if it has
 * answered so in this association before, and for long enough.
 */
static bool weft_scan_missed_again(struct weft_rdma_ns *ns, u32 errors)
{
	if (ns->missed && ns->missed_errors == errors)
		return !time_before(jiffies, ns->missed_at + WEFT_RDMA_SCAN_SOON);
	ns->missed = true;
	ns->missed_errors = errors;
	ns->missed_at = jiffies;
	return false;
}

/* One namespace that the target lists, or @again one that is unknown. */
static enum weft_scanned weft_scan_one(struct weft_rdma_ctrl *ctrl, u32 nsid, u32 errors,
				       bool again)
{
	struct weft_ns_info info;
	struct weft_why why = {};
	struct weft_rdma_ns *ns;
	bool dead;
	int ret;

	if (!weft_scan_is_known(ctrl, nsid))
		return WEFT_SCAN_NEW;
	ret = weft_scan_identify(ctrl, nsid, &info, &why);
	if (weft_scan_is_lost(ctrl, errors))
		return WEFT_SCAN_LOST;
	mutex_lock(&ctrl->ns_lock);
	ns = weft_rdma_ns_find(ctrl, nsid);
	dead = ns && ns->state == WEFT_NS_DEAD;
	/* It is looked for again when the disk of its name is gone. */
	if (dead)
		ns->back = ns->lost;
	mutex_unlock(&ctrl->ns_lock);
	if (!ns)
		return WEFT_SCAN_NEW;
	/* Others stay as they are while this runs. */
	if (dead)
		return WEFT_SCANNED;
	if (!ret)
		ret = weft_rdma_ns_update(ns, &info, &why);
	if (!ret) {
		ns->missed = false;
		weft_rdma_ns_trust(ns, errors);
		return WEFT_SCANNED;
	}
	if (ret == -ESTALE) {
		weft_ctrl_err(ctrl,
			      "namespace %u is another one than before, its disk is refused: %s. If the target makes identifiers up when it starts, give it a fixed one: device_uuid in configfs (Linux), nvmf_subsystem_add_ns --uuid and --nguid (SPDK)\n",
			      nsid, why.text);
		weft_rdma_ns_kill(ns);
		return WEFT_SCANNED;
	}
	if (!again)
		weft_ctrl_warn(ctrl, "namespace %u: %s\n", nsid, why.text);
	if (ret == -EOPNOTSUPP || (ret == -ENODEV && weft_scan_missed_again(ns, errors))) {
		if (again || ret == -ENODEV)
			weft_ctrl_warn(ctrl, "namespace %u is gone\n", nsid);
		weft_rdma_ns_lose(ns);
		return WEFT_SCANNED;
	}
	weft_rdma_ns_doubt(ns, why.text);
	if (ret == -ENODEV)
		weft_rdma_scan_later(ctrl, WEFT_RDMA_SCAN_SOON);
	return WEFT_SCAN_UNKNOWN;
}

/* Namespaces from @from to before @to are not listed: they are gone. */
static void weft_scan_gone(struct weft_rdma_ctrl *ctrl, u32 from, u32 to)
{
	struct weft_rdma_ns *ns, *found;

	do {
		found = NULL;
		mutex_lock(&ctrl->ns_lock);
		list_for_each_entry(ns, &ctrl->namespaces, list)
			if (ns->nsid >= from && ns->nsid < to && !ns->lost)
				found = ns;
		mutex_unlock(&ctrl->ns_lock);
		if (found) {
			weft_ctrl_warn(ctrl, "namespace %u is gone\n", found->nsid);
			weft_rdma_ns_lose(found);
		}
	} while (found);
}

/*
 * Look at the disks of the namespaces that the target lists, or with @add make disks
 * of the others. @seen gets a bit for each enum weft_scanned. Returns true if the whole
 * list was read.
 */
static bool weft_scan_list(struct weft_rdma_ctrl *ctrl, __le32 *list, u32 errors, bool add,
			   unsigned int *seen)
{
	u32 last = 0, nsid, i, lists = 0;
	enum weft_scanned scanned;
	int ret;

	do {
		if (lists++ == WEFT_SCAN_LISTS_MAX) {
			weft_ctrl_warn(ctrl, "it lists more than %lu namespaces: weft_rdma uses none after %u\n",
				       WEFT_SCAN_LISTS_MAX * WEFT_NSIDS_PER_LIST, last);
			return true;
		}
		ret = weft_rdma_identify(ctrl, NVME_ID_CNS_NS_ACTIVE_LIST, last, list, NULL);
		/* Also while it is removed: the target decides how long the list is. */
		if (weft_scan_is_lost(ctrl, errors))
			return false;
		if (ret) {
			weft_ctrl_err(ctrl, "the list of namespaces cannot be read (status %d)\n",
				      ret);
			return false;
		}
		for (i = 0; i < WEFT_NSIDS_PER_LIST; i++) {
			nsid = le32_to_cpu(list[i]);
			if (!nsid)
				break;
			/* Must ascend, or a target could make this loop endless. */
			if (nsid <= last || nsid == NVME_NSID_ALL) {
				weft_ctrl_err(ctrl, "the list of namespaces has %u after %u\n",
					      nsid, last);
				return false;
			}
			if (!add)
				weft_scan_gone(ctrl, last + 1, nsid);
			scanned = add ? weft_scan_new(ctrl, nsid, errors) :
					weft_scan_one(ctrl, nsid, errors, false);
			if (scanned == WEFT_SCAN_LOST)
				return false;
			*seen |= BIT(scanned);
			last = nsid;
		}
	} while (i == WEFT_NSIDS_PER_LIST);
	if (!add)
		weft_scan_gone(ctrl, last + 1, U32_MAX);
	return true;
}

/*
 * End the disks that are lost by their ANA state, after a scan of all: until they are
 * identified, they may be of another group than before.
 */
static void weft_scan_kill_lost(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	if (likely(!weft_rdma_ana_lost(ctrl)))
		return;
	/* Another scan may remove namespaces. */
	mutex_lock(&ctrl->scan_lock);
	while ((ns = weft_rdma_ana_lost(ctrl)))
		weft_rdma_ns_kill(ns);
	mutex_unlock(&ctrl->scan_lock);
}

/* Open the disks that were identified, and tell the volumes; scan the others again. */
static void weft_scan_end(struct weft_rdma_ctrl *ctrl)
{
	unsigned long ana_again = 0;
	bool again = false;

	/* Recovery may have begun, which closes the disks under this lock. */
	mutex_lock(&ctrl->ns_lock);
	if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE) {
		WRITE_ONCE(ctrl->unscanned, false);
		again = !weft_rdma_ns_open_identified(ctrl);
		ana_again = weft_rdma_ana_tell_all(ctrl);
	}
	mutex_unlock(&ctrl->ns_lock);
	if (again)
		weft_rdma_scan_later(ctrl, WEFT_SCAN_AGAIN);
	if (ana_again)
		weft_rdma_ana_kick(ctrl, ana_again);
}

/* The same after a look at some of the namespaces: others are lost by what is known of them. */
static void weft_scan_some_end(struct weft_rdma_ctrl *ctrl)
{
	/* The first scan of the association, which has not ended, opens the disks. */
	if (READ_ONCE(ctrl->unscanned))
		return;
	weft_scan_end(ctrl);
	if (unlikely(weft_rdma_ana_lost(ctrl)))
		weft_rdma_rescan(ctrl);
}

/* The list was not read to its end: unless the association was lost, it ends here. */
static void weft_scan_failed(struct weft_rdma_ctrl *ctrl, u32 errors)
{
	/* Another association has a scan of its own. */
	if (READ_ONCE(ctrl->errors) == errors)
		weft_rdma_error(ctrl, WEFT_RDMA_END_SCAN, "its namespaces cannot be read");
}

static void weft_scan(struct weft_rdma_ctrl *ctrl)
{
	/* Reclaim may need I/O that waits for this scan. */
	unsigned int noio = memalloc_noio_save();
	/* All of it is about this association. */
	u32 errors = READ_ONCE(ctrl->errors);
	unsigned int seen = 0;
	__le32 *list;
	bool whole;

	WRITE_ONCE(ctrl->scan_owed, false);
	list = kzalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!list) {
		weft_rdma_scan_owe(ctrl, WEFT_SCAN_AGAIN);
		goto out;
	}
	/* No disk opens before its state is known. */
	weft_rdma_ana_read(ctrl);
	mutex_lock(&ctrl->scan_lock);
	WRITE_ONCE(ctrl->scans, ctrl->scans + 1);
	whole = weft_scan_list(ctrl, list, errors, false, &seen);
	mutex_unlock(&ctrl->scan_lock);
	/* A disk that is not identified must not open. */
	if (whole) {
		weft_scan_end(ctrl);
		weft_scan_kill_lost(ctrl);
	} else {
		weft_scan_failed(ctrl, errors);
	}
	if (whole && seen & BIT(WEFT_SCAN_NEW))
		weft_rdma_queue(ctrl, weft_rdma_wq, &ctrl->add_work);
	kfree(list);
out:
	memalloc_noio_restore(noio);
}

/**
 * weft_rdma_add_work() - make disks of the namespaces that are new
 * @work: the controller's add_work
 *
 * A task that changes the scheduler of a disk, or takes a processor away, has a lock
 * that a new disk needs, and waits for the I/O of the first disk. If the association is
 * lost meanwhile, that I/O needs a recovery and a scan. So this work does not hold
 * @scan_lock, and does not run on the controller's workqueue.
 */
void weft_rdma_add_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(work, struct weft_rdma_ctrl, add_work);
	/* Reclaim may need I/O of the disks that a scan after this opens. */
	unsigned int noio = memalloc_noio_save();
	u32 errors = READ_ONCE(ctrl->errors);
	unsigned int seen = 0;
	bool again = false;
	__le32 *list;

	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		goto out;	/* the next association is scanned */
	list = kzalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!list) {
		weft_rdma_scan_owe(ctrl, WEFT_SCAN_AGAIN);
		goto out;
	}
	if (weft_scan_list(ctrl, list, errors, true, &seen))
		/* It tells the volumes the ANA states of the new disks. */
		weft_scan_some_end(ctrl);
	else
		weft_scan_failed(ctrl, errors);
	if (seen & BIT(WEFT_SCAN_FULL))
		weft_ctrl_warn(ctrl, "%u of its namespaces are disks: weft_rdma makes no more\n",
			       WEFT_SCAN_DISKS_MAX);
	mutex_lock(&ctrl->scan_lock);
	if (seen & BIT(WEFT_SCAN_MISSED) && ctrl->scan_tries) {
		WRITE_ONCE(ctrl->scan_tries, ctrl->scan_tries - 1);
		again = true;
	}
	mutex_unlock(&ctrl->scan_lock);
	if (again)
		weft_rdma_scan_owe(ctrl, WEFT_RDMA_SCAN_SOON);
	kfree(list);
out:
	memalloc_noio_restore(noio);
}

/* Scan the target's namespaces; disks that are identified open when all are scanned. */
static void weft_scan_all(struct weft_rdma_ctrl *ctrl)
{
	mutex_lock(&ctrl->scan_lock);
	WRITE_ONCE(ctrl->scan_tries, WEFT_SCAN_TRIES);
	mutex_unlock(&ctrl->scan_lock);
	weft_scan(ctrl);
}

/*
 * The target has announced a change. The kernel's target announces a namespace
 * before it lists it, so the list is read once more a little later.
 */
static void weft_scan_changed(struct weft_rdma_ctrl *ctrl)
{
	weft_scan_all(ctrl);
	weft_rdma_scan_owe(ctrl, WEFT_RDMA_SCAN_SOON);
}

/*
 * Read the log of changed namespaces: until then the target announces no other change.
 * What it has does not matter, because all namespaces are scanned.
 */
static void weft_scan_read_log(struct weft_rdma_ctrl *ctrl)
{
	/* Reclaim may need I/O that waits for the scan that follows. */
	void *log = kmalloc(SZ_4K, GFP_NOIO);
	struct nvme_command cmd;
	int ret = -ENOMEM;

	/* Before the command: a reading in another work may fail meanwhile, and owe it again. */
	WRITE_ONCE(ctrl->log_owed, false);
	if (log) {
		weft_capsule_log_page(&cmd, NVME_LOG_CHANGED_NS, SZ_4K);
		ret = weft_rdma_command(ctrl->admin_q, &cmd, log, SZ_4K, NULL,
					WEFT_RDMA_ADMIN_TIMEOUT, 0, NULL);
		kfree(log);
	}
	/* A target that does not have it needs no reading. */
	if (!ret || (ret > 0 && !(ret & WEFT_STATUS_HOST) && ret & WEFT_STATUS_DNR))
		return;
	WRITE_ONCE(ctrl->log_owed, true);
	weft_rdma_scan_later(ctrl, WEFT_SCAN_AGAIN);
}

/* The next namespace from @nsid in the state UNKNOWN; 0 if there is none. */
static u32 weft_scan_unknown(struct weft_rdma_ctrl *ctrl, u32 nsid)
{
	struct weft_rdma_ns *ns;
	u32 next = 0;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state == WEFT_NS_UNKNOWN && ns->nsid >= nsid && (!next || ns->nsid < next))
			next = ns->nsid;
	mutex_unlock(&ctrl->ns_lock);
	return next;
}

/**
 * weft_rdma_again_work() - scan namespaces in the state UNKNOWN again, or what is owed
 * @work: the controller's again_work
 */
void weft_rdma_again_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work), struct weft_rdma_ctrl,
						   again_work);
	unsigned int noio;
	u32 nsid = 0;

	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return;	/* the next association is scanned */
	if (READ_ONCE(ctrl->log_owed)) {
		weft_scan_read_log(ctrl);
		/* Changes since the event were not announced. */
		weft_scan(ctrl);
		return;
	}
	if (READ_ONCE(ctrl->scan_owed)) {
		weft_scan(ctrl);
		return;
	}
	noio = memalloc_noio_save();
	mutex_lock(&ctrl->scan_lock);
	while ((nsid = weft_scan_unknown(ctrl, nsid)))
		if (weft_scan_one(ctrl, nsid++, READ_ONCE(ctrl->errors), true) == WEFT_SCAN_LOST)
			break;
	mutex_unlock(&ctrl->scan_lock);
	weft_scan_some_end(ctrl);
	memalloc_noio_restore(noio);
}

/**
 * weft_rdma_scan_work() - scan the target's namespaces and update the disks
 * @work: the controller's scan_work
 */
void weft_rdma_scan_work(struct work_struct *work)
{
	weft_scan_all(container_of(work, struct weft_rdma_ctrl, scan_work));
}

/**
 * weft_rdma_event_work() - handle asynchronous events, and ask for the next one
 * @work: the controller's event_work
 *
 * Only this work asks for events, so it asks for one at a time.
 */
void weft_rdma_event_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(work, struct weft_rdma_ctrl, event_work);
	u32 notices;

	spin_lock_irq(&ctrl->lock);
	notices = ctrl->notices;
	ctrl->notices = 0;
	spin_unlock_irq(&ctrl->lock);
	if (notices & WEFT_NOTICE_ANA)
		/* Also when a namespace is of another group now: so look at them all. */
		weft_rdma_rescan(ctrl);
	if (notices & WEFT_NOTICE_NAMESPACES) {
		weft_scan_read_log(ctrl);
		weft_scan_changed(ctrl);
	}
	weft_rdma_async_event(ctrl);
}
