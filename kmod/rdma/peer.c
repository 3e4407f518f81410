// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O on registered memory, a peer's or pinned pages: on queue pairs of its own,
 * with a registration for each command, or one for all.
 *
 * DOC: queues
 *
 * A memory is mapped in each domain of its volume: see mapping.c. A controller
 * whose paths have peer memory connects, beside each I/O queue that is not
 * polled, a queue for peer memory in its domain; a command on peer memory is a
 * request of the same tag set, so that timeouts, cancelling and draining are one
 * machinery.
 *
 * DOC: locks
 *
 * weft_peers_lock: peers and the lists of mappings; reservation locks are taken
 * under it. A mapping's state is under its reservation lock. Who holds that may
 * have to wait for a recovery, which takes ctrl->mem_lock (a controller's queues
 * for peer memory, and its domain): so neither of the two is taken under that.
 * weft_domains_lock: the domains, innermost.
 */
#include "mapping.h"

#include <linux/delay.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>

/* Queues that could not be connected are tried again after this. */
#define WEFT_PEER_RETRY		(10 * HZ)
/* What others are just at is tried again so often, after so many milliseconds. */
#define WEFT_PEER_REGISTERS	10
#define WEFT_PEER_REGISTER_MS	20

/**
 * struct weft_peer - peer memory that a volume's paths do I/O on
 * @list: in weft_peers
 * @volume: UUID
 * @req: what it is
 * @mappings: one a domain; read under RCU
 */
struct weft_peer {
	struct list_head		list;
	u8				volume[16];
	struct weft_peer_request	req;
	struct list_head		mappings;
};

/* Protects weft_peers, and the lists of mappings. */
static DEFINE_MUTEX(weft_peers_lock);
static LIST_HEAD(weft_peers);

/**
 * weft_rdma_peer_pd() - what the keys of a controller's queues for peer memory are good for
 * @ctrl: its mem_lock is held, and such queues are being made
 *
 * Return: the protection domain.
 */
struct ib_pd *weft_rdma_peer_pd(struct weft_rdma_ctrl *ctrl)
{
	lockdep_assert_held(&ctrl->mem_lock);
	return ctrl->domain->pd;
}

/**
 * weft_rdma_peer_put_domain() - a controller's queues for peer memory are gone
 * @ctrl: its mem_lock is held
 */
void weft_rdma_peer_put_domain(struct weft_rdma_ctrl *ctrl)
{
	struct weft_domain *domain = ctrl->domain;

	lockdep_assert_held(&ctrl->mem_lock);
	if (!domain)
		return;
	WRITE_ONCE(ctrl->domain, NULL);
	weft_domain_put(domain);
}

static struct weft_mapping *weft_mapping_find(struct weft_peer *peer, struct weft_domain *domain)
{
	struct weft_mapping *mapping;

	lockdep_assert_held(&weft_peers_lock);
	list_for_each_entry(mapping, &peer->mappings, list)
		if (mapping->domain == domain)
			return mapping;
	return NULL;
}

/* A peer memory in a domain, where it is not yet. */
static int weft_peer_map(struct weft_peer *peer, struct weft_domain *domain, struct weft_why *why)
{
	struct weft_mapping *mapping;

	lockdep_assert_held(&weft_peers_lock);
	mapping = weft_mapping_make(&peer->req, domain, why);
	if (IS_ERR(mapping))
		return PTR_ERR(mapping);
	list_add_tail_rcu(&mapping->list, &peer->mappings);
	return 0;
}

static void weft_peer_unmap(struct weft_mapping *mapping)
{
	lockdep_assert_held(&weft_peers_lock);
	list_del_rcu(&mapping->list);
	weft_mapping_end(mapping);
}

/*
 * All peer memories of a domain's volume, in it. What hinders one is no reason
 * for the others to wait: the error is that of @wanted.
 */
static int weft_peers_map(struct weft_domain *domain, struct weft_peer *wanted,
			  struct weft_why *why)
{
	bool keys_lost = test_and_clear_bit(0, &domain->keys_lost);
	struct weft_peer *peer;
	int ret = 0, err;

	mutex_lock(&weft_peers_lock);
	/* Or weft_rdma_peer_device_gone() has been here. */
	if (!weft_rdma_ib_usable(domain->ib)) {
		mutex_unlock(&weft_peers_lock);
		return weft_refuse(why, -ENODEV, "the RDMA device %s is being removed",
				   dev_name(&domain->ib->dev));
	}
	list_for_each_entry(peer, &weft_peers, list) {
		struct weft_mapping *mapping;
		struct weft_why other = {};

		if (memcmp(peer->volume, domain->volume, sizeof(peer->volume)))
			continue;
		mapping = weft_mapping_find(peer, domain);
		if (mapping && keys_lost && peer->req.persistent)
			weft_mapping_register_anew(mapping);
		err = mapping ? 0 : weft_peer_map(peer, domain, peer == wanted ? why : &other);
		if (peer == wanted)
			ret = err;
		else if (err)
			pr_warn_ratelimited("registered memory on %s: %s\n",
					    dev_name(&domain->ib->dev), other.text);
	}
	mutex_unlock(&weft_peers_lock);
	return ret;
}

/*
 * What waited for a queue to be registered by. @wanted is to be used at once, so
 * that is done here; the others, whose exporters may be at anything, and what has
 * to be fenced first, by their own works, now instead of a while later. -EAGAIN:
 * others are just at what has the queues.
 */
static int weft_peers_register(struct weft_domain *domain, struct weft_peer *wanted,
			       struct weft_why *why)
{
	struct weft_mapping *mapping;
	struct weft_peer *peer;
	int ret = 0;

	mutex_lock(&weft_peers_lock);
	list_for_each_entry(peer, &weft_peers, list) {
		mapping = peer->req.persistent ? weft_mapping_find(peer, domain) : NULL;
		if (!mapping)
			continue;
		if (peer == wanted && !test_bit(0, &mapping->key_lost))
			ret = weft_mapping_try(mapping, why);
		else if (percpu_ref_is_dying(&mapping->ref))
			weft_mapping_kick(mapping);
	}
	mutex_unlock(&weft_peers_lock);
	return ret;
}

/* The same, some times where that is so; in the end @wanted's work does it. */
static int weft_peers_register_soon(struct weft_domain *domain, struct weft_peer *wanted,
				    struct weft_why *why)
{
	int tries, ret;

	for (tries = 0; tries < WEFT_PEER_REGISTERS; tries++) {
		if (tries)
			msleep(WEFT_PEER_REGISTER_MS);
		ret = weft_peers_register(domain, wanted, why);
		if (ret != -EAGAIN)
			return ret;
	}
	return 0;
}

static void weft_peer_queues_free(struct weft_rdma_ctrl *ctrl)
{
	u32 i;

	lockdep_assert_held(&ctrl->mem_lock);
	WRITE_ONCE(ctrl->mem_up, false);
	for (i = 0; i < ctrl->mem_count; i++)
		clear_bit(WEFT_QUEUE_LIVE, &ctrl->queues[ctrl->mem_first + i].flags);
	/* Those who saw it and are posting. */
	synchronize_rcu();
	for (i = 0; i < ctrl->mem_count; i++) {
		struct weft_rdma_queue *queue = &ctrl->queues[ctrl->mem_first + i];

		if (!queue->cm_id)
			continue;
		weft_rdma_queue_stop(queue);
		weft_rdma_forget_keys(queue);
	}
	weft_rdma_cancel_peers(&ctrl->set);
	for (i = 0; i < ctrl->mem_count; i++)
		weft_rdma_queue_free(&ctrl->queues[ctrl->mem_first + i]);
}

/* The controller's domain, with a reference for the caller; or an ERR_PTR. */
static struct weft_domain *weft_peer_domain(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	struct weft_domain *domain;
	int ret;

	lockdep_assert_held(&ctrl->mem_lock);
	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE || !ctrl->pd || !ctrl->mem_users) {
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", dev_name(&ctrl->dev));
		return ERR_PTR(ret);
	}
	if (!ctrl->mem_count) {
		ret = weft_refuse(why, -ENOSPC,
				  "no direct route: the target of %s grants no queues beyond those of block I/O",
				  dev_name(&ctrl->dev));
		return ERR_PTR(ret);
	}
	if (!ctrl->domain) {
		domain = weft_domain_get(ctrl->mem_volume, ctrl->ib);
		if (IS_ERR(domain)) {
			weft_refuse(why, PTR_ERR(domain),
				    "the RDMA device %s gives no protection domain",
				    dev_name(&ctrl->ib->dev));
			return domain;
		}
		WRITE_ONCE(ctrl->domain, domain);
	}
	kref_get(&ctrl->domain->ref);
	return ctrl->domain;
}

/* A controller comes to where it can do I/O on the peer memories of its volume. */
static int weft_peer_up(struct weft_rdma_ctrl *ctrl, struct weft_peer *wanted,
			struct weft_why *why)
{
	struct weft_domain *domain;
	unsigned int noio;
	u32 made = 0;
	int ret;

	/* To free memory may take I/O on this very controller, and its recovery mem_lock. */
	noio = memalloc_noio_save();
	mutex_lock(&ctrl->mem_lock);
	domain = weft_peer_domain(ctrl, why);
	mutex_unlock(&ctrl->mem_lock);
	if (IS_ERR(domain)) {
		ret = PTR_ERR(domain);
		goto out_noio;
	}
	/* Not under mem_lock: see above. */
	ret = weft_peers_map(domain, wanted, why);
	mutex_lock(&ctrl->mem_lock);
	if (!ret && (ctrl->domain != domain || weft_rdma_state(ctrl) != WEFT_RDMA_LIVE ||
		     !ctrl->mem_users))
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", dev_name(&ctrl->dev));
	if (!ret && !ctrl->mem_up) {
		ret = weft_rdma_start_queues(ctrl, ctrl->mem_first, ctrl->mem_count, &made, why);
		if (ret)
			weft_peer_queues_free(ctrl);
		else
			WRITE_ONCE(ctrl->mem_up, true);
	}
	mutex_unlock(&ctrl->mem_lock);
	/* Nor this, which needs the lock of a controller of the domain, and does not wait for it. */
	if (!ret)
		ret = weft_peers_register_soon(domain, wanted, why);
	weft_domain_put(domain);
out_noio:
	memalloc_noio_restore(noio);
	return ret;
}

/* Who removes the controller sets its own state, and finds the work queued or never. */
static void weft_peer_queue_work(struct weft_rdma_ctrl *ctrl, unsigned long delay)
{
	unsigned long flags;

	spin_lock_irqsave(&ctrl->lock, flags);
	if (ctrl->state < WEFT_RDMA_DELETING)
		queue_delayed_work(weft_peer_wq, &ctrl->mem_work, delay);
	spin_unlock_irqrestore(&ctrl->lock, flags);
}

/**
 * weft_rdma_peer_work() - peer memory after an association came up, or when it could not be had before
 * @work: of a controller
 */
void weft_rdma_peer_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work), struct weft_rdma_ctrl,
						   mem_work);
	struct weft_why why = {};
	int ret = 0;

	if (!READ_ONCE(ctrl->mem_users))
		return;
	if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE)
		ret = weft_peer_up(ctrl, NULL, &why);
	if (!ret)
		weft_rdma_paths_peers(ctrl);
	if (!ret || weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return;
	weft_ctrl_warn(ctrl, "queues for peer memory: %s\n", why.text);
	weft_peer_queue_work(ctrl, WEFT_PEER_RETRY);
}

/**
 * weft_rdma_peer_kick() - an association came up
 * @ctrl: whose
 *
 * Not on the controller's own workqueue: this waits for exporters, and they for
 * recovery, which is there.
 */
void weft_rdma_peer_kick(struct weft_rdma_ctrl *ctrl)
{
	weft_peer_queue_work(ctrl, 0);
}

/**
 * weft_rdma_peer_add() - peer memory is there
 * @req: which
 *
 * Context: process context.
 * Return: it, or an ERR_PTR; undo by weft_rdma_peer_remove().
 */
struct weft_peer *weft_rdma_peer_add(const struct weft_peer_request *req)
{
	struct weft_peer *peer = kzalloc_obj(*peer);

	if (!peer)
		return ERR_PTR(-ENOMEM);
	memcpy(peer->volume, req->volume, sizeof(peer->volume));
	peer->req = *req;
	INIT_LIST_HEAD(&peer->mappings);
	mutex_lock(&weft_peers_lock);
	list_add_tail(&peer->list, &weft_peers);
	mutex_unlock(&weft_peers_lock);
	return peer;
}

/**
 * weft_rdma_peer_prepare() - a path is to do I/O on peer memory
 * @peer: the memory
 * @path: of its volume
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the target.
 * Return: 0 or a negative errno.
 */
int weft_rdma_peer_prepare(struct weft_peer *peer, struct weft_path *path, struct weft_why *why)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;
	int ret = 0;

	mutex_lock(&ctrl->mem_lock);
	if (ctrl->mem_users && memcmp(ctrl->mem_volume, peer->volume, sizeof(peer->volume)))
		ret = weft_refuse(why, -EBUSY,
				  "no direct route: another volume, on the same controller (%s), has peer memory",
				  dev_name(&ctrl->dev));
	if (!ret && !rp->has_peers) {
		rp->has_peers = true;
		memcpy(ctrl->mem_volume, peer->volume, sizeof(ctrl->mem_volume));
		WRITE_ONCE(ctrl->mem_users, ctrl->mem_users + 1);
	}
	mutex_unlock(&ctrl->mem_lock);
	if (ret)
		return ret;
	ret = weft_peer_up(ctrl, peer, why);
	/* Others may do without this path; it comes when it can. */
	if (ret)
		weft_peer_queue_work(ctrl, WEFT_PEER_RETRY);
	return ret;
}

/**
 * weft_rdma_peer_distance() - from peer memory to the RDMA device a path leaves by
 * @peer: the memory
 * @path: prepared
 *
 * Context: any.
 * Return: the smaller the nearer; INT_MAX where it is not connected now.
 */
int weft_rdma_peer_distance(struct weft_peer *peer, struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_domain *domain = READ_ONCE(rp->ns->ctrl->domain);
	struct weft_mapping *mapping;
	int distance = INT_MAX;

	rcu_read_lock();
	list_for_each_entry_rcu(mapping, &peer->mappings, list)
		if (mapping->domain == domain)
			distance = READ_ONCE(mapping->distance);
	rcu_read_unlock();
	return distance;
}

/**
 * weft_rdma_peer_leave() - a path has no peer memory any more
 * @path: of which no command on such is in flight
 *
 * Context: process context.
 */
void weft_rdma_peer_leave(struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;

	mutex_lock(&ctrl->mem_lock);
	if (rp->has_peers) {
		rp->has_peers = false;
		WRITE_ONCE(ctrl->mem_users, ctrl->mem_users - 1);
		if (!ctrl->mem_users) {
			weft_peer_queues_free(ctrl);
			weft_rdma_peer_put_domain(ctrl);
		}
	}
	mutex_unlock(&ctrl->mem_lock);
}

/**
 * weft_rdma_peer_remove() - undo weft_rdma_peer_add()
 * @peer: no command on it is in flight
 *
 * Context: process context.
 */
void weft_rdma_peer_remove(struct weft_peer *peer)
{
	struct weft_mapping *mapping, *next;

	mutex_lock(&weft_peers_lock);
	list_del(&peer->list);
	list_for_each_entry_safe(mapping, next, &peer->mappings, list)
		weft_peer_unmap(mapping);
	mutex_unlock(&weft_peers_lock);
	kfree(peer);
}

/**
 * weft_rdma_peer_device_gone() - an RDMA device is being removed
 * @ib: the device; no association uses it any more
 *
 * Context: process context.
 */
void weft_rdma_peer_device_gone(struct ib_device *ib)
{
	struct weft_mapping *mapping, *next;
	struct weft_peer *peer;

	mutex_lock(&weft_peers_lock);
	list_for_each_entry(peer, &weft_peers, list)
		list_for_each_entry_safe(mapping, next, &peer->mappings, list)
			if (mapping->domain->ib == ib)
				weft_peer_unmap(mapping);
	mutex_unlock(&weft_peers_lock);
	/* Who was about to map another has seen that it may not. */
	weft_domains_wait_gone(ib);
}

/**
 * weft_rdma_peer_lost() - did the exporter take the memory away for good?
 * @peer: the memory
 *
 * Context: any.
 * Return: whether it did so on each device that had it.
 */
bool weft_rdma_peer_lost(struct weft_peer *peer)
{
	struct weft_mapping *mapping;
	bool any = false, lost = true;

	rcu_read_lock();
	list_for_each_entry_rcu(mapping, &peer->mappings, list) {
		any = true;
		lost &= READ_ONCE(mapping->lost);
	}
	rcu_read_unlock();
	return any && lost;
}

/* The memory as this controller reaches it, with a reference; or NULL. */
static struct weft_mapping *weft_mapping_get(struct weft_peer *peer, struct weft_rdma_ctrl *ctrl)
{
	struct weft_domain *domain = READ_ONCE(ctrl->domain);
	struct weft_mapping *mapping;

	rcu_read_lock();
	list_for_each_entry_rcu(mapping, &peer->mappings, list) {
		if (mapping->domain == domain && percpu_ref_tryget_live_rcu(&mapping->ref)) {
			rcu_read_unlock();
			return mapping;
		}
	}
	rcu_read_unlock();
	return NULL;
}

static WEFT_END_IO(weft_peer_end_io, rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_mem_op *op = rq->end_io_data;
	unsigned long after = jiffies;

	/* It may have been sent, now or before. */
	if (unlikely(error == BLK_STS_TRANSPORT) && op->write && (pdu->status || pdu->retries))
		after = READ_ONCE(pdu->queue->ctrl->quiet_at);
	percpu_ref_put(&pdu->mapping->ref);
	op->done(op, error, after);
	return RQ_END_IO_FREE;
}

/**
 * weft_rdma_peer_submit() - a command on peer memory
 * @path: by which
 * @op: what; checked against the path's limits and the memory's length
 *
 * Context: process context; waits for a tag.
 * Return: 0, and @op->done is called; -ENOTCONN where it cannot be now; -EFAULT
 * where the memory is lost.
 */
int weft_rdma_peer_submit(struct weft_path *path, struct weft_mem_op *op)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;
	struct weft_mapping *mapping;
	struct weft_rdma_pdu *pdu;
	struct request *rq;

	if (op->length > path->mem_bytes)
		return -ENOTCONN;
	/* It may be long until there is a tag: only what is found after that counts. */
	rq = blk_mq_alloc_request(rp->ns->disk->queue,
				  op->write ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN, 0);
	if (IS_ERR(rq))
		return -ENOTCONN;
	if (unlikely(!READ_ONCE(ctrl->mem_up))) {
		blk_mq_free_request(rq);
		return -ENOTCONN;
	}
	mapping = weft_mapping_get(op->peer, ctrl);
	if (unlikely(!mapping)) {
		blk_mq_free_request(rq);
		return weft_rdma_peer_lost(op->peer) ? -EFAULT : -ENOTCONN;
	}
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->mem = true;
	pdu->mapping = mapping;
	pdu->retries = 0;
	pdu->status = 0;
	rq->end_io = weft_peer_end_io;
	rq->end_io_data = op;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

int weft_rdma_peer_init(void)
{
	weft_peer_wq = alloc_workqueue("weft-peer", WQ_UNBOUND, 0);
	return weft_peer_wq ? 0 : -ENOMEM;
}

void weft_rdma_peer_exit(void)
{
	destroy_workqueue(weft_peer_wq);
}
