// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sealed files: files of a filesystem on the volume that may be read past it.
 *
 * DOC: what holds a file still
 *
 * The extents of a file are taken once and used until it is put. Three things
 * keep them what they are: a file that is immutable, which only root makes and
 * which nobody can open for writing; no permission to write for anybody, also
 * not for those who had opened it before or make it mutable meanwhile, as for a
 * program that is being executed; and what the kernel holds the blocks of a
 * swap file with (S_SWAPFILE), which every filesystem respects where it would
 * write, truncate, unlink, move or share them. Extents come from bmap(): each
 * block has to be there, written, and nobody else's.
 *
 * A kernel without swap has no such flag, and holds nothing still.
 *
 * That is enough for filesystems that never move a block by themselves and
 * that answer bmap() for none they share: those are named below.
 *
 * Who has the same file sealed shares one of these.
 */
#include "mem.h"

#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "../compat/file.h"

/* Blocks between two looks at whether the caller was killed. */
#define WEFT_SEALED_BREATH	4096

/* Of a file; more would be 384 MiB of kernel memory. */
#define WEFT_SEALED_EXTENTS_MAX	SZ_16M

static const char * const weft_sealed_filesystems[] = { "ext4", "xfs" };

/**
 * struct weft_extent - bytes that are together in a file and on the volume
 * @offset: in the file
 * @at: on the volume
 * @length: in bytes
 */
struct weft_extent {
	u64	offset;
	u64	at;
	u64	length;
};

/**
 * struct weft_sealed - a file whose blocks are held still
 * @node: the volume's device, in whose sealed this is by inode number
 * @file: keeps the file and its filesystem
 * @refs: who has this; under the node's lock
 * @lock: protects the rest where it changes
 * @users: who uses the extents, which are there while there are any
 * @size: of the file, in bytes
 * @extents: sorted, without a gap
 * @count: of @extents
 * @room: for so many
 */
struct weft_sealed {
	struct weft_mem_node	*node;
	struct file		*file;
	u32			refs;
	struct mutex		lock;	/* see above */
	u32			users;
	u64			size;
	struct weft_extent	*extents;
	size_t			count;
	size_t			room;
};

static bool weft_sealed_filesystem(const struct super_block *sb)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(weft_sealed_filesystems); i++)
		if (!strcmp(sb->s_type->name, weft_sealed_filesystems[i]))
			return true;
	return false;
}

/* What of a file does not change while it is open. */
static int weft_sealed_check(struct weft_volume *vol, struct file *file, struct weft_why *why)
{
	struct inode *inode = file_inode(file);
	struct super_block *sb = inode->i_sb;
	loff_t start = 0;

	if (!IS_ENABLED(CONFIG_SWAP))
		return weft_refuse(why, -EOPNOTSUPP,
				   "this kernel is built without swap, and cannot hold a file's blocks still");
	if (vol->read_only)
		return weft_refuse(why, -EROFS,
				   "volume %s is assembled read-only: another host may write to it, and file %pD would not be held still there",
				   vol->name, file);
	if (!sb->s_bdev || sb->s_bdev->bd_disk != vol->disk)
		return weft_refuse(why, -EXDEV,
				   "file %pD is on a filesystem (%s, %s) that is not on volume %s itself",
				   file, sb->s_type->name, sb->s_id, vol->name);
	if (!weft_sealed_filesystem(sb))
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD is on %s, which may move the blocks of a file: it can be ext4 or xfs",
				   file, sb->s_type->name);
	if (!(file->f_mode & FMODE_READ))
		return weft_refuse(why, -EACCES, "file %pD was not opened for reading", file);
	if (IS_ENCRYPTED(inode))
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD is encrypted: its blocks are not its contents", file);
	if (IS_VERITY(inode))
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD is verified where it is read (fs-verity), and would not be here",
				   file);
	if (IS_DAX(inode))
		return weft_refuse(why, -EOPNOTSUPP, "file %pD is accessed by DAX", file);
	/* What read() asks: security modules, who watches. */
	if (weft_verify_read(file, &start, i_size_read(inode)))
		return weft_refuse(why, -EACCES, "file %pD may not be read", file);
	return 0;
}

static int weft_sealed_hold(struct file *file, struct weft_why *why)
{
	struct inode *inode = file_inode(file);
	int ret = 0;

	inode_lock(inode);
	if (!IS_IMMUTABLE(inode))
		ret = weft_refuse(why, -EPERM,
				  "file %pD is not sealed: make it immutable first (chattr +i)", file);
	else if (IS_SWAPFILE(inode))
		ret = weft_refuse(why, -EBUSY, "the blocks of file %pD are held by something else",
				  file);
	else if (deny_write_access(file))
		ret = weft_refuse(why, -ETXTBSY,
				  "file %pD is still open for writing, from before it was sealed",
				  file);
	else
		inode_set_flags(inode, S_SWAPFILE, S_SWAPFILE);
	inode_unlock(inode);
	return ret;
}

static void weft_sealed_release(struct file *file)
{
	struct inode *inode = file_inode(file);

	inode_lock(inode);
	inode_set_flags(inode, 0, S_SWAPFILE);
	inode_unlock(inode);
	allow_write_access(file);
}

static int weft_sealed_append(struct weft_sealed *sealed, u64 at, u64 length)
{
	struct weft_extent *last = sealed->count ? &sealed->extents[sealed->count - 1] : NULL;
	struct weft_extent *extents;
	size_t room;

	if (last && last->at + last->length == at) {
		last->length += length;
		return 0;
	}
	if (sealed->count == sealed->room) {
		if (sealed->room >= WEFT_SEALED_EXTENTS_MAX)
			return -E2BIG;
		room = max_t(size_t, 16, 2 * sealed->room);
		extents = kvmalloc_array(room, sizeof(*extents),
					 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		if (!extents)
			return -ENOMEM;
		if (sealed->count)
			memcpy(extents, sealed->extents, array_size(sealed->count, sizeof(*extents)));
		kvfree(sealed->extents);
		sealed->extents = extents;
		sealed->room = room;
	}
	sealed->extents[sealed->count] = (struct weft_extent){
		.offset	= last ? last->offset + last->length : 0,
		.at	= at,
		.length	= length,
	};
	sealed->count++;
	return 0;
}

/* A block that bmap() does not name: a filesystem does not say why. */
static int weft_sealed_refuse(struct file *file, u64 offset, struct weft_why *why)
{
	struct kstat stat;

	/* Blocks are counted in 512 bytes; not in the inode by every filesystem. */
	if (!vfs_getattr(&file->f_path, &stat, STATX_BLOCKS | STATX_SIZE, AT_STATX_SYNC_AS_STAT) &&
	    stat.blocks < stat.size >> SECTOR_SHIFT)
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD has a hole at byte %llu: it has fewer blocks than bytes",
				   file, offset);
	return weft_refuse(why, -EOPNOTSUPP,
			   "file %pD has no block of its own at byte %llu: it was preallocated and never written, its contents are inline, or its blocks are shared with another file (reflink); a plain copy of it has them, if it is large enough",
			   file, offset);
}

static int weft_sealed_take(struct weft_sealed *sealed, struct weft_why *why)
{
	struct file *file = sealed->file;
	struct inode *inode = file_inode(file);
	struct block_device *bdev = inode->i_sb->s_bdev;
	u32 shift = inode->i_blkbits;
	u64 start = (u64)get_start_sect(bdev) << SECTOR_SHIFT;
	u64 count, limit = bdev_nr_bytes(bdev) >> shift, i;
	int ret;

	sealed->size = i_size_read(inode);
	if (!sealed->size)
		return weft_refuse(why, -EINVAL, "file %pD is empty", file);
	/* What is written to it is in its blocks, and those are its own. */
	ret = vfs_fsync(file, 0);
	if (ret)
		return weft_refuse(why, ret, "file %pD cannot be written back (error %d)", file,
				   -ret);
	count = DIV_ROUND_UP_ULL(sealed->size, 1U << shift);
	for (i = 0; i < count; i++) {
		sector_t block = i;

		ret = bmap(inode, &block);
		if (ret || !block)
			return weft_sealed_refuse(file, i << shift, why);
		if (block >= limit)
			return weft_refuse(why, -EUCLEAN,
					   "file %pD has a block beyond the end of %s: its filesystem is damaged",
					   file, inode->i_sb->s_id);
		ret = weft_sealed_append(sealed, start + ((u64)block << shift), 1U << shift);
		if (ret)
			return weft_refuse(why, ret, "file %pD is in too many pieces for this (error %d)",
					   file, -ret);
		if (i % WEFT_SEALED_BREATH)
			continue;
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static void weft_sealed_drop(struct weft_sealed *sealed)
{
	kvfree(sealed->extents);
	sealed->extents = NULL;
	sealed->count = 0;
	sealed->room = 0;
}

/* The one that is there already, or a new one. */
static struct weft_sealed *weft_sealed_find(struct weft_mem_node *node, struct file *file)
{
	unsigned long number = file_inode(file)->i_ino;
	struct weft_sealed *sealed, *new;
	unsigned int noio;

	new = kzalloc_obj(*new, GFP_KERNEL_ACCOUNT);
	if (!new)
		return ERR_PTR(-ENOMEM);
	/* To free memory may take I/O on this very volume, and its stop this lock. */
	noio = memalloc_noio_save();
	mutex_lock(&node->lock);
	sealed = xa_load(&node->sealed, number);
	/* A number may be cut short on 32 bits. */
	if (sealed && file_inode(sealed->file) != file_inode(file))
		sealed = ERR_PTR(-EBUSY);
	if (!sealed) {
		int ret = xa_err(xa_store(&node->sealed, number, new, GFP_KERNEL));

		sealed = ret ? ERR_PTR(ret) : new;
	}
	if (sealed == new) {
		new->node = node;
		new->file = get_file(file);
		mutex_init(&new->lock);
		new = NULL;
	}
	if (!IS_ERR(sealed))
		sealed->refs++;
	mutex_unlock(&node->lock);
	memalloc_noio_restore(noio);
	kfree(new);
	return sealed;
}

static void weft_sealed_unref(struct weft_sealed *sealed)
{
	struct weft_mem_node *node = sealed->node;
	bool last;

	mutex_lock(&node->lock);
	last = !--sealed->refs;
	if (last)
		xa_erase(&node->sealed, file_inode(sealed->file)->i_ino);
	mutex_unlock(&node->lock);
	if (!last)
		return;
	fput(sealed->file);
	kfree(sealed);
}

/* The first user takes the extents. */
static int weft_sealed_use(struct weft_sealed *sealed, struct weft_why *why)
{
	int ret;

	if (mutex_lock_killable(&sealed->lock))
		return -EINTR;
	if (!sealed->users) {
		ret = weft_sealed_hold(sealed->file, why);
		if (ret)
			goto out;
		ret = weft_sealed_take(sealed, why);
		if (ret) {
			weft_sealed_drop(sealed);
			weft_sealed_release(sealed->file);
			goto out;
		}
	}
	sealed->users++;
	ret = 0;
out:
	mutex_unlock(&sealed->lock);
	return ret;
}

/**
 * weft_sealed_get() - hold the blocks of a file still, and know where they are
 * @node: of the volume, which is open
 * @file: as the user opened it; it is kept
 * @why: gets the reason of a failure
 *
 * Context: process context, the user's; as long as it takes to ask for each
 * block.
 * Return: the file, to be put by weft_sealed_put(), or an ERR_PTR.
 */
struct weft_sealed *weft_sealed_get(struct weft_mem_node *node, struct file *file,
				    struct weft_why *why)
{
	struct weft_sealed *sealed;
	int ret;

	ret = weft_sealed_check(node->vol, file, why);
	if (ret)
		return ERR_PTR(ret);
	sealed = weft_sealed_find(node, file);
	if (IS_ERR(sealed))
		return sealed;
	ret = weft_sealed_use(sealed, why);
	if (ret) {
		weft_sealed_unref(sealed);
		return ERR_PTR(ret);
	}
	return sealed;
}

/**
 * weft_sealed_put() - undo weft_sealed_get()
 * @sealed: the file, of which nobody reads by this any more
 *
 * Context: process context.
 */
void weft_sealed_put(struct weft_sealed *sealed)
{
	mutex_lock(&sealed->lock);
	if (!--sealed->users) {
		weft_sealed_drop(sealed);
		weft_sealed_release(sealed->file);
	}
	mutex_unlock(&sealed->lock);
	weft_sealed_unref(sealed);
}

/**
 * weft_sealed_size() - how long is it?
 * @sealed: the file
 *
 * Return: bytes.
 */
u64 weft_sealed_size(const struct weft_sealed *sealed)
{
	return sealed->size;
}

/**
 * weft_sealed_run() - where is it?
 * @sealed: the file
 * @offset: in it, below its size rounded up to whole blocks, in bytes
 * @at: gets the place on the volume, in bytes
 *
 * Context: any.
 * Return: how many bytes from there on are together, one at least.
 */
u64 weft_sealed_run(const struct weft_sealed *sealed, u64 offset, u64 *at)
{
	size_t low = 0, high = sealed->count;
	const struct weft_extent *extent;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (sealed->extents[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	extent = &sealed->extents[low];
	*at = extent->at + (offset - extent->offset);
	return extent->length - (offset - extent->offset);
}
