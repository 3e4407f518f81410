// SPDX-License-Identifier: GPL-2.0-only
/* Adapters: bound to a PCI function, given an interface, shown to the RDMA core, and their knobs. */
#include "softhca.h"

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/net_namespace.h>

struct workqueue_struct *softhca_wq;

static char *softhca_netdevs[4];
static int softhca_netdev_count;
module_param_array_named(netdevs, softhca_netdevs, charp, &softhca_netdev_count, 0444);
MODULE_PARM_DESC(netdevs, "interfaces whose addresses the adapters have, in the order in which they are found");

unsigned int softhca_page_list_limit = SOFTHCA_PAGES_MAX;
module_param_named(page_list_limit, softhca_page_list_limit, uint, 0444);
MODULE_PARM_DESC(page_list_limit, "pages of a registration, at most 1024");

unsigned int softhca_mr_limit = SOFTHCA_MRS_MAX;
module_param_named(mr_limit, softhca_mr_limit, uint, 0444);
MODULE_PARM_DESC(mr_limit, "registrations of an adapter, at most 1048576");

static struct dentry *softhca_debugfs;

/*
 * Which function, by its address, has which interface: one that comes back has
 * its own again. Probing is one at a time.
 */
static u32 softhca_owners[ARRAY_SIZE(softhca_netdevs)];

static const char *softhca_netdev_of(struct pci_dev *pdev)
{
	int i;

	for (i = 0; i < softhca_netdev_count; i++) {
		if (softhca_owners[i] && softhca_owners[i] != pci_dev_id(pdev))
			continue;
		softhca_owners[i] = pci_dev_id(pdev);
		return softhca_netdevs[i];
	}
	return NULL;
}

static void softhca_knobs(struct softhca_dev *dev)
{
	struct dentry *dir = debugfs_create_dir(dev_name(&dev->ib.dev), softhca_debugfs);

	dev->debugfs = dir;
	debugfs_create_u32("latency_ns", 0600, dir, &dev->latency_ns);
	debugfs_create_u64("bandwidth", 0600, dir, &dev->bandwidth);
	debugfs_create_u32("drop_completion", 0600, dir, &dev->drop_completion);
	debugfs_create_u32("break_at", 0600, dir, &dev->break_at);
	debugfs_create_u32("mr_limit", 0600, dir, &dev->mr_limit);
	debugfs_create_u32("post_fail_at", 0600, dir, &dev->post_fail_at);
	debugfs_create_bool("refuse_peer", 0600, dir, &dev->refuse_peer);
	debugfs_create_u32("dma_ns", 0600, dir, &dev->dma_ns);
	debugfs_create_u32("vector_shift", 0600, dir, &dev->vector_shift);
	debugfs_create_u64("bytes_ram", 0400, dir, &dev->bytes_ram);
	debugfs_create_u64("bytes_bar", 0400, dir, &dev->bytes_bar);
	debugfs_create_u32("drained", 0400, dir, &dev->drained);
	debugfs_create_u32("unmapped", 0400, dir, &dev->unmapped);
	debugfs_create_u32("large_pages", 0400, dir, &dev->large_pages);
	debugfs_create_u64("doorbells", 0400, dir, &dev->doorbells);
	debugfs_create_u64("completed_far", 0400, dir, &dev->completed_far);
}

static int softhca_register(struct softhca_dev *dev)
{
	struct ib_device *ib = &dev->ib;
	int ret;

	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1);
	ib_set_device_ops(ib, &softhca_verbs);
	ib_set_device_ops(ib, &softhca_cm);
	ib->node_type = RDMA_NODE_RNIC;
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = num_online_cpus();
	ib->local_dma_lkey = SOFTHCA_LOCAL_KEY;
	ib->dev.parent = &dev->pdev->dev;
	ib->iw_driver_flags = IW_F_NO_PORT_MAP;
	memcpy(&ib->node_guid, dev->netdev->dev_addr, ETH_ALEN);
	strscpy(ib->iw_ifname, dev->netdev->name, sizeof(ib->iw_ifname));
	ret = ib_device_set_netdev(ib, dev->netdev, 1);
	if (ret)
		return ret;
	return ib_register_device(ib, "softhca%d", &dev->pdev->dev);
}

static int softhca_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	const char *name = softhca_netdev_of(pdev);
	struct softhca_dev *dev;
	int ret;

	if (!name)
		return -ENODEV;
	dev = ib_alloc_device(softhca_dev, ib);
	if (!dev)
		return -ENOMEM;
	dev->pdev = pdev;
	dev->mr_limit = softhca_mr_limit;
	ret = -ENODEV;
	dev->netdev = dev_get_by_name(&init_net, name);
	if (!dev->netdev)
		goto out_dealloc;
	ret = pci_enable_device(pdev);
	if (ret)
		goto out_put;
	pci_set_master(pdev);
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto out_disable;
	dma_set_max_seg_size(&pdev->dev, SZ_2G);
	pci_set_drvdata(pdev, dev);
	ret = softhca_register(dev);
	if (ret)
		goto out_disable;
	softhca_knobs(dev);
	return 0;

out_disable:
	pci_disable_device(pdev);
out_put:
	dev_put(dev->netdev);
out_dealloc:
	ib_dealloc_device(&dev->ib);
	return ret;
}

static void softhca_remove(struct pci_dev *pdev)
{
	struct softhca_dev *dev = pci_get_drvdata(pdev);
	struct net_device *netdev = dev->netdev;
	struct softhca_qp *qp;
	struct softhca_mr *mr;
	unsigned long index;

	debugfs_remove_recursive(dev->debugfs);
	ib_unregister_device(&dev->ib);
	flush_workqueue(softhca_wq);
	/* The core warns of what is left, and does not say whose it is. */
	xa_for_each(&dev->qps, index, qp)
		pr_err("queue pair %lu of %s is left\n", index, qp->ib.res.kern_name);
	xa_for_each(&dev->mrs, index, mr)
		pr_err("memory registration %lu of %s is left\n", index, mr->ib.pd->res.kern_name);
	xa_destroy(&dev->mrs);
	xa_destroy(&dev->qps);
	ib_dealloc_device(&dev->ib);
	dev_put(netdev);
	pci_disable_device(pdev);
}

/* QEMU's e1000e: a PCI Express endpoint that asks for nothing. */
static const struct pci_device_id softhca_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_INTEL, 0x10d3) },
	{}
};

static struct pci_driver softhca_driver = {
	.name		= "weft_softhca",
	.id_table	= softhca_ids,
	.probe		= softhca_probe,
	.remove		= softhca_remove,
};

static int __init softhca_init(void)
{
	int ret;

	softhca_page_list_limit = clamp(softhca_page_list_limit, 1U, (u32)SOFTHCA_PAGES_MAX);
	softhca_mr_limit = clamp(softhca_mr_limit, 1U, (u32)SOFTHCA_MRS_MAX);
	softhca_wq = alloc_workqueue("softhca", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!softhca_wq)
		return -ENOMEM;
	softhca_debugfs = debugfs_create_dir("weft_softhca", NULL);
	softhca_dma_init();
	ret = pci_register_driver(&softhca_driver);
	if (!ret)
		return 0;
	softhca_dma_exit();
	debugfs_remove_recursive(softhca_debugfs);
	destroy_workqueue(softhca_wq);
	return ret;
}

static void __exit softhca_exit(void)
{
	pci_unregister_driver(&softhca_driver);
	softhca_dma_exit();
	debugfs_remove_recursive(softhca_debugfs);
	destroy_workqueue(softhca_wq);
	softhca_cm_exit();
}

module_init(softhca_init);
module_exit(softhca_exit);
MODULE_DESCRIPTION("weft test hardware: an RDMA adapter that moves bytes by DMA address");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
