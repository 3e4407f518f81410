/* SPDX-License-Identifier: GPL-2.0-only */
/* The dma-buf API of Linux 7.3; see compat.h. */
#ifndef WEFT_COMPAT_DMABUF_H
#define WEFT_COMPAT_DMABUF_H

#include <linux/dma-buf.h>

/* Before 6.2, dma_buf_vmap() took the lock itself. Drop when the floor passes it. */
#ifndef WEFT_HAVE_VMAP_UNLOCKED
#define dma_buf_vmap_unlocked	dma_buf_vmap
#define dma_buf_vunmap_unlocked	dma_buf_vunmap
#endif

/* Called move_notify before 7.1. Drop when the floor passes it. */
#ifndef WEFT_HAVE_INVALIDATE_MAPPINGS
#define invalidate_mappings	move_notify
#define dma_buf_invalidate_mappings(dmabuf)	dma_buf_move_notify(dmabuf)
#endif

/* Since 6.3. Drop when the floor passes it. */
#ifndef WEFT_HAVE_VM_FLAGS_SET
#define vm_flags_set(vma, flags)	((vma)->vm_flags |= (flags))
#endif

/*
 * Before 7.0, a dynamic importer of an exporter without pin got one permanent
 * mapping at attach. Drop when the floor passes it.
 */
static inline bool weft_attach_is_cached(struct dma_buf_attachment *attach)
{
#ifdef WEFT_HAVE_ATTACH_SGT
	return attach->sgt;
#else
	return false;
#endif
}

/*
 * Does an importer that has pinned memory honour revocation? Since 7.1 every
 * importer with the callback must. Before, importers such as ib_umem could
 * ignore the callback while the memory was pinned; only @ours is known to
 * honour it. Drop when the floor passes it.
 */
static inline bool weft_attach_revocable(struct dma_buf_attachment *attach,
					 const struct dma_buf_attach_ops *ours)
{
#ifdef WEFT_HAVE_ATTACH_REVOCABLE
	return dma_buf_attach_revocable(attach);
#else
	return attach->importer_ops == ours;
#endif
}

/*
 * Does a CPU mapping keep the memory where it is? Before 6.18, exporters whose memory
 * moves (amdgpu, nouveau, radeon) did not pin what they mapped. No header tells; the
 * next one that changed is that of 7.1. Drop when the floor passes it.
 */
static inline bool weft_vmap_pins(struct dma_buf *dmabuf)
{
#ifdef WEFT_HAVE_INVALIDATE_MAPPINGS
	return true;
#else
	return !dma_buf_is_dynamic(dmabuf);
#endif
}

/* Take a reference unless the dma-buf is being released. Drop when the floor passes 6.8. */
#ifdef WEFT_HAVE_GET_FILE_ACTIVE
#define weft_dmabuf_get_active(dmabuf)	(!!get_file_active(&(dmabuf)->file))
#else
#define weft_dmabuf_get_active(dmabuf)	get_file_rcu((dmabuf)->file)
#endif

struct p2pdma_provider;
struct pci_dev;

struct p2pdma_provider *weft_p2pdma_provider(struct pci_dev *pdev, int bar);
struct sg_table *weft_dmabuf_map_range(struct dma_buf_attachment *attach,
				       struct p2pdma_provider *provider, phys_addr_t start,
				       size_t length, enum dma_data_direction dir);
void weft_dmabuf_unmap_range(struct dma_buf_attachment *attach, struct sg_table *sgt,
			     enum dma_data_direction dir);

#endif /* WEFT_COMPAT_DMABUF_H */
