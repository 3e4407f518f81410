// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/weft-p2p: an ioctl that returns weft_p2p_reaches() for two devices.
 */
#include "p2p.h"

#include <linux/miscdevice.h>
#include <linux/uaccess.h>

#include <uapi/weft_p2p.h>

/* Find a PCI device by its pci_name(), and take a reference. */
static struct pci_dev *weft_reach_device(char *name, size_t size, struct weft_why *why)
{
	unsigned int domain, bus, slot, func;
	struct pci_dev *pdev = NULL;
	char rest;

	name[size - 1] = 0;
	if (sscanf(name, "%x:%x:%x.%x%c", &domain, &bus, &slot, &func, &rest) == 4 &&
	    domain <= INT_MAX && bus <= 0xff && slot <= 0x1f && func <= 7)
		pdev = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, func));
	if (!pdev)
		weft_refuse(why, -ENODEV, "PCI device %s does not exist", name);
	return pdev;
}

static int weft_reach_ask(struct weft_p2p_route *req, struct weft_why *why)
{
	struct pci_dev *memory, *device;
	int ret = -ENODEV;

	memory = weft_reach_device(req->memory, sizeof(req->memory), why);
	if (!memory)
		return ret;
	device = weft_reach_device(req->device, sizeof(req->device), why);
	if (device)
		ret = weft_p2p_reaches(memory, &device->dev, why);
	pci_dev_put(device);
	pci_dev_put(memory);
	return ret;
}

static long weft_reach_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	struct weft_p2p_route *req;
	struct weft_why why = {};
	int ret;

	if (cmd != WEFT_P2P_IOC_ROUTE)
		return -ENOTTY;
	req = memdup_user(user, sizeof(*req));
	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = weft_reach_ask(req, &why);
	strscpy(req->why, why.text, sizeof(req->why));
	if (copy_to_user(user, req, sizeof(*req)))
		ret = -EFAULT;
	kfree(req);
	return ret;
}

static const struct file_operations weft_reach_fops = {
	.owner		= THIS_MODULE,
	.unlocked_ioctl	= weft_reach_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static struct miscdevice weft_reach_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "weft-p2p",
	.fops	= &weft_reach_fops,
	.mode	= 0600,
};

int weft_reach_init(void)
{
	return misc_register(&weft_reach_misc);
}

void weft_reach_exit(void)
{
	misc_deregister(&weft_reach_misc);
}
