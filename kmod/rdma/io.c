// SPDX-License-Identifier: GPL-2.0-only
/*
 * The path of a request to the target and back.
 *
 * DOC: one request
 *
 * A request's tag is its slot in the queue: the slot holds the capsule, the
 * memory registration and the completions' handlers, so that nothing is
 * allocated or looked up. (A target that grants fewer queues or entries than it
 * did leaves more tags than slots; then a free slot is searched.) Up to two
 * work requests are posted at once: REG_MR, unless the data go with the capsule,
 * or to the queue's buffer (bounce.c), or there are none, and SEND. Requests that
 * were submitted together are a run: their work requests are one chain, so that
 * the device is told once.
 *
 * A request ends when its SEND has completed, its response has come and its
 * registration is invalid again: until then the device may read the capsule's
 * data, or the target the registration. The three come to one completion
 * queue, whose handlers run one at a time, so a plain byte counts them.
 *
 * A command on memory that is registered for good ends with its response: its
 * capsule has no data, and its key stays. The device may send a capsule again
 * whose acknowledgment was lost, with what is there by then. The target's device
 * has it, and drops the copy. So most of these SENDs have no completion.
 *
 * DOC: checks of the target's answers
 *
 * A response names a command id. It counts only when that slot has a request in
 * flight and the id is that of its last use; a key that the target
 * claims to have invalidated must be that slot's. Any other response is an
 * error of the target: the association is ended with one line that says why,
 * and no request is ended by it.
 */
#include "mapping.h"
#include "namespace.h"

/* With fewer slots than tags: any free slot. */
static noinline bool weft_slot_search(struct weft_rdma_queue *queue, struct weft_rdma_pdu *pdu)
{
	unsigned int slot, end = queue->size - 1;

	for_each_clear_bit(slot, queue->claimed, end) {
		if (!test_and_set_bit_lock(slot, queue->claimed)) {
			pdu->slot = slot;
			return true;
		}
	}
	return false;
}

static bool weft_slot_claim(struct weft_rdma_queue *queue, struct request *rq,
			    struct weft_rdma_pdu *pdu)
{
	if (unlikely(queue->scarce))
		return weft_slot_search(queue, pdu);
	pdu->slot = rq->tag;
	return true;
}

static void weft_slot_release(struct weft_rdma_queue *queue, u16 slot)
{
	if (unlikely(queue->scarce))
		clear_bit_unlock(slot, queue->claimed);
}

/*
 * The target did not invalidate the key with its response: do it here. An honest
 * response comes after the SEND was posted. One that a target made up may come
 * before, and the invalidation would then be executed before the registration.
 * A SEND that has completed proves that the registration was executed.
 */
static noinline void weft_slot_invalidate(struct weft_rdma_queue *queue,
					  struct weft_rdma_slot *slot)
{
	struct ib_send_wr wr = {
		.opcode			= IB_WR_LOCAL_INV,
		.send_flags		= IB_SEND_SIGNALED,
		.ex.invalidate_rkey	= slot->mr->rkey,
		.wr_cqe			= &slot->inv_cqe,
	};

	if (slot->pending & WEFT_SLOT_SEND) {
		slot->pending |= WEFT_SLOT_KEY;
		return;
	}
	slot->pending &= ~WEFT_SLOT_KEY;
	slot->pending |= WEFT_SLOT_INVALIDATE;
	/* If it cannot be posted, recovery ends the request with the others. */
	if (weft_rdma_post_send(queue, &wr))
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_QUEUE_PAIR,
				"queue %u: LOCAL_INV cannot be posted", queue->id);
}

static __always_inline void weft_request_unmap(struct weft_rdma_queue *queue, struct request *rq,
					       struct weft_rdma_pdu *pdu)
{
	/* Peer memory stays mapped. */
	if (!pdu->mapping)
		ib_dma_unmap_sg(queue->ctrl->ib, pdu->table.sgl, pdu->nents,
				rq_dma_dir(rq));
	if (unlikely(pdu->table.orig_nents > WEFT_RDMA_PDU_SEGS))
		sg_free_table_chained(&pdu->table, WEFT_RDMA_PDU_SEGS);
	pdu->nents = 0;
}

static void weft_request_cleanup(struct request *rq)
{
	if (rq->rq_flags & RQF_SPECIAL_PAYLOAD) {
		kfree(bvec_virt(&rq->special_vec));
		rq->rq_flags &= ~RQF_SPECIAL_PAYLOAD;
	}
}

/* Inline, because it runs for every I/O. */
static __always_inline void weft_request_complete(struct request *rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	/* A payload of our own is data, too. */
	if (pdu->nents > 0) {
		weft_request_unmap(pdu->queue, rq, pdu);
		weft_request_cleanup(rq);
	} else if (unlikely(pdu->nents == WEFT_PDU_BOUNCED)) {
		weft_rdma_bounce_end(rq, pdu);
	}
	/* With success, the status may have more bits, such as "more" (error log). */
	if (likely(!(pdu->status & WEFT_STATUS_CODE)))
		blk_mq_end_request(rq, BLK_STS_OK);
	else
		weft_rdma_failed(rq, pdu);
}

/* One of the completions that the slot waits for; the last one ends the request. */
static __always_inline void weft_slot_done(struct weft_rdma_queue *queue,
					   struct weft_rdma_slot *slot, struct request *rq,
					   u8 what)
{
	slot->pending &= ~what;
	if (slot->pending) {
		if (unlikely(slot->pending & WEFT_SLOT_KEY))
			weft_slot_invalidate(queue, slot);
		return;
	}
	slot->rq = NULL;
	slot->mapped = false;
	weft_slot_release(queue, slot - queue->slots);
	if (!blk_mq_complete_request_remote(rq))
		weft_request_complete(rq);
}

/* A work request failed. Flushes after the first error are not reported. */
static void weft_queue_wc_failed(struct weft_rdma_queue *queue, struct ib_wc *wc,
				 const char *what)
{
	/*
	 * The CM may tell later, or not at all. A queue that is stopped is not lost. The
	 * admin queue is live before the others are set up.
	 */
	if (test_bit(WEFT_QUEUE_STARTED, &queue->flags)) {
		cmpxchg(&queue->cm_status, 0, -ECONNRESET);
		weft_rdma_queue_lost(queue);
	}
	if (weft_queue_aside(queue))
		return;
	if (test_bit(WEFT_QUEUE_STARTED, &queue->flags))
		weft_rdma_queue_tell_lost(queue);
	if (wc->status != IB_WC_WR_FLUSH_ERR)
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_QUEUE_PAIR, "queue %u: %s failed: %s",
				queue->id, what, ib_wc_status_msg(wc->status));
	else
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_QUEUE_PAIR,
				"queue %u: the queue pair went into error", queue->id);
}

/* A work request that a slot waits for. */
static void weft_slot_work_done(struct ib_wc *wc, struct weft_rdma_slot *slot, u8 what,
				const char *name)
{
	if (unlikely(wc->status != IB_WC_SUCCESS))
		weft_queue_wc_failed(slot->queue, wc, name);
	else
		weft_slot_done(slot->queue, slot, slot->rq, what);
}

void weft_rdma_send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	weft_slot_work_done(wc, container_of(wc->wr_cqe, struct weft_rdma_slot, send_cqe),
			    WEFT_SLOT_SEND, "SEND");
}

/* The same on a queue for peer memory, where SENDs without a completion left before it. */
void weft_rdma_mem_send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct weft_rdma_slot *slot = container_of(wc->wr_cqe, struct weft_rdma_slot, send_cqe);
	struct weft_rdma_queue *queue = slot->queue;

	if (likely(wc->status == IB_WC_SUCCESS)) {
		/*
		 * A target that answers a command before it has it ends the request
		 * while that is being posted. The slot's next use then changes the flags.
		 */
		if (unlikely(!(READ_ONCE(slot->pending) & WEFT_SLOT_SEND)))
			return;
		if ((s32)(slot->sent - queue->left) > 0)
			WRITE_ONCE(queue->left, slot->sent);
	}
	weft_slot_work_done(wc, slot, WEFT_SLOT_SEND, "SEND");
}

/* REG_MR is not signaled: this runs only if it failed. */
void weft_rdma_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		weft_queue_wc_failed(wc->qp->qp_context, wc, "REG_MR");
}

void weft_rdma_inv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	weft_slot_work_done(wc, container_of(wc->wr_cqe, struct weft_rdma_slot, inv_cqe),
			    WEFT_SLOT_INVALIDATE, "LOCAL_INV");
}

/* Find the slot of a response. If there is none, end the association and return NULL. */
static struct weft_rdma_slot *weft_response_slot(struct weft_rdma_queue *queue,
						 const struct nvme_completion *cqe)
{
	u16 cid = READ_ONCE(cqe->command_id);
	u16 tag = WEFT_CID_TAG(cid);
	struct weft_rdma_slot *slot;

	if (unlikely(tag >= queue->size)) {
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_PROTOCOL,
				"queue %u: the target answered command 0x%x, which does not exist",
				queue->id, cid);
		return NULL;
	}
	slot = &queue->slots[tag];
	/* Pairs with weft_slot_send(). */
	if (unlikely(!smp_load_acquire(&slot->rq) || !(slot->pending & WEFT_SLOT_RESPONSE) ||
		     cid != slot->cid)) {
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_PROTOCOL,
				"queue %u: the target answered command 0x%x, which is not in flight",
				queue->id, cid);
		return NULL;
	}
	return slot;
}

/*
 * This response is not for a command in flight, so it must not invalidate a
 * key. For a failed receive it is unknown whether it did.
 */
static void weft_response_keys(struct weft_rdma_queue *queue, const struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS || wc->wc_flags & IB_WC_WITH_INVALIDATE)
		weft_rdma_peer_keys_lost(queue);
}

/* Returns false if the target has not kept to the protocol: the association ends. */
static bool weft_response(struct weft_rdma_queue *queue, struct ib_wc *wc,
			  const struct nvme_completion *cqe)
{
	struct weft_rdma_slot *slot = weft_response_slot(queue, cqe);
	struct weft_rdma_pdu *pdu;
	struct request *rq;

	if (unlikely(!slot)) {
		weft_response_keys(queue, wc);
		return false;
	}
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE) {
		if (unlikely(!slot->mapped ||
			     wc->ex.invalidate_rkey != slot->mr->rkey)) {
			weft_rdma_error(queue->ctrl, WEFT_RDMA_END_PROTOCOL,
					"queue %u: the target invalidated key 0x%x, which is not command 0x%x's",
					queue->id, wc->ex.invalidate_rkey,
					cqe->command_id);
			weft_response_keys(queue, wc);
			return false;
		}
		/*
		 * Soft-iWARP invalidates a key also before it is registered, when a
		 * target has guessed it.
		 */
		if (unlikely(slot->pending & WEFT_SLOT_SEND) && weft_queue_soft_iwarp(queue))
			weft_slot_invalidate(queue, slot);
	} else if (slot->mapped) {
		weft_slot_invalidate(queue, slot);
	}
	rq = slot->rq;
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->result = cqe->result;
	pdu->status = le16_to_cpu(cqe->status) >> 1;
	weft_slot_done(queue, slot, rq, WEFT_SLOT_RESPONSE);
	return true;
}

void weft_rdma_recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct weft_rdma_recv *recv = container_of(wc->wr_cqe, struct weft_rdma_recv,
						   cqe);
	struct weft_rdma_queue *queue = wc->qp->qp_context;

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		weft_queue_wc_failed(queue, wc, "RECV");
		if (wc->status != IB_WC_WR_FLUSH_ERR)
			weft_response_keys(queue, wc);
		return;
	}
	if (unlikely(wc->byte_len != sizeof(struct nvme_completion))) {
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_PROTOCOL,
				"queue %u: the target sent a capsule of %u bytes, not %zu",
				queue->id, wc->byte_len,
				sizeof(struct nvme_completion));
		weft_response_keys(queue, wc);
		return;
	}
	if (unlikely(!weft_response(queue, wc, recv->nvme))) {
		/* Nothing more is taken: a target could send without end. */
		if (!weft_queue_aside(queue))
			weft_rdma_queue_tell_lost(queue);
		return;
	}
	if (unlikely(weft_rdma_post_recv(queue, recv)))
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_QUEUE_PAIR,
				"queue %u: a receive cannot be posted", queue->id);
}

/*
 * A registration has no gaps: all pages but the first and the last are whole. So
 * they have 64 KiB if the device can do that, and if each border between two
 * segments is a multiple of it.
 */
static noinline u32 weft_request_long_page_bytes(struct weft_rdma_queue *queue,
						 struct weft_rdma_pdu *pdu)
{
	struct scatterlist *sg;
	int i;

	if (!weft_rdma_large_pages(queue->ctrl->ib))
		return SZ_4K;
	for_each_sg(pdu->table.sgl, sg, pdu->dma_nents, i) {
		u64 begin = sg_dma_address(sg), end = begin + sg_dma_len(sg);

		if ((i && begin & (SZ_64K - 1)) ||
		    (i < pdu->dma_nents - 1 && end & (SZ_64K - 1)))
			return SZ_4K;
	}
	return SZ_64K;
}

/* The page size of a registration. Short ones have few pages in any case. */
static __always_inline u32 weft_request_page_bytes(struct weft_rdma_queue *queue,
						   struct weft_rdma_pdu *pdu)
{
	return sg_dma_len(pdu->table.sgl) < SZ_64K ? SZ_4K :
						     weft_request_long_page_bytes(queue, pdu);
}

/* Register what is mapped, by the work request before the SEND. */
static __always_inline int weft_request_register(struct weft_rdma_queue *queue,
						 struct weft_rdma_slot *slot, struct request *rq,
						 struct weft_rdma_pdu *pdu,
						 struct nvme_command *cmd)
{
	struct ib_mr *mr = slot->mr;
	int nr;

	nr = ib_map_mr_sg(mr, pdu->table.sgl, pdu->dma_nents, NULL,
			  weft_request_page_bytes(queue, pdu));
	/* A shorter mapping has gaps, which the queue's limits exclude: refuse it. */
	if (unlikely(nr != pdu->dma_nents))
		return nr < 0 ? nr : -EINVAL;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	slot->reg.key = mr->rkey;
	slot->reg.access = rq_data_dir(rq) == WRITE ? IB_ACCESS_REMOTE_READ :
			   IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	weft_sgl_keyed(cmd, mr->iova, mr->length, mr->rkey, true);
	slot->mapped = true;
	return 0;
}

/* Put the data behind the command if they fit. Returns the number of pieces. */
static __always_inline int weft_request_inline(struct request *rq, struct weft_rdma_pdu *pdu,
					       struct nvme_command *cmd, struct ib_sge *sge)
{
	struct scatterlist *sg = pdu->table.sgl;
	int i = 0;

	weft_sgl_inline(cmd, blk_rq_payload_bytes(rq));
	for (;;) {
		sge[i].addr = sg_dma_address(sg);
		sge[i].length = sg_dma_len(sg);
		if (likely(++i == pdu->dma_nents))
			return i;
		sg = sg_next(sg);
	}
}

static __always_inline bool weft_request_fits_inline(struct weft_rdma_queue *queue,
						     struct request *rq,
						     struct weft_rdma_pdu *pdu)
{
	return rq_data_dir(rq) == WRITE &&
	       blk_rq_payload_bytes(rq) <= queue->inline_bytes &&
	       pdu->dma_nents <= queue->inline_segs;
}

/* A table of the request's segments. Returns their number, or -ENOMEM. */
static noinline int weft_request_segments(struct request *rq, struct weft_rdma_pdu *pdu)
{
	if (sg_alloc_table_chained(&pdu->table, blk_rq_nr_phys_segments(rq), pdu->sgl,
				   WEFT_RDMA_PDU_SEGS))
		return -ENOMEM;
	return weft_rq_map_sg(rq, pdu->table.sgl);
}

/* The same for a request of one segment, such as most small I/O. */
static __always_inline int weft_request_segment(struct request *rq, struct weft_rdma_pdu *pdu)
{
	struct bio_vec vec = req_bvec(rq);

	pdu->table.orig_nents = 1;
	pdu->sgl[0] = (struct scatterlist) {};
	sg_set_page(pdu->sgl, vec.bv_page, vec.bv_len, vec.bv_offset);
	sg_mark_end(pdu->sgl);
	return 1;
}

static __always_inline int weft_request_map(struct weft_rdma_queue *queue, struct request *rq,
					    struct weft_rdma_pdu *pdu, unsigned int segments)
{
	int nents;

	pdu->table.sgl = pdu->sgl;
	nents = likely(segments == 1) ? weft_request_segment(rq, pdu) :
					weft_request_segments(rq, pdu);
	if (unlikely(nents < 0))
		return nents;
	pdu->nents = nents;
	pdu->dma_nents = ib_dma_map_sg(queue->ctrl->ib, pdu->table.sgl, nents,
				       rq_dma_dir(rq));
	if (likely(pdu->dma_nents > 0))
		return 0;
	sg_free_table_chained(&pdu->table, WEFT_RDMA_PDU_SEGS);
	pdu->nents = 0;
	/*
	 * The device cannot access these pages of a peer. It is not an error
	 * of the path, and a retry would fail again.
	 */
	if (rq->bio && weft_bio_is_peer(rq->bio))
		return -EREMOTEIO;
	/* Nor would a retry do if the device of this association maps less than the last one. */
	return blk_rq_payload_bytes(rq) > queue->ctrl->map_bytes ? -EIO : -ENOMEM;
}

/* Encode the block layer's request as a command. Returns a blk_status_t. */
static __always_inline blk_status_t weft_request_build(struct weft_rdma_ns *ns,
						       struct request *rq,
						       struct nvme_command *cmd)
{
	/* The masks tell the compiler that the shifts are in range. */
	u8 shift = ns->info.lba_shift & 31;
	u64 lba = blk_rq_pos(rq) >> ((shift - SECTOR_SHIFT) & 31);
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
		/* Not split if the limit has become 0 meanwhile; the field holds no more. */
		if (unlikely(blocks > WEFT_WRITE_ZEROES_BLOCKS))
			return BLK_STS_NOTSUPP;
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

/* Begin a use of a slot. */
static void weft_slot_begin(struct weft_rdma_slot *slot, struct weft_rdma_pdu *pdu,
			    struct nvme_command *cmd)
{
	pdu->status = WEFT_STATUS_ABORTED;
	slot->cid = WEFT_CID_NEXT(slot->cid);
	cmd->common.command_id = slot->cid;
	slot->aborted = false;
	slot->mapped = false;
}

/*
 * Does a SEND on memory that is registered for good need a completion? Others
 * leave the send queue only with a later one that has it. So that there is room
 * for all, one of some has it. If that one is late, every other has it as well,
 * and its request waits: in the queue are as many as there are slots, and at most
 * twice the interval without a slot.
 */
static inline bool weft_queue_signals(struct weft_rdma_queue *queue, struct weft_rdma_slot *slot)
{
	u32 mask = queue->signal_mask;

	slot->sent = atomic_inc_return(&queue->sent);
	return unlikely(!(slot->sent & mask) || slot->sent - READ_ONCE(queue->left) > 2 * mask);
}

/*
 * Part of the chain may have been posted, so no request is given back: recovery ends
 * them with the others.
 */
static noinline void weft_queue_post_failed(struct weft_rdma_queue *queue, int error)
{
	weft_rdma_error(queue->ctrl, WEFT_RDMA_END_QUEUE_PAIR,
			"queue %u: a command cannot be posted (error %d)", queue->id, -error);
}

/* Post a slot's registration, if it has one, and its capsule. */
static __always_inline void weft_slot_post(struct weft_rdma_queue *queue,
					   struct weft_rdma_slot *slot)
{
	struct ib_send_wr *first = &slot->send;
	int ret;

	if (slot->mapped) {
		first = &slot->reg.wr;
		first->next = &slot->send;
	}
	ret = weft_rdma_post_send(queue, first);
	if (unlikely(ret))
		weft_queue_post_failed(queue, ret);
}

/* Post the run that this task has, if any. */
static void weft_run_end(struct weft_rdma_queue **running)
{
	struct weft_rdma_queue *queue = *running;
	int ret;

	if (!queue)
		return;
	*running = NULL;
	ret = weft_rdma_post_send(queue, queue->run->first);
	clear_bit_unlock(0, &queue->run->lock);
	if (unlikely(ret))
		weft_queue_post_failed(queue, ret);
}

/*
 * Begin a run. @running is the queue whose run this task has. Returns false if another
 * task has a run for this queue.
 */
static bool weft_run_begin(struct weft_rdma_queue *queue, struct weft_rdma_queue **running)
{
	struct weft_rdma_run *run = queue->run;

	weft_run_end(running);
	if (test_and_set_bit_lock(0, &run->lock))
		return false;
	*running = queue;
	run->count = 0;
	run->next = &run->first;
	return true;
}

/* Post what a slot has with the run of its queue. */
static noinline void weft_run_add(struct weft_rdma_queue *queue, struct weft_rdma_slot *slot,
				  struct weft_rdma_queue **running)
{
	struct weft_rdma_run *run = queue->run;
	struct ib_send_wr *send;

	if (*running != queue && !weft_run_begin(queue, running)) {
		weft_slot_post(queue, slot);
		return;
	}
	send = &run->sends[run->count++];
	*send = slot->send;
	*run->next = send;
	if (slot->mapped) {
		slot->reg.wr.next = send;
		*run->next = &slot->reg.wr;
	}
	run->next = &send->next;
	if (run->count == WEFT_RUN_MAX)
		weft_run_end(running);
}

/*
 * Send what a slot has. The request ends after what is @pending. @running is NULL, or the
 * queue whose run this task has.
 */
static __always_inline void weft_slot_send(struct weft_rdma_queue *queue,
					   struct weft_rdma_slot *slot, struct request *rq,
					   int num_sge, u8 pending,
					   struct weft_rdma_queue **running)
{
	blk_mq_start_request(rq);
	WRITE_ONCE(slot->pending, pending);
	/* Pairs with weft_response_slot(): a target may answer before it has the SEND. */
	smp_store_release(&slot->rq, rq);
	slot->send.num_sge = num_sge;
	if (running)
		weft_run_add(queue, slot, running);
	else
		weft_slot_post(queue, slot);
}

/* The status for an error before a request is sent. */
static blk_status_t weft_unsent_status(int error)
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
 * Make a key for this command, for registered memory without its own key. Not
 * inline, so that commands on memory with its own key do not pay.
 */
static noinline blk_status_t weft_queue_peer_per_io(struct weft_rdma_queue *queue,
						    struct request *rq,
						    struct weft_rdma_pdu *pdu,
						    struct weft_rdma_queue **running)
{
	struct weft_rdma_slot *slot = &queue->slots[pdu->slot];
	struct nvme_command *cmd = &queue->capsules[pdu->slot];
	struct weft_mem_op *op = rq->end_io_data;
	int ret;

	ret = weft_rdma_peer_sg(pdu->mapping, op->at, op->length, &pdu->table, pdu->sgl,
				WEFT_RDMA_PDU_SEGS);
	if (unlikely(ret < 0))
		goto out_release;
	pdu->nents = ret;
	pdu->dma_nents = ret;
	weft_slot_begin(slot, pdu, cmd);
	ret = weft_request_register(queue, slot, rq, pdu, cmd);
	if (unlikely(ret))
		goto out_unmap;
	weft_slot_send(queue, slot, rq, 1, WEFT_SLOT_SEND | WEFT_SLOT_RESPONSE, running);
	return BLK_STS_OK;

out_unmap:
	weft_request_unmap(queue, rq, pdu);
out_release:
	weft_slot_release(queue, pdu->slot);
	return weft_unsent_status(ret);
}

/* An operation on registered memory. */
static blk_status_t weft_queue_peer(struct weft_rdma_queue *queue, struct request *rq,
				    struct weft_rdma_pdu *pdu, struct weft_rdma_queue **running)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	struct weft_mem_op *op = rq->end_io_data;
	struct weft_rdma_slot *slot;
	struct nvme_command *cmd;
	/* The masks tell the compiler that the shifts are in range. */
	u8 shift = ns->info.lba_shift & 31;
	bool signals;
	u64 address;
	u32 key;

	/* Its nsid may belong to another disk now, or to none; or the device differs. */
	if (unlikely(READ_ONCE(ns->state) != WEFT_NS_READY ||
		     !weft_mapping_fits(pdu->mapping, queue)))
		return BLK_STS_TRANSPORT;
	if (op->write && unlikely(!weft_rdma_may_write(ns, NULL)))
		return BLK_STS_AGAIN;
	if (unlikely(!weft_slot_claim(queue, rq, pdu)))
		return BLK_STS_RESOURCE;
	slot = &queue->slots[pdu->slot];
	cmd = &queue->capsules[pdu->slot];
	weft_capsule_rw(cmd, ns->nsid, op->write, false, op->sector >> ((shift - SECTOR_SHIFT) & 31),
			op->length >> shift);
	pdu->nents = 0;
	if (!weft_mapping_key(pdu->mapping, op->at, &address, &key))
		return weft_queue_peer_per_io(queue, rq, pdu, running);
	weft_slot_begin(slot, pdu, cmd);
	weft_sgl_keyed(cmd, address, op->length, key, false);
	signals = weft_queue_signals(queue, slot);
	slot->send.send_flags = signals ? IB_SEND_SIGNALED : 0;
	weft_slot_send(queue, slot, rq, 1,
		       signals ? WEFT_SLOT_SEND | WEFT_SLOT_RESPONSE : WEFT_SLOT_RESPONSE, running);
	return BLK_STS_OK;
}

/*
 * A request that must not be sent: its disk may be another one now, or its
 * volume another host's. The block layer's own flush has no bio to give back: a
 * volume sends it again if the status says that its path failed.
 */
static noinline blk_status_t weft_request_turn_away(struct weft_rdma_ns *ns, struct request *rq)
{
	if (weft_rdma_failover(rq, rq->rq_flags & RQF_DONTPREP) || weft_rdma_hold(ns, rq))
		return BLK_STS_OK;
	if (READ_ONCE(ns->path) || READ_ONCE(ns->state) != WEFT_NS_DEAD)
		return BLK_STS_TRANSPORT;
	return BLK_STS_IOERR;
}

/* A command of ours, as it is, or a request of the block layer's. */
static __always_inline blk_status_t weft_queue_request(struct weft_rdma_queue *queue,
						       struct request *rq,
						       struct weft_rdma_pdu *pdu, bool ours,
						       struct weft_rdma_queue **running)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	struct weft_rdma_slot *slot;
	struct nvme_command *cmd;
	unsigned int segments;
	int num_sge = 1, ret;
	blk_status_t status;

	if (!ours && op_is_write(req_op(rq)) && unlikely(!weft_rdma_may_write(ns, rq->bio)))
		return weft_request_turn_away(ns, rq);
	if (unlikely(!weft_slot_claim(queue, rq, pdu)))
		return BLK_STS_RESOURCE;
	slot = &queue->slots[pdu->slot];
	cmd = &queue->capsules[pdu->slot];
	pdu->nents = 0;
	if (ours) {
		*cmd = *pdu->cmd;
	} else {
		if (!(rq->rq_flags & RQF_DONTPREP)) {
			rq->rq_flags |= RQF_DONTPREP;
			pdu->mapping = NULL;
			pdu->retries = 0;
		}
		status = weft_request_build(ns, rq, cmd);
		if (unlikely(status)) {
			weft_slot_release(queue, pdu->slot);
			return status;
		}
	}
	weft_slot_begin(slot, pdu, cmd);

	segments = blk_rq_nr_phys_segments(rq);
	if (unlikely(rq->cmd_flags & REQ_PRIO) && weft_rdma_bounce_begin(queue, rq, pdu, cmd)) {
		/* It goes to the queue's buffer. */
	} else if (segments) {
		ret = weft_request_map(queue, rq, pdu, segments);
		if (unlikely(ret))
			goto out_cleanup;
		if (weft_request_fits_inline(queue, rq, pdu)) {
			num_sge += weft_request_inline(rq, pdu, cmd, slot->sge + 1);
		} else {
			ret = weft_request_register(queue, slot, rq, pdu, cmd);
			if (unlikely(ret))
				goto out_unmap;
		}
	} else {
		weft_sgl_none(cmd);
	}
	weft_slot_send(queue, slot, rq, num_sge, WEFT_SLOT_SEND | WEFT_SLOT_RESPONSE, running);
	return BLK_STS_OK;

out_unmap:
	weft_request_unmap(queue, rq, pdu);
out_cleanup:
	weft_request_cleanup(rq);
	weft_slot_release(queue, pdu->slot);
	return weft_unsent_status(ret);
}

/* A command of ours. Setup sends its commands before the queue is live. */
static noinline blk_status_t weft_queue_own(struct weft_rdma_queue *queue, struct request *rq,
					    struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_queue *connects = pdu->connects;
	struct weft_rdma_ns *ns = rq->q->queuedata;
	blk_status_t status;

	/* Its nsid may belong to another disk now, or to none. The admin queue has no @ns. */
	if (ns && unlikely(READ_ONCE(ns->state) != WEFT_NS_READY))
		return weft_rdma_hold(ns, rq) ? BLK_STS_OK : BLK_STS_TRANSPORT;
	if (connects)
		queue = connects;
	pdu->queue = queue;
	if (!test_bit(WEFT_QUEUE_LIVE, &queue->flags) &&
	    !test_bit(WEFT_QUEUE_CONNECTED, &queue->flags))
		return BLK_STS_TRANSPORT;
	status = weft_queue_request(queue, rq, pdu, true, NULL);
	/*
	 * The connection ended before the request had a time limit that could be over.
	 * Pairs with weft_rdma_cm_handler().
	 */
	smp_mb();
	if (connects && unlikely(READ_ONCE(queue->cm_status)))
		weft_rdma_queue_lost(queue);
	return status;
}

/* An operation on registered memory, or a command of ours. */
static noinline blk_status_t weft_queue_passthrough(struct blk_mq_hw_ctx *hctx,
						    struct request *rq,
						    struct weft_rdma_pdu *pdu,
						    struct weft_rdma_queue **running)
{
	struct weft_rdma_queue *queue = hctx->driver_data, *background;

	if (unlikely(!pdu->mapping))
		return weft_queue_own(queue, rq, pdu);
	if (pdu->mem) {
		/* Some of them may be connected before this association's are all up. */
		if (unlikely(!READ_ONCE(queue->ctrl->mem_up)))
			return BLK_STS_TRANSPORT;
		queue = &queue->ctrl->queues[queue->ctrl->mem_first + hctx->queue_num];
	}
	background = READ_ONCE(queue->background);
	if (unlikely(background) && ((struct weft_mem_op *)rq->end_io_data)->background)
		queue = background;
	pdu->queue = queue;
	return likely(test_bit(WEFT_QUEUE_LIVE, &queue->flags)) ?
	       weft_queue_peer(queue, rq, pdu, running) : BLK_STS_TRANSPORT;
}

/*
 * By its I/O priority: that of its submitter, or of its class in a volume. Others
 * wait for metadata and for swapping.
 */
static bool weft_request_is_background(struct request *rq)
{
	return IOPRIO_PRIO_CLASS(req_get_ioprio(rq)) == IOPRIO_CLASS_IDLE &&
	       !(rq->cmd_flags & (REQ_META | REQ_PRIO | REQ_SWAP));
}

/* A request of the block layer's. */
static noinline blk_status_t weft_queue_block(struct blk_mq_hw_ctx *hctx, struct request *rq,
					      struct weft_rdma_pdu *pdu,
					      struct weft_rdma_queue **running)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	struct weft_rdma_queue *queue, *background;

	/* Pairs with weft_ns_set_closed(): what the setup has made is seen. */
	if (unlikely(smp_load_acquire(&ns->closed)))
		return weft_request_turn_away(ns, rq);
	queue = hctx->driver_data;
	background = READ_ONCE(queue->background);
	if (unlikely(background) && weft_request_is_background(rq))
		queue = background;
	pdu->queue = queue;
	if (unlikely(!test_bit(WEFT_QUEUE_LIVE, &queue->flags)))
		return weft_rdma_failover(rq, rq->rq_flags & RQF_DONTPREP) ?
		       BLK_STS_OK : BLK_STS_TRANSPORT;
	return weft_queue_request(queue, rq, pdu, false, running);
}

/* @running as in weft_slot_send(). Returns a blk_status_t. */
static __always_inline blk_status_t weft_queue_any(struct blk_mq_hw_ctx *hctx, struct request *rq,
						   struct weft_rdma_queue **running)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);

	/* Apart, so that neither kind of requests pays for the other one. */
	return blk_rq_is_passthrough(rq) ? weft_queue_passthrough(hctx, rq, pdu, running) :
					   weft_queue_block(hctx, rq, pdu, running);
}

/**
 * weft_rdma_queue_rq() - send a request
 * @hctx: its hardware context
 * @bd: the request
 *
 * Context: the block layer's, may not sleep.
 * Return: a status; BLK_STS_OK if it was sent, or given back to a volume.
 */
blk_status_t weft_rdma_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	return weft_queue_any(hctx, bd->rq, NULL);
}

/**
 * weft_rdma_queue_rqs() - send requests that were submitted together
 * @list: requests of one disk; those that were not sent are left on it, and the block
 *	layer sends them one by one
 *
 * Requests in a row that go to one queue pair are posted by one call, so that the device
 * is told once.
 *
 * Context: the block layer's, under rcu_read_lock(), may not sleep. A recovery waits for
 * that, so none of them is ended between its start and its posting.
 */
void weft_rdma_queue_rqs(struct rq_list *list)
{
	struct weft_rdma_queue *running = NULL;
	struct rq_list rest = {};
	struct request *rq;

	while ((rq = rq_list_pop(list)))
		if (unlikely(weft_queue_any(rq->mq_hctx, rq, &running)))
			rq_list_add_tail(&rest, rq);
	weft_run_end(&running);
	*list = rest;
}

/**
 * weft_rdma_complete() - end a request that has come back
 * @rq: the request; nothing of it is in flight
 *
 * Context: any; the block layer's, or that of a completion handler.
 */
void weft_rdma_complete(struct request *rq)
{
	weft_request_complete(rq);
}
