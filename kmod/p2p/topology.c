// SPDX-License-Identifier: GPL-2.0-only
/*
 * Can one PCI device read and write another's memory? A kernel with P2PDMA
 * answers this. On other kernels the bridges between the two are checked, and
 * unknown cases are refused.
 */
#include "p2p.h"

#include <linux/pci-p2pdma.h>
#include <linux/pci_regs.h>

/* With these, a switch sends peer-to-peer transactions up to the root complex. */
#define WEFT_ACS_REDIRECT	(PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC)

/* Larger than any number of bridges. */
#define WEFT_P2P_FAR		0x10000
#define WEFT_P2P_UNKNOWN	0x20000

static bool weft_acs_redirects(struct pci_dev *bridge)
{
	int at = pci_find_ext_capability(bridge, PCI_EXT_CAP_ID_ACS);
	u16 control = 0;

	if (!at)
		return false;
	pci_read_config_word(bridge, at + PCI_ACS_CTRL, &control);
	return control & WEFT_ACS_REDIRECT;
}

static bool weft_is_above(struct pci_dev *bridge, struct pci_dev *device)
{
	for (; device; device = pci_upstream_bridge(device))
		if (device == bridge)
			return true;
	return false;
}

/* Find a bridge between @common and @device that redirects upstream. */
static struct pci_dev *weft_redirecting(struct pci_dev *device, struct pci_dev *common)
{
	struct pci_dev *bridge = pci_upstream_bridge(device);

	/* Above @device there is no @common if that is the device itself. */
	while (bridge && bridge != common && !weft_acs_redirects(bridge))
		bridge = pci_upstream_bridge(bridge);
	return bridge == common ? NULL : bridge;
}

static struct pci_dev *weft_common(struct pci_dev *memory, struct pci_dev *device)
{
	struct pci_dev *common = pci_upstream_bridge(memory);

	while (common && !weft_is_above(common, device))
		common = pci_upstream_bridge(common);
	return common;
}

/* Refuse if no bridge is above both, or if a bridge below that one redirects. */
static int weft_walk(struct pci_dev *memory, struct pci_dev *device, struct weft_why *why)
{
	struct pci_dev *common = weft_common(memory, device), *bridge;

	if (!common)
		return weft_refuse(why, -EOPNOTSUPP,
				   "%s and %s are below different root ports; weft does not know whether the root complex connects them",
				   pci_name(memory), pci_name(device));
	bridge = weft_redirecting(memory, common) ?: weft_redirecting(device, common);
	if (bridge)
		return weft_refuse(why, -EOPNOTSUPP,
				   "ACS of %s redirects requests between %s and %s to the root complex",
				   pci_name(bridge), pci_name(memory), pci_name(device));
	return 0;
}

/**
 * weft_p2p_reaches() - can a device use another device's memory?
 * @memory: the device that has the memory
 * @device: the device that would use it
 * @why: gets the reason if it cannot
 *
 * Context: process context.
 * Return: 0 or -EOPNOTSUPP.
 */
int weft_p2p_reaches(struct pci_dev *memory, struct device *device, struct weft_why *why)
{
	if (!dev_is_pci(device))
		return weft_refuse(why, -EOPNOTSUPP, "%s is not a PCI device", dev_name(device));
	if (IS_ENABLED(CONFIG_PCI_P2PDMA)) {
		if (pci_p2pdma_distance(memory, device, false) >= 0)
			return 0;
		return weft_walk(memory, to_pci_dev(device), why) ?:
		       weft_refuse(why, -EOPNOTSUPP,
				   "the kernel knows no peer-to-peer path from %s to %s",
				   dev_name(device), pci_name(memory));
	}
	return weft_walk(memory, to_pci_dev(device), why);
}

/*
 * Find the PCI device that has an address in a BAR, and take a reference. It
 * finds no device for addresses of an IOMMU or of another PCI domain.
 */
static struct pci_dev *weft_bar_owner(u64 address, int domain)
{
	struct pci_dev *pdev = NULL;
	int i;

	for_each_pci_dev(pdev) {
		if (pci_domain_nr(pdev->bus) != domain)
			continue;
		for (i = 0; i < PCI_STD_NUM_BARS; i++) {
			u64 start = pci_bus_address(pdev, i);

			if (pci_resource_flags(pdev, i) & IORESOURCE_MEM && address >= start &&
			    address - start < pci_resource_len(pdev, i))
				return pdev;
		}
	}
	return NULL;
}

/* Number of steps from a device up to a bridge above it. */
static int weft_depth(struct pci_dev *device, struct pci_dev *bridge)
{
	int depth = 0;

	while (device && device != bridge) {
		device = pci_upstream_bridge(device);
		depth++;
	}
	return depth;
}

/**
 * weft_p2p_distance() - distance from memory to a device
 * @address: DMA address of the memory, as the device uses it
 * @device: the device
 *
 * Context: process context.
 * Return: the number of bridges between the device and the memory's device.
 * Larger values, which depend on their NUMA nodes, if only the root complex
 * connects them. The largest value if the memory's device is unknown: host
 * memory, or memory behind an IOMMU.
 */
int weft_p2p_distance(u64 address, struct pci_dev *device)
{
	struct pci_dev *owner = weft_bar_owner(address, pci_domain_nr(device->bus)), *common;
	int distance, from, to;

	if (!owner)
		return WEFT_P2P_UNKNOWN;
	common = weft_common(owner, device);
	from = dev_to_node(&owner->dev);
	to = dev_to_node(&device->dev);
	if (common)
		distance = weft_depth(owner, common) + weft_depth(device, common) - 1;
	else
		distance = WEFT_P2P_FAR + (from == NUMA_NO_NODE || to == NUMA_NO_NODE ?
					   LOCAL_DISTANCE : node_distance(from, to));
	pci_dev_put(owner);
	return distance;
}
