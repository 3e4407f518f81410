// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O on registered memory (dma-bufs of peers, and pinned pages), with one
 * registration for each command, or one for all commands.
 *
 * DOC: queues
 *
 * A memory is mapped in each domain of its volume: see mapping.c. A command on
 * it is a request of the path's own tag set, so that timeouts, cancelling and
 * draining work as for all requests. The key of a single command is made on its
 * I/O queue, in the protection domain of its controller, so other targets of
 * the volume cannot use it. Persistent memory trusts all targets of the volume,
 * and needs queues in the volume's domain: for such memory a controller
 * connects one beside each I/O queue that is not polled.
 *
 * DOC: locks
 *
 * weft_peers_lock protects the peers and the lists of mappings. Reservation
 * locks are taken inside it; they protect a mapping's state. The holder of a
 * reservation lock may have to wait for a recovery, which takes ctrl->mem_lock
 * (a controller's queues for peer memory, and its domain). So neither of the
 * first two locks may be taken inside ctrl->mem_lock. weft_domains_lock
 * protects the domains and is the innermost lock.
 */
#include "mapping.h"
#include "namespace.h"

#include <linux/delay.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>

/* Queues that could not be connected are tried again after this. */
#define WEFT_PEER_RETRY		(10 * HZ)
/* After so many refusals of an exporter, the time between two tries does not double any more. */
#define WEFT_PEER_REFUSED	6
/* So often, one after the other, the time to the next try to connect queues doubles. */
#define WEFT_PEER_FAILED	3U
/* Registration that another thread blocks: number of tries, and delay in ms. */
#define WEFT_PEER_REGISTERS	10
#define WEFT_PEER_REGISTER_MS	20

/**
 * struct weft_peer - peer memory that a volume's paths do I/O on
 * @list: in weft_peers
 * @volume: UUID
 * @req: the request
 * @mappings: one for each domain; read under RCU
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

static struct weft_mapping *weft_mapping_find(struct weft_peer *peer, struct weft_domain *domain)
{
	struct weft_mapping *mapping;

	lockdep_assert_held(&weft_peers_lock);
	list_for_each_entry(mapping, &peer->mappings, list)
		if (mapping->domain == domain)
			return mapping;
	return NULL;
}

/* Make the mapping of a peer memory in a domain, if there is none. */
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
 * Map @wanted in a domain, or without it all peer memories of the domain's volume.
 * An error of one does not stop the others. Returns the error of @wanted. @again is
 * set if another one failed that may succeed later.
 */
static int weft_peers_map(struct weft_domain *domain, struct weft_peer *wanted,
			  bool *again, struct weft_why *why)
{
	bool keys_lost = test_and_clear_bit(0, &domain->keys_lost);
	struct weft_peer *peer;
	int ret = 0, err;

	mutex_lock(&weft_peers_lock);
	/* Or weft_peer_ib_remove() has been here. */
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
		/* What fails for others is tried again by weft_rdma_peer_work(). */
		if (mapping || (wanted && peer != wanted))
			err = 0;
		else
			err = weft_peer_map(peer, domain, peer == wanted ? why : &other);
		if (peer == wanted)
			ret = err;
		else if (err)
			pr_warn_ratelimited("registered memory on %s: %s\n",
					    dev_name(&domain->ib->dev), other.text);
		/* No direct route, or no device: that does not change. */
		if (peer != wanted && err && err != -EOPNOTSUPP && err != -ENODEV)
			*again = true;
	}
	mutex_unlock(&weft_peers_lock);
	return ret;
}

/*
 * Register the persistent memories that waited for a queue. @wanted is
 * registered here, because it is used next. The works of the others do it,
 * started now: their exporters may be slow, or their commands have to be fenced
 * first. Returns -EAGAIN if another thread holds the lock of the queues'
 * controller.
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

/* The same, with repeats after -EAGAIN; finally @wanted's work does it. */
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
	/* Wait for threads that saw it live and are posting. */
	synchronize_rcu();
	for (i = 0; i < ctrl->mem_count; i++) {
		struct weft_rdma_queue *queue = &ctrl->queues[ctrl->mem_first + i];

		if (queue->cm_id)
			weft_rdma_queue_stop(queue);
	}
	/* A controller that was given up has no tags any more, and its volume may be there still. */
	if (ctrl->set_ready) {
		/*
		 * The timeout handler of a Connect or of a command on memory may still
		 * use the slot. The timers stay: a setup may be sending its Connects.
		 */
		flush_work(&ctrl->connect_q->timeout_work);
		weft_rdma_ns_flush_timeouts(ctrl);
		weft_rdma_cancel_peers(&ctrl->set);
	}
	for (i = 0; i < ctrl->mem_count; i++)
		weft_rdma_queue_free(&ctrl->queues[ctrl->mem_first + i]);
}

/* The controller's domain, with a reference for the caller; or an ERR_PTR. */
static struct weft_domain *weft_peer_domain(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	struct weft_domain *domain;
	int ret;

	lockdep_assert_held(&ctrl->mem_lock);
	/* Make nothing on a device that is being removed: its removal waits for all domains. */
	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE || !ctrl->pd || !ctrl->mem_users ||
	    !weft_rdma_ib_usable(ctrl->ib)) {
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", dev_name(&ctrl->dev));
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

/* Does the domain's volume have persistent memory that this domain can reach? */
static bool weft_peers_persistent(struct weft_domain *domain)
{
	struct weft_peer *peer;
	bool any = false;

	mutex_lock(&weft_peers_lock);
	list_for_each_entry(peer, &weft_peers, list)
		any |= peer->req.persistent && weft_mapping_find(peer, domain);
	mutex_unlock(&weft_peers_lock);
	return any;
}

static int weft_peer_queues_start(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 io = ctrl->poll_from - 1, made = 0;
	int ret;

	lockdep_assert_held(&ctrl->mem_lock);
	if (!ctrl->mem_count)
		return weft_refuse(why, -ENOSPC,
				   "no direct route: the target of %s grants no queues for memory that is registered for good",
				   dev_name(&ctrl->dev));
	ret = weft_rdma_start_queues(ctrl, ctrl->mem_first, ctrl->mem_count, &made, why);
	/* Those for feed I/O were connected, so background I/O can share them. */
	if (ret && made >= io && ctrl->mem_count > io &&
	    weft_rdma_state(ctrl) == WEFT_RDMA_LIVE) {
		weft_peer_queues_free(ctrl);
		ctrl->mem_count = io;
		ret = weft_rdma_start_queues(ctrl, ctrl->mem_first, io, &made, why);
	}
	if (!ret) {
		WRITE_ONCE(ctrl->mem_up, true);
		return 0;
	}
	weft_peer_queues_free(ctrl);
	/* A target that does not answer will be seen as lost soon, and may come back. */
	return ret == -ETIMEDOUT || ret == -ECONNRESET ||
	       weft_rdma_state(ctrl) != WEFT_RDMA_LIVE ? -ENOTCONN : ret;
}

/* Who removes the controller sets its own state, and finds the work queued or never. */
static void weft_peer_queue_work(struct weft_rdma_ctrl *ctrl, unsigned long delay)
{
	unsigned long flags;

	spin_lock_irqsave(&ctrl->lock, flags);
	/* Work that is due now does not wait for a retry that is due later. */
	if (ctrl->state < WEFT_RDMA_DELETING && !delay)
		mod_delayed_work(weft_peer_wq, &ctrl->mem_work, 0);
	else if (ctrl->state < WEFT_RDMA_DELETING)
		queue_delayed_work(weft_peer_wq, &ctrl->mem_work, delay);
	spin_unlock_irqrestore(&ctrl->lock, flags);
}

/*
 * Try again later, and less and less often. A target that grants no queues grants none
 * before the next connect.
 */
static void weft_peer_later(struct weft_rdma_ctrl *ctrl, int error)
{
	if (error != -ENOSPC || READ_ONCE(ctrl->mem_count))
		weft_peer_queue_work(ctrl, WEFT_PEER_RETRY << READ_ONCE(ctrl->mem_failed));
}

/* Set a controller up for I/O on the peer memories of its volume. */
static int weft_peer_up(struct weft_rdma_ctrl *ctrl, struct weft_peer *wanted,
			struct weft_why *why)
{
	bool persistent, ready, again = false;
	struct weft_domain *domain;
	unsigned int noio;
	int ret;

	/* Reclaim may need I/O on this controller, and its recovery needs mem_lock. */
	noio = memalloc_noio_save();
	mutex_lock(&ctrl->mem_lock);
	domain = weft_peer_domain(ctrl, why);
	mutex_unlock(&ctrl->mem_lock);
	if (IS_ERR(domain)) {
		ret = PTR_ERR(domain);
		goto out_noio;
	}
	/* Not under mem_lock: see above. */
	ret = weft_peers_map(domain, wanted, &again, why);
	persistent = weft_peers_persistent(domain);
	mutex_lock(&ctrl->mem_lock);
	if (!ret && (ctrl->domain != domain || weft_rdma_state(ctrl) != WEFT_RDMA_LIVE ||
		     !ctrl->mem_users))
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", dev_name(&ctrl->dev));
	ready = !ret;
	if (ready)
		WRITE_ONCE(ctrl->mem_ready, true);
	if (ready && persistent && !ctrl->mem_up)
		ret = weft_peer_queues_start(ctrl, why);
	mutex_unlock(&ctrl->mem_lock);
	/* Also without mem_lock: it tries the mem_lock of the domain's controllers. */
	if (!ret)
		ret = weft_peers_register_soon(domain, wanted, why);
	weft_domain_put(domain);
	/* An exporter that refuses each time is asked less and less often. */
	if (again)
		weft_peer_queue_work(ctrl, WEFT_PEER_RETRY << ctrl->mem_refused);
	if (!wanted)
		ctrl->mem_refused = again ? min(ctrl->mem_refused + 1, WEFT_PEER_REFUSED) : 0;
	/* An error about other memory does not matter here; its work tries again. */
	if (ret && ready && wanted && !wanted->req.persistent) {
		weft_peer_later(ctrl, ret);
		ret = 0;
	}
out_noio:
	memalloc_noio_restore(noio);
	return ret;
}

/**
 * weft_rdma_peer_work() - set peer memory up after a reconnect, or again after an error
 * @work: the controller's mem_work
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
	if (!ret || READ_ONCE(ctrl->mem_ready))
		weft_rdma_paths_peers(ctrl);
	if (!ret)
		WRITE_ONCE(ctrl->mem_failed, 0);
	if (!ret || weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return;
	/* Once: an RDMA device may stay full. */
	if (!READ_ONCE(ctrl->mem_failed))
		weft_ctrl_warn(ctrl, "queues for peer memory: %s\n", why.text);
	weft_peer_later(ctrl, ret);
	WRITE_ONCE(ctrl->mem_failed, min(READ_ONCE(ctrl->mem_failed) + 1, WEFT_PEER_FAILED));
}

/**
 * weft_rdma_peer_kick() - start weft_rdma_peer_work() after a connect
 * @ctrl: the controller
 *
 * Not on the controller's own workqueue: the work waits for exporters, and
 * these wait for recovery, which runs there.
 */
void weft_rdma_peer_kick(struct weft_rdma_ctrl *ctrl)
{
	WRITE_ONCE(ctrl->mem_failed, 0);
	weft_peer_queue_work(ctrl, 0);
}

/**
 * weft_rdma_peer_add() - register peer memory
 * @req: the memory
 *
 * Context: process context.
 * Return: the peer memory, or an ERR_PTR. Undo with weft_rdma_peer_remove().
 */
struct weft_peer *weft_rdma_peer_add(const struct weft_peer_request *req)
{
	struct weft_peer *peer = kzalloc_obj(*peer, GFP_KERNEL_ACCOUNT);

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
 * weft_rdma_peer_prepare() - prepare a path for I/O on peer memory
 * @peer: the memory
 * @path: a path of its volume
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
	/* The other paths may suffice; this one follows when it can. */
	if (ret)
		weft_peer_later(ctrl, ret);
	return ret;
}

/**
 * weft_rdma_peer_distance() - distance from peer memory to a path's RDMA device
 * @peer: the memory
 * @path: prepared
 *
 * Context: any.
 * Return: smaller is nearer; INT_MAX if the path is not connected now.
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
 * weft_rdma_peer_leave() - undo a path's setup for peer memory
 * @path: it has no command on peer memory in flight
 *
 * Context: process context.
 */
void weft_rdma_peer_leave(struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;
	/* As in weft_peer_up(). */
	unsigned int noio = memalloc_noio_save();

	mutex_lock(&ctrl->mem_lock);
	if (rp->has_peers) {
		rp->has_peers = false;
		WRITE_ONCE(ctrl->mem_users, ctrl->mem_users - 1);
		if (!ctrl->mem_users) {
			WRITE_ONCE(ctrl->mem_ready, false);
			/* The next memory may find room again. */
			WRITE_ONCE(ctrl->mem_failed, 0);
			/* It takes an RCU grace period. Only persistent memory has queues. */
			if (ctrl->mem_up)
				weft_peer_queues_free(ctrl);
			weft_domain_leave(ctrl);
		}
	}
	mutex_unlock(&ctrl->mem_lock);
	memalloc_noio_restore(noio);
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

/*
 * An RDMA device is being removed. No association uses it any more: device.c was
 * called first.
 */
static void weft_peer_ib_remove(struct ib_device *ib, void *client_data)
{
	struct weft_mapping *mapping, *next;
	struct weft_peer *peer;

	mutex_lock(&weft_peers_lock);
	list_for_each_entry(peer, &weft_peers, list)
		list_for_each_entry_safe(mapping, next, &peer->mappings, list)
			if (mapping->domain->ib == ib) {
				weft_mapping_withdraw(mapping);
				weft_peer_unmap(mapping);
			}
	mutex_unlock(&weft_peers_lock);
	/* Threads that were about to map have now seen that they must not. */
	weft_domains_wait_gone(ib);
}

/**
 * weft_rdma_peer_lost() - has the exporter withdrawn the memory permanently?
 * @peer: the memory
 *
 * Context: any.
 * Return: true if it has, on all devices that had the memory.
 */
bool weft_rdma_peer_lost(struct weft_peer *peer)
{
	struct weft_mapping *mapping;
	bool any = false, lost = true;

	rcu_read_lock();
	list_for_each_entry_rcu(mapping, &peer->mappings, list) {
		any = true;
		lost &= READ_ONCE(mapping->state) == WEFT_MAPPING_LOST;
	}
	rcu_read_unlock();
	return any && lost;
}

/* The memory's mapping for this controller, with a reference; or NULL. */
static __always_inline struct weft_mapping *
weft_mapping_get(struct weft_peer *peer, struct weft_rdma_ctrl *ctrl)
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
	struct weft_rdma_ctrl *ctrl = pdu->queue->ctrl;
	unsigned long after = jiffies;

	if (unlikely(error == BLK_STS_TRANSPORT)) {
		op->blameless = !(pdu->status & WEFT_STATUS_HOST) ||
				READ_ONCE(ctrl->end) == WEFT_RDMA_END_MEMORY;
		/* It may have been sent, now or before. */
		if (op->write && (pdu->status || pdu->retries))
			after = READ_ONCE(ctrl->quiet_at);
	}
	percpu_ref_put(&pdu->mapping->ref);
	op->done(op, error, after);
	return RQ_END_IO_FREE;
}

/* Not inline, so that memory that is mapped does not pay. */
static noinline int weft_peer_unmapped(struct weft_peer *peer)
{
	return weft_rdma_peer_lost(peer) ? -EFAULT : -ENOTCONN;
}

/*
 * Start an operation with a request of the path. Inline, because it runs for every
 * I/O. Returns as weft_rdma_peer_submit().
 */
static __always_inline int weft_peer_send(struct weft_rdma_ctrl *ctrl, struct weft_mem_op *op,
					  struct request *rq)
{
	struct weft_mapping *mapping;
	struct weft_rdma_pdu *pdu;
	int ret = -ENOTCONN;

	if (unlikely(!READ_ONCE(ctrl->mem_ready)))
		goto out_free;
	mapping = weft_mapping_get(op->peer, ctrl);
	if (unlikely(!mapping)) {
		ret = weft_peer_unmapped(op->peer);
		goto out_free;
	}
	if (mapping->persistent && unlikely(!READ_ONCE(ctrl->mem_up))) {
		percpu_ref_put(&mapping->ref);
		goto out_free;
	}
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->mem = mapping->persistent;
	pdu->mapping = mapping;
	pdu->retries = 0;
	pdu->status = 0;
	rq->end_io = weft_peer_end_io;
	rq->end_io_data = op;
	blk_execute_rq_nowait(rq, false);
	return 0;

out_free:
	blk_mq_free_request(rq);
	return ret;
}

static struct request *weft_peer_request(struct weft_rdma_path *rp, const struct weft_mem_op *op,
					 blk_mq_req_flags_t flags)
{
	return blk_mq_alloc_request(rp->ns->disk->queue,
				    op->write ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN, flags);
}

/**
 * weft_rdma_peer_waiting_work() - wait for tags, for operations that must not wait
 * @work: the path's waiting_work
 */
void weft_rdma_peer_waiting_work(struct work_struct *work)
{
	struct weft_rdma_path *rp = container_of(work, struct weft_rdma_path, waiting_work);
	struct llist_node *waiting = llist_reverse_order(llist_del_all(&rp->waiting));
	struct weft_mem_op *op, *next;

	llist_for_each_entry_safe(op, next, waiting, waiting) {
		struct request *rq = weft_peer_request(rp, op, 0);

		/*
		 * The wait may have been long: look up the mapping again. After a reconnect,
		 * the target may take less in a command.
		 */
		if (!IS_ERR(rq) && op->length > READ_ONCE(rp->path.mem_bytes)) {
			blk_mq_free_request(rq);
			rq = ERR_PTR(-EAGAIN);
		}
		if (IS_ERR(rq) || weft_peer_send(rp->ns->ctrl, op, rq))
			op->done(op, BLK_STS_AGAIN, jiffies);
	}
}

/**
 * weft_rdma_peer_submit() - start an operation on peer memory
 * @path: the path
 * @op: the operation; within the path's limits and the memory
 *
 * It does not wait for a tag, because the caller may be io_uring, or the work
 * that sends all held parts. Without a tag the path's waiting_work waits for
 * one.
 *
 * Context: process context.
 * Return: 0, and @op->done will be called; -ENOTCONN if the path cannot carry
 * it now; -EFAULT if the memory is lost.
 */
int weft_rdma_peer_submit(struct weft_path *path, struct weft_mem_op *op)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct request *rq;

	if (op->length > path->mem_bytes)
		return -ENOTCONN;
	rq = weft_peer_request(rp, op, BLK_MQ_REQ_NOWAIT);
	if (!IS_ERR(rq))
		return weft_peer_send(rp->ns->ctrl, op, rq);
	if (rq != ERR_PTR(-EWOULDBLOCK))
		return -ENOTCONN;
	if (llist_add(&op->waiting, &rp->waiting))
		queue_work(weft_peer_wq, &rp->waiting_work);
	return 0;
}

static struct ib_client weft_peer_ib_client = {
	.name	= "weft_peer",
	.remove	= weft_peer_ib_remove,
};

/**
 * weft_rdma_peer_init() - prepare for peer memory
 *
 * Called before weft_rdma_device_init(): RDMA devices are removed from the clients
 * in the reverse order in which these were registered.
 *
 * Return: 0 or a negative errno.
 */
int weft_rdma_peer_init(void)
{
	int ret = -ENOMEM;

	weft_remap_wq = alloc_workqueue("weft-remap", WQ_UNBOUND, 0);
	if (!weft_remap_wq)
		return ret;
	weft_peer_wq = alloc_workqueue("weft-peer", WQ_UNBOUND, 0);
	if (!weft_peer_wq)
		goto out_remap;
	ret = ib_register_client(&weft_peer_ib_client);
	if (ret)
		goto out_peer;
	return 0;

out_peer:
	destroy_workqueue(weft_peer_wq);
out_remap:
	destroy_workqueue(weft_remap_wq);
	return ret;
}

void weft_rdma_peer_exit(void)
{
	ib_unregister_client(&weft_peer_ib_client);
	destroy_workqueue(weft_peer_wq);
	destroy_workqueue(weft_remap_wq);
}
