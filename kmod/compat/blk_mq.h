/* SPDX-License-Identifier: GPL-2.0-only */
/* The blk-mq API of Linux 7.3, for request-based drivers; see compat.h. */
#ifndef WEFT_COMPAT_BLK_MQ_H
#define WEFT_COMPAT_BLK_MQ_H

#include "compat.h"

#include <linux/blk-mq.h>
#include <linux/memremap.h>

/* All queues merge since 6.14. Drop when the floor passes it. */
#ifdef BLK_MQ_FLAG_TO_ALLOC_POLICY
#define WEFT_MQ_F_DEFAULT	BLK_MQ_F_SHOULD_MERGE
#else
#define WEFT_MQ_F_DEFAULT	0
#endif

/* Signed since 7.0. Drop when the floor passes it. */
#ifdef WEFT_HAVE_INIT_REQUEST_INT
#define weft_numa_node_t	int
#else
#define weft_numa_node_t	unsigned int
#endif

/*
 * Declares a request's end_io: since 7.0 it has a batch parameter. Drop when
 * the floor passes it.
 */
#ifdef WEFT_HAVE_END_IO_BATCH
#define WEFT_END_IO(fn, rq) \
	enum rq_end_io_ret fn(struct request *rq, blk_status_t error, \
			      const struct io_comp_batch *iob)
#else
#define WEFT_END_IO(fn, rq) \
	enum rq_end_io_ret fn(struct request *rq, blk_status_t error)
#endif

/*
 * Without the queue parameter since 6.16 and 7.0. Drop when the floor passes
 * them.
 */
#ifdef WEFT_HAVE_MAP_SG_QUEUE
#define weft_rq_map_sg(rq, sgl)	blk_rq_map_sg((rq)->q, rq, sgl)
#else
#define weft_rq_map_sg(rq, sgl)	blk_rq_map_sg(rq, sgl)
#endif
#ifdef WEFT_HAVE_MAP_KERN_QUEUE
#define weft_rq_map_kern(rq, buf, len, gfp)	blk_rq_map_kern((rq)->q, rq, buf, len, gfp)
#else
#define weft_rq_map_kern(rq, buf, len, gfp)	blk_rq_map_kern(rq, buf, len, gfp)
#endif

/*
 * Linux 6.1 has another kind of list, and does not use queue_rqs() where several queues
 * share tags, as the disks of a controller do: there, nothing calls what is made for it.
 * Drop when the floor passes it.
 */
#ifdef WEFT_HAVE_RQ_LIST
#define WEFT_MQ_QUEUE_RQS(fn)	.queue_rqs = fn,
#else
#define WEFT_MQ_QUEUE_RQS(fn)

#undef rq_list_add_tail
#undef rq_list_pop

struct rq_list {
	struct request *head;
	struct request *tail;
};

static inline void rq_list_add_tail(struct rq_list *list, struct request *rq)
{
	rq->rq_next = NULL;
	if (list->head)
		list->tail->rq_next = rq;
	else
		list->head = rq;
	list->tail = rq;
}

static inline struct request *rq_list_pop(struct rq_list *list)
{
	struct request *rq = list->head;

	if (rq)
		list->head = rq->rq_next;
	return rq;
}
#endif

/**
 * weft_bio_is_peer() - are a bio's pages memory of another PCI device?
 * @bio: the bio; all its pages are of one kind
 *
 * Return: true if they are.
 */
static inline bool weft_bio_is_peer(struct bio *bio)
{
	return bio_has_data(bio) && is_pci_p2pdma_page(bio_page(bio));
}

/**
 * struct weft_mq_limits - limits of a request-based disk
 * @block_size: in bytes
 * @physical_block_size: written at once, and as a whole at a power cut; in bytes
 * @io_min: preferred granularity of writes, in bytes
 * @io_opt: preferred size of writes, in bytes; 0 for none
 * @chunk_sectors: requests that do not cross a multiple of it are faster; 0 for
 *	none, or a power of two
 * @discard_granularity: in bytes
 * @max_sectors: of one request
 * @max_segments: of one request
 * @max_discard_sectors: 0 if discard is not supported
 * @max_write_zeroes_sectors: 0 if write zeroes is not supported
 * @virt_boundary: alignment mask of all boundaries between segments
 * @dma_alignment: alignment mask of the start of memory
 * @write_cache: it has a volatile write cache, and supports FUA
 * @poll: it has poll queues
 * @p2pdma: it takes P2PDMA pages of other devices
 */
struct weft_mq_limits {
	u32	block_size;
	u32	physical_block_size;
	u32	io_min;
	u32	io_opt;
	u32	chunk_sectors;
	u32	discard_granularity;
	u32	max_sectors;
	u32	max_segments;
	u32	max_discard_sectors;
	u32	max_write_zeroes_sectors;
	u32	virt_boundary;
	u32	dma_alignment;
	bool	write_cache;
	bool	poll;
	bool	p2pdma;
};

struct gendisk *weft_mq_disk_alloc(struct blk_mq_tag_set *set,
				   const struct weft_mq_limits *limits,
				   void *queuedata);
bool weft_mq_fit_commands(struct request_queue *q, const struct weft_mq_limits *limits);
struct request_queue *weft_mq_alloc_queue(struct blk_mq_tag_set *set);

/**
 * weft_queue_settle() - wait until a queue has no users, by freezing it
 * @q: the queue. Afterwards, the earlier requests of a request-based queue have
 *	ended, and the earlier bios of a bio-based queue are submitted further.
 *	New I/O waits meanwhile
 *
 * Context: process context, may sleep.
 */
static inline void weft_queue_settle(struct request_queue *q)
{
#ifdef WEFT_HAVE_FREEZE_MEMFLAGS
	unsigned int memflags = blk_mq_freeze_queue(q);

	blk_mq_unfreeze_queue(q, memflags);
#else
	blk_mq_freeze_queue(q);
	blk_mq_unfreeze_queue(q);
#endif
}

/* Does a bio that is submitted to a disk wait until somebody unfreezes its queue? */
static inline bool weft_disk_is_frozen(const struct gendisk *disk)
{
	return READ_ONCE(disk->queue->mq_freeze_depth) && !test_bit(GD_DEAD, &disk->state);
}

/**
 * weft_disk_wait_entered() - wait until tasks that found a disk's queue frozen have entered it
 * @disk: the disk
 *
 * The block layer may freeze it, for example to change its scheduler. A freezer waits
 * for tasks in the queue, and not for tasks that sleep in front of it.
 *
 * Context: process context, may sleep.
 */
static inline void weft_disk_wait_entered(struct gendisk *disk)
{
	struct request_queue *q = disk->queue;

	do {
		wait_event(q->mq_freeze_wq, !weft_disk_is_frozen(disk));
		/* The last freezer wakes them under this lock. */
		mutex_lock(&q->mq_freeze_lock);
		mutex_unlock(&q->mq_freeze_lock);
		/* Then they enter before they sleep again. */
		synchronize_rcu_tasks();
	} while (weft_disk_is_frozen(disk));
}

/**
 * weft_disk_die() - fail the I/O of a disk from now on
 * @disk: the disk; since Linux 6.5, its holders are notified
 *
 * Context: process context, may sleep.
 */
static inline void weft_disk_die(struct gendisk *disk)
{
#ifndef BLK_OPEN_READ
	/* Before 6.5, a task that allocates a request would wait for the end of the freeze. */
	blk_queue_flag_set(QUEUE_FLAG_DYING, disk->queue);
#endif
	blk_mark_disk_dead(disk);
}

#endif /* WEFT_COMPAT_BLK_MQ_H */
