// SPDX-License-Identifier: GPL-2.0-only
/* Internal commands. They are requests of the queue's tag set, like all others. */
#include "rdma.h"

static struct request *weft_command_alloc(struct request_queue *q,
					  struct nvme_command *cmd,
					  blk_mq_req_flags_t flags,
					  struct weft_rdma_queue *queue)
{
	blk_opf_t op = nvme_is_write(cmd) ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
	struct weft_rdma_pdu *pdu;
	struct request *rq;

	/*
	 * Also for a queue that is being connected, whose hardware context may have
	 * no processor that is online: nothing else is sent on it, so a tag of any
	 * other context is a free slot there.
	 */
	rq = blk_mq_alloc_request(q, op, flags);
	if (IS_ERR(rq))
		return rq;
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->cmd = cmd;
	pdu->connects = queue;
	pdu->opcode = cmd->common.opcode;
	pdu->mem = queue && queue->mem;
	pdu->mapping = NULL;
	pdu->retries = 0;
	pdu->status = WEFT_STATUS_ABORTED;
	return rq;
}

static WEFT_END_IO(weft_polled_end_io, rq)
{
	complete(rq->end_io_data);
	return RQ_END_IO_NONE;
}

/* Like blk_execute_rq(), for a queue without interrupts that has no other poller yet. */
static blk_status_t weft_execute_polled(struct request *rq, struct weft_rdma_queue *queue)
{
	DECLARE_COMPLETION_ONSTACK(done);

	rq->end_io = weft_polled_end_io;
	rq->end_io_data = &done;
	blk_execute_rq_nowait(rq, false);
	while (!try_wait_for_completion(&done)) {
		weft_rdma_queue_poll(queue);
		usleep_range(20, 50);
	}
	return BLK_STS_OK;
}

/**
 * weft_rdma_command() - send a command and wait for it
 * @q: the admin queue, connect queue, or a disk's
 * @cmd: without id and data pointer
 * @data: for it, or NULL; from kmalloc()
 * @len: bytes
 * @result: gets the completion's result, or NULL
 * @timeout: in jiffies, 0 for the queue's
 * @flags: BLK_MQ_REQ_RESERVED to use a reserved tag
 * @queue: the queue that it connects or sets up: if the connection ends, the command ends
 *	at once; or NULL. For one command of a queue at a time
 *
 * Context: process context, may sleep.
 * Return: 0; a positive NVMe status, with WEFT_STATUS_HOST if the status is not
 * from the target; or a negative errno.
 */
int weft_rdma_command(struct request_queue *q, struct nvme_command *cmd,
		      void *data, unsigned int len, union nvme_result *result,
		      unsigned long timeout, blk_mq_req_flags_t flags,
		      struct weft_rdma_queue *queue)
{
	struct weft_rdma_pdu *pdu;
	struct request *rq;
	blk_status_t blk;
	int ret = 0;

	rq = weft_command_alloc(q, cmd, flags, queue);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	if (timeout)
		rq->timeout = timeout;
	if (queue && !weft_rdma_queue_set_connect(queue, rq))
		ret = WEFT_STATUS_ABORTED;
	else if (data && len)
		ret = weft_rq_map_kern(rq, data, len, GFP_NOIO);
	if (ret)
		goto out_free;
	blk = queue && queue->poll ? weft_execute_polled(rq, queue) : blk_execute_rq(rq, false);
	pdu = blk_mq_rq_to_pdu(rq);
	ret = pdu->status & WEFT_STATUS_CODE ? pdu->status : 0;
	/* It was refused before it was sent. */
	if (!ret && blk)
		ret = -EIO;
	if (result)
		*result = pdu->result;
out_free:
	if (queue)
		weft_rdma_queue_set_connect(queue, NULL);
	blk_mq_free_request(rq);
	return ret;
}

static const char *weft_status_text(u16 status)
{
	switch (status & WEFT_STATUS_CODE) {
	case NVME_SC_CONNECT_FORMAT:
		return "the target knows no such record format";
	case NVME_SC_CONNECT_CTRL_BUSY:
		return "the target's controller is busy";
	case NVME_SC_CONNECT_INVALID_PARAM:
		return "the target refuses a parameter: is there a subsystem of that name?";
	case NVME_SC_CONNECT_RESTART_DISC:
		return "the target wants the host to discover again";
	case NVME_SC_CONNECT_INVALID_HOST:
		return "the target does not allow this host NQN";
	case NVME_SC_AUTH_REQUIRED:
		return "the target wants this host to authenticate";
	default:
		return NULL;
	}
}

/**
 * weft_rdma_refuse_status() - say why a command of the setup failed
 * @why: gets the reason
 * @status: of weft_rdma_command()
 * @what: the command
 *
 * Return: 0 if @status is; otherwise a negative errno.
 */
int weft_rdma_refuse_status(struct weft_why *why, int status, const char *what)
{
	const char *text;

	if (!status)
		return 0;
	if (status < 0)
		return weft_refuse(why, status, "%s cannot be sent (error %d)", what, -status);
	if (status & WEFT_STATUS_HOST)
		return weft_refuse(why, -ETIMEDOUT, "the target does not answer %s", what);
	text = weft_status_text(status);
	/* A busy target may take as many queues later. */
	if ((status & WEFT_STATUS_CODE) == NVME_SC_CONNECT_CTRL_BUSY)
		return weft_refuse(why, -EBUSY, "%s", text);
	if (text)
		return weft_refuse(why, -ECONNREFUSED, "%s", text);
	return weft_refuse(why, -EPROTO, "the target refuses %s (status 0x%x)", what,
			   status);
}

static int weft_ctrl_property(struct weft_rdma_ctrl *ctrl, struct nvme_command *cmd,
			      union nvme_result *result)
{
	int ret = weft_rdma_command(ctrl->admin_q, cmd, NULL, 0, result,
				    WEFT_RDMA_SETUP_TIMEOUT, 0, &ctrl->queues[0]);

	if (weft_rdma_connection_ended(&ctrl->queues[0], ret))
		return -ECONNRESET;
	return ret > 0 ? -EIO : ret;
}

/**
 * weft_rdma_property_read() - Property Get
 * @ctrl: its admin queue is connected; it is being set up, or shut down
 * @offset: NVME_REG_*
 * @wide: 8 bytes
 * @value: set
 *
 * Return: 0; -ECONNRESET if the connection has ended; or another negative errno.
 */
int weft_rdma_property_read(struct weft_rdma_ctrl *ctrl, u32 offset, bool wide,
			    u64 *value)
{
	union nvme_result result = {};
	struct nvme_command cmd;
	int ret;

	weft_capsule_property_get(&cmd, offset, wide);
	ret = weft_ctrl_property(ctrl, &cmd, &result);
	if (!ret)
		*value = wide ? le64_to_cpu(result.u64) : le32_to_cpu(result.u32);
	return ret;
}

/**
 * weft_rdma_property_write() - Property Set
 * @ctrl: its admin queue is connected; it is being set up, or shut down
 * @offset: NVME_REG_*
 * @value: 4 bytes
 *
 * Return: 0; -ECONNRESET if the connection has ended; or another negative errno.
 */
int weft_rdma_property_write(struct weft_rdma_ctrl *ctrl, u32 offset, u32 value)
{
	struct nvme_command cmd;

	weft_capsule_property_set(&cmd, offset, value);
	return weft_ctrl_property(ctrl, &cmd, NULL);
}

/**
 * weft_rdma_identify() - Identify (NVMe base 2.1, 5.1.13)
 * @ctrl: its admin queue is connected
 * @cns: NVME_ID_CNS_*
 * @nsid: the namespace, as @cns asks for it
 * @data: NVME_IDENTIFY_DATA_SIZE bytes for the result
 * @queue: the admin queue, if this is part of the setup; else NULL
 *
 * Context: process context, may sleep.
 * Return: 0, an NVMe status, or a negative errno.
 */
int weft_rdma_identify(struct weft_rdma_ctrl *ctrl, u8 cns, u32 nsid, void *data,
		       struct weft_rdma_queue *queue)
{
	struct nvme_command cmd;

	weft_capsule_identify(&cmd, cns, nsid);
	return weft_rdma_command(ctrl->admin_q, &cmd, data, NVME_IDENTIFY_DATA_SIZE, NULL,
				 WEFT_RDMA_SETUP_TIMEOUT, 0, queue);
}

/* A command without a waiter: the request has its own copy. */
struct weft_async {
	struct nvme_command	cmd;
	struct weft_rdma_ctrl	*ctrl;
};

/* What an asynchronous event announces, as WEFT_NOTICE_* (NVMe base 2.1, 5.1.2). */
static u32 weft_event_notices(u32 event)
{
	if ((event & 7) != NVME_AER_NOTICE)
		return 0;
	switch (event >> 8 & 0xff) {
	case NVME_AER_NOTICE_NS_CHANGED:
		return WEFT_NOTICE_NAMESPACES;
	case NVME_AER_NOTICE_ANA:
		return WEFT_NOTICE_ANA;
	default:
		return 0;
	}
}

/*
 * An Asynchronous Event Request has ended. The next one is sent by the work, unless the
 * target has refused this one. Removal sets its state under the lock, and cancels the
 * work after that.
 */
static void weft_async_event_ended(struct weft_rdma_ctrl *ctrl, const struct weft_rdma_pdu *pdu)
{
	bool answered = !(pdu->status & WEFT_STATUS_CODE);
	unsigned long flags;

	spin_lock_irqsave(&ctrl->lock, flags);
	ctrl->event_asked = false;
	if (ctrl->state == WEFT_RDMA_LIVE && (answered || pdu->status & WEFT_STATUS_HOST)) {
		if (answered)
			ctrl->notices |= weft_event_notices(le32_to_cpu(pdu->result.u32));
		queue_work(ctrl->wq, &ctrl->event_work);
	}
	spin_unlock_irqrestore(&ctrl->lock, flags);
}

static WEFT_END_IO(weft_async_end_io, rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_async *async = rq->end_io_data;
	struct weft_rdma_ctrl *ctrl = async->ctrl;

	if (async->cmd.common.opcode == nvme_admin_async_event)
		weft_async_event_ended(ctrl, pdu);
	if (async->cmd.common.opcode == nvme_admin_abort_cmd)
		clear_bit(0, &ctrl->abort_busy);
	kfree(async);
	return RQ_END_IO_FREE;
}

static bool weft_async_send(struct weft_rdma_ctrl *ctrl,
			    const struct nvme_command *cmd, gfp_t gfp)
{
	struct weft_async *async;
	struct request *rq;

	async = kmalloc_obj(*async, gfp);
	if (!async)
		return false;
	async->cmd = *cmd;
	async->ctrl = ctrl;
	rq = weft_command_alloc(ctrl->admin_q, &async->cmd,
				BLK_MQ_REQ_NOWAIT | BLK_MQ_REQ_RESERVED, NULL);
	if (IS_ERR(rq)) {
		kfree(async);
		return false;
	}
	rq->timeout = WEFT_RDMA_ADMIN_TIMEOUT;
	rq->end_io = weft_async_end_io;
	rq->end_io_data = async;
	blk_execute_rq_nowait(rq, false);
	return true;
}

/**
 * weft_rdma_abort() - ask the target to abort a command
 * @queue: the queue it was sent on
 * @cid: its id
 *
 * The command's next timeout begins recovery in any case.
 *
 * Context: any.
 */
void weft_rdma_abort(struct weft_rdma_queue *queue, u16 cid)
{
	struct nvme_command cmd = {};

	cmd.abort.opcode = nvme_admin_abort_cmd;
	cmd.abort.cid = cid;
	cmd.abort.sqid = cpu_to_le16(queue->id);
	/* One at a time: the keep-alive needs a tag, too. */
	if (!test_and_set_bit(0, &queue->ctrl->abort_busy) &&
	    !weft_async_send(queue->ctrl, &cmd, GFP_ATOMIC))
		clear_bit(0, &queue->ctrl->abort_busy);
}

static void weft_async_set_asked(struct weft_rdma_ctrl *ctrl, bool asked)
{
	spin_lock_irq(&ctrl->lock);
	ctrl->event_asked = asked;
	spin_unlock_irq(&ctrl->lock);
}

/**
 * weft_rdma_async_event() - send an Asynchronous Event Request, unless one is in flight
 * @ctrl: the controller; if it is not live, or has no events, nothing happens
 *
 * A target may take one at a time, and each takes a reserved tag. One that is still on
 * its way to a lost association ends before the next association is set up, or serves
 * that one.
 *
 * Context: the controller's event_work. Allocates with GFP_NOIO: reclaim may need I/O that
 * waits for the caller.
 */
void weft_rdma_async_event(struct weft_rdma_ctrl *ctrl)
{
	struct nvme_command cmd = {};

	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE || READ_ONCE(ctrl->event_asked) ||
	    !(ctrl->info.ns_events || ctrl->info.ana_events))
		return;
	weft_async_set_asked(ctrl, true);
	cmd.common.opcode = nvme_admin_async_event;
	if (weft_async_send(ctrl, &cmd, GFP_NOIO))
		return;
	weft_async_set_asked(ctrl, false);
	weft_ctrl_warn(ctrl, "asynchronous events stop until the controller is connected again\n");
}
