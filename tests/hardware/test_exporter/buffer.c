// SPDX-License-Identifier: GPL-2.0-only
/* dma-bufs: what importers ask of them, and what is done to them. */
#include "exporter.h"

#include <linux/delay.h>
#include <linux/dma-buf-mapping.h>
#include <linux/dma-resv.h>
#include <linux/pci-p2pdma.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

/**
 * struct exporter_buffer - a dma-buf
 * @dmabuf: it
 * @mem: its memory, NULL after it was revoked
 * @count: pages
 * @flags: EXPORTER_*
 * @unmap_ms: how long an unmap takes
 * @stats: counts
 */
struct exporter_buffer {
	struct dma_buf		*dmabuf;
	struct exporter_memory	*mem;
	u32			count;
	u32			flags;
	u32			unmap_ms;
	struct exporter_stats	stats;
};

static int exporter_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct exporter_buffer *buf = dmabuf->priv;

	if (buf->flags & EXPORTER_REFUSE)
		return -EOPNOTSUPP;
	/* As one real exporter does, without asking: that it is a PCI device is the importer's care. */
	if (WARN_ON(!dev_is_pci(attach->dev)))
		return -EINVAL;
	if (buf->flags & EXPORTER_BAR &&
	    pci_p2pdma_distance(exporter_bar.pdev, attach->dev, true) < 0)
		attach->peer2peer = false;
	if (buf->flags & EXPORTER_BAR && !attach->peer2peer)
		return -EOPNOTSUPP;
	dma_resv_lock(dmabuf->resv, NULL);
	buf->stats.attached++;
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static void exporter_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct exporter_buffer *buf = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	buf->stats.attached--;
	dma_resv_unlock(dmabuf->resv);
}

/* Other memory, or none, in the place of what there is. */
static int exporter_replace_locked(struct exporter_buffer *buf, struct exporter_memory *mem)
{
	struct dma_buf *dmabuf = buf->dmabuf;
	struct exporter_memory *old = buf->mem;
	int ret;

	dma_resv_assert_held(dmabuf->resv);
	if (!old)
		return -ENODEV;
	/* What is pinned stays; what is revoked goes in any case. */
	if (mem && buf->stats.pinned)
		return -EBUSY;
	if (!mem)
		buf->mem = NULL;
	dma_buf_invalidate_mappings(dmabuf);
	ret = dma_resv_wait_timeout(dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false, 60 * HZ);
	/* An importer that takes for ever is what nobody can help. */
	WARN_ON(ret <= 0);
	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	if (mem) {
		exporter_memory_copy(mem, old);
		buf->mem = mem;
	}
	buf->stats.moves++;
	exporter_memory_take_back(old);
	return 0;
}

static int exporter_replace(struct exporter_buffer *buf, struct exporter_memory *mem)
{
	int ret;

	dma_resv_lock(buf->dmabuf->resv, NULL);
	ret = exporter_replace_locked(buf, mem);
	dma_resv_unlock(buf->dmabuf->resv);
	return ret;
}

/* As amdgpu, which pins memory where its importers reach it. */
static int exporter_pin_moves(struct exporter_buffer *buf)
{
	struct exporter_memory *mem = exporter_memory_alloc(buf->count, buf->flags);
	int ret;

	if (IS_ERR(mem))
		return PTR_ERR(mem);
	ret = exporter_replace_locked(buf, mem);
	if (ret)
		exporter_memory_take_back(mem);
	return ret;
}

static int exporter_pin(struct dma_buf_attachment *attach)
{
	struct exporter_buffer *buf = attach->dmabuf->priv;
	int ret = 0;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (!buf->mem)
		return -ENODEV;
	if (buf->flags & EXPORTER_PIN_MOVES && !buf->stats.pinned)
		ret = exporter_pin_moves(buf);
	if (!ret)
		buf->stats.pinned++;
	return ret;
}

static void exporter_unpin(struct dma_buf_attachment *attach)
{
	struct exporter_buffer *buf = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	buf->stats.pinned--;
}

static struct sg_table *exporter_map_host(struct dma_buf_attachment *attach,
					  struct exporter_memory *mem, enum dma_data_direction dir)
{
	struct sg_table *sgt = kzalloc_obj(*sgt);
	int ret;

	if (!sgt)
		return ERR_PTR(-ENOMEM);
	ret = sg_alloc_table_from_pages(sgt, mem->pages, mem->count, 0,
					(size_t)mem->count << PAGE_SHIFT, GFP_KERNEL);
	if (ret)
		goto out_free;
	ret = dma_map_sgtable(attach->dev, sgt, dir, 0);
	if (ret)
		goto out_table;
	return sgt;

out_table:
	sg_free_table(sgt);
out_free:
	kfree(sgt);
	return ERR_PTR(ret);
}

static struct sg_table *exporter_map(struct dma_buf_attachment *attach,
				     enum dma_data_direction dir)
{
	struct exporter_buffer *buf = attach->dmabuf->priv;
	struct sg_table *sgt;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (!buf->mem)
		return ERR_PTR(-ENODEV);
	if (buf->mem->pages) {
		sgt = exporter_map_host(attach, buf->mem, dir);
	} else {
		struct phys_vec vec = { .paddr = buf->mem->bar,
					.len = (size_t)buf->count << PAGE_SHIFT };

		sgt = dma_buf_phys_vec_to_sgt(attach, exporter_bar.provider, &vec, 1, vec.len, dir);
	}
	if (!IS_ERR(sgt)) {
		buf->stats.mapped++;
		buf->stats.maps++;
	}
	return sgt;
}

static void exporter_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			   enum dma_data_direction dir)
{
	struct exporter_buffer *buf = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	msleep(buf->unmap_ms);
	buf->stats.mapped--;
	if (buf->flags & EXPORTER_BAR) {
		/* The kernel clears orig_nents, because there are no pages, and then frees so many entries. */
		sgt->orig_nents = sgt->nents;
		dma_buf_free_sgt(attach, sgt, dir);
		return;
	}
	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(sgt);
}

static void exporter_release(struct dma_buf *dmabuf)
{
	struct exporter_buffer *buf = dmabuf->priv;

	WARN_ON(buf->stats.mapped || buf->stats.attached || buf->stats.pinned);
	if (buf->mem)
		exporter_memory_take_back(buf->mem);
	if (buf->flags & EXPORTER_BAR)
		pci_dev_put(exporter_bar.pdev);
	kfree(buf);
}

static int exporter_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct exporter_buffer *buf = dmabuf->priv;
	void *addr;

	if (!buf->mem)
		return -ENODEV;
	/* As that of a moving buffer: an address in a BAR is no memory with pages. */
	if (!buf->mem->pages) {
		iosys_map_set_vaddr_iomem(map, (void __iomem __force *)buf->mem->map);
		return 0;
	}
	addr = vmap(buf->mem->pages, buf->count, VM_MAP, PAGE_KERNEL);
	if (!addr)
		return -ENOMEM;
	/* It stays where it is meanwhile. */
	buf->stats.pinned++;
	iosys_map_set_vaddr(map, addr);
	return 0;
}

static void exporter_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct exporter_buffer *buf = dmabuf->priv;

	if (map->is_iomem)
		return;
	buf->stats.pinned--;
	vunmap(map->vaddr);
}

static vm_fault_t exporter_fault(struct vm_fault *vmf)
{
	struct exporter_buffer *buf = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (vmf->pgoff >= buf->count)
		return ret;
	dma_resv_lock(buf->dmabuf->resv, NULL);
	if (buf->mem)
		ret = vmf_insert_pfn(vmf->vma, vmf->address, exporter_memory_pfn(buf->mem, vmf->pgoff));
	dma_resv_unlock(buf->dmabuf->resv);
	return ret;
}

static const struct vm_operations_struct exporter_vm_ops = {
	.fault = exporter_fault,
};

static int exporter_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct exporter_buffer *buf = dmabuf->priv;

	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	if (buf->flags & EXPORTER_BAR)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = buf;
	vma->vm_ops = &exporter_vm_ops;
	return 0;
}

#define EXPORTER_OPS				\
	.attach		= exporter_attach,	\
	.detach		= exporter_detach,	\
	.map_dma_buf	= exporter_map,		\
	.unmap_dma_buf	= exporter_unmap,	\
	.release	= exporter_release,	\
	.mmap		= exporter_mmap

/* What an exporter has no function for, its importers see before they call. By EXPORTER_PIN and EXPORTER_NO_VMAP. */
static const struct dma_buf_ops exporter_ops[] = {
	[0] = { EXPORTER_OPS, .vmap = exporter_vmap, .vunmap = exporter_vunmap },
	[EXPORTER_PIN] = { EXPORTER_OPS, .pin = exporter_pin, .unpin = exporter_unpin,
			   .vmap = exporter_vmap, .vunmap = exporter_vunmap },
	[EXPORTER_NO_VMAP] = { EXPORTER_OPS },
	[EXPORTER_PIN | EXPORTER_NO_VMAP] = { EXPORTER_OPS, .pin = exporter_pin,
					      .unpin = exporter_unpin },
};

/**
 * exporter_create() - a new dma-buf
 * @req: what it is to be; gets its descriptor
 *
 * Return: 0 or a negative errno.
 */
int exporter_create(struct exporter_create *req)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct exporter_buffer *buf;
	struct dma_buf *dmabuf;
	int ret;

	if (!req->size || req->size > EXPORTER_MAX || !PAGE_ALIGNED(req->size) ||
	    req->flags & ~EXPORTER_FLAGS || req->unmap_ms > 60000 || req->pad)
		return -EINVAL;
	buf = kzalloc_obj(*buf);
	if (!buf)
		return -ENOMEM;
	buf->count = req->size >> PAGE_SHIFT;
	buf->flags = req->flags;
	buf->unmap_ms = req->unmap_ms;
	buf->mem = exporter_memory_alloc(buf->count, buf->flags);
	if (IS_ERR(buf->mem)) {
		ret = PTR_ERR(buf->mem);
		goto out_free;
	}
	info.ops = &exporter_ops[buf->flags & (EXPORTER_PIN | EXPORTER_NO_VMAP)];
	info.size = req->size;
	info.flags = (req->flags & EXPORTER_READ_ONLY ? O_RDONLY : O_RDWR) | O_CLOEXEC;
	info.priv = buf;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		ret = PTR_ERR(dmabuf);
		goto out_memory;
	}
	buf->dmabuf = dmabuf;
	if (buf->flags & EXPORTER_BAR)
		pci_dev_get(exporter_bar.pdev);
	req->fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (req->fd >= 0)
		return 0;
	dma_buf_put(dmabuf);
	return req->fd;

out_memory:
	exporter_memory_take_back(buf->mem);
out_free:
	kfree(buf);
	return ret;
}

/* A descriptor's buffer, with a reference to its dma-buf. */
static struct exporter_buffer *exporter_get(int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	if (dmabuf->owner != THIS_MODULE) {
		dma_buf_put(dmabuf);
		return ERR_PTR(-EINVAL);
	}
	return dmabuf->priv;
}

int exporter_move(int fd)
{
	struct exporter_buffer *buf = exporter_get(fd);
	struct exporter_memory *mem;
	int ret;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	mem = exporter_memory_alloc(buf->count, buf->flags);
	if (IS_ERR(mem)) {
		ret = PTR_ERR(mem);
	} else {
		ret = exporter_replace(buf, mem);
		if (ret)
			exporter_memory_take_back(mem);
	}
	dma_buf_put(buf->dmabuf);
	return ret;
}

int exporter_revoke(int fd)
{
	struct exporter_buffer *buf = exporter_get(fd);
	int ret;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	ret = exporter_replace(buf, NULL);
	dma_buf_put(buf->dmabuf);
	return ret;
}

int exporter_stats(struct exporter_stats *stats)
{
	struct exporter_buffer *buf = exporter_get(stats->fd);
	int fd = stats->fd;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	dma_resv_lock(buf->dmabuf->resv, NULL);
	*stats = buf->stats;
	dma_resv_unlock(buf->dmabuf->resv);
	stats->fd = fd;
	dma_buf_put(buf->dmabuf);
	return 0;
}
