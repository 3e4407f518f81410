/* SPDX-License-Identifier: GPL-2.0-only */
/* DMA mapping. */
#ifndef WEFT_COMPAT_DMA_H
#define WEFT_COMPAT_DMA_H

#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/pci.h>

/**
 * weft_dma_needs_sync() - has an address to be synced, as one of a bounce buffer?
 * @dev: the device that it is mapped for
 * @address: mapped
 *
 * Context: any.
 * Return: true if it has.
 */
static inline bool weft_dma_needs_sync(struct device *dev, dma_addr_t address)
{
#ifndef WEFT_HAVE_DMA_SKIP_SYNC
	/* Before 6.10, dma_need_sync() says yes for each address behind an IOMMU. */
	if (device_iommu_mapped(dev) && get_dma_ops(dev))
		return !dev_is_dma_coherent(dev) ||
		       (dev_is_pci(dev) && to_pci_dev(dev)->untrusted);
#endif
	return dma_need_sync(dev, address);
}

#endif /* WEFT_COMPAT_DMA_H */
