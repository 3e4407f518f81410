// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests that came back with an error: whether one ends, is sent again, or goes back
 * to its volume.
 */
#include "mapping.h"
#include "namespace.h"

static blk_status_t weft_blk_status(u16 status)
{
	if (status & WEFT_STATUS_HOST)
		return BLK_STS_TRANSPORT;
	switch (status & WEFT_STATUS_CODE) {
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
	default:
		return BLK_STS_IOERR;
	}
}

static bool weft_status_is_path(u16 status)
{
	return (status & WEFT_STATUS_TYPE) == WEFT_STATUS_TYPE_PATH;
}

/**
 * enum weft_disposition - what becomes of a request that came back
 * @WEFT_END: it ends, well or not
 * @WEFT_RETRY: it is sent again on the same path
 * @WEFT_REFUSED: the target does not execute it on this path; others may lead to it
 * @WEFT_LOST: its association ended under it
 */
enum weft_disposition {
	WEFT_END,
	WEFT_RETRY,
	WEFT_REFUSED,
	WEFT_LOST,
};

/* The target says that this controller does not reach the namespace now. */
static bool weft_status_is_ana(u16 status)
{
	switch (status & WEFT_STATUS_CODE) {
	case NVME_SC_ANA_PERSISTENT_LOSS:
	case NVME_SC_ANA_INACCESSIBLE:
	case NVME_SC_ANA_TRANSITION:
		return true;
	default:
		return false;
	}
}

/*
 * The target says that the namespace is not there, or cannot be reached by this
 * path of a volume. What it says again and again is an error in the end.
 */
static bool weft_request_is_refused(const struct request *rq, u16 status)
{
	const struct weft_rdma_ns *ns = rq->q->queuedata;

	if (!ns || !READ_ONCE(ns->path) ||
	    (READ_ONCE(ns->doubts) >= WEFT_RDMA_RETRIES &&
	     time_before(jiffies, READ_ONCE(ns->doubted_at) + WEFT_RDMA_DOUBT_FORGET)))
		return false;
	/* It was aborted, as the host asked: on this path it did not end in time. */
	return (status & WEFT_STATUS_CODE) == NVME_SC_INVALID_NS ||
	       (status & WEFT_STATUS_CODE) == NVME_SC_ABORT_REQ ||
	       (weft_status_is_path(status) && !(status & WEFT_STATUS_DNR));
}

static enum weft_disposition weft_request_decide(struct request *rq,
						 const struct weft_rdma_pdu *pdu)
{
	enum weft_rdma_state state = weft_rdma_state(pdu->queue->ctrl);
	u16 status = pdu->status;

	/* The caller of an internal command decides. */
	if (blk_rq_is_passthrough(rq) && !pdu->mapping)
		return WEFT_END;
	/* An answer of the target itself may be permanent: it is not a lost path. */
	if (status & WEFT_STATUS_HOST || (weft_status_is_path(status) && state != WEFT_RDMA_LIVE))
		return WEFT_LOST;
	if (weft_request_is_refused(rq, status))
		return WEFT_REFUSED;
	if (status & WEFT_STATUS_DNR || weft_rdma_must_fail_fast(rq) ||
	    weft_blk_status(status) == BLK_STS_MEDIUM || pdu->retries >= WEFT_RDMA_RETRIES)
		return WEFT_END;
	return WEFT_RETRY;
}

/*
 * Not a volume's request: the write is resent from here or by the submitter, so
 * the reconnect waits for late writes. Commands of the setup have no disk.
 */
static void weft_request_note_write(struct request *rq, const struct weft_rdma_pdu *pdu)
{
	if (pdu->status & WEFT_STATUS_HOST && rq->q->queuedata && op_is_write(req_op(rq)))
		WRITE_ONCE(pdu->queue->ctrl->keeps_writes, true);
}

/* No association carries it: a volume takes it back; others wait until one does. */
static void weft_request_lost(struct request *rq, struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;

	if (pdu->mapping) {
		blk_mq_end_request(rq, BLK_STS_TRANSPORT);
		return;
	}
	if (weft_rdma_failover(rq, true))
		return;
	weft_request_note_write(rq, pdu);
	if (weft_rdma_hold(ns, rq))
		return;
	/* The block layer's own flush of a path: its volume sends it again. */
	blk_mq_end_request(rq, READ_ONCE(ns->path) ? BLK_STS_TRANSPORT :
						     weft_blk_status(pdu->status));
}

/*
 * The path goes down, or a volume would send it here again. What a target has
 * answered it does not execute any more: nothing waits.
 */
static void weft_request_refused(struct request *rq, struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	bool ana = ns->ctrl->info.ana && weft_status_is_ana(pdu->status);

	if (ana)
		WRITE_ONCE(ns->ana_refused, true);
	queue_work(ns->ctrl->wq, ana ? &ns->refused_work : &ns->doubt_work);
	if (pdu->mapping) {
		pdu->status = 0;
		pdu->retries = 0;
		blk_mq_end_request(rq, BLK_STS_TRANSPORT);
	} else if (!weft_rdma_failover(rq, false)) {
		/* The block layer made this flush itself, or the disk is not a path any more. */
		blk_mq_end_request(rq, READ_ONCE(ns->path) ? BLK_STS_TRANSPORT :
							     weft_blk_status(pdu->status));
	}
}

/**
 * weft_rdma_failed() - end a request that came back with an error, or send it again
 * @rq: the request; nothing of it is in flight
 * @pdu: of it; its status is not a success
 *
 * Context: any; the block layer's, or that of a completion handler.
 */
void weft_rdma_failed(struct request *rq, struct weft_rdma_pdu *pdu)
{
	switch (weft_request_decide(rq, pdu)) {
	case WEFT_END:
		weft_request_note_write(rq, pdu);
		blk_mq_end_request(rq, weft_blk_status(pdu->status));
		break;
	case WEFT_RETRY:
		pdu->retries++;
		blk_mq_requeue_request(rq, true);
		break;
	case WEFT_REFUSED:
		weft_request_refused(rq, pdu);
		break;
	case WEFT_LOST:
		weft_request_lost(rq, pdu);
		break;
	}
}
