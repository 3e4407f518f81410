// SPDX-License-Identifier: GPL-2.0-only
/*
 * The RDMA device of a controller: take it for the first queue, give it back with
 * the last one, and everything that is of it when it is removed.
 */
#include "rdma.h"

#include <linux/netdevice.h>
#include <net/net_namespace.h>

static struct ib_client weft_rdma_ib_client;

/* Client data that mark a device as usable. */
static int weft_rdma_ib_add(struct ib_device *ib)
{
	ib_set_client_data(ib, &weft_rdma_ib_client, ib);
	return 0;
}

/**
 * weft_rdma_ib_usable() - may a device be used for new connections?
 * @ib: the device; the caller keeps it
 *
 * Context: call it after storing @ib where it is used; pairs with
 * weft_rdma_ib_remove().
 * Return: false while it is being removed: other users may be gone already, and
 * a new connection would keep it.
 */
bool weft_rdma_ib_usable(struct ib_device *ib)
{
	smp_mb();	/* ctrl->ib before this */
	return ib_get_client_data(ib, &weft_rdma_ib_client);
}

static void weft_ctrl_device_removed(struct weft_rdma_ctrl *ctrl, struct ib_device *ib)
{
	weft_rdma_error(ctrl, WEFT_RDMA_END_DEVICE, "the RDMA device %s is being removed",
			dev_name(&ib->dev));
}

/*
 * An RDMA device is being removed: release everything of it now. The
 * controllers stay, and reconnect over any device that reaches their targets
 * then.
 */
static void weft_rdma_ib_remove(struct ib_device *ib, void *client_data)
{
	struct weft_rdma_ctrl *ctrl;

	/* From here on, no controller takes the device. */
	ib_set_client_data(ib, &weft_rdma_ib_client, NULL);
	smp_mb();	/* before ctrl->ib, see weft_rdma_ib_usable() */
	mutex_lock(&weft_rdma_ctrls_lock);
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list)
		if (READ_ONCE(ctrl->ib) == ib)
			weft_ctrl_device_removed(ctrl, ib);
	mutex_unlock(&weft_rdma_ctrls_lock);
	for (ctrl = weft_rdma_ctrl_next(NULL); ctrl; ctrl = weft_rdma_ctrl_next(ctrl)) {
		if (READ_ONCE(ctrl->ib) != ib)
			continue;
		flush_work(&ctrl->recover_work);
		/* An attempt to reconnect may be running. */
		flush_delayed_work(&ctrl->connect_work);
		if (READ_ONCE(ctrl->ib) != ib)
			continue;
		/* It had the device before this began, and succeeded. */
		weft_ctrl_device_removed(ctrl, ib);
		flush_work(&ctrl->recover_work);
	}
}

static struct ib_client weft_rdma_ib_client = {
	.name	= "weft_rdma",
	.add	= weft_rdma_ib_add,
	.remove	= weft_rdma_ib_remove,
};

int weft_rdma_device_init(void)
{
	return ib_register_client(&weft_rdma_ib_client);
}

void weft_rdma_device_exit(void)
{
	ib_unregister_client(&weft_rdma_ib_client);
}

/* Software RDMA devices have no NUMA node; their network interface has. */
static int weft_ctrl_node(struct ib_device *ib, struct rdma_cm_id *id)
{
	int node = ibdev_to_node(ib);
	struct net_device *ndev;

	if (node != NUMA_NO_NODE)
		return node;
	ndev = dev_get_by_index(&init_net, id->route.addr.dev_addr.bound_dev_if);
	if (!ndev)
		return NUMA_NO_NODE;
	if (ndev->dev.parent)
		node = dev_to_node(ndev->dev.parent);
	dev_put(ndev);
	return node;
}

/**
 * weft_rdma_device_get() - take the RDMA device of a queue's connection for a controller
 * @ctrl: the controller; all its queues use the device of the first one
 * @id: the connection, its address resolved
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: 0, with the controller's protection domain made; undo by
 * weft_rdma_device_put(), also after an error.
 */
int weft_rdma_device_get(struct weft_rdma_ctrl *ctrl, struct rdma_cm_id *id,
			 struct weft_why *why)
{
	struct ib_device *ib = id->device;
	u32 pages = min_t(u32, ib->attrs.max_fast_reg_page_list_len, WEFT_RDMA_MR_PAGES);
	struct ib_pd *pd;

	if (ctrl->ib)
		return ctrl->ib == ib ? 0 :
		       weft_refuse(why, -EXDEV,
				   "the route moved from RDMA device %s to %s",
				   dev_name(&ctrl->ib->dev), dev_name(&ib->dev));
	if (!(ib->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return weft_refuse(why, -EOPNOTSUPP,
				   "the RDMA device %s cannot register memory by work requests",
				   dev_name(&ib->dev));
	/* The disks' limits are those of the first device. */
	if (pages < 2 || (ctrl->set_ready && pages < ctrl->mr_pages))
		return weft_refuse(why, -EOPNOTSUPP,
				   "the RDMA device %s registers %u pages at once, which is too few",
				   dev_name(&ib->dev), pages);
	pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(pd))
		return weft_refuse(why, PTR_ERR(pd),
				   "the RDMA device %s gives no protection domain",
				   dev_name(&ib->dev));
	ctrl->pd = pd;
	ctrl->node = weft_ctrl_node(ib, id);
	ctrl->p2pdma = IS_ENABLED(CONFIG_PCI_P2PDMA) && ib_dma_pci_p2p_dma_supported(ib);
	if (!ctrl->set_ready)
		ctrl->mr_pages = pages;
	/* Where DMA has to go by bounce buffers, no more is mapped at once. */
	ctrl->map_bytes = ib_uses_virt_dma(ib) ? SIZE_MAX : dma_max_mapping_size(ib->dma_device);
	WRITE_ONCE(ctrl->ib, ib);
	/* What is there by now is undone with the admin queue. */
	if (!weft_rdma_ib_usable(ib))
		return weft_refuse(why, -ENODEV, "the RDMA device %s is being removed",
				   dev_name(&ib->dev));
	return 0;
}

/**
 * weft_rdma_device_put() - undo weft_rdma_device_get()
 * @ctrl: only the connection of its admin queue is left, the last one: until that
 *	is destroyed the CM keeps a device that is being removed
 */
void weft_rdma_device_put(struct weft_rdma_ctrl *ctrl)
{
	if (!ctrl->pd)
		return;
	ib_dealloc_pd(ctrl->pd);
	ctrl->pd = NULL;
	WRITE_ONCE(ctrl->ib, NULL);
}

/**
 * weft_rdma_alloc_shared() - zeroed memory that the host and an RDMA device share
 * @ib: the RDMA device
 * @bytes: size
 * @addr: gets the device's address; software devices use CPU addresses
 *
 * It is coherent: no use of it needs a DMA synchronisation.
 *
 * Context: process context, may sleep.
 * Return: the memory, to be freed by weft_rdma_free_shared(), or NULL.
 */
void *weft_rdma_alloc_shared(struct ib_device *ib, size_t bytes, u64 *addr)
{
	dma_addr_t dma;
	void *mem;

	if (ib_uses_virt_dma(ib)) {
		mem = kzalloc(bytes, GFP_KERNEL);
		dma = (uintptr_t)mem;
	} else {
		mem = dma_alloc_coherent(ib->dma_device, bytes, &dma, GFP_KERNEL);
	}
	*addr = mem ? dma : 0;
	return mem;
}

/**
 * weft_rdma_free_shared() - undo weft_rdma_alloc_shared()
 * @ib: the RDMA device
 * @bytes: size
 * @mem: the memory, or NULL
 * @addr: the device's address
 *
 * Context: process context.
 */
void weft_rdma_free_shared(struct ib_device *ib, size_t bytes, void *mem, u64 addr)
{
	if (!mem)
		return;
	if (ib_uses_virt_dma(ib))
		kfree(mem);
	else
		dma_free_coherent(ib->dma_device, bytes, mem, addr);
}
