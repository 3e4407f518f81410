// SPDX-License-Identifier: GPL-2.0-only
/* Mapping a range of a BAR for another device, see dmabuf.h. */
#include "compat.h"
#include "dmabuf.h"

#include <linux/dma-mapping.h>
#include <linux/pci-p2pdma.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

/* Only useful in kernels with P2PDMA. */
#if defined(WEFT_HAVE_PHYS_VEC) && IS_ENABLED(CONFIG_PCI_P2PDMA)
#define WEFT_USE_PHYS_VEC
#include <linux/dma-buf-mapping.h>
#endif

/**
 * weft_p2pdma_provider() - the kernel's P2PDMA provider of a BAR
 * @pdev: the device; it is enabled and bound to the caller's driver
 * @bar: number of the BAR
 *
 * Return: the provider; NULL if the kernel has none; or an ERR_PTR.
 */
struct p2pdma_provider *weft_p2pdma_provider(struct pci_dev *pdev, int bar)
{
#ifdef WEFT_USE_PHYS_VEC
	int ret = pcim_p2pdma_init(pdev);

	return ret ? ERR_PTR(ret) : pcim_p2pdma_provider(pdev, bar);
#else
	return NULL;
#endif
}

#ifndef WEFT_USE_PHYS_VEC
/* Kernels since 6.19 have dma_buf_phys_vec_to_sgt() for this. */
static struct sg_table *weft_map_resource(struct dma_buf_attachment *attach, phys_addr_t start,
					  size_t length, enum dma_data_direction dir)
{
	unsigned int count = DIV_ROUND_UP(length, SZ_1G), i;
	struct scatterlist *sg;
	struct sg_table *sgt;
	dma_addr_t address;
	int ret;

	sgt = kzalloc_obj(*sgt);
	if (!sgt)
		return ERR_PTR(-ENOMEM);
	ret = sg_alloc_table(sgt, count, GFP_KERNEL);
	if (ret)
		goto out_free;
	address = dma_map_resource(attach->dev, start, length, dir, DMA_ATTR_SKIP_CPU_SYNC);
	ret = dma_mapping_error(attach->dev, address);
	if (ret)
		goto out_table;
	for_each_sg(sgt->sgl, sg, count, i) {
		size_t part = min_t(size_t, length - (size_t)i * SZ_1G, SZ_1G);

		sg_set_page(sg, NULL, part, 0);
		sg_dma_address(sg) = address + (dma_addr_t)i * SZ_1G;
		sg_dma_len(sg) = part;
	}
	return sgt;

out_table:
	sg_free_table(sgt);
out_free:
	kfree(sgt);
	return ERR_PTR(ret);
}
#endif

/**
 * weft_dmabuf_map_range() - map a range of a BAR for an importer
 * @attach: the importer's attachment
 * @provider: from weft_p2pdma_provider()
 * @start: physical address
 * @length: in bytes
 * @dir: DMA direction of the importer
 *
 * Context: process context; the reservation lock is held.
 * Return: a table with DMA addresses and without pages, or an ERR_PTR. Undo
 * with weft_dmabuf_unmap_range().
 */
struct sg_table *weft_dmabuf_map_range(struct dma_buf_attachment *attach,
				       struct p2pdma_provider *provider, phys_addr_t start,
				       size_t length, enum dma_data_direction dir)
{
#ifdef WEFT_USE_PHYS_VEC
	struct phys_vec vec = { .paddr = start, .len = length };

	return dma_buf_phys_vec_to_sgt(attach, provider, &vec, 1, length, dir);
#else
	return weft_map_resource(attach, start, length, dir);
#endif
}

/**
 * weft_dmabuf_unmap_range() - undo weft_dmabuf_map_range()
 * @attach: the importer's attachment
 * @sgt: the table
 * @dir: DMA direction of the importer
 */
void weft_dmabuf_unmap_range(struct dma_buf_attachment *attach, struct sg_table *sgt,
			     enum dma_data_direction dir)
{
#ifdef WEFT_USE_PHYS_VEC
	/* 7.2 clears orig_nents, because there are no pages, and then frees that many. */
	sgt->orig_nents = sgt->nents;
	dma_buf_free_sgt(attach, sgt, dir);
#else
	struct scatterlist *sg;
	size_t length = 0;
	unsigned int i;

	for_each_sg(sgt->sgl, sg, sgt->orig_nents, i)
		length += sg_dma_len(sg);
	dma_unmap_resource(attach->dev, sg_dma_address(sgt->sgl), length, dir,
			   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sgt);
	kfree(sgt);
#endif
}
