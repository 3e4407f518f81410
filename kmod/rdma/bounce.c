// SPDX-License-Identifier: GPL-2.0-only
/*
 * Small reads of metadata into memory that stays registered.
 *
 * DOC: why
 *
 * A host that owns a volume reads its owner record once a second, on an otherwise
 * idle fabric as on one that loses packets. Each read that registers its memory
 * has a REG_MR in the send queue. When soft-RoCE sends again, it executes all that
 * is in the send queue a second time; REG_MR then fails, and with it the queue
 * pair, the association and the writes in flight. So these reads go to a buffer
 * that is registered while the association is set up, and are copied from there.
 * It is one buffer for each queue, for the owner record and the claim behind it; a
 * read that finds it taken registers its own memory.
 *
 * The controller's target has the key, after it has authenticated, for as long as
 * the association lives. A target that writes to the buffer late changes what it
 * answers to another read, and could have answered that at once. One that writes
 * less than it says leaves zeroes, which are no owner record.
 */
#include "rdma.h"

#include "../../uapi/weft_format.h"

static_assert(WEFT_CLAIM_OFFSET + WEFT_SB_SIZE - WEFT_OWNER_OFFSET <= WEFT_BOUNCE_BYTES);

static void weft_bounce_free(struct ib_device *ib, struct weft_rdma_bounce *bounce)
{
	if (!IS_ERR_OR_NULL(bounce->mr))
		ib_dereg_mr(bounce->mr);
	weft_rdma_free_shared(ib, WEFT_BOUNCE_BYTES, bounce->mem, bounce->addr);
	kfree(bounce);
}

static struct weft_rdma_bounce *weft_bounce_alloc(const struct weft_rdma_queue *queue)
{
	struct weft_rdma_bounce *bounce = kzalloc_obj(*bounce);
	struct ib_device *ib = queue->ctrl->ib;
	struct scatterlist sg;

	if (!bounce)
		return NULL;
	bounce->cqe.done = weft_rdma_reg_done;
	bounce->mem = weft_rdma_alloc_shared(ib, WEFT_BOUNCE_BYTES, &bounce->addr);
	if (!bounce->mem)
		goto out_free;
	bounce->mr = ib_alloc_mr(queue->pd, IB_MR_TYPE_MEM_REG, WEFT_BOUNCE_BYTES / SZ_4K);
	if (IS_ERR(bounce->mr))
		goto out_free;
	/* It is mapped already. */
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = bounce->addr;
	sg_dma_len(&sg) = WEFT_BOUNCE_BYTES;
	if (ib_map_mr_sg(bounce->mr, &sg, 1, NULL, SZ_4K) != 1)
		goto out_free;
	return bounce;

out_free:
	weft_bounce_free(ib, bounce);
	return NULL;
}

/**
 * weft_rdma_bounce_start() - make the buffer of a queue, and let the target write to it
 * @queue: an I/O queue that is live; no disk uses it yet
 *
 * Commands that are posted later find the key valid: a queue pair executes what it
 * is given in that order. Without a buffer, each read registers its memory.
 *
 * Context: process context, may sleep. Undone by weft_rdma_bounce_free().
 */
void weft_rdma_bounce_start(struct weft_rdma_queue *queue)
{
	struct weft_rdma_bounce *bounce = weft_bounce_alloc(queue);
	struct ib_reg_wr reg;

	if (!bounce)
		return;
	reg = (struct ib_reg_wr) {
		.wr.opcode	= IB_WR_REG_MR,
		.wr.wr_cqe	= &bounce->cqe,
		.mr		= bounce->mr,
		.key		= bounce->mr->rkey,
		.access		= IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	/* The device's driver may have it all the same: no read takes the buffer. */
	if (weft_rdma_post_send(queue, &reg.wr))
		bounce->taken = 1;
	/* A thread that finds the disks open sees the buffer: weft_ns_set_closed(). */
	queue->bounce = bounce;
}

/**
 * weft_rdma_bounce_free() - undo weft_rdma_bounce_start()
 * @queue: it has no queue pair any more, and its requests have ended
 *
 * Context: process context, may sleep.
 */
void weft_rdma_bounce_free(struct weft_rdma_queue *queue)
{
	if (queue->bounce)
		weft_bounce_free(queue->ctrl->ib, queue->bounce);
	queue->bounce = NULL;
}

/**
 * weft_rdma_bounce_begin() - use the buffer for a read of metadata
 * @queue: where it is sent
 * @rq: has REQ_PRIO
 * @pdu: its @nents says afterwards that it uses the buffer
 * @cmd: its command; the data pointer is set
 *
 * Context: any. Undone by weft_rdma_bounce_end().
 * Return: true if the request uses the buffer; false if it has to register its own memory.
 */
bool weft_rdma_bounce_begin(struct weft_rdma_queue *queue, struct request *rq,
			    struct weft_rdma_pdu *pdu, struct nvme_command *cmd)
{
	struct weft_rdma_bounce *bounce = queue->bounce;
	u32 bytes = blk_rq_bytes(rq);

	if (!bounce || req_op(rq) != REQ_OP_READ || bytes > WEFT_BOUNCE_BYTES ||
	    weft_bio_is_peer(rq->bio) || test_and_set_bit_lock(0, &bounce->taken))
		return false;
	/* A target that sends nothing does not repeat what another read got. */
	memset(bounce->mem, 0, bytes);
	weft_sgl_keyed(cmd, bounce->mr->iova, bytes, bounce->mr->rkey, false);
	pdu->nents = WEFT_PDU_BOUNCED;
	return true;
}

/**
 * weft_rdma_bounce_end() - give the buffer back
 * @rq: the read, which has come back
 * @pdu: its own
 *
 * Copies what the target sent, if it says that it read it.
 *
 * Context: any.
 */
void weft_rdma_bounce_end(struct request *rq, struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_bounce *bounce = pdu->queue->bounce;
	struct req_iterator iter;
	struct bio_vec vec;
	u32 at = 0;

	if (!(pdu->status & WEFT_STATUS_CODE))
		rq_for_each_segment(vec, rq, iter) {
			memcpy_to_bvec(&vec, bounce->mem + at);
			at += vec.bv_len;
		}
	pdu->nents = 0;
	clear_bit_unlock(0, &bounce->taken);
}
