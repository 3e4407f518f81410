// SPDX-License-Identifier: GPL-2.0-only
/* From a DMA address to the bytes: what an adapter's DMA engine does by asking for them. */
#include "softhca.h"

#include <linux/io.h>
#include <linux/iommu.h>

#include "../test_exporter/taken_back.h"

/* A BAR that a DMA address may lie in. Mapped once: work is done where nobody may sleep. */
struct softhca_bar {
	struct list_head	list;
	phys_addr_t		start;
	resource_size_t		size;
	struct pci_dev		*root;	/* port above it, only compared */
	void			*map;
};

static LIST_HEAD(softhca_bars);

/* The adapters' own BARs have registers, which are not for others to write. */
#define SOFTHCA_BAR_MIN	SZ_64K

static void softhca_dma_add(struct pci_dev *pdev, int i)
{
	struct softhca_bar *bar;

	if (!(pci_resource_flags(pdev, i) & IORESOURCE_MEM) ||
	    !(pci_resource_flags(pdev, i) & IORESOURCE_PREFETCH) ||
	    pci_resource_len(pdev, i) < SOFTHCA_BAR_MIN)
		return;
	bar = kzalloc_obj(*bar);
	if (!bar)
		return;
	bar->start = pci_resource_start(pdev, i);
	bar->size = pci_resource_len(pdev, i);
	bar->root = pcie_find_root_port(pdev);
	bar->map = memremap(bar->start, bar->size, MEMREMAP_WC);
	if (!bar->map) {
		kfree(bar);
		return;
	}
	list_add_tail(&bar->list, &softhca_bars);
}

void softhca_dma_init(void)
{
	struct pci_dev *pdev = NULL;
	int i;

	for_each_pci_dev(pdev)
		for (i = 0; i < PCI_STD_NUM_BARS; i++)
			softhca_dma_add(pdev, i);
}

void softhca_dma_exit(void)
{
	struct softhca_bar *bar, *next;

	list_for_each_entry_safe(bar, next, &softhca_bars, list) {
		memunmap(bar->map);
		kfree(bar);
	}
}

static struct softhca_bar *softhca_bar_at(phys_addr_t at)
{
	struct softhca_bar *bar;

	list_for_each_entry(bar, &softhca_bars, list)
		if (at >= bar->start && at - bar->start < bar->size)
			return bar;
	return NULL;
}

static phys_addr_t softhca_translate(struct pci_dev *pdev, u64 dma)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pdev->dev);
	struct softhca_bar *bar;

	/* Without a domain, or with one that passes through, this machine's bus has the memory's addresses. */
	if (!domain || domain->type == IOMMU_DOMAIN_IDENTITY)
		return dma;
	/* A switch sends what is addressed to a port of its own there, and the IOMMU never sees it. */
	bar = softhca_bar_at(dma);
	if (bar && bar->root && bar->root == pcie_find_root_port(pdev))
		return dma;
	return iommu_iova_to_phys(domain, dma);
}

/**
 * softhca_dma_pointer() - the memory behind a DMA address
 * @dev: the adapter that the address is for
 * @dma: the address
 * @len: in: bytes wanted; out: how many of them lie there, within a page
 * @bar: out: whether it is a BAR
 *
 * Context: any.
 * Return: the memory, or NULL where the adapter reaches nothing.
 */
void *softhca_dma_pointer(struct softhca_dev *dev, u64 dma, size_t *len, bool *bar)
{
	phys_addr_t phys = softhca_translate(dev->pdev, dma);
	struct softhca_bar *b;

	*bar = false;
	*len = min_t(size_t, *len, PAGE_SIZE - offset_in_page(phys));
	if (!phys)
		return NULL;
	b = softhca_bar_at(phys);
	if (b) {
		*bar = true;
		return dev->refuse_peer ? NULL : b->map + (phys - b->start);
	}
	if (!pfn_valid(PHYS_PFN(phys)) || is_zone_device_page(phys_to_page(phys)))
		return NULL;
	exporter_page_touched(phys_to_page(phys));
	return phys_to_virt(phys);
}
