// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks of weft_rdma as paths of volumes: what volumes are told of a path, and what
 * becomes of its requests when the association fails. transport.c has what volumes
 * ask for.
 *
 * A disk that is a volume's path never keeps a request that its association
 * cannot carry: the bios are taken out of the request and given to the volume
 * (weft_mpath_requeue() there), which uses other paths or waits.
 *
 * DOC: a path's life
 *
 * ns->path is set by weft_rdma_path_attach() and cleared by weft_rdma_path_detach().
 * Requests find it under RCU. Everything else finds it under ns->path_lock, and has
 * the volume's functions run under it, in the order of the events. The one that
 * waits for I/O (weft_rdma_path_settle()) holds a reference of the path in its place.
 * Detaching waits for both.
 */
#include "namespace.h"

/**
 * weft_rdma_path_attach() - make a namespace a volume's path, if it carries I/O now
 * @rp: the path; its disk is claimed, so the namespace has no other
 * @known: attach it also if its ANA state, which may change, is all that is in the
 *	way: in standby
 *
 * Context: process context, may sleep. From here on the volume is told what happens
 * to the path.
 * Return: whether it is attached; if not, nothing was done.
 */
bool weft_rdma_path_attach(struct weft_rdma_path *rp, bool known)
{
	struct weft_rdma_ns *ns = rp->ns;
	struct weft_rdma_ctrl *ctrl = ns->ctrl;
	bool ready, attached;

	refcount_set(&rp->users, 1);
	init_completion(&rp->unused);
	/* Under the lock that up and down events hold, so that none is missed. */
	mutex_lock(&ctrl->ns_lock);
	ready = weft_rdma_state(ctrl) == WEFT_RDMA_LIVE &&
		ns->state == WEFT_NS_READY && ns->ana != NVME_ANA_PERSISTENT_LOSS &&
		/* It is not being resized. */
		get_capacity(ns->disk) == weft_info_sectors(&ns->info);
	rp->path.usable = ready && weft_rdma_ana_ok(ns);
	rp->path.nonoptimized = ns->ana == NVME_ANA_NONOPTIMIZED;
	rp->path.sectors = get_capacity(ns->disk);
	rp->path.standby = ready && known && !rp->path.usable;
	attached = rp->path.usable || rp->path.standby;
	if (attached) {
		rp->path.mem = ib_uses_virt_dma(ctrl->ib) ? WEFT_PATH_MEM_SOFTWARE :
							    WEFT_PATH_MEM_DEVICE;
		rp->path.mem_bytes = weft_rdma_max_sectors(ctrl) << SECTOR_SHIFT;
		mutex_lock(&ns->path_lock);
		WRITE_ONCE(ns->path, rp);
		mutex_unlock(&ns->path_lock);
	}
	mutex_unlock(&ctrl->ns_lock);
	return attached;
}

static void weft_rdma_path_put(struct weft_rdma_path *rp)
{
	if (refcount_dec_and_test(&rp->users))
		complete(&rp->unused);
}

/**
 * weft_rdma_path_detach() - undo weft_rdma_path_attach()
 * @rp: the path; nothing of it is in flight. Its controller's ns_lock is held
 *
 * Context: process context, may sleep. Call weft_rdma_path_wait() next, without the lock.
 */
void weft_rdma_path_detach(struct weft_rdma_path *rp)
{
	struct weft_rdma_ns *ns = rp->ns;

	lockdep_assert_held(&ns->ctrl->ns_lock);
	mutex_lock(&ns->path_lock);
	WRITE_ONCE(ns->path, NULL);
	mutex_unlock(&ns->path_lock);
}

/**
 * weft_rdma_path_wait() - wait for those who found a path before it was detached
 * @rp: the path
 *
 * Context: process context, may sleep. After this the volume is told nothing more.
 */
void weft_rdma_path_wait(struct weft_rdma_path *rp)
{
	synchronize_rcu();
	weft_rdma_path_put(rp);
	wait_for_completion(&rp->unused);
}

/**
 * weft_rdma_failover() - give a request's bios back to its volume
 * @rq: a request of our disk that cannot be carried
 * @sent: it may have reached the target, now or before
 *
 * Context: any; where requests complete or are sent.
 * Return: false if the disk is not a volume's path, with nothing done;
 * otherwise the request has ended.
 */
bool weft_rdma_failover(struct request *rq, bool sent)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	struct bio_list bios = BIO_EMPTY_LIST;
	unsigned long after = jiffies;
	struct weft_rdma_path *rp;

	rcu_read_lock();
	rp = ns ? READ_ONCE(ns->path) : NULL;
	/* The block layer's own flush request has no bio: fail it, and with it its bio. */
	if (!rp || !rq->bio) {
		rcu_read_unlock();
		return false;
	}
	if (sent && op_is_write(req_op(rq)))
		after = ns->ctrl->quiet_at;
	/* Before it ends: weft_rdma_path_drain() waits for that, and looks. */
	atomic_inc(&ns->given_back);
	blk_steal_bios(&bios, rq);
	rp->path.events->requeue(&rp->path, &bios, after);
	rcu_read_unlock();
	weft_rdma_end_empty(rq);
	return true;
}

/**
 * weft_rdma_path_gone() - a namespace does not come back
 * @ns: the namespace
 *
 * Context: process context, may sleep.
 */
void weft_rdma_path_gone(struct weft_rdma_ns *ns)
{
	mutex_lock(&ns->path_lock);
	if (ns->path)
		ns->path->path.events->gone(&ns->path->path);
	mutex_unlock(&ns->path_lock);
}

/**
 * weft_rdma_path_settle() - wait for I/O that chose a path before it was gone
 * @ns: the namespace; weft_rdma_path_gone() was called, and its disk refuses I/O
 *
 * Not under the path_lock: recovery takes it, and the submitters may wait for other
 * disks of that controller.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_path_settle(struct weft_rdma_ns *ns)
{
	struct weft_rdma_path *rp;

	mutex_lock(&ns->path_lock);
	rp = ns->path;
	if (rp)
		refcount_inc(&rp->users);
	mutex_unlock(&ns->path_lock);
	if (!rp)
		return;
	rp->path.events->settle(&rp->path);
	weft_rdma_path_put(rp);
}

/**
 * weft_rdma_path_fit() - lower the largest command of a path
 * @ns: the namespace
 * @bytes: the new limit
 *
 * The volume is told, because it cuts operations on memory by it.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_path_fit(struct weft_rdma_ns *ns, u32 bytes)
{
	struct weft_rdma_path *rp;

	mutex_lock(&ns->path_lock);
	rp = ns->path;
	if (rp && bytes < rp->path.mem_bytes) {
		WRITE_ONCE(rp->path.mem_bytes, bytes);
		rp->path.events->peers(&rp->path);
	}
	mutex_unlock(&ns->path_lock);
}

/**
 * weft_rdma_path_up() - tell a volume that a path carries I/O, and how well
 * @ns: READY and accessible; its controller's ns_lock is held
 *
 * Context: process context, may sleep.
 */
void weft_rdma_path_up(struct weft_rdma_ns *ns)
{
	struct weft_rdma_path *rp;

	lockdep_assert_held(&ns->ctrl->ns_lock);
	mutex_lock(&ns->path_lock);
	rp = ns->path;
	if (rp) {
		rp->path.events->up(&rp->path, ns->ana == NVME_ANA_NONOPTIMIZED);
		/* weft_rdma_paths_peers() skipped it while it was not READY. */
		rp->path.events->peers(&rp->path);
	}
	mutex_unlock(&ns->path_lock);
}

/**
 * weft_rdma_path_down() - tell a volume that a path does not carry I/O now
 * @ns: its controller's ns_lock is held
 * @reason: a sentence
 *
 * Context: process context, may sleep.
 */
void weft_rdma_path_down(struct weft_rdma_ns *ns, const char *reason)
{
	lockdep_assert_held(&ns->ctrl->ns_lock);
	mutex_lock(&ns->path_lock);
	if (ns->path)
		ns->path->path.events->down(&ns->path->path, reason);
	mutex_unlock(&ns->path_lock);
}

/**
 * weft_rdma_paths_down() - tell volumes that paths do not carry I/O now
 * @ctrl: its ns_lock is held; its association has ended
 *
 * Context: process context, may sleep.
 */
void weft_rdma_paths_down(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	lockdep_assert_held(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state != WEFT_NS_DEAD)
			weft_rdma_path_down(ns, ctrl->reason);
}

/**
 * weft_rdma_path_resized() - tell a volume that a disk has another size
 * @ns: its controller's ns_lock is not held
 *
 * Context: process context, may sleep.
 */
void weft_rdma_path_resized(struct weft_rdma_ns *ns)
{
	mutex_lock(&ns->path_lock);
	if (ns->path)
		ns->path->path.events->resized(&ns->path->path);
	mutex_unlock(&ns->path_lock);
}

/**
 * weft_rdma_path_blocks() - the size that a volume relies on
 * @ns: its controller's ns_lock is held
 *
 * Return: in blocks; 0 for the disk of no volume.
 */
u64 weft_rdma_path_blocks(struct weft_rdma_ns *ns)
{
	u64 blocks = 0;

	lockdep_assert_held(&ns->ctrl->ns_lock);
	mutex_lock(&ns->path_lock);
	if (ns->path)
		blocks = READ_ONCE(ns->path->path.sectors) >>
			 (ns->info.lba_shift - SECTOR_SHIFT);
	mutex_unlock(&ns->path_lock);
	return blocks;
}

/**
 * weft_rdma_paths_peers() - tell volumes that their paths can do I/O on peer memory
 * @ctrl: the controller
 *
 * Context: process context, may sleep; its ns_lock is not held.
 */
void weft_rdma_paths_peers(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list) {
		mutex_lock(&ns->path_lock);
		if (ns->path && ns->state == WEFT_NS_READY)
			ns->path->path.events->peers(&ns->path->path);
		mutex_unlock(&ns->path_lock);
	}
	mutex_unlock(&ctrl->ns_lock);
}
