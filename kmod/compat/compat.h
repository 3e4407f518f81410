/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernel versions.
 *
 * The rest of the tree uses the API of Linux 7.3. This folder provides what
 * older kernels lack. Stable kernels get backports, so a version number is not
 * reliable: a macro of the kernel shows whether an API exists, or probe.mk
 * searches the kernel's headers for it (WEFT_HAVE_*).
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

/* Explicitly per-CPU workqueues: since 6.17. Drop when the floor passes it. */
#ifndef WEFT_HAVE_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/* Moved from linux/genetlink.h in 6.6. Drop when the floor passes it. */
#ifndef MODULE_ALIAS_GENL_FAMILY
#define MODULE_ALIAS_GENL_FAMILY(family) \
	MODULE_ALIAS_NET_PF_PROTO_NAME(PF_NETLINK, NETLINK_GENERIC, "-family-" family)
#endif

/*
 * Before 6.5, open() of a disk took the block device and an fmode_t. The macro
 * declares the function. Drop when the floor passes 6.5.
 */
#ifdef BLK_OPEN_READ
#define WEFT_DISK_OPEN(fn, disk)	int fn(struct gendisk *disk, blk_mode_t mode)
#define weft_disk_opened(disk)		(disk)
#else
#define WEFT_DISK_OPEN(fn, disk)	int fn(struct block_device *disk, fmode_t mode)
#define weft_disk_opened(disk)		((disk)->bd_disk)
#endif

/*
 * Accounting of a bio-based disk: since 6.5 the number of sectors is passed at
 * the end, before at the start. Drop when the floor passes 6.5.
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

/* REQ_ATOMIC: since 6.11. Drop when the floor passes it. */
#ifdef WEFT_HAVE_REQ_ATOMIC
#define WEFT_REQ_ATOMIC	REQ_ATOMIC
#else
#define WEFT_REQ_ATOMIC	((blk_opf_t)0)
#endif

/* A block device's page cache: bd_mapping since 6.11. Drop when the floor passes it. */
static inline struct address_space *weft_bdev_mapping(struct block_device *bdev)
{
#ifdef WEFT_HAVE_BD_MAPPING
	return bdev->bd_mapping;
#else
	return bdev->bd_inode->i_mapping;
#endif
}

/* Before 6.5, ioctl() of a disk took an fmode_t. Drop when the floor passes it. */
#ifdef BLK_OPEN_READ
#define WEFT_DISK_IOCTL(fn, bdev, cmd, arg) \
	int fn(struct block_device *bdev, blk_mode_t mode, unsigned int cmd, unsigned long arg)
#else
#define WEFT_DISK_IOCTL(fn, bdev, cmd, arg) \
	int fn(struct block_device *bdev, fmode_t mode, unsigned int cmd, unsigned long arg)
#endif

/* crypto_memneq() has moved from algapi.h in 6.6. Drop when the floor passes it. */
#ifdef WEFT_HAVE_CRYPTO_UTILS
#include <crypto/utils.h>
#else
#include <crypto/algapi.h>
#endif

/* Moved from asm/ in 6.12. Drop when the floor passes it. */
#ifdef WEFT_HAVE_LINUX_UNALIGNED
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* Without the owner since 6.4. Drop when the floor passes it. */
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
 * Flags to pin pages long-term for reading. Before 6.2, only a pin for writing
 * broke copy-on-write, so that the pages are the caller's own. Drop when the
 * floor passes it.
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

/*
 * The status for an invalid bio: since 6.11. Drop when the floor passes it. What stands for
 * it before also says that a device does not know a command; as WEFT_STS_REFUSED, which
 * tells that no device has seen the bio, it has no value of its own.
 */
#ifdef BLK_STS_INVAL
#define WEFT_STS_REFUSED	BLK_STS_INVAL
#else
#define BLK_STS_INVAL		BLK_STS_NOTSUPP
#define WEFT_STS_REFUSED	BLK_STS_AGAIN
#endif

/**
 * struct weft_bdev - a block device that is open exclusively
 * @bdev: the device, valid between weft_bdev_open_dev() and weft_bdev_close()
 * @gone: called once when the device is removed, since Linux 6.5. In process
 *	context; may sleep, must not close the device
 * @file: private
 * @mode: private
 */
struct weft_bdev {
	struct block_device	*bdev;
	void			(*gone)(struct weft_bdev *wb);
	struct file		*file;
	unsigned int		mode;
};

int weft_bdev_open_dev(struct weft_bdev *wb, dev_t devt, bool write);
void weft_bdev_close(struct weft_bdev *wb);

/**
 * struct weft_limits - queue limits of a volume in addition to its members'
 * @io_min: in bytes
 * @io_opt: in bytes
 * @chunk_sectors: an atomic write must not cross a multiple of it
 * @data_start: first sector of data on each member, for alignment
 */
struct weft_limits {
	u32		io_min;
	u32		io_opt;
	u32		chunk_sectors;
	sector_t	data_start;
};

const char *weft_disk_misses(struct gendisk *disk, struct block_device *bdev);
struct gendisk *weft_disk_alloc(const struct weft_limits *limits,
				struct block_device **members, u32 count,
				bool iostats);

#endif /* WEFT_COMPAT_H */
