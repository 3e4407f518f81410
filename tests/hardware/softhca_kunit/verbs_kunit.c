// SPDX-License-Identifier: GPL-2.0-only
/*
 * The test adapter's verbs, each with what it does and each with the errors
 * that hardware would answer: a violation is a completion with error on the
 * side that asked, and both queue pairs are in error after it.
 */
#include "pair.h"

#include <linux/module.h>

#define REMOTE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

static int verbs_init(struct kunit *test)
{
	struct pair *pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, pair);
	test->priv = pair;
	ret = pair_listen(pair);
	if (!ret)
		ret = pair_ask(pair);
	if (ret)
		pair_end(pair);
	return ret;
}

static void verbs_exit(struct kunit *test)
{
	pair_end(test->priv);
}

/* Both ends in error: what is posted now comes back flushed. */
static void expect_broken(struct kunit *test, struct pair *pair)
{
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_recv(&pair->a, 0, 64), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, side_send(&pair->b, IB_WR_SEND, 0, 64, 0), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->b, &wc), IB_WC_WR_FLUSH_ERR);
}

/* Pages of @s registered for others, or the test ends. */
static struct ib_mr *registered(struct kunit *test, struct side *s, u32 first, u32 count, int access)
{
	struct ib_mr *mr = side_map(s, s->pd, first, count);
	struct ib_wc wc;

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, side_register(s, mr, access), 0);
	KUNIT_EXPECT_EQ(test, side_poll(s, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_REG_MR);
	return mr;
}

static void verbs_send(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a, *b = &pair->b;
	struct ib_wc wc;
	u32 i, wrong = 0;

	side_fill(a, 3);
	KUNIT_EXPECT_EQ(test, side_recv(b, PAGE_SIZE + 100, 1000), 0);
	KUNIT_EXPECT_EQ(test, side_send(a, IB_WR_SEND, 50, 900, 0), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_SEND);
	KUNIT_EXPECT_EQ(test, side_poll(b, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_RECV);
	KUNIT_EXPECT_EQ(test, wc.byte_len, 900);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, 0);
	for (i = 0; i < 900; i++)
		wrong += *side_byte(b, PAGE_SIZE + 100 + i) != *side_byte(a, 50 + i);
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, *side_byte(b, PAGE_SIZE + 1000), 0);
}

/* A SEND waits for a receive, and goes on when there is one. */
static void verbs_send_waits(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_send(&pair->a, IB_WR_SEND, 0, 64, 0), 0);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(pair->a.cq, 1, &wc), 0);
	KUNIT_EXPECT_EQ(test, side_recv(&pair->b, 0, 64), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->b, &wc), IB_WC_SUCCESS);
}

static void verbs_send_too_long(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_recv(&pair->b, 0, 63), 0);
	KUNIT_EXPECT_EQ(test, side_send(&pair->a, IB_WR_SEND, 0, 64, 0), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->b, &wc), IB_WC_LOC_LEN_ERR);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_REM_OP_ERR);
	expect_broken(test, pair);
}

static void verbs_send_invalidate(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a, *b = &pair->b;
	struct ib_mr *mr = registered(test, b, 0, 2, REMOTE);
	struct ib_sge sge = side_sge(a, 0, 64);
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_recv(b, 0, 64), 0);
	KUNIT_EXPECT_EQ(test, side_send(a, IB_WR_SEND_WITH_INV, 0, 16, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, side_poll(b, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, IB_WC_WITH_INVALIDATE);
	KUNIT_EXPECT_EQ(test, wc.ex.invalidate_rkey, mr->rkey);
	/* The key is good for nothing now. */
	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_READ, &sge, mr->iova, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_REM_ACCESS_ERR);
	expect_broken(test, pair);
	ib_dereg_mr(mr);
}

static void verbs_send_invalidate_wrong(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_recv(&pair->b, 0, 64), 0);
	KUNIT_EXPECT_EQ(test, side_send(&pair->a, IB_WR_SEND_WITH_INV, 0, 16, 0x12345600), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->b, &wc), IB_WC_LOC_PROT_ERR);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_REM_OP_ERR);
	expect_broken(test, pair);
}

/* Over a page's end, from an offset, both ways. */
static void verbs_rdma(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a, *b = &pair->b;
	struct ib_mr *mr = registered(test, b, 1, 3, REMOTE);
	struct ib_sge sge = side_sge(a, 0, PAGE_SIZE);
	u32 i, wrong = 0;
	struct ib_wc wc;

	side_fill(a, 1);
	KUNIT_EXPECT_EQ(test, mr->length, 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_WRITE, &sge, mr->iova + 1234, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_RDMA_WRITE);
	for (i = 0; i < PAGE_SIZE; i++)
		wrong += *side_byte(b, PAGE_SIZE + 1234 + i) != *side_byte(a, i);
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, *side_byte(b, PAGE_SIZE + 1233), 0);
	KUNIT_EXPECT_EQ(test, *side_byte(b, 2 * PAGE_SIZE + 1234), 0);

	side_fill(b, 2);
	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_READ, &sge, mr->iova + PAGE_SIZE - 7, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_RDMA_READ);
	for (i = 0; i < PAGE_SIZE; i++)
		wrong += *side_byte(b, 2 * PAGE_SIZE - 7 + i) != *side_byte(a, i);
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, side_invalidate(b, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(b, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_LOCAL_INV);
	ib_dereg_mr(mr);
}

/* What the peer's memory refuses, each on a connection of its own. */
static const struct remote_case {
	const char	*name;
	int		access;		/* of the registration */
	enum ib_wr_opcode opcode;
	s64		at;		/* from its beginning */
	u32		key;		/* added to it */
	bool		other_pd;
} remote_cases[] = {
	{ "a read without the right", IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE, IB_WR_RDMA_READ },
	{ "a write without the right", IB_ACCESS_REMOTE_READ, IB_WR_RDMA_WRITE },
	{ "beyond its end", REMOTE, IB_WR_RDMA_WRITE, 2 * PAGE_SIZE - 63 },
	{ "before its beginning", REMOTE, IB_WR_RDMA_READ, -1 },
	{ "an address that wraps", REMOTE, IB_WR_RDMA_READ, S64_MAX },
	{ "an old key", REMOTE, IB_WR_RDMA_READ, 0, 1 },
	{ "a key of nothing", REMOTE, IB_WR_RDMA_READ, 0, 0x700000 },
	{ "another protection domain's", REMOTE, IB_WR_RDMA_READ, 0, 0, true },
};

static void remote_case_name(const struct remote_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(remote, remote_cases, remote_case_name);

static void verbs_remote_refused(struct kunit *test)
{
	const struct remote_case *c = test->param_value;
	struct pair *pair = test->priv;
	struct side *a = &pair->a, *b = &pair->b;
	struct ib_sge sge = side_sge(a, 0, 64);
	struct ib_mr *mr, *used;
	struct ib_pd *pd = NULL;
	struct ib_wc wc;
	int i;

	side_fill(a, 1);
	mr = registered(test, b, 0, 2, c->access);
	used = mr;
	if (c->other_pd) {
		/* One of the same device, valid nowhere on this connection. */
		pd = ib_alloc_pd(b->id->device, 0);
		KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
		used = side_map(b, pd, 0, 2);
		KUNIT_ASSERT_FALSE(test, IS_ERR(used));
	}
	KUNIT_EXPECT_EQ(test, side_rdma(a, c->opcode, &sge, used->iova + c->at, used->rkey + c->key), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_REM_ACCESS_ERR);
	for (i = 0; i < 100 && READ_ONCE(b->qp_event) < 0; i++)
		fsleep(1000);
	KUNIT_EXPECT_EQ(test, b->qp_event, IB_EVENT_QP_ACCESS_ERR);
	/* Nothing was moved. */
	for (i = 0; i < PAIR_PAGES * PAGE_SIZE; i++)
		KUNIT_ASSERT_EQ(test, *side_byte(b, i), 0);
	expect_broken(test, pair);
	if (pd) {
		ib_dereg_mr(used);
		ib_dealloc_pd(pd);
	}
	ib_dereg_mr(mr);
}

static void verbs_register_twice(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct ib_mr *mr = registered(test, &pair->a, 0, 2, REMOTE);
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_register(&pair->a, mr, REMOTE), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_MW_BIND_ERR);
	expect_broken(test, pair);
	ib_dereg_mr(mr);
}

static void verbs_register_other_pd(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct ib_pd *pd = ib_alloc_pd(pair->a.id->device, 0);
	struct ib_mr *mr;
	struct ib_wc wc;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	mr = side_map(&pair->a, pd, 0, 2);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, side_register(&pair->a, mr, REMOTE), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_MW_BIND_ERR);
	expect_broken(test, pair);
	ib_dereg_mr(mr);
	ib_dealloc_pd(pd);
}

/* A new key for the same registration: the old one is nobody's. */
static void verbs_key_changes(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a, *b = &pair->b;
	struct ib_mr *mr = registered(test, b, 0, 2, REMOTE);
	struct ib_sge sge = side_sge(a, 0, 64);
	u32 old = mr->rkey;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_invalidate(b, old), 0);
	KUNIT_EXPECT_EQ(test, side_poll(b, &wc), IB_WC_SUCCESS);
	ib_update_fast_reg_key(mr, ib_inc_rkey(old));
	KUNIT_EXPECT_EQ(test, side_register(b, mr, REMOTE), 0);
	KUNIT_EXPECT_EQ(test, side_poll(b, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_NE(test, mr->rkey, old);
	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_WRITE, &sge, mr->iova, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_WRITE, &sge, mr->iova, old), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_REM_ACCESS_ERR);
	ib_dereg_mr(mr);
}

static void verbs_invalidate_wrong(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_invalidate(&pair->a, 0x12345600), 0);
	KUNIT_EXPECT_EQ(test, side_poll(&pair->a, &wc), IB_WC_MW_BIND_ERR);
	expect_broken(test, pair);
}

/* A registration that is only read must not be received into. */
static void verbs_local_access(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a, *b = &pair->b;
	struct ib_mr *mr = registered(test, a, 0, 1, IB_ACCESS_REMOTE_READ);
	struct ib_mr *remote = registered(test, b, 0, 1, REMOTE);
	struct ib_sge sge = { .addr = mr->iova, .length = 64, .lkey = mr->lkey };
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_WRITE, &sge, remote->iova, remote->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, side_rdma(a, IB_WR_RDMA_READ, &sge, remote->iova, remote->rkey), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_LOC_PROT_ERR);
	expect_broken(test, pair);
	ib_dereg_mr(mr);
	ib_dereg_mr(remote);
}

/* A DMA address that nobody mapped leads nowhere, with an IOMMU and without. */
static void verbs_wild_address(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a;
	struct ib_sge sge = { .addr = 0xffffff0000000000ULL, .length = 64,
			      .lkey = a->pd->local_dma_lkey };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &sge, .num_sge = 1,
				 .send_flags = IB_SEND_SIGNALED };
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, side_recv(&pair->b, 0, 64), 0);
	KUNIT_EXPECT_EQ(test, ib_post_send(a->id->qp, &wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_LOC_PROT_ERR);
	expect_broken(test, pair);
}

/* Into error with work posted: each comes back, in order, and nobody is left waiting. */
static void verbs_flush(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a;
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_cqe cqes[4] = {};
	struct ib_wc wc;
	int i;

	for (i = 0; i < 4; i++) {
		struct ib_sge sge = side_sge(a, 0, 64);
		struct ib_recv_wr wr = { .wr_cqe = &cqes[i], .sg_list = &sge, .num_sge = 1 };

		KUNIT_EXPECT_EQ(test, ib_post_recv(a->id->qp, &wr, NULL), 0);
	}
	KUNIT_EXPECT_EQ(test, ib_modify_qp(a->id->qp, &attr, IB_QP_STATE), 0);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, side_poll(a, &wc), IB_WC_WR_FLUSH_ERR);
		KUNIT_EXPECT_PTR_EQ(test, wc.wr_cqe, &cqes[i]);
	}
	/* The other end hears that the connection is closed. */
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&pair->b.done, HZ), 0);
	expect_broken(test, pair);
}

static void verbs_full(struct kunit *test)
{
	struct pair *pair = test->priv;
	int i;

	for (i = 0; i < PAIR_DEPTH; i++)
		KUNIT_ASSERT_EQ(test, side_recv(&pair->b, 0, 64), 0);
	KUNIT_EXPECT_EQ(test, side_recv(&pair->b, 0, 64), -ENOMEM);
	/* Nobody receives at the other end: sends stay as well. */
	for (i = 0; i < PAIR_DEPTH; i++)
		KUNIT_ASSERT_EQ(test, side_send(&pair->b, IB_WR_SEND, 0, 64, 0), 0);
	KUNIT_EXPECT_EQ(test, side_send(&pair->b, IB_WR_SEND, 0, 64, 0), -ENOMEM);
}

static void verbs_limits(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct side *a = &pair->a;
	u32 most = a->id->device->attrs.max_fast_reg_page_list_len;
	struct ib_mr *mr;

	mr = ib_alloc_mr(a->pd, IB_MR_TYPE_MEM_REG, most + 1);
	KUNIT_EXPECT_TRUE(test, IS_ERR(mr));
	mr = ib_alloc_mr(a->pd, IB_MR_TYPE_MEM_REG, 2);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	/* Two of three pages: a short return, which the caller has to see. */
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(mr, a->sg, 3, NULL, PAGE_SIZE), 2);
	ib_dereg_mr(mr);
}

static struct kunit_case verbs_cases[] = {
	KUNIT_CASE(verbs_send),
	KUNIT_CASE(verbs_send_waits),
	KUNIT_CASE(verbs_send_too_long),
	KUNIT_CASE(verbs_send_invalidate),
	KUNIT_CASE(verbs_send_invalidate_wrong),
	KUNIT_CASE(verbs_rdma),
	KUNIT_CASE_PARAM(verbs_remote_refused, remote_gen_params),
	KUNIT_CASE(verbs_register_twice),
	KUNIT_CASE(verbs_register_other_pd),
	KUNIT_CASE(verbs_key_changes),
	KUNIT_CASE(verbs_invalidate_wrong),
	KUNIT_CASE(verbs_local_access),
	KUNIT_CASE(verbs_wild_address),
	KUNIT_CASE(verbs_flush),
	KUNIT_CASE(verbs_full),
	KUNIT_CASE(verbs_limits),
	{}
};

static struct kunit_suite verbs_suite = {
	.name = "softhca-verbs",
	.init = verbs_init,
	.exit = verbs_exit,
	.test_cases = verbs_cases,
};

/* Without a connection. */
static void connect_nobody(struct kunit *test)
{
	struct pair *pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pair);
	init_completion(&pair->a.done);
	KUNIT_EXPECT_EQ(test, pair_ask(pair), -ECONNREFUSED);
	pair_end(pair);
}

static void connect_refused(struct kunit *test)
{
	struct pair *pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pair);
	pair->refuse = true;
	KUNIT_EXPECT_EQ(test, pair_listen(pair), 0);
	KUNIT_EXPECT_EQ(test, pair_ask(pair), -ECONNREFUSED);
	KUNIT_EXPECT_EQ(test, pair->a.reject, 2);
	pair_end(pair);
}

static struct kunit_case connect_cases[] = {
	KUNIT_CASE(connect_nobody),
	KUNIT_CASE(connect_refused),
	{}
};

static struct kunit_suite connect_suite = {
	.name = "softhca-connect",
	.test_cases = connect_cases,
};

kunit_test_suites(&verbs_suite, &connect_suite);
MODULE_DESCRIPTION("weft test hardware: tests of the RDMA adapter's verbs");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
