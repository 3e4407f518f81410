// SPDX-License-Identifier: GPL-2.0-only
/*
 * The operations of the block layer: which queue a hardware context has, polling,
 * timeouts, and the end of requests that were sent on a stopped queue. io.c has
 * the way of a single request.
 *
 * DOC: no ghost writes
 *
 * The timeout handler ends no request that the target may still execute: it
 * begins recovery, which drains the queue pair first. Requests are cancelled
 * there, by weft_rdma_cancel_all().
 */
#include "namespace.h"

#include <linux/sched/mm.h>

#include "../../uapi/weft_format.h"

/* A request has at most four completions: its registration, capsule, response, invalidation. */
#define WEFT_TIMEOUT_POLLS	4

/* The response may have arrived while the task that polls is stopped. */
static void weft_queue_poll_all(struct weft_rdma_queue *queue)
{
	unsigned int polls;

	for (polls = 0; polls < WEFT_TIMEOUT_POLLS; polls++)
		if (weft_rdma_queue_poll(queue) < (int)queue->size)
			break;
}

/*
 * Neither completed, nor turned away without being sent: that one may be freed while it is
 * looked at.
 */
static bool weft_request_in_flight(struct request *rq)
{
	return blk_mq_rq_state(rq) == MQ_RQ_IN_FLIGHT;
}

static bool weft_request_cancel(struct request *rq, void *data)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	if (!weft_request_in_flight(rq))
		return true;
	pdu->status = WEFT_STATUS_ABORTED;
	blk_mq_complete_request(rq);
	return true;
}

static bool weft_request_cancel_read(struct request *rq, void *data)
{
	bool *writes = data;

	if (!op_is_write(req_op(rq)))
		return weft_request_cancel(rq, NULL);
	*writes |= weft_request_in_flight(rq);
	return true;
}

/**
 * weft_rdma_cancel_reads() - end every request that was sent and has no data for the target
 * @set: as for weft_rdma_cancel_all()
 *
 * Context: process context.
 * Return: whether others are left.
 */
bool weft_rdma_cancel_reads(struct blk_mq_tag_set *set)
{
	bool writes = false;

	blk_mq_tagset_busy_iter(set, weft_request_cancel_read, &writes);
	return writes;
}

static bool weft_request_lacks_lease(struct request *rq, void *data)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	struct weft_rdma_path *rp;

	/* An internal command has no disk. */
	if (!ns || !op_is_write(req_op(rq)) || !weft_request_in_flight(rq))
		return true;
	/* Heartbeats and claims are sent without a lease. The claim is there for late ones. */
	if (!blk_rq_is_passthrough(rq) &&
	    blk_rq_pos(rq) < (WEFT_CLAIM_OFFSET + WEFT_SB_SIZE) >> SECTOR_SHIFT)
		return true;
	rcu_read_lock();
	rp = READ_ONCE(ns->path);
	if (rp && rp->path.writable && weft_lease_is_over(rp->path.lease))
		*(bool *)data = true;
	rcu_read_unlock();
	return !*(bool *)data;
}

/**
 * weft_rdma_end_writes_work() - end the association under writes without a lease
 * @work: the controller's end_writes_work
 *
 * The target may execute them until it has ended the association. Another host that
 * takes the volume waits for that from the end of the lease on (kmod/weft/owner.c).
 */
void weft_rdma_end_writes_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(work, struct weft_rdma_ctrl, end_writes_work);
	bool any = false;
	u32 i;

	/* What was answered may wait for the task that polls. */
	for (i = ctrl->poll_from; i < ctrl->queue_count; i++)
		weft_queue_poll_all(&ctrl->queues[i]);
	/* It was queued while the controller was live, so the set is there until its removal. */
	blk_mq_tagset_busy_iter(&ctrl->set, weft_request_lacks_lease, &any);
	if (any)
		weft_rdma_error(ctrl, WEFT_RDMA_END_TIMEOUT,
				"writes are in flight after the end of their volume's lease");
}

/**
 * weft_rdma_cancel_all() - end every request that was sent
 * @set: its queues are stopped: they are drained, and nothing is sent
 *
 * Context: process context; waits until they have ended.
 */
void weft_rdma_cancel_all(struct blk_mq_tag_set *set)
{
	blk_mq_tagset_busy_iter(set, weft_request_cancel, NULL);
	blk_mq_tagset_wait_completed_request(set);
}

static bool weft_request_cancel_peer(struct request *rq, void *data)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	if (blk_rq_is_passthrough(rq) && pdu->mapping && pdu->mem && weft_request_in_flight(rq)) {
		weft_request_cancel(rq, NULL);
		*(bool *)data = true;
	}
	return true;
}

/**
 * weft_rdma_cancel_peers() - end every request that was sent on a queue for peer memory
 * @set: the tag set; its controller's queues for peer memory are stopped
 *
 * Context: process context; waits until they have ended.
 */
void weft_rdma_cancel_peers(struct blk_mq_tag_set *set)
{
	bool any = false;

	blk_mq_tagset_busy_iter(set, weft_request_cancel_peer, &any);
	/* It waits for a moment in which no request of any kind is being completed. */
	if (any)
		blk_mq_tagset_wait_completed_request(set);
}

/* The queue is stopped, and is not used again before it is made again. */
static void weft_slot_forget_key(struct weft_rdma_slot *slot)
{
	if (!slot->mapped)
		return;
	ib_dereg_mr(slot->mr);
	slot->mr = NULL;
	slot->mapped = false;
}

/* The timeout of a Keep Alive is seen here before its sender sees it. */
static enum weft_rdma_end weft_request_timeout_end(const struct weft_rdma_queue *queue,
						   const struct weft_rdma_pdu *pdu)
{
	return !queue->index && pdu->opcode == nvme_admin_keep_alive ?
	       WEFT_RDMA_END_KEEP_ALIVE : WEFT_RDMA_END_TIMEOUT;
}

/* I/O of a disk, or on registered memory; not an internal command. */
static bool weft_request_is_io(struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	return pdu->queue->index && (!blk_rq_is_passthrough(rq) || pdu->mapping);
}

/*
 * Ask the target to abort a command that timed out, which gets as long again. Returns
 * false if that was done before, or is not done for such a command.
 */
static bool weft_request_abort(struct request *rq, struct weft_rdma_slot *slot, u16 cid)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_rdma_queue *queue = pdu->queue;

	if (!weft_request_is_io(rq) || slot->aborted)
		return false;
	slot->aborted = true;
	weft_ctrl_warn(queue->ctrl, "queue %u: command 0x%x timed out, aborting it\n", queue->id,
		       cid);
	weft_rdma_abort(queue, cid);
	return true;
}

static bool weft_request_expire(struct request *rq, void *data)
{
	if (rq != data && weft_request_in_flight(rq) && weft_request_is_io(rq))
		blk_abort_request(rq);
	return true;
}

/*
 * The association of a controller that is being removed does not answer, and no recovery
 * begins: stop its I/O queues, and have the timeout handlers end the other requests. The
 * association was up, so its queues stay until weft_rdma_teardown() has waited for this
 * handler; those for peer memory may go before, and each is stopped by the handler of
 * its own request.
 */
static void weft_ctrl_stop_io(struct weft_rdma_ctrl *ctrl, struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	bool any = false;
	u32 i;

	for (i = 1; i < ctrl->mem_first; i++) {
		any |= test_and_clear_bit(WEFT_QUEUE_LIVE, &ctrl->queues[i].flags);
		clear_bit(WEFT_QUEUE_CONNECTED, &ctrl->queues[i].flags);
	}
	clear_bit(WEFT_QUEUE_LIVE, &pdu->queue->flags);
	/* Wait for threads that saw one live and are posting, also if another handler clears. */
	if (any || test_bit(WEFT_QUEUE_STARTED, &pdu->queue->flags))
		synchronize_rcu();
	if (!any)
		return;
	weft_ctrl_warn(ctrl, "a command timed out while the controller is removed: its I/O fails\n");
	for (i = 1; i < ctrl->mem_first; i++)
		if (ctrl->queues[i].cm_id)
			weft_rdma_queue_stop(&ctrl->queues[i]);
	blk_mq_tagset_busy_iter(&ctrl->set, weft_request_expire, rq);
}

/*
 * Setup, shutdown or removal waits for this command, so recovery cannot run. After the
 * drain it cannot be answered, and with its key gone no other queue pair reaches its data;
 * what is in the queue's buffer (bounce.c) is not copied.
 * A thread that saw the queue connected may post the request meanwhile.
 */
static void weft_request_end_alone(struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	weft_rdma_queue_stop(pdu->queue);
	/* For I/O, weft_ctrl_stop_io() did. */
	if (!weft_request_is_io(rq))
		synchronize_rcu();
	weft_slot_forget_key(&pdu->queue->slots[pdu->slot]);
	if (weft_request_in_flight(rq)) {
		pdu->status = WEFT_STATUS_ABORTED;
		blk_mq_complete_request(rq);
	}
}

static enum blk_eh_timer_return weft_rdma_timeout(struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_rdma_queue *queue = pdu->queue;
	struct weft_rdma_ctrl *ctrl = queue->ctrl;
	struct weft_rdma_slot *slot = &queue->slots[pdu->slot];
	enum weft_rdma_state state;
	unsigned int noio;
	bool io;
	u16 cid;

	/* An Asynchronous Event Request has no time limit. */
	if (!queue->index && pdu->opcode == nvme_admin_async_event)
		return BLK_EH_RESET_TIMER;
	weft_queue_poll_all(queue);
	if (!weft_request_in_flight(rq))
		return BLK_EH_DONE;
	/* Its slot may be another request's as soon as it is answered. */
	cid = READ_ONCE(slot->cid);
	state = weft_rdma_state(ctrl);
	/* Connect of a queue for peer memory: the association goes on without that queue. */
	if (blk_rq_is_passthrough(rq) && pdu->mem && !pdu->mapping)
		state = WEFT_RDMA_CONNECTING;
	switch (state) {
	case WEFT_RDMA_LIVE:
		if (READ_ONCE(slot->rq) != rq)
			return BLK_EH_RESET_TIMER;	/* just answered */
		if (weft_request_abort(rq, slot, cid))
			return BLK_EH_RESET_TIMER;
		weft_rdma_error(ctrl, weft_request_timeout_end(queue, pdu),
				"queue %u: command 0x%x timed out", queue->id, cid);
		return BLK_EH_RESET_TIMER;
	case WEFT_RDMA_RECOVERING:
		return BLK_EH_RESET_TIMER;
	default:
		/* weft_rdma_teardown() ends it. */
		if (READ_ONCE(ctrl->ending))
			return BLK_EH_RESET_TIMER;
		/*
		 * In a setup there is no I/O. In a removal the association may still be
		 * there: the disks' pages are written. An exporter may wait for a command on
		 * registered memory: it gets no second interval.
		 */
		io = state == WEFT_RDMA_DELETING && weft_request_is_io(rq);
		if (io && test_bit(WEFT_QUEUE_LIVE, &queue->flags) && !READ_ONCE(ctrl->lost) &&
		    (READ_ONCE(slot->rq) != rq ||
		     (!pdu->mapping && weft_request_abort(rq, slot, cid))))
			return BLK_EH_RESET_TIMER;
		/* Reclaim may need this very disk. */
		noio = memalloc_noio_save();
		if (io)
			weft_ctrl_stop_io(ctrl, rq);
		weft_request_end_alone(rq);
		memalloc_noio_restore(noio);
		return BLK_EH_DONE;
	}
}

static int weft_rdma_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
{
	return weft_rdma_queue_poll(hctx->driver_data);
}

/*
 * The queue of a hardware context: its own, or a shared one if the target
 * grants fewer queues than before. Contexts for polling share the poll queues,
 * if any.
 */
static struct weft_rdma_queue *weft_mq_hctx_queue(struct weft_rdma_ctrl *ctrl, u32 index)
{
	u32 io = ctrl->poll_from - 1;

	if (index < io)
		return &ctrl->queues[1 + index % ctrl->io_up];
	if (ctrl->poll_up)
		return &ctrl->queues[ctrl->poll_from + (index - io) % ctrl->poll_up];
	return &ctrl->queues[1 + (index - io) % ctrl->io_up];
}

static int weft_rdma_init_hctx(struct blk_mq_hw_ctx *hctx, void *data,
			       unsigned int index)
{
	struct weft_rdma_ctrl *ctrl = data;

	hctx->driver_data = weft_mq_hctx_queue(ctrl, index);
	return 0;
}

/**
 * weft_rdma_map_hctxs() - assign a disk's hardware contexts to queues again
 * @ctrl: the controller; its number of queues changed
 * @q: the disk's queue; it sends nothing now
 */
void weft_rdma_map_hctxs(struct weft_rdma_ctrl *ctrl, struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		hctx->driver_data = weft_mq_hctx_queue(ctrl, i);
}

static int weft_rdma_init_admin_hctx(struct blk_mq_hw_ctx *hctx, void *data,
				     unsigned int index)
{
	struct weft_rdma_ctrl *ctrl = data;

	hctx->driver_data = &ctrl->queues[0];
	return 0;
}

static int weft_rdma_init_request(struct blk_mq_tag_set *set, struct request *rq,
				  unsigned int hctx_index, weft_numa_node_t node)
{
	struct weft_rdma_ctrl *ctrl = set->driver_data;
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	pdu->queue = &ctrl->queues[set == &ctrl->set ? hctx_index + 1 : 0];
	return 0;
}

static void weft_rdma_map_queues(struct blk_mq_tag_set *set)
{
	struct weft_rdma_ctrl *ctrl = set->driver_data;
	struct blk_mq_queue_map *map = &set->map[HCTX_TYPE_DEFAULT];

	map->nr_queues = ctrl->poll_from - 1;
	map->queue_offset = 0;
	blk_mq_map_queues(map);
	if (set->nr_maps > HCTX_TYPE_POLL) {
		set->map[HCTX_TYPE_READ].nr_queues = 0;
		map = &set->map[HCTX_TYPE_POLL];
		map->nr_queues = ctrl->queue_count - ctrl->poll_from;
		map->queue_offset = ctrl->poll_from - 1;
		if (map->nr_queues)
			blk_mq_map_queues(map);
	}
}

const struct blk_mq_ops weft_rdma_admin_ops = {
	.queue_rq	= weft_rdma_queue_rq,
	.complete	= weft_rdma_complete,
	.timeout	= weft_rdma_timeout,
	.init_hctx	= weft_rdma_init_admin_hctx,
	.init_request	= weft_rdma_init_request,
};

const struct blk_mq_ops weft_rdma_io_ops = {
	.queue_rq	= weft_rdma_queue_rq,
	WEFT_MQ_QUEUE_RQS(weft_rdma_queue_rqs)
	.complete	= weft_rdma_complete,
	.timeout	= weft_rdma_timeout,
	.poll		= weft_rdma_poll,
	.init_hctx	= weft_rdma_init_hctx,
	.init_request	= weft_rdma_init_request,
	.map_queues	= weft_rdma_map_queues,
};

/**
 * weft_rdma_set_alloc() - allocate a tag set, and a queue for internal commands
 * @ctrl: the controller
 * @set: the caller has set all fields that differ between the sets
 * @queue: gets the queue for internal commands
 *
 * Context: process context.
 * Return: 0, and weft_rdma_set_free() undoes it; or a negative errno.
 */
int weft_rdma_set_alloc(struct weft_rdma_ctrl *ctrl, struct blk_mq_tag_set *set,
			struct request_queue **queue)
{
	struct request_queue *q;
	int ret;

	set->cmd_size = sizeof(struct weft_rdma_pdu);
	set->driver_data = ctrl;
	ret = blk_mq_alloc_tag_set(set);
	if (ret)
		return ret;
	q = weft_mq_alloc_queue(set);
	if (IS_ERR(q)) {
		blk_mq_free_tag_set(set);
		return PTR_ERR(q);
	}
	*queue = q;
	return 0;
}

/**
 * weft_rdma_set_free() - undo weft_rdma_set_alloc()
 * @set: no other queue is on it
 * @queue: its queue
 */
void weft_rdma_set_free(struct blk_mq_tag_set *set, struct request_queue *queue)
{
	blk_mq_destroy_queue(queue);
	blk_put_queue(queue);
	blk_mq_free_tag_set(set);
}
