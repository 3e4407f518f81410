// SPDX-License-Identifier: GPL-2.0-only
/* Functions that differ between kernels, see compat.h. */
#include "compat.h"

#include <linux/file.h>

#ifdef BLK_OPEN_READ
/*
 * Called with bd_holder_lock held, which keeps the device from being closed.
 * The callee may sleep, and has to release the lock.
 */
static void weft_bdev_mark_dead(struct block_device *bdev, bool surprise)
{
	struct weft_bdev *wb = bdev->bd_holder;

	if (wb->gone)
		wb->gone(wb);
	mutex_unlock(&bdev->bd_holder_lock);
}

static const struct blk_holder_ops weft_bdev_holder_ops = {
	.mark_dead	= weft_bdev_mark_dead,
};
#endif

#ifdef BLK_FEAT_WRITE_CACHE
static blk_mode_t weft_bdev_mode(bool write)
{
	return BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
}

static int weft_bdev_opened(struct weft_bdev *wb, struct file *file)
{
	if (IS_ERR(file))
		return PTR_ERR(file);
	wb->file = file;
	wb->bdev = file_bdev(file);
	return 0;
}
#else
static fmode_t weft_bdev_mode(bool write)
{
	return FMODE_READ | FMODE_EXCL | (write ? FMODE_WRITE : 0);
}

static int weft_bdev_opened(struct weft_bdev *wb, struct block_device *bdev, bool write)
{
	if (IS_ERR(bdev))
		return PTR_ERR(bdev);
	wb->bdev = bdev;
	wb->mode = (__force unsigned int)weft_bdev_mode(write);
	return 0;
}
#endif

/**
 * weft_bdev_open_dev() - open a block device exclusively
 * @wb: the caller has set @gone; the other fields are set here
 * @devt: device number
 * @write: open it for writing, too
 *
 * Context: process context, may sleep.
 * Return: 0 or a negative errno; -EBUSY if it has another exclusive holder,
 * -EACCES if it is read-only and @write is true.
 */
int weft_bdev_open_dev(struct weft_bdev *wb, dev_t devt, bool write)
{
#ifdef BLK_FEAT_WRITE_CACHE
	return weft_bdev_opened(wb, bdev_file_open_by_dev(devt, weft_bdev_mode(write), wb,
							  &weft_bdev_holder_ops));
#else
	return weft_bdev_opened(wb, blkdev_get_by_dev(devt, weft_bdev_mode(write), wb), write);
#endif
}

/**
 * weft_bdev_close() - undo weft_bdev_open_dev()
 * @wb: the device
 *
 * Context: process context, may sleep. @gone is not called after this returns.
 */
void weft_bdev_close(struct weft_bdev *wb)
{
#ifdef BLK_FEAT_WRITE_CACHE
	/* fput() in a worker is delayed, but the user may open the device next. */
	if (current->flags & PF_KTHREAD)
		__fput_sync(wb->file);
	else
		bdev_fput(wb->file);
#else
	blkdev_put(wb->bdev, (__force fmode_t)wb->mode);
#endif
	wb->bdev = NULL;
}

/* Features of all members. Kernels differ in stacking them, so do it here. */
struct weft_common {
	bool	discard;
	bool	write_zeroes;
	bool	nowait;
	bool	poll;
	bool	p2pdma;
	bool	stable_writes;	/* any */
};

#ifdef BLK_FEAT_WRITE_CACHE
static bool weft_queue_has(struct block_device *bdev, blk_features_t feature)
{
	return bdev_get_queue(bdev)->limits.features & feature;
}

#define weft_queue_nowait(bdev)		weft_queue_has(bdev, BLK_FEAT_NOWAIT)
#define weft_queue_poll(bdev)		weft_queue_has(bdev, BLK_FEAT_POLL)
#define weft_queue_p2pdma(bdev)		weft_queue_has(bdev, BLK_FEAT_PCI_P2PDMA)
#else
#define weft_queue_nowait(bdev)		bdev_nowait(bdev)
#define weft_queue_poll(bdev) \
	test_bit(QUEUE_FLAG_POLL, &bdev_get_queue(bdev)->queue_flags)
#define weft_queue_p2pdma(bdev)		blk_queue_pci_p2pdma(bdev_get_queue(bdev))
#endif

static struct weft_common weft_common_of(struct block_device **members, u32 count)
{
	struct weft_common c = {
		.discard = true, .write_zeroes = true, .nowait = true,
		.poll = true, .p2pdma = true,
	};
	u32 i;

	for (i = 0; i < count; i++) {
		c.discard &= !!bdev_max_discard_sectors(members[i]);
		c.write_zeroes &= !!bdev_write_zeroes_sectors(members[i]);
		c.nowait &= !!weft_queue_nowait(members[i]);
		c.poll &= !!weft_queue_poll(members[i]);
		c.p2pdma &= !!weft_queue_p2pdma(members[i]);
		c.stable_writes |= bdev_stable_writes(members[i]);
	}
	return c;
}

/*
 * weft_disk_atomic_fits() - whether a device writes as a whole what a disk does
 *
 * The block layer takes atomic writes whose size is a power of two, at a
 * multiple of it. So a boundary of the device does not matter.
 */
static bool weft_disk_atomic_fits(struct gendisk *disk, struct block_device *bdev)
{
#ifdef BLK_FEAT_ATOMIC_WRITES
	struct request_queue *has = bdev_get_queue(bdev), *wants = disk->queue;

	return !queue_atomic_write_unit_max_bytes(wants) ||
	       (queue_atomic_write_unit_max_bytes(has) >=
		queue_atomic_write_unit_max_bytes(wants) &&
		queue_atomic_write_unit_min_bytes(has) <=
		queue_atomic_write_unit_min_bytes(wants));
#else
	return true;	/* the disk has none */
#endif
}

/**
 * weft_disk_misses() - find a feature of a disk that a new device lacks
 * @disk: made by weft_disk_alloc()
 * @bdev: the device that will get bios of @disk
 *
 * Return: the feature, as words for a sentence; NULL if none is missing.
 */
const char *weft_disk_misses(struct gendisk *disk, struct block_device *bdev)
{
	struct block_device *whole = disk->part0;
	struct weft_common has = weft_common_of(&bdev, 1), wants = weft_common_of(&whole, 1);

	if (wants.discard && !has.discard)
		return "discards";
	if (wants.write_zeroes && !has.write_zeroes)
		return "write zeroes";
	if (wants.nowait && !has.nowait)
		return "NOWAIT requests";
#ifdef BLK_FEAT_POLL
	/* A polled bio fails there. Older kernels take the flag away from it. */
	if (wants.poll && !has.poll)
		return "polled I/O";
#endif
	if (wants.p2pdma && !has.p2pdma)
		return "memory of PCI devices (P2PDMA)";
	if (has.stable_writes && !wants.stable_writes)
		return "data that changes during a write";
	if (!weft_disk_atomic_fits(disk, bdev))
		return "atomic writes of that size";
	if (queue_dma_alignment(bdev_get_queue(bdev)) > queue_dma_alignment(disk->queue))
		return "memory at so small an alignment";
	return NULL;
}

/*
 * A discard or write zeroes becomes one command for each member, which splits
 * it by its own limits. So the volume's limit is the largest size of a bio.
 */
#define WEFT_RANGE_SECTORS	((UINT_MAX >> SECTOR_SHIFT) & ~7U)	/* whole 4 KiB */

/**
 * weft_disk_alloc() - allocate a bio-based disk with limits stacked from members
 * @limits: limits of the volume
 * @members: open block devices
 * @count: number of @members
 * @iostats: initial value of the queue's iostats
 *
 * Context: process context, may sleep.
 * Return: the disk, or an ERR_PTR. Undo with put_disk().
 */
struct gendisk *weft_disk_alloc(const struct weft_limits *limits,
				struct block_device **members, u32 count,
				bool iostats)
{
	struct weft_common c = weft_common_of(members, count);
	u32 i;

#ifdef BLK_FEAT_WRITE_CACHE
	struct queue_limits lim;

	blk_set_stacking_limits(&lim);
	/* As the members need it: a bio's memory is theirs alone. */
	lim.dma_alignment = 0;
	lim.io_min = limits->io_min;
	lim.io_opt = limits->io_opt;
	lim.chunk_sectors = limits->chunk_sectors;
	lim.features |= BLK_FEAT_NOWAIT | BLK_FEAT_POLL | BLK_FEAT_PCI_P2PDMA;
	/* Also without a member that has a cache: it may get one, and a flush knows. */
	lim.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	if (iostats)
		lim.features |= BLK_FEAT_IO_STAT;
#ifdef BLK_FEAT_ATOMIC_WRITES
	lim.features |= BLK_FEAT_ATOMIC_WRITES;
#endif
	for (i = 0; i < count; i++)
		queue_limits_stack_bdev(&lim, members[i], limits->data_start,
					"weft");
	lim.max_hw_discard_sectors = c.discard ? WEFT_RANGE_SECTORS : 0;
	lim.max_write_zeroes_sectors = c.write_zeroes ? WEFT_RANGE_SECTORS : 0;
#ifdef WEFT_HAVE_WZEROES_UNMAP
	/* Must not exceed the write zeroes limit, and not all members unmap. */
	lim.max_hw_wzeroes_unmap_sectors = 0;
#endif
	lim.max_secure_erase_sectors = 0;
	if (!c.nowait)
		lim.features &= ~BLK_FEAT_NOWAIT;
	if (!c.poll)
		lim.features &= ~BLK_FEAT_POLL;
	if (!c.p2pdma)
		lim.features &= ~BLK_FEAT_PCI_P2PDMA;
	return blk_alloc_disk(&lim, NUMA_NO_NODE);
#else
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);
	struct request_queue *q;

	if (!disk)
		return ERR_PTR(-ENOMEM);
	q = disk->queue;
	blk_set_stacking_limits(&q->limits);
	q->limits.dma_alignment = 0;
	blk_queue_io_min(q, limits->io_min);
	blk_queue_io_opt(q, limits->io_opt);
	blk_queue_chunk_sectors(q, limits->chunk_sectors);
	for (i = 0; i < count; i++)
		disk_stack_limits(disk, members[i],
				  limits->data_start << SECTOR_SHIFT);
	blk_queue_max_discard_sectors(q, c.discard ? WEFT_RANGE_SECTORS : 0);
	q->limits.max_hw_discard_sectors = q->limits.max_discard_sectors;
	blk_queue_max_write_zeroes_sectors(q, c.write_zeroes ? WEFT_RANGE_SECTORS : 0);
	blk_queue_max_secure_erase_sectors(q, 0);
	/* Also without a member that has a cache: it may get one, and a flush knows. */
	blk_queue_write_cache(q, true, true);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	if (iostats)
		blk_queue_flag_set(QUEUE_FLAG_IO_STAT, q);
	if (c.stable_writes)
		blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, q);
	if (c.nowait)
		blk_queue_flag_set(QUEUE_FLAG_NOWAIT, q);
	if (c.poll)
		blk_queue_flag_set(QUEUE_FLAG_POLL, q);
	if (c.p2pdma)
		blk_queue_flag_set(QUEUE_FLAG_PCI_P2PDMA, q);
	return disk;
#endif
}
