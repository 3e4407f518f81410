// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests that came back with an error: whether one ends, is sent again, or goes back
 * to its volume.
 *
 * DOC: what passes
 *
 * SPDK's target answers with Internal Error or Command Aborted, both without Do Not
 * Retry, while it resets a disk, which takes seconds. Others answer with Namespace Not
 * Ready while they start. Repeated at once, such a command would use up its attempts in a
 * millisecond. So it is sent again ten times a second, for five seconds; for ANATT, but
 * at most WEFT_RDMA_LATER_ANA, where an ANA state is in transition. It keeps its tag
 * meanwhile: its controller is there, so the tag comes back within that time.
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
 * @WEFT_RETRY_LATER: the same, after WEFT_RDMA_LATER_MS
 * @WEFT_REFUSED: the target does not execute it on this path; others may lead to it
 * @WEFT_LOST: its association ended under it
 */
enum weft_disposition {
	WEFT_END,
	WEFT_RETRY,
	WEFT_RETRY_LATER,
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

/* The target cannot execute the command now (NVMe base 2.1, figure 99), see above. */
static bool weft_status_passes(u16 status)
{
	switch (status & WEFT_STATUS_CODE) {
	case NVME_SC_INTERNAL:
	case NVME_SC_ABORT_REQ:
	case NVME_SC_ABORT_QUEUE:
	case NVME_SC_NS_NOT_READY:
	case NVME_SC_CMD_INTERRUPTED:
	/* A volume would use its other paths; a disk without a volume has only this one. */
	case NVME_SC_INTERNAL_PATH_ERROR:
	case NVME_SC_ANA_TRANSITION:
		return true;
	default:
		return false;
	}
}

/* How long a request is sent again that the target answers like this. */
static unsigned long weft_request_later(const struct weft_rdma_pdu *pdu)
{
	if ((pdu->status & WEFT_STATUS_CODE) != NVME_SC_ANA_TRANSITION)
		return WEFT_RDMA_LATER_END;
	return clamp(msecs_to_jiffies(pdu->queue->ctrl->info.ana_ms),
		     (unsigned long)WEFT_RDMA_LATER_END, (unsigned long)WEFT_RDMA_LATER_ANA);
}

static enum weft_disposition weft_request_decide_retry(const struct weft_rdma_pdu *pdu)
{
	bool may = (pdu->retries & WEFT_PDU_RETRIES_MAX) < WEFT_RDMA_RETRIES;

	if (pdu->retries & WEFT_PDU_LATER)
		return may || time_before(jiffies, pdu->later_since + weft_request_later(pdu)) ?
			       WEFT_RETRY_LATER : WEFT_END;
	if (weft_status_passes(pdu->status))
		return WEFT_RETRY_LATER;
	return may ? WEFT_RETRY : WEFT_END;
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
	    weft_blk_status(status) == BLK_STS_MEDIUM)
		return WEFT_END;
	return weft_request_decide_retry(pdu);
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

/*
 * End a request that no volume takes back: the block layer's own flush of a path, which its
 * volume sends again, or a request of a disk that is not a path any more.
 */
static void weft_request_end_untaken(struct request *rq, const struct weft_rdma_pdu *pdu)
{
	const struct weft_rdma_ns *ns = rq->q->queuedata;

	blk_mq_end_request(rq, READ_ONCE(ns->path) ? BLK_STS_TRANSPORT :
						     weft_blk_status(pdu->status));
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
	if (!weft_rdma_hold(ns, rq))
		weft_request_end_untaken(rq, pdu);
}

/*
 * A command on registered memory goes back to its volume. What a target has answered it
 * does not execute any more: nothing waits for it.
 */
static void weft_request_give_back(struct request *rq, struct weft_rdma_pdu *pdu)
{
	pdu->status = 0;
	pdu->retries = 0;
	blk_mq_end_request(rq, BLK_STS_TRANSPORT);
}

/* The path goes down, or a volume would send it here again. */
static void weft_request_refused(struct request *rq, struct weft_rdma_pdu *pdu)
{
	struct weft_rdma_ns *ns = rq->q->queuedata;
	bool ana = ns->ctrl->info.ana && weft_status_is_ana(pdu->status);

	if (ana)
		WRITE_ONCE(ns->ana_refused, true);
	queue_work(ns->ctrl->wq, ana ? &ns->refused_work : &ns->doubt_work);
	if (pdu->mapping)
		weft_request_give_back(rq, pdu);
	else if (!weft_rdma_failover(rq, false))
		weft_request_end_untaken(rq, pdu);
}

/*
 * The first request that waits begins the time: blk_mq_delay_kick_requeue_list() alone
 * begins it anew for each.
 */
static void weft_queue_kick_later(struct request_queue *q)
{
	/* The work clears its pending bit before it looks at the list. */
	smp_mb();
	if (!delayed_work_pending(&q->requeue_work))
		blk_mq_delay_kick_requeue_list(q, WEFT_RDMA_LATER_MS);
}

static void weft_request_retry(struct request *rq, struct weft_rdma_pdu *pdu, bool later)
{
	struct request_queue *q = rq->q;

	if ((pdu->retries & WEFT_PDU_RETRIES_MAX) < WEFT_PDU_RETRIES_MAX)
		pdu->retries++;
	/* Another thread may kick the list, and the request may end: the disk may go then. */
	percpu_ref_get(&q->q_usage_counter);
	blk_mq_requeue_request(rq, false);
	if (later)
		weft_queue_kick_later(q);
	else
		blk_mq_kick_requeue_list(q);
	percpu_ref_put(&q->q_usage_counter);
}

static void weft_request_retry_later(struct request *rq, struct weft_rdma_pdu *pdu)
{
	/* Its exporter revokes the memory, and waits. The volume sends it when it is back. */
	if (pdu->mapping && percpu_ref_is_dying(&pdu->mapping->ref)) {
		weft_request_give_back(rq, pdu);
		return;
	}
	if (!(pdu->retries & WEFT_PDU_LATER)) {
		pdu->retries |= WEFT_PDU_LATER;
		pdu->later_since = jiffies;
	}
	weft_request_retry(rq, pdu, true);
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
		weft_request_retry(rq, pdu, false);
		break;
	case WEFT_RETRY_LATER:
		weft_request_retry_later(rq, pdu);
		break;
	case WEFT_REFUSED:
		weft_request_refused(rq, pdu);
		break;
	case WEFT_LOST:
		weft_request_lost(rq, pdu);
		break;
	}
}
