/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * weft_softhca: an RDMA adapter for tests, in software, that moves bytes by
 * DMA address.
 *
 * DOC: what it models
 *
 * An iWARP adapter on an emulated PCI function, which is its dma_device: what
 * is mapped for it goes through the PCI function's DMA mapping, with whatever
 * IOMMU, distance and ACS the machine has. Each byte is moved by translating
 * DMA addresses back, as the adapter's own DMA engine would by issuing them,
 * RAM and PCI BARs alike; an address that nobody mapped is an error, never
 * luck. Kernel users only. Reliable connected queue pairs; SEND, SEND with
 * invalidate, RDMA READ and WRITE, REG_MR, LOCAL_INV; protection domains,
 * access rights, bounds and key state are checked as the verbs specification
 * has them, and a violation is a completion with error on one side and a
 * broken connection on both. Connections are between adapters of one machine,
 * or of one with itself.
 *
 * DOC: what it does not
 *
 * A wire: work is done where it is posted, at once, unless a knob asks for
 * latency, or for bytes that are on their way for a while. Retries, congestion,
 * ordering between queue pairs, user space verbs, shared receive queues, memory
 * windows, atomics, MPA.
 *
 * DOC: bytes on their way
 *
 * A READ or WRITE that has begun when its connection breaks moves its bytes
 * all the same, dma_ns after it began, and only then are the two queue pairs
 * flushed: so whoever does not drain a queue pair before it takes memory away
 * is found out. Keys are looked at again then: with its registration gone no
 * byte moves.
 *
 * DOC: locks
 *
 * One spinlock, softhca_fabric, for all queue pairs and keys: small beats
 * fast, and on one processor there is nobody to wait for. Below it each
 * completion queue has its own. Connections are under softhca_cm_lock, a mutex.
 */
#ifndef WEFT_SOFTHCA_H
#define WEFT_SOFTHCA_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/pci.h>
#include <linux/smp.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#define SOFTHCA_SGE_MAX		16
#define SOFTHCA_WR_MAX		8192
#define SOFTHCA_PAGES_MAX	1024
#define SOFTHCA_MRS_MAX		SZ_1M
/* As siw has it: a key that no registration can have. */
#define SOFTHCA_LOCAL_KEY	0

struct softhca_cep;

/**
 * struct softhca_dev - an adapter
 * @ib: for the RDMA core; first
 * @pdev: the PCI function
 * @netdev: the interface whose addresses are the adapter's
 * @mrs: registrations by index, the upper 24 bits of a key
 * @qps: queue pairs by number
 * @debugfs: knobs
 * @latency_ns: knob: from posting to execution
 * @bandwidth: knob: bytes a second of a queue pair, 0 for no limit
 * @drop_completion: knob: this many completions on, one is lost
 * @break_at: knob: this many work requests on, a connection breaks
 * @mr_limit: knob: registrations at most
 * @post_fail_at: knob: this many work requests on, one cannot be posted
 * @refuse_peer: knob: BARs are out of reach
 * @dma_ns: knob: how long the bytes of a READ or WRITE are on their way
 * @vector_shift: knob: interrupts go so many processors farther
 * @bytes_ram: moved from or to RAM
 * @bytes_bar: moved from or to BARs
 * @drained: READs and WRITEs that were on their way when their connection broke
 * @unmapped: of those, how many found an address that nobody had mapped
 * @doorbells: calls that posted work requests to send queues
 * @completed_far: SENDs and the like whose interrupt goes to another processor
 *	than the one that posted them
 */
struct softhca_dev {
	struct ib_device	ib;
	struct pci_dev		*pdev;
	struct net_device	*netdev;
	struct xarray		mrs;
	struct xarray		qps;
	struct dentry		*debugfs;
	u32			latency_ns;
	u64			bandwidth;
	u32			drop_completion;
	u32			break_at;
	u32			mr_limit;
	u32			post_fail_at;
	bool			refuse_peer;
	u32			dma_ns;
	u32			vector_shift;
	u64			bytes_ram;
	u64			bytes_bar;
	u32			drained;
	u32			unmapped;
	u32			large_pages;	/* registrations with pages of 64 KiB */
	u64			doorbells;
	u64			completed_far;
};

struct softhca_pd {
	struct ib_pd		ib;
};

/**
 * struct softhca_cq - a completion queue
 * @ib: for the RDMA core
 * @lock: all below
 * @ring: of @size
 * @head: written next
 * @tail: read next
 * @armed: whoever asked is told of the next one
 * @irq: the interrupt, where the vector's processor is this one
 * @far: and where it is another
 */
struct softhca_cq {
	struct ib_cq		ib;
	spinlock_t		lock;	/* all below */
	struct ib_wc		*ring;
	u32			size;
	u32			head;
	u32			tail;
	bool			armed;
	struct irq_work		irq;
	call_single_data_t	far;
};

/**
 * struct softhca_mr - a registration
 * @ib: for the RDMA core; keys, iova, length, page size
 * @valid: may be used
 * @access: IB_ACCESS_*
 * @count: of @pages
 * @max: pages there is room for
 * @pages: DMA addresses
 */
struct softhca_mr {
	struct ib_mr		ib;
	bool			valid;
	int			access;
	u32			count;
	u32			max;
	u64			pages[];
};

/* A work request that was posted. */
struct softhca_wqe {
	struct ib_cqe		*cqe;
	enum ib_wr_opcode	opcode;
	int			flags;
	int			num_sge;
	int			access;
	u32			key;
	u64			remote;
	struct ib_mr		*mr;
	u32			invalidate;
	int			cpu;
	ktime_t			ready;
	struct ib_sge		sge[SOFTHCA_SGE_MAX];
};

struct softhca_queue {
	struct softhca_wqe	*ring;
	u32			size;
	u32			head;
	u32			tail;
};

/**
 * struct softhca_qp - a queue pair
 * @ib: for the RDMA core
 * @refs: one is the owner's, others are the connection manager's
 * @gone: the last one was put
 * @state: IB_QPS_RESET, INIT, RTS, ERR
 * @signal_all: each send completes
 * @sq: posted, not executed
 * @rq: posted, not used
 * @peer: connected to
 * @moving: the bytes of the first work request are on their way
 * @draining: in error, and not flushed before they are where they belong
 * @cep: connection, under softhca_cm_lock
 * @timer: for what waits for latency or bandwidth, or is on its way
 * @ready: not before then, for bandwidth
 * @moved: they are there then
 * @event: an asynchronous event that is to be told, or -1
 * @work: tells it, and closes the connection
 */
struct softhca_qp {
	struct ib_qp		ib;
	refcount_t		refs;
	struct completion	gone;
	enum ib_qp_state	state;
	bool			signal_all;
	struct softhca_queue	sq;
	struct softhca_queue	rq;
	struct softhca_qp	*peer;
	bool			moving;
	bool			draining;
	struct softhca_cep	*cep;
	struct hrtimer		timer;
	ktime_t			ready;
	ktime_t			moved;
	int			event;
	struct work_struct	work;
};

#define to_dev(x)	container_of(x, struct softhca_dev, ib)
#define to_cq(x)	container_of(x, struct softhca_cq, ib)
#define to_qp(x)	container_of(x, struct softhca_qp, ib)
#define to_mr(x)	container_of(x, struct softhca_mr, ib)

/* Rings have one entry more than they hold. */
static inline u32 softhca_next(u32 index, u32 size)
{
	return (index + 1) % size;
}

extern spinlock_t softhca_fabric;
extern struct workqueue_struct *softhca_wq;
extern unsigned int softhca_page_list_limit;
extern unsigned int softhca_mr_limit;

/* verbs.c */
extern const struct ib_device_ops softhca_verbs;
void softhca_complete(struct softhca_dev *dev, struct softhca_cq *cq, const struct ib_wc *wc);
int softhca_cq_cpu(const struct softhca_cq *cq);
void softhca_qp_put(struct softhca_qp *qp);

/* engine.c */
void softhca_run(struct softhca_qp *qp);
void softhca_break(struct softhca_qp *qp, int event);
void softhca_abandon(struct softhca_qp *qp);
enum hrtimer_restart softhca_timer(struct hrtimer *timer);

/* dma.c */
void softhca_dma_init(void);
void softhca_dma_exit(void);
void *softhca_dma_pointer(struct softhca_dev *dev, u64 dma, size_t *len, bool *bar);

/* cm.c */
extern const struct ib_device_ops softhca_cm;
void softhca_cm_closed(struct softhca_qp *qp);
void softhca_cm_exit(void);

#endif /* WEFT_SOFTHCA_H */
