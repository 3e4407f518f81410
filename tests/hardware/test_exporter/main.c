// SPDX-License-Identifier: GPL-2.0-only
/* The device that tests speak to, and the PCI function whose BAR can be exported. */
#include "exporter.h"

#include <linux/bitmap.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/uaccess.h>

static long exporter_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	struct exporter_create create;
	struct exporter_stats stats;
	u64 strays;
	int fd, ret;

	switch (cmd) {
	case EXPORTER_CREATE:
		if (copy_from_user(&create, user, sizeof(create)))
			return -EFAULT;
		ret = exporter_create(&create);
		if (!ret && copy_to_user(user, &create, sizeof(create)))
			return -EFAULT;
		return ret;
	case EXPORTER_STATS:
		if (copy_from_user(&stats, user, sizeof(stats)))
			return -EFAULT;
		ret = exporter_stats(&stats);
		if (!ret && copy_to_user(user, &stats, sizeof(stats)))
			return -EFAULT;
		return ret;
	case EXPORTER_MOVE:
	case EXPORTER_REVOKE:
		if (get_user(fd, (int __user *)user))
			return -EFAULT;
		return cmd == EXPORTER_MOVE ? exporter_move(fd) : exporter_revoke(fd);
	case EXPORTER_CHECK:
		strays = exporter_check();
		return put_user(strays, (u64 __user *)user);
	}
	return -ENOTTY;
}

static const struct file_operations exporter_fops = {
	.owner		= THIS_MODULE,
	.unlocked_ioctl	= exporter_ioctl,
};

static struct miscdevice exporter_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "weft-test-exporter",
	.fops	= &exporter_fops,
	.mode	= 0600,
};

static int exporter_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	u32 pages = pci_resource_len(pdev, 2) >> PAGE_SHIFT;
	unsigned long *used;
	int ret;

	if (exporter_bar.pdev || !pages)
		return -ENODEV;
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	pci_set_master(pdev);
	ret = pcim_p2pdma_init(pdev);
	if (ret)
		return ret;
	used = devm_bitmap_zalloc(&pdev->dev, pages, GFP_KERNEL);
	if (!used)
		return -ENOMEM;
	mutex_lock(&exporter_lock);
	exporter_bar = (struct exporter_bar){
		.pdev		= pdev,
		.provider	= pcim_p2pdma_provider(pdev, 2),
		.start		= pci_resource_start(pdev, 2),
		.pages		= pages,
		.used		= used,
	};
	mutex_unlock(&exporter_lock);
	return 0;
}

static void exporter_remove(struct pci_dev *pdev)
{
	/* A test closes its buffers first. */
	WARN(exporter_check(), "weft_test_exporter: memory that was taken back was used");
	mutex_lock(&exporter_lock);
	WARN_ON(!bitmap_empty(exporter_bar.used, exporter_bar.pages));
	exporter_bar = (struct exporter_bar){};
	mutex_unlock(&exporter_lock);
}

/* By driver_override alone. */
static const struct pci_device_id exporter_ids[] = {
	{}
};

static struct pci_driver exporter_driver = {
	.name		= "weft_test_exporter",
	.id_table	= exporter_ids,
	.probe		= exporter_probe,
	.remove		= exporter_remove,
};

static int __init exporter_init(void)
{
	int ret = pci_register_driver(&exporter_driver);

	if (ret)
		return ret;
	ret = misc_register(&exporter_misc);
	if (ret)
		pci_unregister_driver(&exporter_driver);
	return ret;
}

static void __exit exporter_exit(void)
{
	misc_deregister(&exporter_misc);
	pci_unregister_driver(&exporter_driver);
	WARN(exporter_check(), "weft_test_exporter: memory that was taken back was used");
}

module_init(exporter_init);
module_exit(exporter_exit);
MODULE_IMPORT_NS("DMA_BUF");
MODULE_DESCRIPTION("weft test hardware: an exporter of dma-bufs that misbehaves");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
