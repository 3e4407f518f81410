// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O of a disk without a volume, while the disk cannot send it. path.c gives the I/O
 * of a volume's path back to the volume.
 *
 * DOC: held I/O
 *
 * All disks of a controller share its tags. A request that waits for its controller would
 * keep its tag, and a volume's bio that waits for a tag of the same controller could not
 * go to another path. So the bios are taken out of a request and wait here. They are
 * submitted again when the disk is open, and when it does not come back: then they fail
 * (weft_rdma_hold() refuses them). The block layer's own flush has no bio. It waits as a
 * request, and with it those that wait for the flush, so as many tasks as there are tags
 * that flush such disks still stop a volume's bios. So do reservations and commands of
 * nvme-cli.
 *
 * A held bio is in no queue: to freeze the queue, or to remove the disk, does not wait
 * for it. Its submitter has the disk open.
 */
#include "namespace.h"

/*
 * The submitters wait for tags, which the recovery of their controller frees, so without
 * memory one thread serves all disks.
 */
static struct workqueue_struct *weft_held_wq;

/**
 * weft_rdma_held_too_long() - is fast_io_fail_timeout over for one disk of a live controller?
 * @ns: the disk
 *
 * Before the first scan of an association has ended, the controller's own time counts
 * (weft_rdma_fail_fast_work()): the disk may be identified in a moment.
 *
 * Context: any.
 * Return: true if it was not identified for so long; its I/O must fail.
 */
bool weft_rdma_held_too_long(const struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;
	int seconds = ctrl->opts.fast_io_fail_timeout;

	if (seconds < 0 || READ_ONCE(ns->state) != WEFT_NS_UNKNOWN ||
	    weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return false;
	/* Pairs with weft_ns_set_state(), and with weft_rdma_connect_work(). */
	smp_rmb();
	return !READ_ONCE(ctrl->unscanned) &&
	       !time_before(jiffies, READ_ONCE(ns->closed_at) + (unsigned long)seconds * HZ);
}

/* Whether I/O may wait that cannot be sent. It fails if the disk does not come back soon. */
static bool weft_held_may_wait(struct weft_rdma_ns *ns)
{
	return READ_ONCE(ns->state) != WEFT_NS_DEAD && !READ_ONCE(ns->ctrl->fail_fast) &&
	       weft_rdma_state(ns->ctrl) < WEFT_RDMA_DELETING && !weft_rdma_held_too_long(ns);
}

static void weft_held_add(struct weft_rdma_ns *ns, struct bio_list *bios)
{
	unsigned long flags;
	struct bio *bio;

	bio_list_for_each(bio, bios) {
		/* A poller would find nothing; the bio waits anyway. */
		bio_clear_polled(bio);
		WRITE_ONCE(bio->bi_cookie, BLK_QC_T_NONE);
		bio->bi_opf &= ~REQ_NOWAIT;
	}
	spin_lock_irqsave(&ns->held_lock, flags);
	bio_list_merge(&ns->held, bios);
	spin_unlock_irqrestore(&ns->held_lock, flags);
}

/**
 * weft_rdma_end_empty() - end a request whose bios were taken out
 * @rq: the request
 *
 * Context: any; where requests complete or are sent.
 */
void weft_rdma_end_empty(struct request *rq)
{
	if (!blk_mq_request_started(rq))
		blk_mq_set_request_complete(rq);
	blk_mq_end_request(rq, BLK_STS_OK);
}

/**
 * weft_rdma_hold() - keep the bios of a request until its disk is open
 * @ns: the disk
 * @rq: its request; nothing of it is in flight
 *
 * Context: any; where requests complete or are sent.
 * Return: false if the disk is a volume's path, or nothing may wait here now, with
 * nothing done; otherwise the request has ended, or waits itself.
 */
bool weft_rdma_hold(struct weft_rdma_ns *ns, struct request *rq)
{
	struct request_queue *q = rq->q;
	struct bio_list bios = BIO_EMPTY_LIST;
	bool has_bios = rq->bio && !blk_rq_is_passthrough(rq);

	if (READ_ONCE(ns->path) || weft_rdma_must_fail_fast(rq) || !weft_held_may_wait(ns))
		return false;
	/* When the request has ended, which another thread may do, the disk may go. */
	percpu_ref_get(&q->q_usage_counter);
	if (has_bios) {
		blk_steal_bios(&bios, rq);
		weft_held_add(ns, &bios);
		weft_rdma_end_empty(rq);
	} else {
		blk_mq_requeue_request(rq, false);
	}
	/*
	 * The disk may be open, or have ended before they were on the list. Pairs with
	 * weft_rdma_resubmit(), which is called after that.
	 */
	smp_mb();
	if (!READ_ONCE(ns->closed) || !weft_held_may_wait(ns))
		weft_rdma_resubmit(ns);
	percpu_ref_put(&q->q_usage_counter);
	return true;
}

/**
 * weft_rdma_resubmit() - submit what a disk holds again
 * @ns: the disk; it was opened, or what it holds has to fail
 *
 * Context: any.
 */
void weft_rdma_resubmit(struct weft_rdma_ns *ns)
{
	/*
	 * The work may wait for a task that has frozen the queue, and that task waits for
	 * these requests: they go on without the work.
	 */
	blk_mq_kick_requeue_list(ns->disk->queue);
	queue_work(weft_held_wq, &ns->held_work);
}

static void weft_held_work(struct work_struct *work)
{
	struct weft_rdma_ns *ns = container_of(work, struct weft_rdma_ns, held_work);
	struct bio_list bios;
	struct bio *bio;

	spin_lock_irq(&ns->held_lock);
	bios = ns->held;
	bio_list_init(&ns->held);
	spin_unlock_irq(&ns->held_lock);
	while ((bio = bio_list_pop(&bios)))
		submit_bio_noacct(bio);
}

/**
 * weft_rdma_held_begin() - prepare a namespace to hold I/O
 * @ns: the namespace, which no other thread knows
 */
void weft_rdma_held_begin(struct weft_rdma_ns *ns)
{
	spin_lock_init(&ns->held_lock);
	bio_list_init(&ns->held);
	INIT_WORK(&ns->held_work, weft_held_work);
}

/**
 * weft_rdma_held_end() - undo weft_rdma_held_begin()
 * @ns: its queue accepts no I/O, or it never had any
 *
 * Context: process context, may sleep.
 */
void weft_rdma_held_end(struct weft_rdma_ns *ns)
{
	flush_work(&ns->held_work);
}

/**
 * weft_rdma_held_init() - prepare the module to hold I/O
 *
 * Return: 0 or a negative errno. Undo with weft_rdma_held_exit().
 */
int weft_rdma_held_init(void)
{
	weft_held_wq = alloc_workqueue("weft-rdma-held", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return weft_held_wq ? 0 : -ENOMEM;
}

/**
 * weft_rdma_held_exit() - undo weft_rdma_held_init()
 *
 * Context: process context, may sleep; no disk is left.
 */
void weft_rdma_held_exit(void)
{
	destroy_workqueue(weft_held_wq);
}
