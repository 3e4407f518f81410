// SPDX-License-Identifier: GPL-2.0-only
/* The transport: what volumes ask of weft_rdma. path.c has what paths tell volumes. */
#include "namespace.h"

/* The identity of a path's disk. It is set before the disk is added, and stays. */
static const struct weft_ns_id *weft_rdma_path_id(const struct weft_path *path)
{
	return &container_of(path, struct weft_rdma_path, path)->ns->info.id;
}

static struct weft_path *weft_rdma_path_connect(const struct weft_path_request *req,
						struct weft_why *why)
{
	struct weft_rdma_path *rp;
	struct weft_rdma_ns *ns;
	bool known;
	int ret;

	rp = kzalloc_obj(*rp);
	if (!rp)
		return ERR_PTR(-ENOMEM);
	init_llist_head(&rp->waiting);
	INIT_WORK(&rp->waiting_work, weft_rdma_peer_waiting_work);
	rp->path.events = req->events;
	rp->path.owner_data = req->owner_data;
	rp->path.lease = req->lease;
	ret = weft_path_open(&rp->wb, req, why);
	if (ret)
		goto out_free;
	ns = weft_rdma_ns_of(rp->wb.bdev->bd_disk);
	if (!ns || bdev_is_partition(rp->wb.bdev)) {
		ret = weft_refuse(why, -EINVAL,
				  "member %s is not a disk of weft_rdma",
				  req->address);
		goto out_close;
	}
	rp->ns = ns;
	rp->path.bdev = rp->wb.bdev;
	rp->path.node = ns->ctrl->node;
	/* A clone of the disk has its superblock, too. */
	if (req->like && weft_info_other_disk(&ns->info.id, weft_rdma_path_id(req->like))) {
		ret = weft_refuse(why, -EINVAL,
				  "%s is another disk than that of the member's other paths: its UUID, NGUID or EUI-64 is not theirs. Targets that share a disk must give it the same identifiers",
				  req->address);
		goto out_close;
	}
	known = req->like && weft_info_same_disk(&ns->info.id, weft_rdma_path_id(req->like));
	if (weft_rdma_path_attach(rp, known))
		return &rp->path;
	if (weft_rdma_ana_ok(ns))
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", req->address);
	else
		ret = weft_refuse(why, -ENOTCONN,
				  "%s is not accessible now: its ANA state is %s%s", req->address,
				  weft_rdma_ana_text(READ_ONCE(ns->ana)), known || !req->like ?
				  "" : ", and its identifiers are not those of the member's other paths");

out_close:
	weft_path_close(&rp->wb);
out_free:
	kfree(rp);
	return ERR_PTR(ret);
}

/* A bio of 4 GiB has more parts. But each round may wait for a tag. */
#define WEFT_DRAIN_ROUNDS	64

/*
 * Wait until a path's disk has no bio of its volume left. A disk splits a bio that is
 * longer than its limits. Its parts enter the queue one after the other: the task that
 * sends them may wait there for a tag, and in front of the queue while somebody has it
 * frozen. So the disk gives all of them back to the volume, until it has seen none for a
 * round. Requests of other programs are given back, too, and are carried by another path;
 * their number ends this as well.
 */
static void weft_rdma_path_drain(struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ns *ns = rp->ns;
	struct request_queue *q = ns->disk->queue;
	unsigned int rounds = WEFT_DRAIN_ROUNDS;
	int before;

	/* In standby it has none, and others may read it. */
	if (!READ_ONCE(path->standby))
		weft_rdma_ns_leave(ns);
	/* Send the operations that wait for a tag. The volume sends no new ones to this path. */
	flush_work(&rp->waiting_work);
	do {
		before = atomic_read(&ns->given_back);
		/* Those in it ... */
		weft_queue_settle(q);
		/* ... and in front of it: they enter, with a part that is given back. */
		weft_disk_wait_entered(ns->disk);
		weft_queue_settle(q);
	} while (atomic_read(&ns->given_back) != before && --rounds);
	if (!rounds)
		weft_ctrl_warn(ns->ctrl, "%s leaves its volume while others use it\n",
			       ns->disk->disk_name);
}

static void weft_rdma_path_disconnect(struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct request_queue *q = rp->wb.bdev->bd_disk->queue;

	/* No new operations arrive: send or give back those that wait. */
	flush_work(&rp->waiting_work);
	/* What is in flight still goes to the volume's other paths if it fails here. */
	weft_queue_settle(q);
	mutex_lock(&rp->ns->ctrl->ns_lock);
	weft_rdma_path_detach(rp);
	weft_rdma_ns_left(rp->ns);
	mutex_unlock(&rp->ns->ctrl->ns_lock);
	weft_rdma_path_wait(rp);
	weft_rdma_peer_leave(path);
	weft_path_close(&rp->wb);
	kfree(rp);
}

/* The work looks for them: only a controller that is not removed meanwhile has its tags. */
static void weft_rdma_path_end_writes(struct weft_path *path)
{
	struct weft_rdma_ctrl *ctrl = container_of(path, struct weft_rdma_path, path)->ns->ctrl;

	weft_rdma_queue(ctrl, ctrl->recovery_wq, &ctrl->end_writes_work);
}

static u32 weft_rdma_path_outlast_ms(struct weft_path *path)
{
	return READ_ONCE(container_of(path, struct weft_rdma_path, path)->ns->ctrl->quiet_ms);
}

struct weft_transport_ops weft_rdma_transport = {
	.name			= "rdma",
	.owner			= THIS_MODULE,
	.owns_requests		= true,
	.connect		= weft_rdma_path_connect,
	.disconnect		= weft_rdma_path_disconnect,
	.drain			= weft_rdma_path_drain,
	.end_writes		= weft_rdma_path_end_writes,
	.outlast_ms		= weft_rdma_path_outlast_ms,
	.controller_create	= weft_rdma_ctrl_create,
	.controller_secrets	= weft_rdma_ctrl_secrets,
	.controller_delete	= weft_rdma_ctrl_delete,
	.peer_add		= weft_rdma_peer_add,
	.peer_prepare		= weft_rdma_peer_prepare,
	.peer_distance		= weft_rdma_peer_distance,
	.peer_leave		= weft_rdma_peer_leave,
	.peer_remove		= weft_rdma_peer_remove,
	.peer_lost		= weft_rdma_peer_lost,
	.peer_submit		= weft_rdma_peer_submit,
};
