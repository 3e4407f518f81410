// SPDX-License-Identifier: GPL-2.0-only
/* The character device /dev/weft/NAME.mem: open, ioctl and release. */
#include "mem.h"

#include <linux/uaccess.h>

#include "../compat/uring.h"

#define WEFT_MEM_MINORS	(MINORMASK + 1)

static struct class *weft_mem_class;
static dev_t weft_mem_base;
static DEFINE_IDA(weft_mem_minors);

static int weft_mem_open(struct inode *inode, struct file *file)
{
	struct weft_mem_node *node = container_of(inode->i_cdev, struct weft_mem_node, cdev);
	struct weft_mem_file *mf;
	int ret = -ENXIO;

	mf = kzalloc_obj(*mf, GFP_KERNEL_ACCOUNT);
	if (!mf)
		return -ENOMEM;
	mutex_lock(&node->lock);
	if (!node->closed) {
		mf->vol = node->vol;
		mf->mapping = weft_bdev_mapping(mf->vol->disk->part0);
		mf->block = queue_logical_block_size(mf->vol->disk->queue);
		ret = 0;
	}
	mutex_unlock(&node->lock);
	if (ret) {
		kfree(mf);
		return ret;
	}
	mf->node = node;
	mf->cancelled_at = jiffies;
	mf->owner = current->files;
	/* As for the real-time class of ioprio_set(2). */
	mf->may_feed = ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE) ||
		       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
	weft_mem_mark_init(mf);
	weft_mem_registry_init(&mf->memories);
	weft_mem_registry_init(&mf->targets);
	file->private_data = mf;
	return 0;
}

static int weft_mem_release(struct inode *inode, struct file *file)
{
	struct weft_mem_file *mf = file->private_data;

	weft_memory_unregister_all(mf);
	weft_target_remove_all(mf);
	weft_mem_mark_exit(mf);
	kfree(mf);
	return 0;
}

static void weft_mem_get_geometry(struct weft_mem_file *mf, struct weft_mem_geometry *geometry)
{
	struct weft_volume *vol = mf->vol;
	struct request_queue *q = vol->disk->queue;

	*geometry = (struct weft_mem_geometry) {
		.size		= (u64)vol->map.capacity << SECTOR_SHIFT,
		.block_size	= queue_logical_block_size(q),
		.chunk_size	= 1U << (vol->map.chunk_shift + SECTOR_SHIFT),
		.member_count	= vol->member_count,
		.alignment	= queue_dma_alignment(q) + 1,
	};
	weft_mem_sum(mf->node->bytes, geometry->bytes);
	memcpy(geometry->uuid, vol->uuid, sizeof(geometry->uuid));
}

static long weft_mem_ioc_geometry(struct weft_mem_file *mf, void __user *user)
{
	struct weft_mem_geometry geometry;
	int ret = -ENXIO;

	/* Without a count of users: anybody may ask, and must not keep the volume from being stopped. */
	mutex_lock(&mf->node->lock);
	if (!mf->node->closed) {
		weft_mem_get_geometry(mf, &geometry);
		ret = 0;
	}
	mutex_unlock(&mf->node->lock);
	if (ret)
		return ret;
	return copy_to_user(user, &geometry, sizeof(geometry)) ? -EFAULT : 0;
}

static long weft_mem_ioc_register(struct weft_mem_file *mf, void __user *user)
{
	struct weft_mem_register *req = memdup_user(user, sizeof(*req));
	struct weft_why why = {};
	int ret;

	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = weft_memory_register(mf, req, &why);
	strscpy(req->why, why.text, sizeof(req->why));
	if (copy_to_user(user, req, sizeof(*req))) {
		/* Without the id the caller could not unregister it. */
		if (!ret)
			weft_memory_unregister(mf, req->id);
		ret = -EFAULT;
	}
	kfree(req);
	return ret;
}

static long weft_mem_ioc_target(struct weft_mem_file *mf, void __user *user)
{
	struct weft_mem_target *req = memdup_user(user, sizeof(*req));
	struct weft_why why = {};
	int ret;

	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = weft_target_add(mf, req, &why);
	strscpy(req->why, why.text, sizeof(req->why));
	if (copy_to_user(user, req, sizeof(*req))) {
		if (!ret)
			weft_target_remove(mf, req->id);
		ret = -EFAULT;
	}
	kfree(req);
	return ret;
}

static long weft_mem_ioc_info(struct weft_mem_file *mf, void __user *user)
{
	struct weft_mem_info info;
	int ret;

	if (copy_from_user(&info, user, sizeof(info)))
		return -EFAULT;
	ret = weft_memory_info(mf, &info);
	if (!ret && copy_to_user(user, &info, sizeof(info)))
		return -EFAULT;
	return ret;
}

static long weft_mem_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct weft_mem_file *mf = file->private_data;
	void __user *user = (void __user *)arg;
	u32 id;

	switch (cmd) {
	case WEFT_MEM_IOC_GEOMETRY:
		return weft_mem_ioc_geometry(mf, user);
	case WEFT_MEM_IOC_REGISTER:
		return weft_mem_ioc_register(mf, user);
	case WEFT_MEM_IOC_TARGET:
		return weft_mem_ioc_target(mf, user);
	case WEFT_MEM_IOC_INFO:
		return weft_mem_ioc_info(mf, user);
	case WEFT_MEM_IOC_UNREGISTER:
	case WEFT_MEM_IOC_UNTARGET:
		if (get_user(id, (u32 __user *)user))
			return -EFAULT;
		return cmd == WEFT_MEM_IOC_UNREGISTER ? weft_memory_unregister(mf, id) :
							weft_target_remove(mf, id);
	default:
		return -ENOTTY;
	}
}

/*
 * Commands of a process that exits are not sent if QoS holds them.
 *
 * For parts that are held because no path can carry them: where io_uring cancels the
 * commands of a task that exits (6.7), weft_mem_cancel() says which these are.
 * Elsewhere, they wait at most a minute after the process that opened the file
 * exits. The exit of a process that inherited the file does not affect them. If
 * such a process, for example a daemon, submits later, weft_mem_uring_cmd() resets
 * this.
 */
static int weft_mem_flush(struct file *file, fl_owner_t id)
{
	struct weft_mem_file *mf = file->private_data;
	bool owner;

	if (!(current->flags & PF_EXITING))
		return 0;
	owner = id == READ_ONCE(mf->owner);
	/* Its table is freed, and another process may get one at that address. */
	if (owner)
		WRITE_ONCE(mf->owner, NULL);
	/* Any user may open the file and exit: what follows costs all users of the volume. */
	if (!atomic_read(&mf->in_flight))
		return 0;
	/* By now all of its io_uring workers are gone. */
	weft_mem_drop_held(mf);
	if (WEFT_URING_F_CANCEL || !owner)
		return 0;
	mutex_lock(&mf->node->lock);
	WRITE_ONCE(mf->dying, jiffies | 1);
	weft_mem_kick(mf);
	mutex_unlock(&mf->node->lock);
	return 0;
}

static const struct file_operations weft_mem_fops = {
	.owner		= THIS_MODULE,
	.open		= weft_mem_open,
	.flush		= weft_mem_flush,
	.release	= weft_mem_release,
	.unlocked_ioctl	= weft_mem_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= weft_mem_uring_cmd,
};

static void weft_mem_dev_release(struct device *dev)
{
	struct weft_mem_node *node = container_of(dev, struct weft_mem_node, dev);

	ida_free(&weft_mem_minors, MINOR(dev->devt));
	xa_destroy(&node->sealed);
	destroy_workqueue(node->wq);
	bioset_exit(&node->bios);
	free_percpu(node->bytes);
	kfree(node);
}

static void weft_mem_held_work(struct work_struct *work)
{
	struct weft_mem_node *node = container_of(to_delayed_work(work), struct weft_mem_node,
						  held_work);

	weft_mem_held_parts(node);
	weft_mem_held_bios(node);
}

/**
 * weft_mem_add() - add a volume's device
 * @vol: its disk is added; the device stays closed until weft_mem_close() opens
 *	it
 *
 * Context: process context.
 * Return: 0 or a negative errno; undo by weft_mem_del().
 */
int weft_mem_add(struct weft_volume *vol)
{
	struct weft_mem_node *node;
	int minor, ret = -ENOMEM;

	node = kzalloc_obj(*node);
	if (!node)
		return -ENOMEM;
	node->bytes = alloc_percpu(struct weft_mem_bytes);
	if (!node->bytes)
		goto out_free;
	ret = bioset_init(&node->bios, BIO_POOL_SIZE, offsetof(struct weft_mem_bio, bio),
			  BIOSET_NEED_BVECS);
	if (ret)
		goto out_percpu;
	ret = -ENOMEM;
	node->wq = alloc_workqueue("weft-mem-%s", WQ_UNBOUND, WQ_MAX_ACTIVE, vol->name);
	if (!node->wq)
		goto out_bios;
	minor = ida_alloc_max(&weft_mem_minors, WEFT_MEM_MINORS - 1, GFP_KERNEL);
	if (minor < 0) {
		ret = minor;
		goto out_wq;
	}
	mutex_init(&node->lock);
	xa_init(&node->sealed);
	spin_lock_init(&node->held_lock);
	INIT_LIST_HEAD(&node->held);
	bio_list_init(&node->held_bios);
	INIT_DELAYED_WORK(&node->held_work, weft_mem_held_work);
	node->closed = true;
	node->vol = vol;
	device_initialize(&node->dev);
	node->dev.class = weft_mem_class;
	node->dev.devt = weft_mem_base + minor;
	node->dev.release = weft_mem_dev_release;
	/* The kernel replaces '!' in the name by '/' in /dev. */
	ret = dev_set_name(&node->dev, "weft!%s.mem", vol->name);
	if (ret)
		goto out_put;
	cdev_init(&node->cdev, &weft_mem_fops);
	node->cdev.owner = THIS_MODULE;
	ret = cdev_device_add(&node->cdev, &node->dev);
	if (ret)
		goto out_put;
	vol->mem = node;
	return 0;

out_put:
	put_device(&node->dev);
	return ret;
out_wq:
	destroy_workqueue(node->wq);
out_bios:
	bioset_exit(&node->bios);
out_percpu:
	free_percpu(node->bytes);
out_free:
	kfree(node);
	return ret;
}

/**
 * weft_mem_del() - undo weft_mem_add()
 * @vol: its device is closed
 */
void weft_mem_del(struct weft_volume *vol)
{
	struct weft_mem_node *node = vol->mem;

	vol->mem = NULL;
	cancel_delayed_work_sync(&node->held_work);
	cdev_device_del(&node->cdev, &node->dev);
	put_device(&node->dev);
}

/**
 * weft_mem_close() - close a volume's device for new users, or open it
 * @vol: the volume
 * @close: true to close, false to open
 *
 * Return: false if it has users and therefore stays open.
 */
bool weft_mem_close(struct weft_volume *vol, bool close)
{
	struct weft_mem_node *node = vol->mem;
	bool ok;

	mutex_lock(&node->lock);
	ok = !close || !node->users;
	if (ok)
		node->closed = close;
	mutex_unlock(&node->lock);
	return ok;
}

/* Mode 0666: access is checked for each target, see target.c. */
static WEFT_DEVNODE(weft_mem_devnode, dev, mode)
{
	if (mode)
		*mode = 0666;
	return NULL;
}

int weft_mem_init(void)
{
	int ret;

	ret = weft_mem_mark_module_init();
	if (ret)
		return ret;
	ret = weft_mem_part_init();
	if (ret)
		goto out_mark;
	ret = weft_mem_cmd_init();
	if (ret)
		goto out_part;
	weft_mem_class = weft_class_create("weft-mem");
	if (IS_ERR(weft_mem_class)) {
		ret = PTR_ERR(weft_mem_class);
		goto out_cmd;
	}
	weft_mem_class->devnode = weft_mem_devnode;
	ret = alloc_chrdev_region(&weft_mem_base, 0, WEFT_MEM_MINORS, "weft-mem");
	if (ret)
		goto out_class;
	return 0;

out_class:
	class_destroy(weft_mem_class);
out_cmd:
	weft_mem_cmd_exit();
out_part:
	weft_mem_part_exit();
out_mark:
	weft_mem_mark_module_exit();
	return ret;
}

void weft_mem_exit(void)
{
	unregister_chrdev_region(weft_mem_base, WEFT_MEM_MINORS);
	class_destroy(weft_mem_class);
	weft_mem_cmd_exit();
	weft_mem_part_exit();
	weft_mem_mark_module_exit();
}
