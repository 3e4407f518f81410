// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sealed files: files of a filesystem on the volume. Commands read their blocks
 * directly, without the filesystem.
 *
 * DOC: how the blocks of a file are kept in place
 *
 * The extents of a file are read once, and used until the last user releases
 * it. Three things keep them valid:
 *
 * The file is immutable. Only root can set this, and then no process can open
 * the file for writing.
 *
 * Write access is denied, as for a running executable. This holds against
 * processes that opened the file before, or make it mutable meanwhile.
 *
 * S_SWAPFILE is set, which keeps the blocks of swap files in place. Filesystems
 * check it before they write, truncate, unlink, move or share the file. A
 * kernel without swap does not have this flag, so sealed files are refused
 * there.
 *
 * bmap() gives the extents. Each block has to be allocated, written, and not
 * shared. This is safe on filesystems that never move a block on their own and
 * whose bmap() reports no shared blocks: weft_sealed_filesystems[].
 *
 * All targets of the same file share one struct weft_sealed.
 */
#include "mem.h"

#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "../compat/file.h"

/* Check for a fatal signal, and reschedule, after this number of blocks. */
#define WEFT_SEALED_BREATH	4096

/* Extents of a file; they take up to 384 MiB of kernel memory. */
#define WEFT_SEALED_EXTENTS_MAX	SZ_16M

static const char * const weft_sealed_filesystems[] = { "ext4", "xfs" };

/**
 * struct weft_extent - bytes that are contiguous in a file and on the volume
 * @offset: offset in the file, in bytes
 * @at: offset on the volume, in bytes
 * @length: in bytes
 */
struct weft_extent {
	u64	offset;
	u64	at;
	u64	length;
};

/**
 * struct weft_sealed - a file whose blocks are kept in place
 * @node: the volume's device; its xarray sealed holds this by inode number
 * @file: an open file, which keeps the inode and its filesystem
 * @refs: references; protected by the node's lock
 * @lock: protects changes of the fields below
 * @users: users of the extents, which exist while there are users
 * @size: size of the file in bytes
 * @extents: the extents, sorted and without a gap
 * @count: number of @extents
 * @room: allocated length of @extents
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

/* Check the properties of a file that do not change while it is open. */
static int weft_sealed_check(struct weft_volume *vol, struct file *file, struct weft_why *why)
{
	struct inode *inode = file_inode(file);
	struct super_block *sb = inode->i_sb;
	loff_t start = 0;

	if (!IS_ENABLED(CONFIG_SWAP))
		return weft_refuse(why, -EOPNOTSUPP,
				   "this kernel is built without CONFIG_SWAP, which weft needs to pin a file's blocks");
	if (vol->read_only)
		return weft_refuse(why, -EROFS,
				   "volume %s is assembled read-only: another host can move the blocks of file %pD",
				   vol->name, file);
	if (!sb->s_bdev || sb->s_bdev->bd_disk != vol->disk)
		return weft_refuse(why, -EXDEV,
				   "file %pD is on a filesystem (%s, %s) that is not on volume %s itself",
				   file, sb->s_type->name, sb->s_id, vol->name);
	if (!weft_sealed_filesystem(sb))
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD is on %s, which may move a file's blocks: use ext4 or xfs",
				   file, sb->s_type->name);
	if (!(file->f_mode & FMODE_READ))
		return weft_refuse(why, -EACCES, "file %pD was not opened for reading", file);
	if (IS_ENCRYPTED(inode))
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD is encrypted: its blocks are not its contents", file);
	if (IS_VERITY(inode))
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD has fs-verity, and reads of its blocks would skip the verification",
				   file);
	if (IS_DAX(inode))
		return weft_refuse(why, -EOPNOTSUPP, "file %pD is accessed by DAX", file);
	/* The checks of read(): security modules, fanotify. */
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
		ret = weft_refuse(why, -EBUSY,
				  "the blocks of file %pD are pinned already, as a swap file or by another program",
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
	struct weft_extent *extents;
	u64 offset = 0;
	size_t room;

	if (sealed->count) {
		struct weft_extent *last = &sealed->extents[sealed->count - 1];

		if (last->at + last->length == at) {
			last->length += length;
			return 0;
		}
		offset = last->offset + last->length;
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
		.offset	= offset,
		.at	= at,
		.length	= length,
	};
	sealed->count++;
	return 0;
}

/* bmap() returned no block. The filesystem gives no reason, so look for one. */
static int weft_sealed_refuse(struct file *file, u64 offset, struct weft_why *why)
{
	struct kstat stat;

	/* In 512-byte units, from the filesystem: not all maintain i_blocks. */
	if (!vfs_getattr(&file->f_path, &stat, STATX_BLOCKS | STATX_SIZE, AT_STATX_SYNC_AS_STAT) &&
	    stat.blocks < stat.size >> SECTOR_SHIFT)
		return weft_refuse(why, -EOPNOTSUPP,
				   "file %pD has a hole at byte %llu: it has fewer blocks than bytes",
				   file, offset);
	return weft_refuse(why, -EOPNOTSUPP,
			   "file %pD has no block of its own at byte %llu: it was preallocated and never written, its contents are inline, or its blocks are shared with another file (reflink); make a plain copy of the file and use that",
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
	/* Write back dirty pages, which also allocates delayed blocks. */
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
			return weft_refuse(why, ret, "file %pD has too many extents (error %d)",
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

/* Find the file's struct weft_sealed, or make one. Takes a reference. */
static struct weft_sealed *weft_sealed_find(struct weft_mem_node *node, struct file *file)
{
	unsigned long number = file_inode(file)->i_ino;
	struct weft_sealed *sealed, *new;
	unsigned int noio;

	new = kzalloc_obj(*new, GFP_KERNEL_ACCOUNT);
	if (!new)
		return ERR_PTR(-ENOMEM);
	/* Reclaim may need I/O on this volume, whose stop needs this lock. */
	noio = memalloc_noio_save();
	mutex_lock(&node->lock);
	sealed = xa_load(&node->sealed, number);
	/* Two inodes have the same number if i_ino is truncated. */
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

/* The first user holds the file and reads its extents. */
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
 * weft_sealed_get() - keep the blocks of a file in place, and read its extents
 * @node: the volume's device; it is in use
 * @file: as the user opened it; takes a reference
 * @why: gets the reason of a failure
 *
 * Context: process context, the user's; calls bmap() for each block.
 * Return: the sealed file, or an ERR_PTR. Undo with weft_sealed_put().
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
 * @sealed: the file; the caller has no more reads of it
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
 * weft_sealed_size() - the size of a sealed file
 * @sealed: the file
 *
 * Return: its size in bytes.
 */
u64 weft_sealed_size(const struct weft_sealed *sealed)
{
	return sealed->size;
}

/**
 * weft_sealed_run() - find an offset of a sealed file on the volume
 * @sealed: the file
 * @offset: offset in the file, in bytes, below its size rounded up to blocks
 *
 * Context: any.
 * Return: the bytes from there that are contiguous on the volume, at least one.
 */
struct weft_run weft_sealed_run(const struct weft_sealed *sealed, u64 offset)
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
	offset -= extent->offset;
	return (struct weft_run) { .at = extent->at + offset, .length = extent->length - offset };
}
