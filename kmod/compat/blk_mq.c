// SPDX-License-Identifier: GPL-2.0-only
/* blk-mq functions that differ between kernels, see blk_mq.h. */
#include "blk_mq.h"

/**
 * weft_mq_disk_alloc() - allocate a request-based disk
 * @set: its tag set
 * @limits: its limits
 * @queuedata: queuedata of its queue
 *
 * Context: process context, may sleep.
 * Return: the disk, or an ERR_PTR. Undo with put_disk().
 */
struct gendisk *weft_mq_disk_alloc(struct blk_mq_tag_set *set,
				   const struct weft_mq_limits *limits,
				   void *queuedata)
{
#ifdef BLK_FEAT_WRITE_CACHE
	struct queue_limits lim = {
		.logical_block_size	= limits->block_size,
		.physical_block_size	= limits->physical_block_size,
		.io_min			= limits->io_min,
		.io_opt			= limits->io_opt,
		.chunk_sectors		= limits->chunk_sectors,
		.max_hw_sectors		= limits->max_sectors,
		.max_segments		= limits->max_segments,
		.max_segment_size	= UINT_MAX,
		.virt_boundary_mask	= limits->virt_boundary,
		.dma_alignment		= limits->dma_alignment,
		.max_hw_discard_sectors	= limits->max_discard_sectors,
		.discard_granularity	= limits->discard_granularity,
		.max_discard_segments	= 1,
		.max_write_zeroes_sectors = limits->max_write_zeroes_sectors,
		.features		= BLK_FEAT_NOWAIT | BLK_FEAT_IO_STAT,
	};

	if (limits->write_cache)
		lim.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	if (limits->poll)
		lim.features |= BLK_FEAT_POLL;
	if (limits->p2pdma)
		lim.features |= BLK_FEAT_PCI_P2PDMA;
	return blk_mq_alloc_disk(set, &lim, queuedata);
#else
	struct gendisk *disk = blk_mq_alloc_disk(set, queuedata);
	struct request_queue *q;

	if (IS_ERR(disk))
		return disk;
	q = disk->queue;
	blk_queue_logical_block_size(q, limits->block_size);
	blk_queue_physical_block_size(q, limits->physical_block_size);
	blk_queue_io_min(q, limits->io_min);
	blk_queue_io_opt(q, limits->io_opt);
	blk_queue_chunk_sectors(q, limits->chunk_sectors);
	blk_queue_max_hw_sectors(q, limits->max_sectors);
	blk_queue_max_segments(q, limits->max_segments);
	blk_queue_virt_boundary(q, limits->virt_boundary);
	blk_queue_dma_alignment(q, limits->dma_alignment);
	blk_queue_max_discard_sectors(q, limits->max_discard_sectors);
	blk_queue_max_discard_segments(q, 1);
	q->limits.discard_granularity = limits->discard_granularity;
	blk_queue_max_write_zeroes_sectors(q, limits->max_write_zeroes_sectors);
	blk_queue_write_cache(q, limits->write_cache, limits->write_cache);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	if (limits->p2pdma)
		blk_queue_flag_set(QUEUE_FLAG_PCI_P2PDMA, q);
	return disk;
#endif
}

/**
 * weft_mq_fit_commands() - change what a request of a disk may be
 * @q: its queue; waiting requests may be longer
 * @limits: max_sectors, max_discard_sectors and max_write_zeroes_sectors
 *
 * If another thread is changing the queue's limits, they stay, and the target
 * fails longer requests until the caller has tried again.
 *
 * Context: process context, may sleep.
 * Return: false if the limits stay because of another thread.
 */
bool weft_mq_fit_commands(struct request_queue *q, const struct weft_mq_limits *limits)
{
#ifdef BLK_FEAT_WRITE_CACHE
	struct queue_limits lim;

	/* Its holder may wait for I/O, and the I/O for the association that is being set up. */
	if (!mutex_trylock(&q->limits_lock))
		return false;
	lim = q->limits;
	lim.max_hw_sectors = limits->max_sectors;
	lim.max_hw_discard_sectors = limits->max_discard_sectors;
	lim.max_write_zeroes_sectors = limits->max_write_zeroes_sectors;
	if (queue_limits_commit_update(q, &lim))
		pr_warn_once("%s: %u sectors of a request are too few\n", KBUILD_MODNAME,
			     limits->max_sectors);
#else
	blk_queue_max_hw_sectors(q, limits->max_sectors);
	/* Newer kernels do this themselves: without a granularity, discards would fail. */
	if (limits->max_discard_sectors && !q->limits.discard_granularity)
		q->limits.discard_granularity = q->limits.physical_block_size;
	blk_queue_max_discard_sectors(q, limits->max_discard_sectors);
	blk_queue_max_write_zeroes_sectors(q, limits->max_write_zeroes_sectors);
#endif
	return true;
}

/**
 * weft_mq_alloc_queue() - allocate a request queue without a disk
 * @set: its tag set
 *
 * Context: process context, may sleep.
 * Return: the queue, or an ERR_PTR. Undo with blk_mq_destroy_queue() and
 * blk_put_queue().
 */
struct request_queue *weft_mq_alloc_queue(struct blk_mq_tag_set *set)
{
#ifdef BLK_FEAT_WRITE_CACHE
	return blk_mq_alloc_queue(set, NULL, NULL);
#else
	return blk_mq_init_queue(set);
#endif
}
