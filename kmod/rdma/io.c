// SPDX-License-Identifier: GPL-2.0-only
/*
 * The way of a request to the target and back.
 *
 * DOC: one request
 *
 * A request's tag is its slot in the queue: the slot holds the capsule, the
 * memory registration and the completions' handlers, so that nothing is
 * allocated or looked up. Up to two work requests are posted at once: REG_MR,
 * unless the data go with the capsule or there are none, and SEND.
 *
 * A request ends when its SEND has completed, its response has come and its
 * registration is invalid again: until then the device may read the capsule's
 * data, or the target the registration. The three come to one completion
 * queue, whose handlers run one at a time, so a plain byte counts them.
 *
 * DOC: what the target is not believed
 *
 * A response names a command id. It counts only when that slot has a request
 * in flight and the id's generation is the current one; a key that the target
 * claims to have invalidated must be that slot's. Anything else is a target
 * out of its mind: the association is ended with one line that says why, and
 * no request is ended by it.
 *
 * DOC: no ghost writes
 *
 * The timeout handler ends no request that the target may still execute: it
 * begins recovery, which drains the queue pair first. Requests are cancelled
 * there, by weft_rdma_cancel_all().
 */
#include "mapping.h"

static void weft_rdma_complete(struct request *rq);

static struct weft_rdma_slot *weft_slot(struct weft_rdma_queue *queue,
					struct request *rq)
{
	return &queue->slots[rq->tag];
}

/**
 * weft_rdma_post_recv() - give the device a buffer for a response
 * @queue: its queue pair is there
 * @recv: not posted
 *
 * Context: any.
 * Return: 0 or a negative errno.
 */
int weft_rdma_post_recv(struct weft_rdma_queue *queue, struct weft_rdma_recv *recv)
{
	return ib_post_recv(queue->qp, &recv->wr, NULL);
}

/* The slot waits for one thing less; the last one ends the request. */
static void weft_slot_done(struct weft_rdma_queue *queue,
			   struct weft_rdma_slot *slot, u8 what)
{
	struct request *rq = slot->rq;

	slot->pending &= ~what;
	if (slot->pending)
		return;
	slot->rq = NULL;
	slot->mapped = false;
	if (!blk_mq_complete_request_remote(rq))
		weft_rdma_complete(rq);
}

/* A work request failed. Flushes after an error was begun are no news. */
static void weft_wc_failed(struct weft_rdma_queue *queue, struct ib_wc *wc,
			   const char *what)
{
	if (weft_queue_aside(queue))
		return;
	if (wc->status != IB_WC_WR_FLUSH_ERR)
		weft_rdma_error(queue->ctrl, "queue %u: %s failed: %s",
				queue->index, what, ib_wc_status_msg(wc->status));
	else
		weft_rdma_error(queue->ctrl, "queue %u: the queue pair went into error",
				queue->index);
}

/* A work request that a slot waits for. */
static void weft_slot_work_done(struct ib_cq *cq, struct ib_wc *wc,
				struct weft_rdma_slot *slot, u8 what,
				const char *name)
{
	if (unlikely(wc->status != IB_WC_SUCCESS))
		weft_wc_failed(cq->cq_context, wc, name);
	else
		weft_slot_done(cq->cq_context, slot, what);
}

void weft_rdma_send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	weft_slot_work_done(cq, wc, container_of(wc->wr_cqe, struct weft_rdma_slot, send_cqe),
			    WEFT_SLOT_SEND, "SEND");
}

/* REG_MR is not signaled: it comes here only when it failed. */
void weft_rdma_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		weft_wc_failed(cq->cq_context, wc, "REG_MR");
}

void weft_rdma_inv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	weft_slot_work_done(cq, wc, container_of(wc->wr_cqe, struct weft_rdma_slot, inv_cqe),
			    WEFT_SLOT_INVALIDATE, "LOCAL_INV");
}

/* The target did not invalidate the key with its response: do it here. */
static noinline int weft_slot_invalidate(struct weft_rdma_queue *queue,
					 struct weft_rdma_slot *slot)
{
	struct ib_send_wr wr = {
		.opcode			= IB_WR_LOCAL_INV,
		.send_flags		= IB_SEND_SIGNALED,
		.ex.invalidate_rkey	= slot->mr->rkey,
		.wr_cqe			= &slot->inv_cqe,
	};

	slot->pending |= WEFT_SLOT_INVALIDATE;
	return ib_post_send(queue->qp, &wr, NULL);
}

/* Which slot a response is for, or NULL and the association ends. */
static struct weft_rdma_slot *weft_response_slot(struct weft_rdma_queue *queue,
						 const struct nvme_completion *cqe)
{
	u16 cid = READ_ONCE(cqe->command_id);
	u16 tag = WEFT_CID_TAG(cid);
	struct weft_rdma_slot *slot;

	if (unlikely(tag >= queue->size)) {
		weft_rdma_error(queue->ctrl, "queue %u: the target answered command 0x%x, which does not exist",
				queue->index, cid);
		return NULL;
	}
	slot = &queue->slots[tag];
	if (unlikely(!slot->rq || !(slot->pending & WEFT_SLOT_RESPONSE) ||
		     cid != WEFT_CID(tag, slot->generation))) {
		weft_rdma_error(queue->ctrl, "queue %u: the target answered command 0x%x, which it does not owe an answer",
				queue->index, cid);
		return NULL;
	}
	return slot;
}

static void weft_response(struct weft_rdma_queue *queue, struct ib_wc *wc,
			  const struct nvme_completion *cqe)
{
	struct weft_rdma_slot *slot = weft_response_slot(queue, cqe);
	struct weft_rdma_pdu *pdu;

	if (unlikely(!slot)) {
		if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
			weft_rdma_peer_keys_lost(queue);
		return;
	}
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE) {
		if (unlikely(!slot->mapped ||
			     wc->ex.invalidate_rkey != slot->mr->rkey)) {
			weft_rdma_error(queue->ctrl, "queue %u: the target invalidated key 0x%x, which is not command 0x%x's",
					queue->index, wc->ex.invalidate_rkey,
					cqe->command_id);
			weft_rdma_peer_keys_lost(queue);
			return;
		}
	} else if (slot->mapped && weft_slot_invalidate(queue, slot)) {
		weft_rdma_error(queue->ctrl, "queue %u: LOCAL_INV cannot be posted",
				queue->index);
		return;
	}
	pdu = blk_mq_rq_to_pdu(slot->rq);
	pdu->result = cqe->result;
	pdu->status = le16_to_cpu(cqe->status) >> 1;
	weft_slot_done(queue, slot, WEFT_SLOT_RESPONSE);
}

void weft_rdma_recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct weft_rdma_queue *queue = cq->cq_context;
	struct weft_rdma_recv *recv = container_of(wc->wr_cqe, struct weft_rdma_recv,
						   cqe);

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		weft_wc_failed(queue, wc, "RECV");
		return;
	}
	if (unlikely(wc->byte_len != sizeof(struct nvme_completion))) {
		weft_rdma_error(queue->ctrl, "queue %u: the target sent a capsule of %u bytes, not %zu",
				queue->index, wc->byte_len,
				sizeof(struct nvme_completion));
		return;
	}
	weft_response(queue, wc, recv->nvme);
	if (unlikely(weft_rdma_post_recv(queue, recv)))
		weft_rdma_error(queue->ctrl, "queue %u: a receive cannot be posted",
				queue->index);
}

static void weft_unmap_data(struct weft_rdma_queue *queue, struct request *rq,
			    struct weft_rdma_pdu *pdu)
{
	/* Peer memory stays mapped. */
	if (!pdu->mapping)
		ib_dma_unmap_sg(queue->ctrl->ib, pdu->table.sgl, pdu->nents,
				rq_dma_dir(rq));
	sg_free_table_chained(&pdu->table, WEFT_RDMA_PDU_SEGS);
	pdu->nents = 0;
}

/* Register what is mapped, by the work request before the SEND. */
static int weft_map_register(struct weft_rdma_queue *queue,
			     struct weft_rdma_slot *slot, struct request *rq,
			     struct weft_rdma_pdu *pdu, struct nvme_command *cmd)
{
	struct ib_mr *mr = slot->mr;
	int nr;

	nr = ib_map_mr_sg(mr, pdu->table.sgl, pdu->dma_nents, NULL, SZ_4K);
	/* Gaps are against the queue's limits: nobody may send less than asked. */
	if (unlikely(nr != pdu->dma_nents))
		return nr < 0 ? nr : -EINVAL;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	slot->reg.mr = mr;
	slot->reg.key = mr->rkey;
	slot->reg.access = rq_data_dir(rq) == WRITE ? IB_ACCESS_REMOTE_READ :
			   IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	weft_sgl_keyed(cmd, mr->iova, mr->length, mr->rkey, true);
	slot->mapped = true;
	return 0;
}

/* Data go behind the command where they fit. Returns how many pieces. */
static int weft_map_inline(struct request *rq, struct weft_rdma_pdu *pdu,
			   struct nvme_command *cmd, struct ib_sge *sge)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(pdu->table.sgl, sg, pdu->dma_nents, i) {
		sge[i].addr = sg_dma_address(sg);
		sge[i].length = sg_dma_len(sg);
	}
	weft_sgl_inline(cmd, blk_rq_payload_bytes(rq));
	return pdu->dma_nents;
}

static bool weft_fits_inline(struct weft_rdma_queue *queue, struct request *rq,
			     struct weft_rdma_pdu *pdu)
{
	return rq_data_dir(rq) == WRITE &&
	       blk_rq_payload_bytes(rq) <= queue->inline_bytes &&
	       pdu->dma_nents <= min_t(u32, WEFT_RDMA_INLINE_SEGS,
				       queue->ctrl->ib->attrs.max_send_sge - 1);
}

static int weft_map_sg(struct weft_rdma_queue *queue, struct request *rq,
		       struct weft_rdma_pdu *pdu)
{
	int ret;

	pdu->table.sgl = pdu->sgl;
	ret = sg_alloc_table_chained(&pdu->table, blk_rq_nr_phys_segments(rq),
				     pdu->sgl, WEFT_RDMA_PDU_SEGS);
	if (unlikely(ret))
		return -ENOMEM;
	pdu->nents = weft_rq_map_sg(rq, pdu->table.sgl);
	pdu->dma_nents = ib_dma_map_sg(queue->ctrl->ib, pdu->table.sgl, pdu->nents,
				       rq_dma_dir(rq));
	if (likely(pdu->dma_nents > 0))
		return 0;
	sg_free_table_chained(&pdu->table, WEFT_RDMA_PDU_SEGS);
	pdu->nents = 0;
	/*
	 * Pages of a peer that the device cannot reach: no fault of the path,
	 * and trying again changes nothing.
	 */
	return rq->bio && weft_bio_is_peer(rq->bio) ? -EREMOTEIO : -ENOMEM;
}

/* The block layer's request as a command. Returns a blk_status_t. */
static blk_status_t weft_build(struct weft_rdma_ns *ns, struct request *rq,
			       struct nvme_command *cmd)
{
	u8 shift = ns->info.lba_shift;
	u64 lba = blk_rq_pos(rq) >> (shift - SECTOR_SHIFT);
	u32 blocks = blk_rq_bytes(rq) >> shift;
	struct nvme_dsm_range *range;

	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		weft_capsule_rw(cmd, ns->nsid, req_op(rq) == REQ_OP_WRITE,
				rq->cmd_flags & REQ_FUA, lba, blocks);
		return BLK_STS_OK;
	case REQ_OP_FLUSH:
		weft_capsule_flush(cmd, ns->nsid);
		return BLK_STS_OK;
	case REQ_OP_WRITE_ZEROES:
		weft_capsule_write_zeroes(cmd, ns->nsid, lba, blocks);
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
		range = kmalloc(sizeof(*range), GFP_ATOMIC | __GFP_NOWARN);
		if (!range)
			return BLK_STS_RESOURCE;
		weft_capsule_discard(cmd, ns->nsid, range, lba, blocks);
		rq->special_vec.bv_page = virt_to_page(range);
		rq->special_vec.bv_offset = offset_in_page(range);
		rq->special_vec.bv_len = sizeof(*range);
		rq->rq_flags |= RQF_SPECIAL_PAYLOAD;
		return BLK_STS_OK;
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void weft_cleanup(struct request *rq)
{
	if (rq->rq_flags & RQF_SPECIAL_PAYLOAD) {
		kfree(bvec_virt(&rq->special_vec));
		rq->rq_flags &= ~RQF_SPECIAL_PAYLOAD;
	}
}

/* A use of a slot begins. */
static void weft_slot_begin(struct weft_rdma_slot *slot, struct request *rq,
			    struct weft_rdma_pdu *pdu, struct nvme_command *cmd)
{
	pdu->status = WEFT_SC_HOST_ABORTED;
	cmd->common.command_id = WEFT_CID(rq->tag, ++slot->generation);
	slot->aborted = false;
	slot->mapped = false;
}

/* Sends what a slot's capsule holds, behind the registration of what it has mapped. */
static inline void weft_slot_send(struct weft_rdma_queue *queue, struct weft_rdma_slot *slot,
				  struct request *rq, int num_sge)
{
	int ret;

	blk_mq_start_request(rq);
	slot->pending = WEFT_SLOT_SEND | WEFT_SLOT_RESPONSE;
	/* Read where responses come in, which is after this is sent. */
	WRITE_ONCE(slot->rq, rq);
	slot->send.num_sge = num_sge;
	ret = ib_post_send(queue->qp, slot->mapped ? &slot->reg.wr : &slot->send, NULL);
	/*
	 * Part of the chain may be on its way, so the request is not given
	 * back: recovery ends it with the others.
	 */
	if (unlikely(ret))
		weft_rdma_error(queue->ctrl, "queue %u: a command cannot be posted (error %d)",
				queue->index, -ret);
}

/* Of what hinders a request before it is sent. */
static blk_status_t weft_refused(int error)
{
	switch (error) {
	case -ENOMEM:
	case -EAGAIN:
		return BLK_STS_RESOURCE;
	case -EREMOTEIO:
		return BLK_STS_INVAL;
	default:
		return BLK_STS_IOERR;
	}
}

/*
 * Registered memory that has no key of its own gets one for this command. Not
 * inline, as weft_queue_block(): each of the three kinds pays for itself.
 */
static noinline blk_status_t weft_queue_peer_per_io(struct weft_rdma_queue *queue,
						    struct request *rq,
						    struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_slot *slot = weft_slot(queue, rq);
	struct nvme_command *cmd = &queue->capsules[rq->tag];
	struct weft_mem_op *op = rq->end_io_data;
	int ret;

	ret = weft_rdma_peer_sg(pdu->mapping, op->at, op->length, &pdu->table, pdu->sgl,
				WEFT_RDMA_PDU_SEGS);
	if (unlikely(ret < 0))
		return weft_refused(ret);
	pdu->nents = ret;
	pdu->dma_nents = ret;
	weft_slot_begin(slot, rq, pdu, cmd);
	ret = weft_map_register(queue, slot, rq, pdu, cmd);
	if (unlikely(ret)) {
		weft_unmap_data(queue, rq, pdu);
		return weft_refused(ret);
	}
	weft_slot_send(queue, slot, rq, 1);
	return BLK_STS_OK;
}

/* An operation on registered memory. */
static blk_status_t weft_queue_peer(struct weft_rdma_queue *queue, struct request *rq,
				    struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_slot *slot = weft_slot(queue, rq);
	struct nvme_command *cmd = &queue->capsules[rq->tag];
	struct weft_rdma_ns *ns = rq->q->queuedata;
	struct weft_mem_op *op = rq->end_io_data;
	u8 shift = ns->info.lba_shift;
	u64 address;
	u32 key;

	/* What its number leads to is another disk now, or none; or the device is another. */
	if (unlikely(READ_ONCE(ns->dead) || !weft_mapping_fits(pdu->mapping, queue)))
		return BLK_STS_TRANSPORT;
	weft_capsule_rw(cmd, ns->nsid, op->write, false, op->sector >> (shift - SECTOR_SHIFT),
			op->length >> shift);
	pdu->nents = 0;
	if (!weft_mapping_key(pdu->mapping, op->at, &address, &key))
		return weft_queue_peer_per_io(queue, rq, pdu);
	weft_slot_begin(slot, rq, pdu, cmd);
	weft_sgl_keyed(cmd, address, op->length, key, false);
	weft_slot_send(queue, slot, rq, 1);
	return BLK_STS_OK;
}

/* A command of ours, as it is, or a request of the block layer's. */
static noinline blk_status_t weft_queue_block(struct weft_rdma_queue *queue, struct request *rq,
					      struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_slot *slot = weft_slot(queue, rq);
	struct nvme_command *cmd = &queue->capsules[rq->tag];
	blk_status_t status;
	int num_sge = 1, ret;

	pdu->nents = 0;
	if (blk_rq_is_passthrough(rq)) {
		*cmd = *pdu->cmd;
	} else {
		struct weft_rdma_ns *ns = rq->q->queuedata;

		/* What its number leads to is another disk now, or none. */
		if (unlikely(READ_ONCE(ns->dead)))
			return weft_rdma_failover(rq, rq->rq_flags & RQF_DONTPREP) ?
			       BLK_STS_OK : BLK_STS_IOERR;
		if (!(rq->rq_flags & RQF_DONTPREP)) {
			rq->rq_flags |= RQF_DONTPREP;
			pdu->mapping = NULL;
			pdu->retries = 0;
		}
		status = weft_build(ns, rq, cmd);
		if (unlikely(status))
			return status;
	}
	weft_slot_begin(slot, rq, pdu, cmd);

	if (blk_rq_nr_phys_segments(rq)) {
		ret = weft_map_sg(queue, rq, pdu);
		if (unlikely(ret))
			goto out_cleanup;
		if (weft_fits_inline(queue, rq, pdu)) {
			num_sge += weft_map_inline(rq, pdu, cmd, slot->sge + 1);
		} else {
			ret = weft_map_register(queue, slot, rq, pdu, cmd);
			if (unlikely(ret))
				goto out_unmap;
		}
	} else {
		weft_sgl_none(cmd);
	}
	weft_slot_send(queue, slot, rq, num_sge);
	return BLK_STS_OK;

out_unmap:
	weft_unmap_data(queue, rq, pdu);
out_cleanup:
	weft_cleanup(rq);
	return weft_refused(ret);
}

static struct weft_rdma_queue *weft_request_queue(struct blk_mq_hw_ctx *hctx, struct request *rq,
						  struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_queue *queue = hctx->driver_data;

	if (blk_rq_is_passthrough(rq) && pdu->mem)
		queue = &queue->ctrl->queues[queue->ctrl->mem_first + hctx->queue_num];
	pdu->queue = queue;
	return queue;
}

/* Setup sends its own commands before the queue is live. */
static bool weft_queue_takes(const struct weft_rdma_queue *queue, struct request *rq,
			     const struct weft_rdma_pdu *pdu)
{
	return likely(test_bit(WEFT_QUEUE_LIVE, &queue->flags)) ||
	       (blk_rq_is_passthrough(rq) && !pdu->mapping &&
		test_bit(WEFT_QUEUE_CONNECTED, &queue->flags));
}

static blk_status_t weft_rdma_queue_rq(struct blk_mq_hw_ctx *hctx,
				       const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_rdma_queue *queue = weft_request_queue(hctx, rq, pdu);

	if (unlikely(!weft_queue_takes(queue, rq, pdu)))
		return !blk_rq_is_passthrough(rq) &&
		       weft_rdma_failover(rq, rq->rq_flags & RQF_DONTPREP) ?
		       BLK_STS_OK : BLK_STS_TRANSPORT;
	return blk_rq_is_passthrough(rq) && pdu->mapping ? weft_queue_peer(queue, rq, pdu) :
							   weft_queue_block(queue, rq, pdu);
}

static blk_status_t weft_status(u16 status)
{
	switch (status & 0x7ff) {
	case NVME_SC_SUCCESS:
		return BLK_STS_OK;
	case NVME_SC_CAP_EXCEEDED:
		return BLK_STS_NOSPC;
	case NVME_SC_LBA_RANGE:
	case NVME_SC_NS_NOT_READY:
		return BLK_STS_TARGET;
	case NVME_SC_BAD_ATTRIBUTES:
	case NVME_SC_INVALID_OPCODE:
	case NVME_SC_INVALID_FIELD:
	case NVME_SC_INVALID_NS:
		return BLK_STS_NOTSUPP;
	case NVME_SC_WRITE_FAULT:
	case NVME_SC_READ_ERROR:
	case NVME_SC_UNWRITTEN_BLOCK:
	case NVME_SC_ACCESS_DENIED:
	case NVME_SC_READ_ONLY:
	case NVME_SC_COMPARE_FAILED:
		return BLK_STS_MEDIUM;
	case NVME_SC_GUARD_CHECK:
	case NVME_SC_APPTAG_CHECK:
	case NVME_SC_REFTAG_CHECK:
	case NVME_SC_INVALID_PI:
		return BLK_STS_PROTECTION;
	case NVME_SC_RESERVATION_CONFLICT:
		return BLK_STS_RESV_CONFLICT;
	case WEFT_SC_HOST_PATH_ERROR:
	case WEFT_SC_HOST_ABORTED:
		return BLK_STS_TRANSPORT;
	default:
		return BLK_STS_IOERR;
	}
}

/* Path related statuses are type 3 (NVMe base 2.1, figure 98). */
static bool weft_path_status(u16 status)
{
	return (status & 0x700) == 0x300;
}

static void weft_rdma_complete(struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	enum weft_rdma_state state;
	struct weft_rdma_ctrl *ctrl;
	u16 status = pdu->status;
	bool aborted, lost;

	if (pdu->nents)
		weft_unmap_data(pdu->queue, rq, pdu);
	weft_cleanup(rq);
	if (likely(!status)) {
		blk_mq_end_request(rq, BLK_STS_OK);
		return;
	}
	ctrl = pdu->queue->ctrl;
	state = weft_rdma_state(ctrl);
	aborted = (status & 0x7ff) == WEFT_SC_HOST_ABORTED;
	/* What the target itself answers it may answer for ever: that is no lost path. */
	lost = weft_path_status(status) && (state != WEFT_RDMA_LIVE || aborted);
	if (lost && !blk_rq_is_passthrough(rq) && weft_rdma_failover(rq, true))
		return;
	/* A volume's, which knows other paths, or waits. */
	if (lost && pdu->mapping) {
		blk_mq_end_request(rq, BLK_STS_TRANSPORT);
		return;
	}
	/* It goes back to who knows nothing of late writes, or waits here to be sent again. */
	if (aborted && pdu->queue->index && op_is_write(req_op(rq)))
		WRITE_ONCE(ctrl->keeps_writes, true);
	if (blk_rq_is_passthrough(rq) && !pdu->mapping) {
		blk_mq_end_request(rq, weft_status(status));
		return;
	}
	if (weft_path_status(status)) {
		/* While there is no association it waits; of a target that refuses it not for ever. */
		if (!blk_noretry_request(rq) && !ctrl->fail_fast && state < WEFT_RDMA_DELETING &&
		    (state != WEFT_RDMA_LIVE || pdu->retries++ < WEFT_RDMA_RETRIES)) {
			blk_mq_requeue_request(rq, true);
			return;
		}
	} else if (!(status & WEFT_SC_DNR) && !blk_noretry_request(rq) &&
		   weft_status(status) != BLK_STS_MEDIUM &&
		   pdu->retries < WEFT_RDMA_RETRIES) {
		pdu->retries++;
		blk_mq_requeue_request(rq, true);
		return;
	}
	blk_mq_end_request(rq, weft_status(status));
}

static bool weft_cancel_one(struct request *rq, void *data)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	if (blk_mq_request_completed(rq))
		return true;
	pdu->status = WEFT_SC_HOST_ABORTED;
	blk_mq_complete_request(rq);
	return true;
}

/**
 * weft_rdma_cancel_all() - end every request that was sent
 * @set: of queues that are stopped: drained, and nothing is sent
 *
 * Context: process context; waits until they have ended.
 */
void weft_rdma_cancel_all(struct blk_mq_tag_set *set)
{
	blk_mq_tagset_busy_iter(set, weft_cancel_one, NULL);
	blk_mq_tagset_wait_completed_request(set);
}

static bool weft_cancel_peer(struct request *rq, void *data)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	if (blk_rq_is_passthrough(rq) && pdu->mapping && blk_mq_request_started(rq))
		weft_cancel_one(rq, data);
	return true;
}

/**
 * weft_rdma_cancel_peers() - end every request on peer memory that was sent
 * @set: of a controller whose queues for that are stopped
 *
 * Context: process context; waits until they have ended.
 */
void weft_rdma_cancel_peers(struct blk_mq_tag_set *set)
{
	blk_mq_tagset_busy_iter(set, weft_cancel_peer, NULL);
	blk_mq_tagset_wait_completed_request(set);
}

/* Of a queue that is stopped, and not used again before it is made anew. */
static void weft_slot_forget_key(struct weft_rdma_slot *slot)
{
	if (!slot->mapped)
		return;
	ib_dereg_mr(slot->mr);
	slot->mr = NULL;
	slot->mapped = false;
}

/**
 * weft_rdma_forget_keys() - no key of a queue is good any more
 * @queue: stopped; its requests have not ended
 *
 * For a queue whose protection domain others share: what ends before its key
 * does is open to their targets.
 */
void weft_rdma_forget_keys(struct weft_rdma_queue *queue)
{
	u32 i;

	for (i = 0; queue->slots && i < queue->size; i++)
		weft_slot_forget_key(&queue->slots[i]);
}

static enum blk_eh_timer_return weft_rdma_timeout(struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_rdma_queue *queue = pdu->queue;
	struct weft_rdma_ctrl *ctrl = queue->ctrl;
	struct weft_rdma_slot *slot = weft_slot(queue, rq);
	enum weft_rdma_state state;

	/* It waits for something to happen, as long as that takes. */
	if (!queue->index && pdu->cmd->common.opcode == nvme_admin_async_event)
		return BLK_EH_RESET_TIMER;
	state = weft_rdma_state(ctrl);
	/* Connect of a queue for peer memory: the association lives without, and its end waits for it. */
	if (blk_rq_is_passthrough(rq) && pdu->mem && !pdu->mapping)
		state = WEFT_RDMA_CONNECTING;
	switch (state) {
	case WEFT_RDMA_LIVE:
		if (queue->index && (!blk_rq_is_passthrough(rq) || pdu->mapping) && !slot->aborted) {
			slot->aborted = true;
			weft_ctrl_warn(ctrl, "queue %u: command 0x%x timed out, aborting it\n",
				       queue->index, WEFT_CID(rq->tag, slot->generation));
			weft_rdma_abort(queue, WEFT_CID(rq->tag, slot->generation));
			return BLK_EH_RESET_TIMER;
		}
		weft_rdma_error(ctrl, "queue %u: command 0x%x timed out", queue->index,
				WEFT_CID(rq->tag, slot->generation));
		return BLK_EH_RESET_TIMER;
	case WEFT_RDMA_RECOVERING:
		return BLK_EH_RESET_TIMER;
	default:
		/*
		 * Setup or shutdown waits for this very command and recovery
		 * cannot run. Drained, it cannot be answered any more, and with
		 * its key gone no other queue pair reaches its data.
		 */
		weft_rdma_queue_stop(queue);
		weft_slot_forget_key(slot);
		if (blk_mq_request_started(rq) && !blk_mq_request_completed(rq)) {
			pdu->status = WEFT_SC_HOST_ABORTED;
			blk_mq_complete_request(rq);
		}
		return BLK_EH_DONE;
	}
}

static int weft_rdma_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
{
	struct weft_rdma_queue *queue = hctx->driver_data;
	int found = 0;

	/* Others are handled by their interrupts, one at a time. */
	if (!queue->poll || !spin_trylock(&queue->poll_lock))
		return 0;
	if (test_bit(WEFT_QUEUE_CONNECTED, &queue->flags))
		found = ib_process_cq_direct(queue->cq, -1);
	spin_unlock(&queue->poll_lock);
	return found;
}

static int weft_rdma_init_hctx(struct blk_mq_hw_ctx *hctx, void *data,
			       unsigned int index)
{
	struct weft_rdma_ctrl *ctrl = data;

	hctx->driver_data = &ctrl->queues[index + 1];
	return 0;
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
	.complete	= weft_rdma_complete,
	.timeout	= weft_rdma_timeout,
	.poll		= weft_rdma_poll,
	.init_hctx	= weft_rdma_init_hctx,
	.init_request	= weft_rdma_init_request,
	.map_queues	= weft_rdma_map_queues,
};
