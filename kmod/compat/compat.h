/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that weft knows of kernels older than the newest it is written for.
 *
 * The rest of the tree uses the API of 7.2. What an older kernel lacks is made
 * up for here. Stable kernels backport, so nothing asks for a version: a
 * tell-tale macro or header says whether a thing is there, and where there is
 * none, probe.mk looks into the header (WEFT_HAVE_*).
 */
#ifndef WEFT_COMPAT_H
#define WEFT_COMPAT_H

#include <linux/blkdev.h>
#include <linux/device/class.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <net/genetlink.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "weft needs Linux 6.1 or newer"
#endif

/* Typed allocators: since 7.0. Drop when the floor passes it. */
#ifndef kzalloc_obj
#define weft_kzalloc(size, gfp, ...)	kzalloc(size, gfp)
#define kzalloc_obj(obj, ...)	weft_kzalloc(sizeof(obj), ##__VA_ARGS__, GFP_KERNEL)
#define kmalloc_obj(obj, gfp)	kmalloc(sizeof(obj), gfp)
#endif

/* Explicitly per-cpu workqueues: since 6.17. Drop when the floor passes it. */
#ifndef WEFT_HAVE_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/* Moved from linux/genetlink.h in 6.6. Drop when the floor passes it. */
#ifndef MODULE_ALIAS_GENL_FAMILY
#define MODULE_ALIAS_GENL_FAMILY(family) \
	MODULE_ALIAS_NET_PF_PROTO_NAME(PF_NETLINK, NETLINK_GENERIC, "-family-" family)
#endif

/*
 * open() of a disk took the block device and an fmode_t before 6.5. The macro
 * is the function's head. Drop when the floor passes 6.5.
 */
#ifdef BLK_OPEN_READ
#define WEFT_DISK_OPEN(fn, disk)	int fn(struct gendisk *disk, blk_mode_t mode)
#define weft_disk_opened(disk)		(disk)
#else
#define WEFT_DISK_OPEN(fn, disk)	int fn(struct block_device *disk, fmode_t mode)
#define weft_disk_opened(disk)		((disk)->bd_disk)
#endif

/*
 * Accounting of a bio-based disk: sectors are given at the end since 6.5, at
 * the start before. Drop when the floor passes 6.5.
 */
static inline unsigned long weft_acct_start(struct block_device *bdev,
					    unsigned int sectors, enum req_op op)
{
#ifdef WEFT_HAVE_ACCT_END_SECTORS
	return bdev_start_io_acct(bdev, op, jiffies);
#else
	return bdev_start_io_acct(bdev, sectors, op, jiffies);
#endif
}

static inline void weft_acct_end(struct block_device *bdev, unsigned int sectors,
				 enum req_op op, unsigned long start)
{
#ifdef WEFT_HAVE_ACCT_END_SECTORS
	bdev_end_io_acct(bdev, op, sectors, start);
#else
	bdev_end_io_acct(bdev, op, start);
#endif
}

/* REQ_ATOMIC: since 6.11; elsewhere no bio has it. Drop when the floor passes. */
#ifdef WEFT_HAVE_REQ_ATOMIC
#define WEFT_REQ_ATOMIC	REQ_ATOMIC
#else
#define WEFT_REQ_ATOMIC	((blk_opf_t)0)
#endif

/* ioctl() of a disk took an fmode_t before 6.5. Drop when the floor passes it. */
#ifdef BLK_OPEN_READ
#define WEFT_DISK_IOCTL(fn, bdev, cmd, arg) \
	int fn(struct block_device *bdev, blk_mode_t mode, unsigned int cmd, unsigned long arg)
#else
#define WEFT_DISK_IOCTL(fn, bdev, cmd, arg) \
	int fn(struct block_device *bdev, fmode_t mode, unsigned int cmd, unsigned long arg)
#endif

/* Moved from asm/ in 6.12. Drop when the floor passes it. */
#ifdef WEFT_HAVE_LINUX_UNALIGNED
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* The owner is not named since 6.4. Drop when the floor passes it. */
#ifdef class_create
#define weft_class_create(name)	class_create(THIS_MODULE, name)
#else
#define weft_class_create(name)	class_create(name)
#endif

/* A class's devnode() takes a const device since 6.2. Drop when the floor passes it. */
#ifdef WEFT_HAVE_DEVNODE_CONST
#define WEFT_DEVNODE(fn, dev, mode)	char *fn(const struct device *dev, umode_t *mode)
#else
#define WEFT_DEVNODE(fn, dev, mode)	char *fn(struct device *dev, umode_t *mode)
#endif

/*
 * Pages pinned for reading for long: before 6.2 those that are copied on write
 * had to be pinned as for writing, to be the caller's own. Drop when the floor
 * passes it.
 */
#ifdef WEFT_HAVE_GUP_UNSHARE_HERE
#define WEFT_FOLL_READ	(FOLL_WRITE | FOLL_FORCE)
#else
#define WEFT_FOLL_READ	0
#endif

/* Called BLK_STS_NEXUS before 6.11. Drop when the floor passes it. */
#ifndef BLK_STS_RESV_CONFLICT
#define BLK_STS_RESV_CONFLICT	BLK_STS_NEXUS
#endif

/* The status for a bio that cannot be: since 6.11. Drop when the floor passes. */
#ifndef BLK_STS_INVAL
#define BLK_STS_INVAL	BLK_STS_NOTSUPP
#endif

/**
 * struct weft_bdev - a block device held exclusively
 * @bdev: the device, valid between weft_bdev_open() and weft_bdev_close()
 * @gone: called once when the device is removed, where the kernel tells
 *	(6.5 on); in process context, may sleep, must not close
 * @file: private
 * @mode: private
 */
struct weft_bdev {
	struct block_device	*bdev;
	void			(*gone)(struct weft_bdev *wb);
	struct file		*file;
	unsigned int		mode;
};

int weft_bdev_open(struct weft_bdev *wb, const char *path, bool write);
int weft_bdev_open_dev(struct weft_bdev *wb, dev_t devt, bool write);
void weft_bdev_close(struct weft_bdev *wb);

/**
 * struct weft_limits - what a volume asks of its queue beyond its members'
 * @io_min: bytes
 * @io_opt: bytes
 * @chunk_sectors: sectors that must not be crossed by one atomic write
 * @data_start: first sector of data on each member, for alignment
 */
struct weft_limits {
	u32		io_min;
	u32		io_opt;
	u32		chunk_sectors;
	sector_t	data_start;
};

struct gendisk *weft_disk_alloc(const struct weft_limits *limits,
				struct block_device **members, u32 count,
				bool iostats);

#endif /* WEFT_COMPAT_H */
