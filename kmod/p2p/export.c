// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver that exports a PCI device's BAR as dma-bufs, for devices whose own
 * driver does not.
 *
 * DOC: lifetimes and locks
 *
 * The driver may be unbound at any time. The dma-bufs then stay, but have no
 * memory. Each open device file and each dma-buf holds struct weft_bar. Its
 * lock protects the list of dma-bufs and @gone. A dma-buf's own state is
 * protected by its reservation lock, which is taken inside that lock.
 */
#include "p2p.h"

#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/kref.h>
#include <linux/memremap.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <linux/uaccess.h>

#include <uapi/weft_p2p.h>

static unsigned int pages_mib;
module_param(pages_mib, uint, 0444);
MODULE_PARM_DESC(pages_mib,
		 "MiB at the end of a device's BAR that are P2PDMA pages for block I/O (p2pmem/allocate in sysfs), and no dma-bufs; what the kernel maps pages of at once, mostly a multiple of 2 (default 0)");

/* A smaller BAR has registers, not memory. */
#define WEFT_BAR_MIN	SZ_1M

/**
 * struct weft_bar - a device's memory
 * @ref: references of files, dma-bufs and the driver
 * @pdev: the device; valid until @gone
 * @provider: the kernel's provider of peer-to-peer memory, or NULL
 * @start: physical address
 * @size: in bytes
 * @misc: the device file
 * @name: name of the device file
 * @lock: protects @exports and @gone
 * @exports: the dma-bufs
 * @gone: the driver is unbound
 */
struct weft_bar {
	struct kref		ref;
	struct pci_dev		*pdev;
	struct p2pdma_provider	*provider;
	phys_addr_t		start;
	resource_size_t		size;
	struct miscdevice	misc;
	char			name[40];
	struct mutex		lock;	/* see above */
	struct list_head	exports;
	bool			gone;
};

/**
 * struct weft_bar_buffer - a dma-buf
 * @list: in the device's exports
 * @bar: the device, with a reference
 * @dmabuf: the dma-buf
 * @start: offset in the BAR, in bytes
 * @length: in bytes
 * @mapped: number of mappings; protected by the reservation lock
 * @revoked: the memory was withdrawn; protected by the reservation lock
 * @idle: completed when the last mapping ends after the revocation
 */
struct weft_bar_buffer {
	struct list_head	list;
	struct weft_bar		*bar;
	struct dma_buf		*dmabuf;
	u64			start;
	u64			length;
	u32			mapped;
	bool			revoked;
	struct completion	idle;
};

static void weft_bar_free(struct kref *ref)
{
	kfree(container_of(ref, struct weft_bar, ref));
}

static int weft_bar_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct weft_bar_buffer *buf = dmabuf->priv;
	struct weft_bar *bar = buf->bar;
	struct weft_why why = {};
	int ret = -ENODEV;

	if (!attach->peer2peer)
		return -EOPNOTSUPP;
	mutex_lock(&bar->lock);
	if (!bar->gone)
		ret = weft_p2p_reaches(bar->pdev, attach->dev, &why);
	mutex_unlock(&bar->lock);
	if (why.text[0])
		pr_info("%s\n", why.text);
	return ret;
}

/* The memory never moves. Pin only admits importers that honour revocation. */
static int weft_bar_pin(struct dma_buf_attachment *attach)
{
	struct weft_bar_buffer *buf = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (buf->revoked)
		return -ENODEV;
	return weft_attach_revocable(attach, &weft_import_ops) ? 0 : -EOPNOTSUPP;
}

static void weft_bar_unpin(struct dma_buf_attachment *attach)
{
}

static struct sg_table *weft_bar_map(struct dma_buf_attachment *attach,
				     enum dma_data_direction dir)
{
	struct weft_bar_buffer *buf = attach->dmabuf->priv;
	struct sg_table *sgt;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (buf->revoked)
		return ERR_PTR(-ENODEV);
	sgt = weft_dmabuf_map_range(attach, buf->bar->provider, buf->bar->start + buf->start,
				    buf->length, dir);
	if (!IS_ERR(sgt))
		buf->mapped++;
	return sgt;
}

static void weft_bar_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			   enum dma_data_direction dir)
{
	struct weft_bar_buffer *buf = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	weft_dmabuf_unmap_range(attach, sgt, dir);
	if (!--buf->mapped && buf->revoked)
		complete(&buf->idle);
}

static vm_fault_t weft_bar_fault(struct vm_fault *vmf)
{
	struct weft_bar_buffer *buf = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (vmf->pgoff >= buf->length >> PAGE_SHIFT)
		return ret;
	dma_resv_lock(buf->dmabuf->resv, NULL);
	if (!buf->revoked)
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     PHYS_PFN(buf->bar->start + buf->start) + vmf->pgoff);
	dma_resv_unlock(buf->dmabuf->resv);
	return ret;
}

static const struct vm_operations_struct weft_bar_vm_ops = {
	.fault = weft_bar_fault,
};

static int weft_bar_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	/*
	 * Only shared: a private mapping would copy pages to host memory. A shared one of a
	 * read-only file does not have VM_SHARED.
	 */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = dmabuf->priv;
	vma->vm_ops = &weft_bar_vm_ops;
	return 0;
}

static void weft_bar_release_buffer(struct dma_buf *dmabuf)
{
	struct weft_bar_buffer *buf = dmabuf->priv;
	struct weft_bar *bar = buf->bar;

	mutex_lock(&bar->lock);
	list_del(&buf->list);
	mutex_unlock(&bar->lock);
	kref_put(&bar->ref, weft_bar_free);
	kfree(buf);
}

static const struct dma_buf_ops weft_bar_dmabuf_ops = {
	.attach		= weft_bar_attach,
	.pin		= weft_bar_pin,
	.unpin		= weft_bar_unpin,
	.map_dma_buf	= weft_bar_map,
	.unmap_dma_buf	= weft_bar_unmap,
	.mmap		= weft_bar_mmap,
	.release	= weft_bar_release_buffer,
};

static int weft_bar_check(struct weft_bar *bar, const struct weft_bar_export *req,
			  struct weft_why *why)
{
	if (req->pad)
		return weft_refuse(why, -EINVAL, "the reserved field must be 0");
	if (!req->length || !PAGE_ALIGNED(req->start) || !PAGE_ALIGNED(req->length))
		return weft_refuse(why, -EINVAL,
				   "%llu bytes from byte %llu: both must be multiples of the page size",
				   req->length, req->start);
	if (req->start > bar->size || req->length > bar->size - req->start)
		return weft_refuse(why, -ERANGE, "the device has %llu bytes of memory",
				   (u64)bar->size);
	return 0;
}

static int weft_bar_export(struct weft_bar *bar, struct weft_bar_export *req, unsigned int flags,
			   struct weft_why *why)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct weft_bar_buffer *buf;
	int ret;

	ret = weft_bar_check(bar, req, why);
	if (ret)
		return ret;
	buf = kzalloc_obj(*buf);
	if (!buf)
		return -ENOMEM;
	init_completion(&buf->idle);
	buf->bar = bar;
	buf->start = req->start;
	buf->length = req->length;
	info.ops = &weft_bar_dmabuf_ops;
	info.size = req->length;
	info.flags = flags | O_CLOEXEC;
	info.priv = buf;
	mutex_lock(&bar->lock);
	if (bar->gone) {
		mutex_unlock(&bar->lock);
		kfree(buf);
		return weft_refuse(why, -ENODEV, "the device is gone");
	}
	buf->dmabuf = dma_buf_export(&info);
	if (IS_ERR(buf->dmabuf)) {
		ret = PTR_ERR(buf->dmabuf);
		mutex_unlock(&bar->lock);
		kfree(buf);
		return ret;
	}
	kref_get(&bar->ref);
	list_add_tail(&buf->list, &bar->exports);
	mutex_unlock(&bar->lock);
	req->fd = dma_buf_fd(buf->dmabuf, O_CLOEXEC);
	if (req->fd >= 0)
		return 0;
	dma_buf_put(buf->dmabuf);
	return req->fd;
}

static int weft_bar_open(struct inode *inode, struct file *file)
{
	struct weft_bar *bar = container_of(file->private_data, struct weft_bar, misc);

	/* misc_deregister() waits for this: misc_open() holds its lock. */
	kref_get(&bar->ref);
	file->private_data = bar;
	return 0;
}

static int weft_bar_release(struct inode *inode, struct file *file)
{
	struct weft_bar *bar = file->private_data;

	kref_put(&bar->ref, weft_bar_free);
	return 0;
}

static long weft_bar_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct weft_bar *bar = file->private_data;
	void __user *user = (void __user *)arg;
	struct weft_bar_export *req;
	struct weft_why why = {};
	int ret;

	if (cmd == WEFT_BAR_IOC_SIZE)
		return put_user((u64)bar->size, (u64 __user *)user);
	if (cmd != WEFT_BAR_IOC_EXPORT)
		return -ENOTTY;
	req = memdup_user(user, sizeof(*req));
	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = weft_bar_export(bar, req, file->f_flags & O_ACCMODE, &why);
	strscpy(req->why, why.text, sizeof(req->why));
	/* On a fault the descriptor stays open until the task exits. */
	if (copy_to_user(user, req, sizeof(*req)))
		ret = -EFAULT;
	kfree(req);
	return ret;
}

static const struct file_operations weft_bar_fops = {
	.owner		= THIS_MODULE,
	.open		= weft_bar_open,
	.release	= weft_bar_release,
	.unlocked_ioctl	= weft_bar_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

/* Choose the largest BAR that is prefetchable, that is, free of side effects. */
static int weft_bar_choose(struct pci_dev *pdev)
{
	resource_size_t most = WEFT_BAR_MIN - 1;
	int i, chosen = -ENODEV;

	for (i = 0; i < PCI_STD_NUM_BARS; i++) {
		unsigned long flags = pci_resource_flags(pdev, i);

		if (!(flags & IORESOURCE_MEM) || !(flags & IORESOURCE_PREFETCH) ||
		    pci_resource_len(pdev, i) <= most)
			continue;
		most = pci_resource_len(pdev, i);
		chosen = i;
	}
	return chosen;
}

/*
 * Make pages of the end of a BAR. Programs map them from p2pmem/allocate and do
 * O_DIRECT I/O on them. The rest of the BAR is for dma-bufs.
 */
static int weft_bar_publish(struct weft_bar *bar, int index)
{
	u64 bytes = (u64)pages_mib << 20;
	int ret;

	if (!bytes)
		return 0;
	if (bytes >= bar->size) {
		pci_err(bar->pdev, "BAR %d has %llu MiB: pages_mib=%u leaves no memory for dma-bufs\n",
			index, (u64)bar->size >> 20, pages_mib);
		return -EINVAL;
	}
	if (!IS_ALIGNED(bar->start + bar->size - bytes, memremap_compat_align()) ||
	    !IS_ALIGNED(bytes, memremap_compat_align())) {
		pci_err(bar->pdev, "pages_mib=%u and its place in the BAR must be multiples of %lu MiB\n",
			pages_mib, memremap_compat_align() >> 20);
		return -EINVAL;
	}
	ret = pci_p2pdma_add_resource(bar->pdev, index, bytes, bar->size - bytes);
	if (ret) {
		pci_err(bar->pdev, "the kernel cannot create P2PDMA pages for BAR %d (error %d)\n", index, -ret);
		return ret;
	}
	pci_p2pmem_publish(bar->pdev, true);
	bar->size -= bytes;
	return 0;
}

static int weft_bar_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int index = weft_bar_choose(pdev);
	struct weft_bar *bar;
	int ret;

	if (index < 0) {
		dev_err(&pdev->dev, "no prefetchable BAR of %u bytes or more\n", WEFT_BAR_MIN);
		return index;
	}
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	bar = kzalloc_obj(*bar);
	if (!bar)
		return -ENOMEM;
	kref_init(&bar->ref);
	mutex_init(&bar->lock);
	INIT_LIST_HEAD(&bar->exports);
	bar->pdev = pdev;
	bar->start = pci_resource_start(pdev, index);
	bar->size = pci_resource_len(pdev, index);
	bar->provider = weft_p2pdma_provider(pdev, index);
	if (IS_ERR(bar->provider)) {
		ret = PTR_ERR(bar->provider);
		goto out_free;
	}
	ret = weft_bar_publish(bar, index);
	if (ret)
		goto out_free;
	/* The kernel replaces '!' in the name by '/' in /dev. */
	snprintf(bar->name, sizeof(bar->name), "weft!bar-%s", pci_name(pdev));
	bar->misc.minor = MISC_DYNAMIC_MINOR;
	bar->misc.name = bar->name;
	bar->misc.fops = &weft_bar_fops;
	bar->misc.mode = 0600;
	ret = misc_register(&bar->misc);
	if (ret)
		goto out_free;
	pci_set_drvdata(pdev, bar);
	pci_info(pdev, "%llu MiB of BAR %d are available as dma-bufs\n", (u64)bar->size >> 20, index);
	return 0;

out_free:
	kfree(bar);
	return ret;
}

/* Withdraw the memory of a dma-buf, and wait until all mappings have ended. */
static void weft_bar_revoke(struct weft_bar_buffer *buf)
{
	bool mapped;

	dma_resv_lock(buf->dmabuf->resv, NULL);
	buf->revoked = true;
	dma_buf_invalidate_mappings(buf->dmabuf);
	dma_resv_wait_timeout(buf->dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false,
			      MAX_SCHEDULE_TIMEOUT);
	unmap_mapping_range(buf->dmabuf->file->f_mapping, 0, 0, 1);
	mapped = buf->mapped;
	dma_resv_unlock(buf->dmabuf->resv);
	if (mapped)
		wait_for_completion(&buf->idle);
}

static void weft_bar_remove(struct pci_dev *pdev)
{
	struct weft_bar *bar = pci_get_drvdata(pdev);
	struct weft_bar_buffer *buf;

	misc_deregister(&bar->misc);
	mutex_lock(&bar->lock);
	bar->gone = true;
	/* Skip a dma-buf that is being released: it has no users. */
	list_for_each_entry(buf, &bar->exports, list) {
		if (!weft_dmabuf_get_active(buf->dmabuf))
			continue;
		weft_bar_revoke(buf);
		dma_buf_put(buf->dmabuf);
	}
	mutex_unlock(&bar->lock);
	kref_put(&bar->ref, weft_bar_free);
}

/* Empty: a device is bound only by driver_override. */
static const struct pci_device_id weft_bar_ids[] = {
	{}
};

static struct pci_driver weft_bar_driver = {
	.name		= "weft_p2p",
	.id_table	= weft_bar_ids,
	.probe		= weft_bar_probe,
	.remove		= weft_bar_remove,
};

int weft_bar_init(void)
{
	return pci_register_driver(&weft_bar_driver);
}

void weft_bar_exit(void)
{
	pci_unregister_driver(&weft_bar_driver);
}
