// SPDX-License-Identifier: GPL-2.0-only
/*
 * Targets: what a file of /dev/weft/NAME.mem may read and write.
 *
 * Opening the device grants no access. A caller proves its access rights with
 * an open file descriptor:
 *
 * The volume's block device allows what the descriptor was opened for. A target
 * for writing claims the block device exclusively, because a filesystem that
 * was mounted on it would not notice these writes.
 *
 * A sealed file on the volume, open for reading, allows reading that file: see
 * sealed.c.
 */
#include "mem.h"

#include <linux/file.h>
#include <linux/sched/mm.h>

/* The first target for writing claims the volume for all of them. */
static int weft_target_claim(struct weft_mem_node *node, struct weft_why *why)
{
	/* As in weft_sealed_find(): who ends a process needs the lock. */
	unsigned int noio = memalloc_noio_save();
	int ret = 0;

	mutex_lock(&node->lock);
	if (!node->writers)
		ret = weft_bdev_open_dev(&node->claim, disk_devt(node->vol->disk), true);
	if (!ret)
		node->writers++;
	mutex_unlock(&node->lock);
	memalloc_noio_restore(noio);
	if (ret == -EBUSY)
		return weft_refuse(why, ret,
				   "volume %s is in use (mounted, part of another device, or open exclusively): stop that use before you open it for writing",
				   node->vol->name);
	if (ret)
		return weft_refuse(why, ret, "volume %s cannot be claimed for writing (error %d)",
				   node->vol->name, -ret);
	return 0;
}

static void weft_target_unclaim(struct weft_mem_node *node)
{
	mutex_lock(&node->lock);
	if (!--node->writers)
		weft_bdev_close(&node->claim);
	mutex_unlock(&node->lock);
}

static int weft_target_check(struct weft_volume *vol, struct file *file, u32 access,
			     struct weft_why *why)
{
	if (access & WEFT_MEM_MAY_READ && !(file->f_mode & FMODE_READ))
		return weft_refuse(why, -EACCES, "volume %s was not opened for reading", vol->name);
	if (access & WEFT_MEM_MAY_WRITE && !(file->f_mode & FMODE_WRITE))
		return weft_refuse(why, -EACCES, "volume %s was not opened for writing", vol->name);
	if (access & WEFT_MEM_MAY_WRITE && vol->read_only)
		return weft_refuse(why, -EROFS, "volume %s is assembled read-only", vol->name);
	return 0;
}

/* A target for the whole volume. */
static int weft_target_volume(struct weft_mem_target_ref *target, struct weft_mem_node *node,
			      struct file *file, struct weft_why *why)
{
	int ret;

	ret = weft_target_check(node->vol, file, target->access, why);
	if (!ret && target->access & WEFT_MEM_MAY_WRITE)
		ret = weft_target_claim(node, why);
	if (ret)
		return ret;
	target->file = get_file(file);
	target->size = (u64)node->vol->map.capacity << SECTOR_SHIFT;
	return 0;
}

static int weft_target_sealed(struct weft_mem_target_ref *target, struct weft_mem_node *node,
			      struct file *file, struct weft_why *why)
{
	struct weft_sealed *sealed;

	if (target->access != WEFT_MEM_MAY_READ)
		return weft_refuse(why, -EACCES, "file %pD is sealed: it can only be read",
				   file);
	sealed = weft_sealed_get(node, file, why);
	if (IS_ERR(sealed))
		return PTR_ERR(sealed);
	target->sealed = sealed;
	target->size = weft_sealed_size(sealed);
	return 0;
}

static int weft_target_open(struct weft_mem_target_ref *target, struct weft_mem_node *node,
			    int fd, struct weft_why *why)
{
	struct weft_volume *vol = node->vol;
	struct file *file = fget(fd);
	struct inode *inode;
	int ret;

	if (!file)
		return weft_refuse(why, -EBADF, "descriptor %d is not open", fd);
	inode = file_inode(file);
	if (S_ISREG(inode->i_mode))
		ret = weft_target_sealed(target, node, file, why);
	else if (S_ISBLK(inode->i_mode) && inode->i_rdev == disk_devt(vol->disk))
		ret = weft_target_volume(target, node, file, why);
	else
		ret = weft_refuse(why, -EINVAL,
				  "descriptor %d is neither the block device of volume %s nor a file on it",
				  fd, vol->name);
	fput(file);
	return ret;
}

static void weft_target_close(struct weft_mem_target_ref *target, struct weft_mem_node *node)
{
	if (target->sealed) {
		weft_sealed_put(target->sealed);
		return;
	}
	if (target->access & WEFT_MEM_MAY_WRITE)
		weft_target_unclaim(node);
	fput(target->file);
}

/**
 * weft_target_add() - add a target to a file
 * @mf: the file
 * @req: from the user; gets id and size
 * @why: gets the reason of a failure
 *
 * Context: process context.
 * Return: 0 or a negative errno.
 */
int weft_target_add(struct weft_mem_file *mf, struct weft_mem_target *req, struct weft_why *why)
{
	struct weft_mem_target_ref *target;
	int ret;

	req->id = 0;
	if (!req->access || req->access & ~(WEFT_MEM_MAY_READ | WEFT_MEM_MAY_WRITE) || req->pad)
		return weft_refuse(why, -EINVAL,
				   "a target is for reading, writing or both (access 0x%x)",
				   req->access);
	ret = weft_mem_use(mf);
	if (ret)
		return weft_refuse(why, ret, "the volume was stopped");
	ret = -ENOMEM;
	target = kzalloc_obj(*target, GFP_KERNEL_ACCOUNT);
	if (!target)
		goto out_unuse;
	target->access = req->access;
	ret = weft_target_open(target, mf->node, req->fd, why);
	if (ret)
		goto out_free;
	ret = weft_mem_ref_init(&target->ref);
	if (ret)
		goto out_close;
	req->size = target->size;
	ret = weft_mem_registry_add(&mf->targets, &target->ref, &req->id, WEFT_MEM_TARGETS_MAX);
	if (ret) {
		weft_refuse(why, ret, "a file has at most %u targets", WEFT_MEM_TARGETS_MAX);
		goto out_ref;
	}
	return 0;

out_ref:
	req->id = 0;
	weft_mem_ref_end(&target->ref, mf);
out_close:
	weft_target_close(target, mf->node);
out_free:
	kfree(target);
out_unuse:
	weft_mem_unuse(mf);
	return ret;
}

/**
 * weft_target_remove() - remove a target from a file
 * @mf: the file
 * @id: of the target
 *
 * Context: process context; waits for its commands.
 * Return: 0 or -ENOENT.
 */
int weft_target_remove(struct weft_mem_file *mf, u32 id)
{
	struct weft_mem_target_ref *target = weft_mem_registry_remove(&mf->targets, id);

	if (!target)
		return -ENOENT;
	weft_mem_ref_end(&target->ref, mf);
	weft_target_close(target, mf->node);
	kfree_rcu(target, rcu);
	weft_mem_unuse(mf);
	return 0;
}

/**
 * weft_target_remove_all() - remove all targets of a file
 * @mf: the file; it has no command in flight
 */
void weft_target_remove_all(struct weft_mem_file *mf)
{
	struct weft_mem_target_ref *target;
	unsigned long id;

	xa_for_each(&mf->targets.all, id, target)
		weft_target_remove(mf, id);
	xa_destroy(&mf->targets.all);
}
