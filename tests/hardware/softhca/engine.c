// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work requests, executed: what hardware checks is checked, and each byte is
 * moved by DMA address. Everything here is under softhca_fabric.
 */
#include "softhca.h"

/* Not executed, and not in error: the peer has no receive posted. */
#define SOFTHCA_WAIT	-1

static enum ib_wc_opcode softhca_wc_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		return IB_WC_RDMA_READ;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	default:
		return IB_WC_SEND;
	}
}

static void softhca_complete_send(struct softhca_qp *qp, const struct softhca_wqe *wqe,
				  enum ib_wc_status status)
{
	struct ib_wc wc = {
		.wr_cqe	= wqe->cqe,
		.status	= status,
		.opcode	= softhca_wc_opcode(wqe->opcode),
		.qp	= &qp->ib,
	};

	if (status == IB_WC_SUCCESS && !qp->signal_all && !(wqe->flags & IB_SEND_SIGNALED))
		return;
	if (wqe->cpu != softhca_cq_cpu(to_cq(qp->ib.send_cq)))
		to_dev(qp->ib.device)->completed_far++;
	softhca_complete(to_dev(qp->ib.device), to_cq(qp->ib.send_cq), &wc);
}

/* The next receive of a queue pair ends. @wc has what came with it. */
static void softhca_complete_recv(struct softhca_qp *qp, struct ib_wc *wc)
{
	wc->wr_cqe = qp->rq.ring[qp->rq.tail].cqe;
	wc->qp = &qp->ib;
	wc->opcode = IB_WC_RECV;
	qp->rq.tail = softhca_next(qp->rq.tail, qp->rq.size);
	softhca_complete(to_dev(qp->ib.device), to_cq(qp->ib.recv_cq), wc);
}

static void softhca_flush(struct softhca_qp *qp)
{
	for (; qp->sq.tail != qp->sq.head; qp->sq.tail = softhca_next(qp->sq.tail, qp->sq.size))
		softhca_complete_send(qp, &qp->sq.ring[qp->sq.tail], IB_WC_WR_FLUSH_ERR);
	while (qp->rq.tail != qp->rq.head) {
		struct ib_wc wc = { .status = IB_WC_WR_FLUSH_ERR };

		softhca_complete_recv(qp, &wc);
	}
}

static bool softhca_is_moving(const struct softhca_qp *qp)
{
	return qp->moving || (qp->peer && qp->peer->moving);
}

static void softhca_fail(struct softhca_qp *qp, int event)
{
	if (qp->state == IB_QPS_ERR)
		return;
	qp->state = IB_QPS_ERR;
	if (event >= 0)
		qp->event = event;
	qp->draining = softhca_is_moving(qp);
	if (!qp->draining) {
		qp->peer = NULL;
		softhca_flush(qp);
	}
	refcount_inc(&qp->refs);
	if (!queue_work(softhca_wq, &qp->work))
		refcount_dec(&qp->refs);
}

/**
 * softhca_break() - a queue pair goes into error, and its peer with it
 * @qp: the queue pair
 * @event: what its owner is told, or -1
 *
 * Context: softhca_fabric is held.
 */
void softhca_break(struct softhca_qp *qp, int event)
{
	struct softhca_qp *peer = qp->peer;

	softhca_fail(qp, event);
	if (peer)
		softhca_fail(peer, -1);
}

/* Nothing is on its way any more between a queue pair in error and its peer. */
static void softhca_drained(struct softhca_qp *qp)
{
	struct softhca_qp *peer = qp->peer;

	if (!qp->draining || softhca_is_moving(qp))
		return;
	qp->draining = false;
	qp->peer = NULL;
	softhca_flush(qp);
	if (peer)
		softhca_drained(peer);
}

/**
 * softhca_abandon() - what is on its way from or to a queue pair does not arrive
 * @qp: in error, and about to be destroyed
 *
 * Context: softhca_fabric is held.
 */
void softhca_abandon(struct softhca_qp *qp)
{
	qp->moving = false;
	if (qp->peer)
		qp->peer->moving = false;
	softhca_drained(qp);
}

static struct softhca_mr *softhca_find_mr(struct softhca_dev *dev, u32 key)
{
	struct softhca_mr *mr = xa_load(&dev->mrs, key >> 8);

	return mr && mr->valid && mr->ib.rkey == key ? mr : NULL;
}

/* A piece of memory as somebody names it, and how far it was walked. */
struct softhca_span {
	struct softhca_qp	*qp;
	const struct ib_sge	*sge;
	int			num;
	u32			done;
};

/* May all of it be used so? A protection domain, a right, or a bound that is not there is an error. */
static bool softhca_span_ok(struct softhca_span *span, int access, size_t *len)
{
	struct softhca_dev *dev = to_dev(span->qp->ib.device);
	int i;

	*len = 0;
	for (i = 0; i < span->num; i++) {
		const struct ib_sge *sge = &span->sge[i];
		struct softhca_mr *mr;

		*len += sge->length;
		/* Zero bytes need no key. */
		if (!sge->length)
			continue;
		if (sge->lkey == SOFTHCA_LOCAL_KEY) {
			if (access & (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE))
				return false;
			continue;
		}
		mr = softhca_find_mr(dev, sge->lkey);
		if (!mr || mr->ib.pd != span->qp->ib.pd || (access & ~mr->access))
			return false;
		if (sge->addr < mr->ib.iova || sge->length > mr->ib.length ||
		    sge->addr - mr->ib.iova > mr->ib.length - sge->length)
			return false;
	}
	return true;
}

/* The DMA address of what comes next, and how many bytes follow it there. */
static u64 softhca_span_address(struct softhca_span *span, size_t *len)
{
	const struct ib_sge *sge = span->sge;
	struct softhca_mr *mr;
	u64 at = sge->addr + span->done, offset;

	*len = min_t(size_t, *len, sge->length - span->done);
	if (sge->lkey == SOFTHCA_LOCAL_KEY)
		return at;
	mr = softhca_find_mr(to_dev(span->qp->ib.device), sge->lkey);
	if (!mr->max)
		return at;
	offset = at - mr->ib.iova + (mr->ib.iova & (mr->ib.page_size - 1));
	*len = min_t(size_t, *len, mr->ib.page_size - (offset & (mr->ib.page_size - 1)));
	return mr->pages[offset / mr->ib.page_size] + (offset & (mr->ib.page_size - 1));
}

static void *softhca_span_pointer(struct softhca_span *span, size_t *len)
{
	struct softhca_dev *dev = to_dev(span->qp->ib.device);
	void *pointer;
	bool bar;

	while (span->num && span->done == span->sge->length) {
		span->sge++;
		span->num--;
		span->done = 0;
	}
	if (!span->num)
		return NULL;
	pointer = softhca_dma_pointer(dev, softhca_span_address(span, len), len, &bar);
	if (bar)
		dev->bytes_bar += *len;
	else
		dev->bytes_ram += *len;
	return pointer;
}

/* Returns whose DMA address leads nowhere, or NULL; what came before it was moved, as on a bus. */
static struct softhca_span *softhca_move(struct softhca_span *to, struct softhca_span *from,
					 size_t len)
{
	while (len) {
		size_t n = len;
		void *dst = softhca_span_pointer(to, &n);
		void *src = dst ? softhca_span_pointer(from, &n) : NULL;

		if (!dst)
			return to;
		if (!src)
			return from;
		memcpy(dst, src, n);
		to->done += n;
		from->done += n;
		len -= n;
	}
	return NULL;
}

static int softhca_do_send(struct softhca_qp *qp, struct softhca_wqe *wqe)
{
	struct softhca_qp *peer = qp->peer;
	struct softhca_span from = { qp, wqe->sge, wqe->num_sge }, to;
	struct ib_wc wc = { .status = IB_WC_SUCCESS };
	struct softhca_span *lost = NULL;
	struct softhca_mr *mr = NULL;
	struct softhca_wqe *recv;
	size_t len, room;

	if (!softhca_span_ok(&from, 0, &len))
		return IB_WC_LOC_PROT_ERR;
	if (peer->rq.tail == peer->rq.head)
		return SOFTHCA_WAIT;
	recv = &peer->rq.ring[peer->rq.tail];
	to = (struct softhca_span){ peer, recv->sge, recv->num_sge };
	if (!softhca_span_ok(&to, IB_ACCESS_LOCAL_WRITE, &room))
		wc.status = IB_WC_LOC_PROT_ERR;
	else if (len > room)
		wc.status = IB_WC_LOC_LEN_ERR;
	if (wqe->opcode == IB_WR_SEND_WITH_INV) {
		mr = softhca_find_mr(to_dev(peer->ib.device), wqe->invalidate);
		if (!mr || mr->ib.pd != peer->ib.pd || !mr->max)
			wc.status = IB_WC_LOC_PROT_ERR;
		wc.wc_flags = IB_WC_WITH_INVALIDATE;
		wc.ex.invalidate_rkey = wqe->invalidate;
	}
	if (wc.status == IB_WC_SUCCESS)
		lost = softhca_move(&to, &from, len);
	if (lost == &from)
		return IB_WC_LOC_PROT_ERR;
	if (lost)
		wc.status = IB_WC_LOC_PROT_ERR;
	if (wc.status != IB_WC_SUCCESS) {
		softhca_complete_recv(peer, &wc);
		return IB_WC_REM_OP_ERR;
	}
	if (mr)
		mr->valid = false;
	wc.byte_len = len;
	softhca_complete_recv(peer, &wc);
	return IB_WC_SUCCESS;
}

static int softhca_do_rdma(struct softhca_qp *qp, struct softhca_wqe *wqe)
{
	bool write = wqe->opcode == IB_WR_RDMA_WRITE;
	struct softhca_span here = { qp, wqe->sge, wqe->num_sge };
	struct ib_sge remote = { .addr = wqe->remote, .lkey = wqe->key };
	struct softhca_span there = { qp->peer, &remote, 1 };
	struct softhca_span *lost;
	size_t len, same;

	if (!softhca_span_ok(&here, write ? 0 : IB_ACCESS_LOCAL_WRITE, &len) || len > U32_MAX)
		return IB_WC_LOC_PROT_ERR;
	remote.length = len;
	if (!softhca_span_ok(&there, write ? IB_ACCESS_REMOTE_WRITE : IB_ACCESS_REMOTE_READ, &same))
		return IB_WC_REM_ACCESS_ERR;
	lost = write ? softhca_move(&there, &here, len) : softhca_move(&here, &there, len);
	if (lost && qp->draining)
		to_dev(qp->ib.device)->unmapped++;
	if (lost)
		return lost == &here ? IB_WC_LOC_PROT_ERR : IB_WC_REM_ACCESS_ERR;
	if (wqe->opcode == IB_WR_RDMA_READ_WITH_INV) {
		/*
		 * The sink's key, by its sge: the core's rdma_rw names it before it
		 * changes the key's last byte.
		 */
		struct softhca_mr *mr = softhca_find_mr(to_dev(qp->ib.device), wqe->sge[0].lkey);

		if (!mr || mr->ib.lkey >> 8 != wqe->invalidate >> 8)
			return IB_WC_LOC_PROT_ERR;
		mr->valid = false;
	}
	return IB_WC_SUCCESS;
}

static int softhca_do_register(struct softhca_qp *qp, struct softhca_wqe *wqe)
{
	struct softhca_mr *mr = to_mr(wqe->mr);

	/* Valid already, another's, another index: the verbs specification calls it a memory management error. */
	if (mr->valid || mr->ib.pd != qp->ib.pd || wqe->key >> 8 != mr->ib.lkey >> 8 ||
	    (u64)mr->count * mr->ib.page_size < mr->ib.length)
		return IB_WC_MW_BIND_ERR;
	mr->ib.lkey = wqe->key;
	mr->ib.rkey = wqe->key;
	mr->access = wqe->access;
	mr->valid = true;
	if (mr->ib.page_size >= SZ_64K)
		to_dev(qp->ib.device)->large_pages++;
	return IB_WC_SUCCESS;
}

static int softhca_do_invalidate(struct softhca_qp *qp, struct softhca_wqe *wqe)
{
	struct softhca_mr *mr = softhca_find_mr(to_dev(qp->ib.device), wqe->invalidate);

	if (!mr || mr->ib.pd != qp->ib.pd)
		return IB_WC_MW_BIND_ERR;
	mr->valid = false;
	return IB_WC_SUCCESS;
}

static int softhca_execute(struct softhca_qp *qp, struct softhca_wqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_INV:
		return softhca_do_send(qp, wqe);
	case IB_WR_REG_MR:
		return softhca_do_register(qp, wqe);
	case IB_WR_LOCAL_INV:
		return softhca_do_invalidate(qp, wqe);
	default:
		return softhca_do_rdma(qp, wqe);
	}
}

/* What the peer's owner is told of a violation of its memory. */
static void softhca_violated(struct softhca_qp *qp, int status)
{
	struct softhca_qp *peer = qp->peer;

	softhca_fail(qp, -1);
	if (peer)
		softhca_fail(peer, status == IB_WC_REM_ACCESS_ERR ? IB_EVENT_QP_ACCESS_ERR : -1);
}

/* Whether it must wait for latency or bandwidth; then a timer comes back for it. */
static bool softhca_early(struct softhca_qp *qp, const struct softhca_wqe *wqe)
{
	ktime_t ready = max(wqe->ready, qp->ready);

	if (!ready || ktime_before(ready, ktime_get()))
		return false;
	hrtimer_start(&qp->timer, ready, HRTIMER_MODE_ABS);
	return true;
}

static bool softhca_is_rdma(const struct softhca_wqe *wqe)
{
	return wqe->opcode == IB_WR_RDMA_WRITE || wqe->opcode == IB_WR_RDMA_READ ||
	       wqe->opcode == IB_WR_RDMA_READ_WITH_INV;
}

/* Whether its bytes are on their way, and not there; then the timer comes back for it. */
static bool softhca_on_its_way(struct softhca_qp *qp, const struct softhca_wqe *wqe)
{
	struct softhca_dev *dev = to_dev(qp->ib.device);

	if (!qp->moving) {
		if (!dev->dma_ns || !softhca_is_rdma(wqe))
			return false;
		qp->moving = true;
		qp->moved = ktime_add_ns(ktime_get(), dev->dma_ns);
	}
	if (ktime_before(ktime_get(), qp->moved)) {
		hrtimer_start(&qp->timer, qp->moved, HRTIMER_MODE_ABS);
		return true;
	}
	qp->moving = false;
	return false;
}

/* In error. Bytes that were on their way still come, and after that it is flushed. */
static void softhca_run_error(struct softhca_qp *qp)
{
	struct softhca_wqe *wqe = &qp->sq.ring[qp->sq.tail];
	struct softhca_dev *dev = to_dev(qp->ib.device);

	if (!qp->draining) {
		softhca_flush(qp);
		return;
	}
	if (!qp->moving || softhca_on_its_way(qp, wqe))
		return;
	dev->drained++;
	softhca_do_rdma(qp, wqe);
	softhca_drained(qp);
}

static void softhca_spend(struct softhca_dev *dev, struct softhca_qp *qp, struct softhca_wqe *wqe)
{
	u64 bytes = 0;
	int i;

	if (!dev->bandwidth)
		return;
	for (i = 0; i < wqe->num_sge; i++)
		bytes += wqe->sge[i].length;
	qp->ready = ktime_add_ns(ktime_get(), div64_u64(bytes * NSEC_PER_SEC, dev->bandwidth));
}

/**
 * softhca_run() - execute what is posted, as far as that goes
 * @qp: the queue pair
 *
 * Context: softhca_fabric is held.
 */
void softhca_run(struct softhca_qp *qp)
{
	struct softhca_dev *dev = to_dev(qp->ib.device);

	if (qp->state == IB_QPS_ERR) {
		softhca_run_error(qp);
		return;
	}
	while (qp->state == IB_QPS_RTS && qp->sq.tail != qp->sq.head) {
		struct softhca_wqe *wqe = &qp->sq.ring[qp->sq.tail];
		int status;

		if (!qp->moving && softhca_early(qp, wqe))
			return;
		if (!qp->moving && dev->break_at && !--dev->break_at) {
			softhca_break(qp, IB_EVENT_QP_FATAL);
			return;
		}
		if (softhca_on_its_way(qp, wqe))
			return;
		status = softhca_execute(qp, wqe);
		if (status == SOFTHCA_WAIT)
			return;
		softhca_spend(dev, qp, wqe);
		qp->sq.tail = softhca_next(qp->sq.tail, qp->sq.size);
		softhca_complete_send(qp, wqe, status);
		if (status != IB_WC_SUCCESS)
			softhca_violated(qp, status);
	}
}

enum hrtimer_restart softhca_timer(struct hrtimer *timer)
{
	struct softhca_qp *qp = container_of(timer, struct softhca_qp, timer);
	unsigned long flags;

	spin_lock_irqsave(&softhca_fabric, flags);
	softhca_run(qp);
	spin_unlock_irqrestore(&softhca_fabric, flags);
	return HRTIMER_NORESTART;
}
