// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs: connect them, tear them down.
 *
 * DOC: a queue's life
 *
 * weft_rdma_queue_start() makes the queue pair, posts the receives and requests
 * the connection, step by step in the caller's context; the CM's handler only
 * reports events. weft_rdma_queue_wait() waits for the target, so that several
 * connections can be requested at once. weft_rdma_queue_stop() puts the queue
 * pair in the error state and waits until it is drained: then the target cannot
 * access this host's memory through it, and the requests that were in flight
 * may be ended. weft_rdma_queue_free() releases everything.
 */
#include "mapping.h"

#include <linux/hash.h>
#include <net/net_namespace.h>

/*
 * REG_MR, SEND and LOCAL_INV for each command; one more to drain. The REG_MR of the
 * queue's buffer (bounce.c) leaves before any of them comes. On queues for peer memory:
 * SEND for each command; half as many that have no completion and are not known to have
 * left; as many whose submitter was delayed between its count and its SEND
 * (weft_queue_signals()); half as many registrations (weft_regions_post()).
 */
#define WEFT_SEND_WRS	3

static const char *weft_cm_event_text(int event)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return "there is no route to the address by an RDMA device";
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return "the RDMA fabric knows no path to the address";
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return "the target does not answer";
	case RDMA_CM_EVENT_REJECTED:
		return "connection refused: no listener at that address, or the target rejects this host";
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return "the RDMA device was removed";
	default:
		return "the connection was lost";
	}
}

/**
 * weft_rdma_queue_set_connect() - say which request connects a queue, or sets it up
 * @queue: its connection was established
 * @rq: the request, which is sent next, or NULL: it has ended, and is not freed yet
 *
 * Context: process context.
 * Return: false if the connection has ended: no answer would come.
 */
bool weft_rdma_queue_set_connect(struct weft_rdma_queue *queue, struct request *rq)
{
	bool good;

	spin_lock_irq(&queue->connect_lock);
	queue->connect = rq;
	good = !READ_ONCE(queue->cm_status);
	spin_unlock_irq(&queue->connect_lock);
	return good;
}

/**
 * weft_rdma_queue_lost() - let the request that connects or sets up a queue time out now
 * @queue: its connection has ended
 *
 * No answer can come. Nothing happens if no such request is in flight.
 *
 * Context: any.
 */
void weft_rdma_queue_lost(struct weft_rdma_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->connect_lock, flags);
	if (queue->connect)
		blk_abort_request(queue->connect);
	spin_unlock_irqrestore(&queue->connect_lock, flags);
}

/* Context: the CM's. Wakes the waiter, or begins recovery if there is none. */
static int weft_rdma_cm_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct weft_rdma_queue *queue = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		queue->cm_status = 0;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		break;	/* the status is 0, or a work request has failed already */
	case RDMA_CM_EVENT_REJECTED: {
		u8 len = 0;
		const void *data = rdma_consumer_reject_data(id, event, &len);

		queue->cm_why = weft_capsule_reject(data, len);
		/*
		 * If an I/O queue is refused, the target takes no more of them. A stale
		 * connection passes: the CM there still knows the queue pair's number.
		 */
		queue->cm_status = queue->index && rdma_cap_ib_cm(id->device, id->port_num) &&
				   event->status == IB_CM_REJ_STALE_CONN ? -ECONNRESET :
									   -ECONNREFUSED;
		break;
	}
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		queue->cm_status = -EHOSTUNREACH;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		queue->cm_status = -ETIMEDOUT;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* This host has ended it: weft_rdma_queue_stop(). */
		if (event->event == RDMA_CM_EVENT_DISCONNECTED &&
		    !test_bit(WEFT_QUEUE_STARTED, &queue->flags))
			return 0;
		WRITE_ONCE(queue->cm_status, -ECONNRESET);
		/* Pairs with weft_queue_set_live(): one of the two sees the other. */
		smp_mb();
		weft_rdma_queue_lost(queue);
		if (weft_queue_aside(queue))
			break;
		weft_rdma_queue_tell_lost(queue);
		weft_rdma_error(queue->ctrl, event->event == RDMA_CM_EVENT_DISCONNECTED ?
				WEFT_RDMA_END_CONNECTION : WEFT_RDMA_END_DEVICE,
				"queue %u: %s", queue->id,
				event->event == RDMA_CM_EVENT_DISCONNECTED ?
				"the target ended the connection" :
				event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ?
				"the RDMA device is being removed" :
				"the address moved to another device");
		break;
	default:
		return 0;	/* TIMEWAIT_EXIT and events of newer kernels */
	}
	queue->cm_event = event->event;
	complete(&queue->cm_done);
	return 0;	/* the id is ours to destroy */
}

static int weft_queue_cm_wait(struct weft_rdma_queue *queue, int wanted,
			      struct weft_why *why)
{
	/* For a connect without an answer; the CM's own timeouts are shorter. */
	if (!wait_for_completion_timeout(&queue->cm_done,
					 msecs_to_jiffies(3 * WEFT_RDMA_CM_TIMEOUT_MS)))
		return weft_refuse(why, -ETIMEDOUT, "the target does not answer");
	if (!queue->cm_status && queue->cm_event == wanted)
		return 0;
	return weft_refuse(why, queue->cm_status ?: -EPROTO, "%s",
			   queue->cm_why ?: weft_cm_event_text(queue->cm_event));
}

static void weft_queue_qp_event(struct ib_event *event, void *context)
{
	struct weft_rdma_queue *queue = context;

	if (weft_queue_aside(queue))
		return;
	if (event->event == IB_EVENT_QP_FATAL ||
	    event->event == IB_EVENT_QP_REQ_ERR ||
	    event->event == IB_EVENT_QP_ACCESS_ERR) {
		weft_rdma_queue_tell_lost(queue);
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_QUEUE_PAIR, "queue %u: %s",
				queue->id, ib_event_msg(event->event));
	}
}

static void weft_queue_free_memory(struct weft_rdma_queue *queue)
{
	struct ib_device *ib = queue->ctrl->ib;
	u32 i;

	for (i = 0; i < queue->size; i++)
		if (queue->slots && queue->slots[i].mr)
			ib_dereg_mr(queue->slots[i].mr);
	weft_rdma_bounce_free(queue);
	kvfree(queue->slots);
	kfree(queue->run);
	kvfree(queue->recvs);
	weft_rdma_free_shared(ib, queue->size * sizeof(*queue->capsules), queue->capsules,
			      queue->capsules_addr);
	weft_rdma_free_shared(ib, queue->size * sizeof(*queue->responses), queue->responses,
			      queue->responses_addr);
	queue->slots = NULL;
	queue->run = NULL;
	queue->recvs = NULL;
	queue->capsules = NULL;
	queue->responses = NULL;
}

/* The error for a resource that the RDMA device did not give. */
static int weft_device_error(int error)
{
	switch (error) {
	case -ENOMEM:
	case -ENOSPC:
	case -EAGAIN:
	case -EBUSY:
		return WEFT_RDMA_ADAPTER_FULL;
	default:
		return error;
	}
}

/* Initialize the parts of a slot that are the same for all requests. */
static int weft_queue_init_slot(struct weft_rdma_queue *queue, u32 index, struct weft_why *why)
{
	struct weft_rdma_slot *slot = &queue->slots[index];
	struct ib_mr *mr;
	u32 i;

	/*
	 * Commands on a queue for peer memory use existing keys. Only its Connect,
	 * which has the first slot, has data of its own: less than a page.
	 */
	if (!queue->mem || !index) {
		mr = ib_alloc_mr(queue->pd, IB_MR_TYPE_MEM_REG,
				 queue->mem ? 1 : queue->ctrl->mr_pages);
		if (IS_ERR(mr))
			return weft_refuse(why, weft_device_error(PTR_ERR(mr)),
					   "the RDMA device %s gives queue %u only %u memory registrations of %u (error %ld; it has %d in all): connect with fewer queues, or with a smaller queue depth",
					   dev_name(&queue->ctrl->ib->dev), queue->id, index,
					   queue->size, -PTR_ERR(mr),
					   queue->ctrl->ib->attrs.max_mr);
		slot->mr = mr;
	}
	slot->queue = queue;
	slot->cid = index;
	slot->send_cqe.done = queue->mem ? weft_rdma_mem_send_done : weft_rdma_send_done;
	slot->reg_cqe.done = weft_rdma_reg_done;
	slot->inv_cqe.done = weft_rdma_inv_done;
	slot->reg.wr.opcode = IB_WR_REG_MR;
	slot->reg.wr.wr_cqe = &slot->reg_cqe;
	slot->reg.mr = slot->mr;
	slot->send.opcode = IB_WR_SEND;
	slot->send.send_flags = IB_SEND_SIGNALED;
	slot->send.wr_cqe = &slot->send_cqe;
	slot->send.sg_list = slot->sge;
	slot->sge[0].addr = queue->capsules_addr + index * sizeof(*queue->capsules);
	slot->sge[0].length = sizeof(*queue->capsules);
	for (i = 0; i < WEFT_RDMA_SGES; i++)
		slot->sge[i].lkey = queue->pd->local_dma_lkey;
	return 0;
}

static void weft_queue_init_recv(struct weft_rdma_queue *queue, u32 index)
{
	struct weft_rdma_recv *recv = &queue->recvs[index];

	recv->cqe.done = weft_rdma_recv_done;
	recv->nvme = &queue->responses[index];
	recv->sge.addr = queue->responses_addr + index * sizeof(*queue->responses);
	recv->sge.length = sizeof(*queue->responses);
	recv->sge.lkey = queue->pd->local_dma_lkey;
	recv->wr.wr_cqe = &recv->cqe;
	recv->wr.sg_list = &recv->sge;
	recv->wr.num_sge = 1;
}

static int weft_queue_alloc_memory(struct weft_rdma_queue *queue, struct weft_why *why)
{
	struct ib_device *ib = queue->ctrl->ib;
	u32 i, n = queue->size;
	int ret = 0;

	queue->slots = kvcalloc(n, sizeof(*queue->slots), GFP_KERNEL);
	queue->run = kzalloc_obj(*queue->run);
	queue->recvs = kvcalloc(n, sizeof(*queue->recvs), GFP_KERNEL);
	queue->capsules = weft_rdma_alloc_shared(ib, n * sizeof(*queue->capsules),
						 &queue->capsules_addr);
	queue->responses = weft_rdma_alloc_shared(ib, n * sizeof(*queue->responses),
						  &queue->responses_addr);
	if (!queue->slots || !queue->run || !queue->recvs || !queue->capsules || !queue->responses)
		ret = weft_refuse(why, -ENOMEM, "no memory for queue %u", queue->id);
	for (i = 0; i < n && !ret; i++) {
		ret = weft_queue_init_slot(queue, i, why);
		if (!ret)
			weft_queue_init_recv(queue, i);
	}
	if (ret)
		weft_queue_free_memory(queue);
	return ret;
}

/* Queues with the same place serve the same CPUs. */
static u32 weft_queue_place(const struct weft_rdma_queue *queue)
{
	const struct weft_rdma_ctrl *ctrl = queue->ctrl;

	if (queue->mem)
		return (queue->index - ctrl->mem_first) % (ctrl->poll_from - 1);
	if (queue->for_background)
		return queue->index - ctrl->background_first;
	return queue->index ? queue->index - 1 : 0;
}

/* Its completions at most; flushed work requests complete, too. */
static int weft_queue_cqes(const struct weft_rdma_queue *queue)
{
	return (WEFT_SEND_WRS + 1) * queue->size + 2;
}

/*
 * The I/O queues of a controller divide the device's vectors, as the CPUs. If there are
 * more vectors than queues, other controllers have other ones of each part: by a hash,
 * because every second controller may be of the same rail.
 */
static int weft_queue_vector(const struct weft_rdma_queue *queue)
{
	const struct weft_rdma_ctrl *ctrl = queue->ctrl;
	u32 vectors = min_t(u32, ctrl->ib->num_comp_vectors, num_online_cpus());
	u32 queues = ctrl->io_up ?: max(ctrl->opts.io_queues, 1U);
	u32 each = max(vectors / queues, 1U);

	return (weft_queue_place(queue) * each + hash_32(ctrl->instance, 16) % each) % vectors;
}

/*
 * Queues of one vector share completion queues, also those of other controllers: the RDMA
 * core has them for the device.
 */
static int weft_queue_get_cq(struct weft_rdma_queue *queue)
{
	struct ib_device *ib = queue->ctrl->ib;
	int vector = weft_queue_vector(queue);
	struct ib_cq *cq;

	/* ib_cq_pool_get() would look for one without end. */
	if (weft_queue_cqes(queue) > ib->attrs.max_cqe)
		return -EINVAL;
	if (queue->poll)
		cq = ib_alloc_cq(ib, queue, weft_queue_cqes(queue), vector, IB_POLL_DIRECT);
	else
		cq = ib_cq_pool_get(ib, weft_queue_cqes(queue), vector, IB_POLL_SOFTIRQ);
	/* The pool takes one of each vector at a time, for which the device may have no room. */
	if (IS_ERR(cq) && !queue->poll)
		cq = ib_alloc_cq(ib, queue, weft_queue_cqes(queue), vector, IB_POLL_SOFTIRQ);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	queue->cq = cq;
	return 0;
}

static void weft_queue_put_cq(struct weft_rdma_queue *queue)
{
	if (queue->cq->shared)
		ib_cq_pool_put(queue->cq, weft_queue_cqes(queue));
	else
		ib_free_cq(queue->cq);
	queue->cq = NULL;
}

static int weft_queue_alloc_qp(struct weft_rdma_queue *queue)
{
	struct weft_rdma_ctrl *ctrl = queue->ctrl;
	struct ib_qp_init_attr attr = {
		.event_handler	= weft_queue_qp_event,
		.qp_context	= queue,
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.cap		= {
			.max_send_wr	= WEFT_SEND_WRS * queue->size + 1,
			.max_recv_wr	= queue->size + 1,
			.max_recv_sge	= 1,
			.max_send_sge	= min_t(u32, WEFT_RDMA_SGES,
						ctrl->ib->attrs.max_send_sge),
		},
	};
	int ret;

	ret = weft_queue_get_cq(queue);
	if (ret)
		return ret;
	attr.send_cq = queue->cq;
	attr.recv_cq = queue->cq;
	ret = rdma_create_qp(queue->cm_id, queue->pd, &attr);
	if (ret) {
		weft_queue_put_cq(queue);
		return ret;
	}
	queue->qp = queue->cm_id->qp;
	return 0;
}

static int weft_queue_ask(struct weft_rdma_queue *queue, struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl = queue->ctrl;
	struct weft_cm_request req;
	struct rdma_conn_param param = {
		.qp_num			= queue->qp->qp_num,
		.flow_control		= 1,
		.responder_resources	= min(ctrl->ib->attrs.max_qp_rd_atom, 255),
		/* The transport binding wants both at their most. */
		.retry_count		= 7,
		.rnr_retry_count	= 7,
		.private_data		= &req,
		.private_data_len	= sizeof(req),
	};
	int ret;

	weft_capsule_cm_request(&req, queue->id, queue->size,
				queue->index ? ctrl->info.cntlid : 0xffff);
	ret = rdma_connect(queue->cm_id, &param);
	if (ret)
		return weft_refuse(why, ret, "the connection cannot be requested (error %d)",
				   -ret);
	return 0;
}

static int weft_queue_resolve(struct weft_rdma_queue *queue, struct weft_why *why)
{
	struct weft_rdma_options *opts = &queue->ctrl->opts;
	struct sockaddr *local = opts->local.ss_family ?
				 (struct sockaddr *)&opts->local : NULL;
	int ret;

	ret = rdma_resolve_addr(queue->cm_id, local,
				(struct sockaddr *)&opts->remote,
				WEFT_RDMA_CM_TIMEOUT_MS);
	if (ret)
		return weft_refuse(why, ret, "%s",
				   ret == -EADDRNOTAVAIL && local ?
				   "no interface of this host has the host address" :
				   weft_cm_event_text(RDMA_CM_EVENT_ADDR_ERROR));
	ret = weft_queue_cm_wait(queue, RDMA_CM_EVENT_ADDR_RESOLVED, why);
	if (ret)
		return ret;
	ret = weft_rdma_device_get(queue->ctrl, queue->cm_id, why);
	if (ret)
		return ret;
	ret = rdma_resolve_route(queue->cm_id, WEFT_RDMA_CM_TIMEOUT_MS);
	if (ret)
		return weft_refuse(why, ret, "%s",
				   weft_cm_event_text(RDMA_CM_EVENT_ROUTE_ERROR));
	return weft_queue_cm_wait(queue, RDMA_CM_EVENT_ROUTE_RESOLVED, why);
}

/**
 * weft_rdma_queue_start() - make a queue pair and request its connection
 * @queue: its ctrl, index, size and poll are set, the rest is not
 * @why: gets the reason of a failure
 *
 * Context: process context, waits for the fabric, at most some seconds.
 * Return: 0, and weft_rdma_queue_wait() is next; undo by weft_rdma_queue_stop()
 * and weft_rdma_queue_free(). WEFT_RDMA_ADAPTER_FULL if the RDMA device has no room for
 * the queue; or another negative errno.
 */
int weft_rdma_queue_start(struct weft_rdma_queue *queue, struct weft_why *why)
{
	int ret, tos;
	u32 i;

	init_completion(&queue->cm_done);
	queue->cm_status = -ETIMEDOUT;
	queue->cm_why = NULL;
	queue->flags = 0;
	queue->signal_mask = rounddown_pow_of_two(max(queue->size / 4, 1)) - 1;
	atomic_set(&queue->sent, 0);
	queue->left = 0;
	queue->cm_id = rdma_create_id(&init_net, weft_rdma_cm_handler, queue,
				      RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(queue->cm_id)) {
		ret = PTR_ERR(queue->cm_id);
		queue->cm_id = NULL;
		return weft_refuse(why, ret, "the RDMA connection manager gives no connection (error %d)", -ret);
	}
	/* RoCE puts it into each packet; the subnet manager maps it to a service level. */
	tos = queue->for_background ? queue->ctrl->opts.background_tos : queue->ctrl->opts.tos;
	if (tos >= 0)
		rdma_set_service_type(queue->cm_id, tos);
	ret = weft_queue_resolve(queue, why);
	if (ret)
		goto out_destroy_id;
	queue->inline_segs = min_t(u32, WEFT_RDMA_INLINE_SEGS,
				   queue->ctrl->ib->attrs.max_send_sge - 1);
	queue->pd = queue->mem ? queue->ctrl->domain->pd : queue->ctrl->pd;
	ret = weft_queue_alloc_memory(queue, why);
	if (ret)
		goto out_destroy_id;
	ret = weft_queue_alloc_qp(queue);
	if (ret) {
		weft_refuse(why, ret,
			    "the RDMA device %s gives queue %u no queue pair (error %d; it has %d in all, and %d completion queues): connect with fewer queues",
			    dev_name(&queue->ctrl->ib->dev), queue->id, -ret,
			    queue->ctrl->ib->attrs.max_qp, queue->ctrl->ib->attrs.max_cq);
		ret = weft_device_error(ret);
		goto out_free_memory;
	}
	for (i = 0; i < queue->size; i++) {
		ret = weft_rdma_post_recv(queue, &queue->recvs[i]);
		if (ret) {
			weft_refuse(why, ret, "receives cannot be posted (error %d)", -ret);
			goto out_destroy_qp;
		}
	}
	/*
	 * If the request fails, the CM frees what it has made for it: weft_rdma_queue_break()
	 * must not use that meanwhile.
	 */
	mutex_lock(&queue->lock);
	set_bit(WEFT_QUEUE_STARTED, &queue->flags);
	ret = weft_queue_ask(queue, why);
	mutex_unlock(&queue->lock);
	if (ret)
		goto out_destroy_qp;
	return 0;

out_destroy_qp:
	mutex_lock(&queue->lock);
	clear_bit(WEFT_QUEUE_STARTED, &queue->flags);
	mutex_unlock(&queue->lock);
	/* The receives are flushed to handlers that must still be there. */
	ib_drain_qp(queue->qp);
	rdma_destroy_qp(queue->cm_id);
	weft_queue_put_cq(queue);
	queue->qp = NULL;
out_free_memory:
	weft_queue_free_memory(queue);
out_destroy_id:
	if (!queue->index)
		weft_rdma_device_put(queue->ctrl);
	rdma_destroy_id(queue->cm_id);
	queue->cm_id = NULL;
	return ret;
}

/**
 * weft_rdma_queue_wait() - wait until a queue pair is connected
 * @queue: started
 * @why: gets the reason of a failure
 *
 * Context: process context, waits for the target, at most some seconds.
 * Return: 0 or a negative errno; undone as weft_rdma_queue_start() in both cases.
 */
int weft_rdma_queue_wait(struct weft_rdma_queue *queue, struct weft_why *why)
{
	int ret = weft_queue_cm_wait(queue, RDMA_CM_EVENT_ESTABLISHED, why);

	if (!ret)
		set_bit(WEFT_QUEUE_CONNECTED, &queue->flags);
	return ret;
}

/**
 * weft_rdma_queue_break() - put a queue pair in error
 * @queue: started or not; another thread may start or stop it
 *
 * It sends no command any more, except what a socket of soft-iWARP has already.
 * weft_rdma_queue_stop() also waits until it is drained.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_queue_break(struct weft_rdma_queue *queue)
{
	mutex_lock(&queue->lock);
	/* As in weft_rdma_queue_stop(). */
	if (test_bit(WEFT_QUEUE_STARTED, &queue->flags)) {
		rdma_disconnect(queue->cm_id);
		/* A thread may wait for a target that does not answer: no event ends that. */
		cmpxchg(&queue->cm_status, 0, -ECONNRESET);
		complete(&queue->cm_done);
	}
	mutex_unlock(&queue->lock);
}

/**
 * weft_rdma_queue_stop() - put a queue pair in error and drain it
 * @queue: started or not
 *
 * No request is being sent on it. Can be called twice.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_queue_stop(struct weft_rdma_queue *queue)
{
	/* The timeout handler may be stopping it, too: both return when it is drained. */
	mutex_lock(&queue->lock);
	clear_bit(WEFT_QUEUE_LIVE, &queue->flags);
	clear_bit(WEFT_QUEUE_CONNECTED, &queue->flags);
	/* A poller sees that it is not connected, or has finished before this continues. */
	spin_lock(&queue->poll_lock);
	spin_unlock(&queue->poll_lock);
	if (test_and_clear_bit(WEFT_QUEUE_STARTED, &queue->flags)) {
		/* Under the CM's lock: the CM may be connecting it just now. */
		rdma_disconnect(queue->cm_id);
		ib_drain_qp(queue->qp);
	}
	mutex_unlock(&queue->lock);
}

/**
 * weft_rdma_queue_free() - release the resources of a stopped queue
 * @queue: stopped; its requests have ended
 *
 * Context: process context, may sleep.
 */
void weft_rdma_queue_free(struct weft_rdma_queue *queue)
{
	if (!queue->cm_id)
		return;
	/*
	 * The stop's drain may have come before work requests that completion handlers posted
	 * (receives, LOCAL_INVs), or a thread of weft_request_end_alone(). A shared completion
	 * queue outlives this queue, and would complete them in slots that are freed here. No
	 * thread posts any more.
	 */
	if (!queue->poll)
		ib_drain_qp(queue->qp);
	rdma_destroy_qp(queue->cm_id);
	weft_queue_put_cq(queue);
	queue->qp = NULL;
	weft_queue_free_memory(queue);
	if (!queue->index)
		weft_rdma_device_put(queue->ctrl);
	rdma_destroy_id(queue->cm_id);
	queue->cm_id = NULL;
}

/**
 * weft_rdma_queue_poll() - handle what has completed on a poll queue
 * @queue: the queue
 *
 * Context: any; returns 0 at once if another thread is polling.
 * Return: number of completions.
 */
int weft_rdma_queue_poll(struct weft_rdma_queue *queue)
{
	int found = 0;

	/* Others are handled by their interrupts, one at a time. */
	if (!queue->poll || !spin_trylock(&queue->poll_lock))
		return 0;
	if (test_bit(WEFT_QUEUE_CONNECTED, &queue->flags))
		/* Others may send as fast as this handles: their submitters find the lock taken. */
		found = ib_process_cq_direct(queue->cq, queue->size);
	spin_unlock(&queue->poll_lock);
	return found;
}
