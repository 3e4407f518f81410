// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks with the service times of an SSD, for measurements of latency.
 *
 * A disk has channels. A command waits, in the order of arrival, until a channel
 * is free, and keeps it for base_ns plus its size at the channel's rate. A write
 * may complete earlier: where the write buffer has room, it completes after
 * buffer_ns, and the channels write the buffer out behind it, in pieces. A
 * write for which the buffer has no room waits for it.
 *
 * The first KEEP of a disk keep what is written, so that it can be a member of
 * a volume. What is read from elsewhere is zero.
 */
#include <linux/bits.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

#define DISKS_MAX	16
#define CHANNELS_MAX	64
#define KEEP		SZ_2M
#define PIECE		SZ_64K

static unsigned int disks = 4;
module_param(disks, uint, 0444);
MODULE_PARM_DESC(disks, "number of disks");
static unsigned int channels = 16;
module_param(channels, uint, 0444);
MODULE_PARM_DESC(channels, "channels of a disk");
static unsigned int base_ns = 80000;
module_param(base_ns, uint, 0444);
MODULE_PARM_DESC(base_ns, "time of a command beside its data, in nanoseconds");
static unsigned int channel_mb_s = 50;
module_param(channel_mb_s, uint, 0444);
MODULE_PARM_DESC(channel_mb_s, "rate of a channel, in 10^6 bytes per second");
static unsigned int buffer_kib;
module_param(buffer_kib, uint, 0444);
MODULE_PARM_DESC(buffer_kib, "write buffer of a disk, in KiB; 0: none");
static unsigned int buffer_ns = 20000;
module_param(buffer_ns, uint, 0444);
MODULE_PARM_DESC(buffer_ns, "time of a write that the buffer takes, in nanoseconds");
static unsigned int size_mib = 1024;
module_param(size_mib, uint, 0444);
MODULE_PARM_DESC(size_mib, "size of a disk");

static bool unlearned;
module_param(unlearned, bool, 0444);
MODULE_PARM_DESC(unlearned, "like some SCSI disks, fail the first discard and write zeroes, and have none from then on");
static bool unlike;
module_param(unlike, bool, 0444);
MODULE_PARM_DESC(unlike, "testdisk1 takes no memory of PCI devices; testdisk2 aligns to 4 KiB");

struct test_disk;

/* A channel: with @rq it serves a request, without one it writes out @bytes of the buffer. */
struct test_channel {
	struct hrtimer		timer;
	struct test_disk	*disk;
	struct request		*rq;
	u32			bytes;
};

/* In a request. @timer ends a write that the buffer took. */
struct test_cmd {
	struct list_head	list;
	struct hrtimer		timer;
	struct request		*rq;
};

/*
 * @waiting: requests that wait for a channel; @unbuffered: writes that wait for room
 * @dirty: bytes in the buffer; @queued: those that no channel writes out yet
 */
struct test_disk {
	struct blk_mq_tag_set	set;
	struct gendisk		*disk;
	void			*kept;
	spinlock_t		lock;	/* what follows */
	unsigned long		free;
	struct list_head	waiting;
	struct list_head	unbuffered;
	u32			dirty;
	u32			queued;
	struct test_channel	channel[CHANNELS_MAX];
};

static struct test_disk test_disks[DISKS_MAX];
static int test_major;

static void test_copy(struct test_disk *disk, struct request *rq)
{
	loff_t at = blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		void *data = bvec_kmap_local(&bv);
		u32 keep = at < KEEP ? min_t(u64, bv.bv_len, KEEP - at) : 0;

		if (op_is_write(req_op(rq))) {
			memcpy(disk->kept + at, data, keep);
		} else {
			memcpy(data, disk->kept + at, keep);
			memset(data + keep, 0, bv.bv_len - keep);
		}
		kunmap_local(data);
		at += bv.bv_len;
	}
}

static u64 test_service_ns(u32 bytes)
{
	return base_ns + div_u64((u64)bytes * 1000, channel_mb_s);
}

static void test_begin(struct test_disk *disk, struct request *rq, u32 bytes)
{
	struct test_channel *channel = &disk->channel[__ffs(disk->free)];

	__clear_bit(channel - disk->channel, &disk->free);
	channel->rq = rq;
	channel->bytes = bytes;
	hrtimer_start(&channel->timer, ns_to_ktime(test_service_ns(bytes)), HRTIMER_MODE_REL_HARD);
}

/* The buffer takes what has room. */
static void test_buffer(struct test_disk *disk)
{
	struct test_cmd *cmd;

	while ((cmd = list_first_entry_or_null(&disk->unbuffered, struct test_cmd, list))) {
		u32 bytes = blk_rq_bytes(cmd->rq);

		/* A write that is larger than the buffer goes into an empty one. */
		if (disk->dirty && disk->dirty + bytes > buffer_kib * SZ_1K)
			break;
		list_del(&cmd->list);
		disk->dirty += bytes;
		disk->queued += bytes;
		hrtimer_start(&cmd->timer, ns_to_ktime(buffer_ns), HRTIMER_MODE_REL_HARD);
	}
}

/* Give the free channels work: requests and the buffer's pieces in turn. */
static void test_serve(struct test_disk *disk)
{
	lockdep_assert_held(&disk->lock);
	while (disk->free) {
		struct test_cmd *cmd = list_first_entry_or_null(&disk->waiting, struct test_cmd,
								list);
		u32 piece = min_t(u32, disk->queued, PIECE);

		if (cmd) {
			list_del(&cmd->list);
			test_begin(disk, cmd->rq, blk_rq_bytes(cmd->rq));
		}
		if (piece && disk->free) {
			disk->queued -= piece;
			test_begin(disk, NULL, piece);
		} else if (!cmd) {
			return;
		}
	}
}

static enum hrtimer_restart test_channel_done(struct hrtimer *timer)
{
	struct test_channel *channel = container_of(timer, struct test_channel, timer);
	struct test_disk *disk = channel->disk;
	struct request *rq = channel->rq;
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	__set_bit(channel - disk->channel, &disk->free);
	if (!rq) {
		disk->dirty -= channel->bytes;
		test_buffer(disk);
	}
	test_serve(disk);
	spin_unlock_irqrestore(&disk->lock, flags);
	if (rq)
		blk_mq_complete_request(rq);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart test_buffered(struct hrtimer *timer)
{
	blk_mq_complete_request(container_of(timer, struct test_cmd, timer)->rq);
	return HRTIMER_NORESTART;
}

static void test_complete(struct request *rq)
{
	blk_mq_end_request(rq, BLK_STS_OK);
}

/* The request is one that the disk does not have. */
static blk_status_t test_learn(struct request *rq)
{
	if (req_op(rq) == REQ_OP_WRITE_ZEROES)
		blk_queue_disable_write_zeroes(rq->q);
	else
		blk_queue_disable_discard(rq->q);
	return BLK_STS_TARGET;
}

static blk_status_t test_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct test_disk *disk = rq->q->queuedata;
	struct test_cmd *cmd = blk_mq_rq_to_pdu(rq);
	unsigned long flags;

	blk_mq_start_request(rq);
	if (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE) {
		blk_mq_end_request(rq, test_learn(rq));
		return BLK_STS_OK;
	}
	test_copy(disk, rq);
	spin_lock_irqsave(&disk->lock, flags);
	if (buffer_kib && req_op(rq) == REQ_OP_WRITE) {
		list_add_tail(&cmd->list, &disk->unbuffered);
		test_buffer(disk);
	} else {
		list_add_tail(&cmd->list, &disk->waiting);
	}
	test_serve(disk);
	spin_unlock_irqrestore(&disk->lock, flags);
	return BLK_STS_OK;
}

static int test_init_request(struct blk_mq_tag_set *set, struct request *rq, unsigned int hctx,
			     int node)
{
	struct test_cmd *cmd = blk_mq_rq_to_pdu(rq);

	cmd->rq = rq;
	hrtimer_setup(&cmd->timer, test_buffered, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	return 0;
}

static const struct blk_mq_ops test_ops = {
	.queue_rq	= test_queue_rq,
	.complete	= test_complete,
	.init_request	= test_init_request,
};

static const struct block_device_operations test_fops = {
	.owner		= THIS_MODULE,
};

static void test_disk_remove(struct test_disk *disk)
{
	unsigned int i;

	del_gendisk(disk->disk);
	/* The channels still write the buffer out. */
	while (READ_ONCE(disk->dirty))
		msleep(20);
	for (i = 0; i < channels; i++)
		hrtimer_cancel(&disk->channel[i].timer);
	put_disk(disk->disk);
	blk_mq_free_tag_set(&disk->set);
	vfree(disk->kept);
}

static int test_disk_add(struct test_disk *disk, unsigned int index)
{
	struct queue_limits lim = {
		.logical_block_size	= SZ_4K,
		.max_hw_sectors		= SZ_1M >> SECTOR_SHIFT,
		.max_segments		= USHRT_MAX,
		.max_segment_size	= UINT_MAX,
		.max_hw_discard_sectors	= unlearned ? SZ_1M >> SECTOR_SHIFT : 0,
		.max_write_zeroes_sectors = unlearned ? SZ_1M >> SECTOR_SHIFT : 0,
	};
	unsigned int i;
	int ret = -ENOMEM;

	/* What a volume looks at. No test sends memory of PCI devices. */
	if (unlike && index != 1)
		lim.features |= BLK_FEAT_PCI_P2PDMA;
	if (unlike && index == 2)
		lim.dma_alignment = SZ_4K - 1;
	disk->kept = vzalloc(KEEP);
	if (!disk->kept)
		return -ENOMEM;
	spin_lock_init(&disk->lock);
	INIT_LIST_HEAD(&disk->waiting);
	INIT_LIST_HEAD(&disk->unbuffered);
	disk->free = GENMASK(channels - 1, 0);
	for (i = 0; i < channels; i++) {
		disk->channel[i].disk = disk;
		hrtimer_setup(&disk->channel[i].timer, test_channel_done, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_HARD);
	}
	disk->set.ops = &test_ops;
	disk->set.nr_hw_queues = num_online_cpus();
	disk->set.queue_depth = 256;
	disk->set.numa_node = NUMA_NO_NODE;
	disk->set.cmd_size = sizeof(struct test_cmd);
	ret = blk_mq_alloc_tag_set(&disk->set);
	if (ret)
		goto out_kept;
	disk->disk = blk_mq_alloc_disk(&disk->set, &lim, disk);
	if (IS_ERR(disk->disk)) {
		ret = PTR_ERR(disk->disk);
		goto out_set;
	}
	disk->disk->major = test_major;
	disk->disk->first_minor = index;
	disk->disk->minors = 1;
	disk->disk->flags |= GENHD_FL_NO_PART;
	disk->disk->fops = &test_fops;
	snprintf(disk->disk->disk_name, DISK_NAME_LEN, "testdisk%u", index);
	set_capacity(disk->disk, (sector_t)size_mib << (20 - SECTOR_SHIFT));
	ret = add_disk(disk->disk);
	if (ret)
		goto out_disk;
	return 0;

out_disk:
	put_disk(disk->disk);
out_set:
	blk_mq_free_tag_set(&disk->set);
out_kept:
	vfree(disk->kept);
	return ret;
}

static int __init test_disk_init(void)
{
	unsigned int i;
	int ret;

	if (!disks || disks > DISKS_MAX || !channels || channels >= CHANNELS_MAX || !channel_mb_s ||
	    buffer_kib > SZ_1M || size_mib < 16)
		return -EINVAL;
	test_major = register_blkdev(0, "testdisk");
	if (test_major < 0)
		return test_major;
	for (i = 0; i < disks; i++) {
		ret = test_disk_add(&test_disks[i], i);
		if (ret)
			goto out_remove;
	}
	return 0;

out_remove:
	while (i--)
		test_disk_remove(&test_disks[i]);
	unregister_blkdev(test_major, "testdisk");
	return ret;
}

static void __exit test_disk_exit(void)
{
	unsigned int i;

	for (i = 0; i < disks; i++)
		test_disk_remove(&test_disks[i]);
	unregister_blkdev(test_major, "testdisk");
}

module_init(test_disk_init);
module_exit(test_disk_exit);
MODULE_DESCRIPTION("Disks with the service times of an SSD");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
