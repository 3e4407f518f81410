/* SPDX-License-Identifier: GPL-2.0-only */
/* blk-mq as 7.2 has it, for request-based drivers; see compat.h. */
#ifndef WEFT_COMPAT_BLK_MQ_H
#define WEFT_COMPAT_BLK_MQ_H

#include "compat.h"

#include <linux/blk-mq.h>
#include <linux/memremap.h>

/* Merging is what every queue does since 6.14. Drop when the floor passes it. */
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
 * The head of a request's end_io: a batch comes with it since 7.0. Drop when
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
 * The queue is no argument of these any more since 6.16 and 7.0. Drop when the
 * floor passes them.
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

/**
 * weft_bio_is_peer() - are its pages another device's memory?
 * @bio: with data
 *
 * Return: whether they are. All pages of a bio are of one kind.
 */
static inline bool weft_bio_is_peer(struct bio *bio)
{
	return bio_has_data(bio) && is_pci_p2pdma_page(bio_page(bio));
}

/**
 * struct weft_mq_limits - what a request-based disk takes
 * @block_size: bytes
 * @max_sectors: of one request
 * @max_segments: of one request
 * @max_discard_sectors: 0 for none
 * @max_write_zeroes_sectors: 0 for none
 * @virt_boundary: mask that no segment but the first and last may break
 * @write_cache: needs flushes, and takes FUA
 * @poll: has poll queues
 * @p2pdma: takes pages of peers
 */
struct weft_mq_limits {
	u32	block_size;
	u32	max_sectors;
	u32	max_segments;
	u32	max_discard_sectors;
	u32	max_write_zeroes_sectors;
	u32	virt_boundary;
	bool	write_cache;
	bool	poll;
	bool	p2pdma;
};

struct gendisk *weft_mq_disk_alloc(struct blk_mq_tag_set *set,
				   const struct weft_mq_limits *limits,
				   void *queuedata);
struct request_queue *weft_mq_alloc_queue(struct blk_mq_tag_set *set);

/**
 * weft_queue_settle() - wait until everybody has left a queue
 * @q: the queue; of a request-based one all requests have ended then, of a
 *	bio-based one all bios have been passed on. Who comes meanwhile waits
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

#endif /* WEFT_COMPAT_BLK_MQ_H */
