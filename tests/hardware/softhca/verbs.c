// SPDX-License-Identifier: GPL-2.0-only
/* Objects: made, found, given back; work requests taken in, completions handed out. */
#include "softhca.h"

#include <rdma/ib_mad.h>

DEFINE_SPINLOCK(softhca_fabric);

static int softhca_query_device(struct ib_device *ib, struct ib_device_attr *attr,
				struct ib_udata *udata)
{
	attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->max_mr_size = U64_MAX;
	attr->max_qp = 4096;
	attr->max_qp_wr = SOFTHCA_WR_MAX;
	attr->max_send_sge = SOFTHCA_SGE_MAX;
	attr->max_recv_sge = SOFTHCA_SGE_MAX;
	attr->max_sge_rd = SOFTHCA_SGE_MAX;
	attr->max_cq = 4096;
	attr->max_cqe = 4 * SOFTHCA_WR_MAX;
	attr->max_mr = softhca_mr_limit;
	attr->max_pd = 4096;
	attr->max_qp_rd_atom = 128;
	attr->max_qp_init_rd_atom = 128;
	attr->max_fast_reg_page_list_len = softhca_page_list_limit;
	attr->page_size_cap = PAGE_SIZE | SZ_64K;
	return 0;
}

static int softhca_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = 1;
	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_DEVICE_MGMT_SUP;
	attr->max_msg_sz = U32_MAX;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int softhca_port_immutable(struct ib_device *ib, u32 port,
				  struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static int softhca_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw, to_dev(ib)->netdev->dev_addr, ETH_ALEN);
	return 0;
}

static int softhca_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return udata ? -EOPNOTSUPP : 0;
}

static int softhca_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

/* Completion queues */

static void softhca_cq_irq(struct irq_work *work)
{
	struct softhca_cq *cq = container_of(work, struct softhca_cq, irq);

	cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

static void softhca_cq_far_irq(void *arg)
{
	struct softhca_cq *cq = arg;

	cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

/**
 * softhca_cq_cpu() - where a completion queue's interrupt goes
 * @cq: the queue
 *
 * Return: the processor.
 */
int softhca_cq_cpu(const struct softhca_cq *cq)
{
	struct softhca_dev *dev = to_dev(cq->ib.device);

	return (cq->ib.comp_vector + dev->vector_shift) % dev->ib.num_comp_vectors;
}

/* The interrupt of the queue's vector, never where completions are made: their locks are held. */
static void softhca_cq_interrupt(struct softhca_cq *cq)
{
	int cpu = softhca_cq_cpu(cq);

	if (cpu == smp_processor_id() || smp_call_function_single_async(cpu, &cq->far))
		irq_work_queue(&cq->irq);
}

static int softhca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	struct softhca_cq *cq = to_cq(ibcq);

	if (attrs || attr->cqe < 1 || attr->cqe > ibcq->device->attrs.max_cqe ||
	    attr->comp_vector >= ibcq->device->num_comp_vectors)
		return -EINVAL;
	spin_lock_init(&cq->lock);
	init_irq_work(&cq->irq, softhca_cq_irq);
	INIT_CSD(&cq->far, softhca_cq_far_irq, cq);
	cq->size = attr->cqe + 1;
	cq->ring = kvcalloc(cq->size, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	ibcq->cqe = attr->cqe;
	ibcq->comp_vector = attr->comp_vector;
	return 0;
}

static void softhca_cq_answer(void *unused)
{
}

static int softhca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct softhca_cq *cq = to_cq(ibcq);

	irq_work_sync(&cq->irq);
	/* One that was sent to another processor, whichever it was, is run when that answers this. */
	on_each_cpu(softhca_cq_answer, NULL, 1);
	kvfree(cq->ring);
	return 0;
}

/**
 * softhca_complete() - a completion for a queue
 * @dev: its adapter
 * @cq: the queue
 * @wc: the completion
 *
 * Context: any; softhca_fabric is held.
 */
void softhca_complete(struct softhca_dev *dev, struct softhca_cq *cq, const struct ib_wc *wc)
{
	unsigned long flags;
	u32 next;

	if (dev->drop_completion && !--dev->drop_completion)
		return;
	spin_lock_irqsave(&cq->lock, flags);
	next = softhca_next(cq->head, cq->size);
	/* A queue that overflows is its owner's error; what came too late is lost. */
	if (!WARN_ON_ONCE(next == cq->tail)) {
		cq->ring[cq->head] = *wc;
		cq->head = next;
	}
	if (cq->armed) {
		cq->armed = false;
		softhca_cq_interrupt(cq);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

static int softhca_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct softhca_cq *cq = to_cq(ibcq);
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	for (; n < num && cq->tail != cq->head; n++) {
		wc[n] = cq->ring[cq->tail];
		cq->tail = softhca_next(cq->tail, cq->size);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

static int softhca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct softhca_cq *cq = to_cq(ibcq);
	unsigned long irq;
	int missed;

	spin_lock_irqsave(&cq->lock, irq);
	cq->armed = true;
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && cq->head != cq->tail;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed;
}

/* Registrations */

static struct ib_mr *softhca_new_mr(struct ib_pd *pd, u32 pages)
{
	struct softhca_dev *dev = to_dev(pd->device);
	struct softhca_mr *mr;
	u32 index;
	int ret;

	mr = kvzalloc(struct_size(mr, pages, pages), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max = pages;
	ret = xa_alloc(&dev->mrs, &index, mr, XA_LIMIT(1, dev->mr_limit), GFP_KERNEL);
	if (ret) {
		kvfree(mr);
		return ERR_PTR(ret == -EBUSY ? -ENOMEM : ret);
	}
	mr->ib.pd = pd;
	mr->ib.lkey = index << 8;
	mr->ib.rkey = index << 8;
	return &mr->ib;
}

static struct ib_mr *softhca_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 pages)
{
	if (type != IB_MR_TYPE_MEM_REG || !pages ||
	    pages > pd->device->attrs.max_fast_reg_page_list_len)
		return ERR_PTR(-EINVAL);
	return softhca_new_mr(pd, pages);
}

/* All of memory under one key: without pages, addresses are DMA addresses. */
static struct ib_mr *softhca_get_dma_mr(struct ib_pd *pd, int access)
{
	struct ib_mr *ibmr = softhca_new_mr(pd, 0);

	if (IS_ERR(ibmr))
		return ibmr;
	to_mr(ibmr)->access = access;
	ibmr->length = U64_MAX;
	to_mr(ibmr)->valid = true;
	return ibmr;
}

static struct ib_mr *softhca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt,
					 int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int softhca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct softhca_dev *dev = to_dev(ibmr->device);
	unsigned long flags;

	xa_erase(&dev->mrs, ibmr->lkey >> 8);
	/* Nobody who found it is still at it. */
	spin_lock_irqsave(&softhca_fabric, flags);
	spin_unlock_irqrestore(&softhca_fabric, flags);
	kvfree(to_mr(ibmr));
	return 0;
}

static int softhca_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct softhca_mr *mr = to_mr(ibmr);

	if (mr->count == mr->max)
		return -ENOMEM;
	mr->pages[mr->count++] = addr;
	return 0;
}

static int softhca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
			     unsigned int *offset)
{
	to_mr(ibmr)->count = 0;
	return ib_sg_to_pages(ibmr, sg, nents, offset, softhca_set_page);
}

/* Queue pairs */

static int softhca_queue_alloc(struct softhca_queue *q, u32 count)
{
	q->size = count + 1;
	q->ring = kvcalloc(q->size, sizeof(*q->ring), GFP_KERNEL);
	return q->ring ? 0 : -ENOMEM;
}

/* A connection broke: told where one may sleep. Holds a reference. */
static void softhca_qp_work(struct work_struct *work)
{
	struct softhca_qp *qp = container_of(work, struct softhca_qp, work);
	struct ib_event event = { .device = qp->ib.device, .element.qp = &qp->ib };
	unsigned long flags;
	int told;

	spin_lock_irqsave(&softhca_fabric, flags);
	told = qp->event;
	qp->event = -1;
	spin_unlock_irqrestore(&softhca_fabric, flags);
	if (told >= 0 && qp->ib.event_handler) {
		event.event = told;
		qp->ib.event_handler(&event, qp->ib.qp_context);
	}
	softhca_cm_closed(qp);
	softhca_qp_put(qp);
}

static int softhca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
			     struct ib_udata *udata)
{
	struct softhca_dev *dev = to_dev(ibqp->device);
	struct softhca_qp *qp = to_qp(ibqp);
	int ret;

	if (udata || attr->qp_type != IB_QPT_RC || attr->srq)
		return -EOPNOTSUPP;
	if (attr->cap.max_send_wr > SOFTHCA_WR_MAX || attr->cap.max_recv_wr > SOFTHCA_WR_MAX ||
	    attr->cap.max_send_sge > SOFTHCA_SGE_MAX || attr->cap.max_recv_sge > SOFTHCA_SGE_MAX)
		return -EINVAL;
	refcount_set(&qp->refs, 1);
	init_completion(&qp->gone);
	qp->signal_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->event = -1;
	hrtimer_setup(&qp->timer, softhca_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	INIT_WORK(&qp->work, softhca_qp_work);
	ret = softhca_queue_alloc(&qp->sq, attr->cap.max_send_wr);
	if (!ret)
		ret = softhca_queue_alloc(&qp->rq, attr->cap.max_recv_wr);
	if (!ret)
		ret = xa_alloc(&dev->qps, &ibqp->qp_num, qp, XA_LIMIT(1, 0xffffff), GFP_KERNEL);
	if (ret) {
		kvfree(qp->sq.ring);
		kvfree(qp->rq.ring);
	}
	return ret;
}

/**
 * softhca_qp_put() - give back a reference
 * @qp: not to be used any more
 */
void softhca_qp_put(struct softhca_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		complete(&qp->gone);
}

static int softhca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			     struct ib_udata *udata)
{
	struct softhca_qp *qp = to_qp(ibqp);
	unsigned long flags;

	if (!(mask & IB_QP_STATE))
		return 0;
	spin_lock_irqsave(&softhca_fabric, flags);
	switch (attr->qp_state) {
	case IB_QPS_INIT:
		if (qp->state == IB_QPS_RESET)
			qp->state = IB_QPS_INIT;
		break;
	case IB_QPS_RTR:
	case IB_QPS_RTS:
		break;	/* by accept and reply */
	default:
		/* SQD is how the iWARP connection manager says to close. */
		softhca_break(qp, -1);
	}
	spin_unlock_irqrestore(&softhca_fabric, flags);
	return 0;
}

static int softhca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			    struct ib_qp_init_attr *init)
{
	struct softhca_qp *qp = to_qp(ibqp);

	attr->qp_state = READ_ONCE(qp->state);
	attr->cur_qp_state = attr->qp_state;
	attr->cap.max_send_wr = qp->sq.size - 1;
	attr->cap.max_recv_wr = qp->rq.size - 1;
	attr->cap.max_send_sge = SOFTHCA_SGE_MAX;
	attr->cap.max_recv_sge = SOFTHCA_SGE_MAX;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->cap = attr->cap;
	init->qp_type = ibqp->qp_type;
	return 0;
}

static int softhca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct softhca_dev *dev = to_dev(ibqp->device);
	struct softhca_qp *qp = to_qp(ibqp);
	unsigned long flags;

	xa_erase(&dev->qps, ibqp->qp_num);
	spin_lock_irqsave(&softhca_fabric, flags);
	softhca_break(qp, -1);
	softhca_abandon(qp);
	spin_unlock_irqrestore(&softhca_fabric, flags);
	hrtimer_cancel(&qp->timer);
	softhca_qp_put(qp);
	wait_for_completion(&qp->gone);
	kvfree(qp->sq.ring);
	kvfree(qp->rq.ring);
	return 0;
}

static int softhca_take_sges(struct softhca_wqe *wqe, const struct ib_sge *sge, int num)
{
	if (num < 0 || num > SOFTHCA_SGE_MAX)
		return -EINVAL;
	memcpy(wqe->sge, sge, num * sizeof(*sge));
	wqe->num_sge = num;
	return 0;
}

static int softhca_take_send(struct softhca_wqe *wqe, const struct ib_send_wr *wr)
{
	wqe->cqe = wr->wr_cqe;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->num_sge = 0;
	switch (wr->opcode) {
	case IB_WR_SEND:
		break;
	case IB_WR_SEND_WITH_INV:
		wqe->invalidate = wr->ex.invalidate_rkey;
		break;
	case IB_WR_RDMA_READ_WITH_INV:
		wqe->invalidate = wr->ex.invalidate_rkey;
		fallthrough;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_WRITE:
		wqe->remote = rdma_wr(wr)->remote_addr;
		wqe->key = rdma_wr(wr)->rkey;
		break;
	case IB_WR_REG_MR:
		wqe->mr = reg_wr(wr)->mr;
		wqe->key = reg_wr(wr)->key;
		wqe->access = reg_wr(wr)->access;
		return 0;
	case IB_WR_LOCAL_INV:
		wqe->invalidate = wr->ex.invalidate_rkey;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
	return softhca_take_sges(wqe, wr->sg_list, wr->num_sge);
}

static int softhca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
			     const struct ib_send_wr **bad)
{
	struct softhca_dev *dev = to_dev(ibqp->device);
	struct softhca_qp *qp = to_qp(ibqp);
	unsigned long flags;
	int ret = 0;
	u32 next;

	spin_lock_irqsave(&softhca_fabric, flags);
	dev->doorbells++;
	for (; wr; wr = wr->next) {
		struct softhca_wqe *wqe = &qp->sq.ring[qp->sq.head];

		next = softhca_next(qp->sq.head, qp->sq.size);
		if (next == qp->sq.tail || (dev->post_fail_at && !--dev->post_fail_at))
			ret = -ENOMEM;
		else
			ret = softhca_take_send(wqe, wr);
		if (ret)
			break;
		wqe->cpu = smp_processor_id();
		wqe->ready = dev->latency_ns ? ktime_add_ns(ktime_get(), dev->latency_ns) : 0;
		qp->sq.head = next;
	}
	softhca_run(qp);
	spin_unlock_irqrestore(&softhca_fabric, flags);
	if (ret && bad)
		*bad = wr;
	return ret;
}

static int softhca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
			     const struct ib_recv_wr **bad)
{
	struct softhca_qp *qp = to_qp(ibqp);
	unsigned long flags;
	int ret = 0;
	u32 next;

	spin_lock_irqsave(&softhca_fabric, flags);
	for (; wr; wr = wr->next) {
		struct softhca_wqe *wqe = &qp->rq.ring[qp->rq.head];

		next = softhca_next(qp->rq.head, qp->rq.size);
		ret = next == qp->rq.tail ? -ENOMEM :
					    softhca_take_sges(wqe, wr->sg_list, wr->num_sge);
		if (ret)
			break;
		wqe->cqe = wr->wr_cqe;
		qp->rq.head = next;
	}
	/* In error it is flushed at once; otherwise a SEND may have waited for it. */
	softhca_run(qp->state == IB_QPS_ERR || !qp->peer ? qp : qp->peer);
	spin_unlock_irqrestore(&softhca_fabric, flags);
	if (ret && bad)
		*bad = wr;
	return ret;
}

static void softhca_iw_add_ref(struct ib_qp *ibqp)
{
	refcount_inc(&to_qp(ibqp)->refs);
}

static void softhca_iw_rem_ref(struct ib_qp *ibqp)
{
	softhca_qp_put(to_qp(ibqp));
}

static struct ib_qp *softhca_iw_get_qp(struct ib_device *ib, int number)
{
	struct softhca_qp *qp = xa_load(&to_dev(ib)->qps, number);

	return qp ? &qp->ib : NULL;
}

const struct ib_device_ops softhca_verbs = {
	.owner			= THIS_MODULE,
	/* Of those from which weft_rdma takes that they register pages of 64 KiB. */
	.driver_id		= RDMA_DRIVER_QEDR,
	.uverbs_no_driver_id_binding = 1,
	.query_device		= softhca_query_device,
	.query_port		= softhca_query_port,
	.get_port_immutable	= softhca_port_immutable,
	.query_gid		= softhca_query_gid,
	.alloc_pd		= softhca_alloc_pd,
	.dealloc_pd		= softhca_dealloc_pd,
	.create_cq		= softhca_create_cq,
	.destroy_cq		= softhca_destroy_cq,
	.poll_cq		= softhca_poll_cq,
	.req_notify_cq		= softhca_req_notify_cq,
	.alloc_mr		= softhca_alloc_mr,
	.get_dma_mr		= softhca_get_dma_mr,
	.reg_user_mr		= softhca_reg_user_mr,
	.dereg_mr		= softhca_dereg_mr,
	.map_mr_sg		= softhca_map_mr_sg,
	.create_qp		= softhca_create_qp,
	.modify_qp		= softhca_modify_qp,
	.query_qp		= softhca_query_qp,
	.destroy_qp		= softhca_destroy_qp,
	.post_send		= softhca_post_send,
	.post_recv		= softhca_post_recv,
	.iw_add_ref		= softhca_iw_add_ref,
	.iw_rem_ref		= softhca_iw_rem_ref,
	.iw_get_qp		= softhca_iw_get_qp,
	INIT_RDMA_OBJ_SIZE(ib_pd, softhca_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, softhca_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, softhca_qp, ib),
};
