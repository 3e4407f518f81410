/* SPDX-License-Identifier: GPL-2.0-only */
/* Two connected queue pairs on two adapters, and memory for each: what the tests of verbs work on. */
#ifndef WEFT_SOFTHCA_PAIR_H
#define WEFT_SOFTHCA_PAIR_H

#include <kunit/test.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define PAIR_PAGES	4
#define PAIR_DEPTH	16

/**
 * struct side - one end
 * @id: connection
 * @pd: of the queue pair
 * @cq: for sends and receives, polled by the test
 * @done: of what the connection manager was asked
 * @event: that it told last
 * @reject: bytes of private data that came with a refusal
 * @qp_event: asynchronous event of the queue pair, or -1
 * @sg: of @pages, mapped
 * @pages: each by itself, so that they lie apart
 */
struct side {
	struct rdma_cm_id	*id;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
	struct completion	done;
	int			event;
	u8			reject;
	int			qp_event;
	struct scatterlist	sg[PAIR_PAGES];
	struct page		*pages[PAIR_PAGES];
};

/**
 * struct pair - both ends
 * @listener: waits for @b
 * @refuse: the listener refuses, with private data
 * @a: the end that asked
 * @b: the end that was asked
 */
struct pair {
	struct rdma_cm_id	*listener;
	bool			refuse;
	struct side		a;
	struct side		b;
};

int pair_listen(struct pair *pair);
int pair_ask(struct pair *pair);
void pair_end(struct pair *pair);

u8 *side_byte(struct side *s, u32 at);
void side_fill(struct side *s, u8 seed);
struct ib_sge side_sge(struct side *s, u32 at, u32 len);
int side_poll(struct side *s, struct ib_wc *wc);
int side_recv(struct side *s, u32 at, u32 len);
int side_send(struct side *s, enum ib_wr_opcode opcode, u32 at, u32 len, u32 invalidate);
int side_rdma(struct side *s, enum ib_wr_opcode opcode, struct ib_sge *local, u64 remote, u32 key);
int side_register(struct side *s, struct ib_mr *mr, int access);
int side_invalidate(struct side *s, u32 key);
struct ib_mr *side_map(struct side *s, struct ib_pd *pd, u32 first, u32 count);

#endif /* WEFT_SOFTHCA_PAIR_H */
