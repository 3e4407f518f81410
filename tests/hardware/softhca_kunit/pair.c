// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two connected queue pairs, by the RDMA connection manager as any user's are.
 * The adapters' interfaces have the addresses 10.9.0.1 and 10.9.1.1.
 */
#include "pair.h"

#include <linux/inet.h>
#include <net/net_namespace.h>

#define PAIR_TIMEOUT	(5 * HZ)
#define PAIR_PORT	7471

static void side_event(struct ib_event *event, void *context)
{
	struct side *s = context;

	WRITE_ONCE(s->qp_event, event->event);
}

static int side_make(struct side *s)
{
	struct ib_device *ib = s->id->device;
	struct ib_qp_init_attr attr = {
		.event_handler	= side_event,
		.qp_context	= s,
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.cap		= { PAIR_DEPTH, PAIR_DEPTH, 4, 4, 0 },
	};
	int i;

	s->qp_event = -1;
	s->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(s->pd))
		return PTR_ERR(s->pd);
	s->cq = ib_alloc_cq(ib, NULL, 4 * PAIR_DEPTH, 0, IB_POLL_DIRECT);
	if (IS_ERR(s->cq))
		return PTR_ERR(s->cq);
	attr.send_cq = s->cq;
	attr.recv_cq = s->cq;
	sg_init_table(s->sg, PAIR_PAGES);
	for (i = 0; i < PAIR_PAGES; i++) {
		s->pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!s->pages[i])
			return -ENOMEM;
		sg_set_page(&s->sg[i], s->pages[i], PAGE_SIZE, 0);
		/* Each by itself: an IOMMU would lay them side by side. */
		sg_dma_address(&s->sg[i]) = ib_dma_map_page(ib, s->pages[i], 0, PAGE_SIZE,
							    DMA_BIDIRECTIONAL);
		sg_dma_len(&s->sg[i]) = PAGE_SIZE;
		if (ib_dma_mapping_error(ib, sg_dma_address(&s->sg[i])))
			return -ENOMEM;
	}
	return rdma_create_qp(s->id, s->pd, &attr);
}

static void side_end(struct side *s)
{
	int i;

	if (!s->id)
		return;
	if (s->id->qp) {
		rdma_disconnect(s->id);
		ib_drain_qp(s->id->qp);
		rdma_destroy_qp(s->id);
	}
	for (i = 0; i < PAIR_PAGES && s->pages[i]; i++) {
		ib_dma_unmap_page(s->id->device, sg_dma_address(&s->sg[i]), PAGE_SIZE,
				  DMA_BIDIRECTIONAL);
		__free_page(s->pages[i]);
	}
	if (!IS_ERR_OR_NULL(s->cq))
		ib_free_cq(s->cq);
	if (!IS_ERR_OR_NULL(s->pd))
		ib_dealloc_pd(s->pd);
	rdma_destroy_id(s->id);
}

static int pair_asked(struct pair *pair, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	int ret;

	if (pair->refuse) {
		rdma_reject(id, "no", 2, 0);
		return -ECONNREFUSED;	/* the id is the caller's to destroy */
	}
	id->context = &pair->b;
	pair->b.id = id;
	ret = side_make(&pair->b);
	if (!ret)
		ret = rdma_accept(id, &param);
	/* What is there of it is undone at the end. */
	if (ret)
		rdma_reject(id, NULL, 0, 0);
	return 0;
}

static int pair_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct side *s = id->context;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return pair_asked(id->context, id);
	if (event->event == RDMA_CM_EVENT_REJECTED)
		s->reject = event->param.conn.private_data_len;
	s->event = event->event;
	complete(&s->done);
	return 0;
}

static int side_wait(struct side *s, int wanted)
{
	if (!wait_for_completion_timeout(&s->done, PAIR_TIMEOUT))
		return -ETIMEDOUT;
	return s->event == wanted ? 0 : -EPROTO;
}

static struct sockaddr_in pair_address(const char *ip, u16 port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = in_aton(ip) };

	return in;
}

/**
 * pair_listen() - wait for connections on the first adapter
 * @pair: zeroed
 *
 * Return: 0; undone by pair_end() in any case.
 */
int pair_listen(struct pair *pair)
{
	struct sockaddr_in in = pair_address("10.9.0.1", PAIR_PORT);
	int ret;

	init_completion(&pair->a.done);
	init_completion(&pair->b.done);
	pair->listener = rdma_create_id(&init_net, pair_handler, pair, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(pair->listener)) {
		ret = PTR_ERR(pair->listener);
		pair->listener = NULL;
		return ret;
	}
	ret = rdma_bind_addr(pair->listener, (struct sockaddr *)&in);
	return ret ?: rdma_listen(pair->listener, 1);
}

/**
 * pair_ask() - connect from the second adapter
 * @pair: its listener listens, or is not there
 *
 * Return: 0, -ECONNREFUSED, or what else went wrong.
 */
int pair_ask(struct pair *pair)
{
	struct sockaddr_in to = pair_address("10.9.0.1", PAIR_PORT);
	struct sockaddr_in from = pair_address("10.9.1.1", 0);
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct side *a = &pair->a;
	int ret;

	a->id = rdma_create_id(&init_net, pair_handler, a, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(a->id)) {
		ret = PTR_ERR(a->id);
		a->id = NULL;
		return ret;
	}
	ret = rdma_resolve_addr(a->id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000);
	if (!ret)
		ret = side_wait(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!ret)
		ret = rdma_resolve_route(a->id, 2000);
	if (!ret)
		ret = side_wait(a, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!ret)
		ret = side_make(a);
	if (!ret)
		ret = rdma_connect(a->id, &param);
	if (!ret)
		ret = side_wait(a, RDMA_CM_EVENT_ESTABLISHED);
	return a->event == RDMA_CM_EVENT_REJECTED ? -ECONNREFUSED : ret;
}

/**
 * pair_end() - give all of it back
 * @pair: any part of it may be there
 */
void pair_end(struct pair *pair)
{
	side_end(&pair->a);
	side_end(&pair->b);
	if (pair->listener)
		rdma_destroy_id(pair->listener);
}

/* A byte of a side's memory. */
u8 *side_byte(struct side *s, u32 at)
{
	return (u8 *)page_address(s->pages[at / PAGE_SIZE]) + at % PAGE_SIZE;
}

/* Bytes that differ by place and seed. */
void side_fill(struct side *s, u8 seed)
{
	u32 i;

	for (i = 0; i < PAIR_PAGES * PAGE_SIZE; i++)
		*side_byte(s, i) = (i * 7 + i / 251 + seed) & 0xff;
}

/* Memory of a side within a page, by the adapter's key for all of memory. */
struct ib_sge side_sge(struct side *s, u32 at, u32 len)
{
	struct ib_sge sge = {
		.addr	= sg_dma_address(&s->sg[at / PAGE_SIZE]) + at % PAGE_SIZE,
		.length	= len,
		.lkey	= s->pd->local_dma_lkey,
	};

	return sge;
}

/* The next completion, waited for; its status, or -ETIMEDOUT where none comes. */
int side_poll(struct side *s, struct ib_wc *wc)
{
	int i;

	for (i = 0; i < 200; i++) {
		if (ib_poll_cq(s->cq, 1, wc) == 1)
			return wc->status;
		fsleep(1000);
	}
	return -ETIMEDOUT;
}

int side_recv(struct side *s, u32 at, u32 len)
{
	struct ib_sge sge = side_sge(s, at, len);
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(s->id->qp, &wr, NULL);
}

int side_send(struct side *s, enum ib_wr_opcode opcode, u32 at, u32 len, u32 invalidate)
{
	struct ib_sge sge = side_sge(s, at, len);
	struct ib_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1,
				 .send_flags = IB_SEND_SIGNALED, .ex.invalidate_rkey = invalidate };

	return ib_post_send(s->id->qp, &wr, NULL);
}

int side_rdma(struct side *s, enum ib_wr_opcode opcode, struct ib_sge *local, u64 remote, u32 key)
{
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = local, .num_sge = 1,
			.send_flags = IB_SEND_SIGNALED },
		.remote_addr = remote, .rkey = key,
	};

	return ib_post_send(s->id->qp, &wr.wr, NULL);
}

int side_register(struct side *s, struct ib_mr *mr, int access)
{
	struct ib_reg_wr wr = {
		.wr = { .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED },
		.mr = mr, .key = mr->rkey, .access = access,
	};

	return ib_post_send(s->id->qp, &wr.wr, NULL);
}

int side_invalidate(struct side *s, u32 key)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV, .send_flags = IB_SEND_SIGNALED,
				 .ex.invalidate_rkey = key };

	return ib_post_send(s->id->qp, &wr, NULL);
}

/* A registration that is not registered yet, of some of a side's pages. */
struct ib_mr *side_map(struct side *s, struct ib_pd *pd, u32 first, u32 count)
{
	struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, PAIR_PAGES);
	int n;

	if (IS_ERR(mr))
		return mr;
	n = ib_map_mr_sg(mr, &s->sg[first], count, NULL, PAGE_SIZE);
	if (n != count) {
		ib_dereg_mr(mr);
		return ERR_PTR(n < 0 ? n : -EINVAL);
	}
	return mr;
}
