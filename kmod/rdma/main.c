// SPDX-License-Identifier: GPL-2.0-only
/* weft_rdma.ko: module load and unload, and removal of RDMA devices. */
#include "rdma.h"

/*
 * For works that wait for the users of a disk. The users may wait for the
 * controller's own workqueue, which restores the association.
 */
struct workqueue_struct *weft_rdma_wq;

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

static void weft_device_removed(struct weft_rdma_ctrl *ctrl, struct ib_device *ib)
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

	ib_set_client_data(ib, &weft_rdma_ib_client, NULL);
	smp_mb();	/* before ctrl->ib, see weft_rdma_ib_usable() */
	mutex_lock(&weft_rdma_ctrls_lock);
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list)
		if (READ_ONCE(ctrl->ib) == ib)
			weft_device_removed(ctrl, ib);
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list) {
		if (READ_ONCE(ctrl->ib) != ib)
			continue;
		flush_work(&ctrl->recover_work);
		/* An attempt to reconnect may be running. */
		flush_delayed_work(&ctrl->connect_work);
		if (READ_ONCE(ctrl->ib) != ib)
			continue;
		/* It had the device before this began, and succeeded. */
		weft_device_removed(ctrl, ib);
		flush_work(&ctrl->recover_work);
	}
	mutex_unlock(&weft_rdma_ctrls_lock);
	weft_rdma_peer_device_gone(ib);
}

static struct ib_client weft_rdma_ib_client = {
	.name	= "weft_rdma",
	.add	= weft_rdma_ib_add,
	.remove	= weft_rdma_ib_remove,
};

static int __init weft_rdma_init(void)
{
	int ret;

	weft_rdma_wq = alloc_workqueue("weft-rdma", WQ_UNBOUND, 0);
	if (!weft_rdma_wq)
		return -ENOMEM;
	ret = weft_rdma_cdev_init();
	if (ret)
		goto out_wq;
	ret = weft_rdma_peer_init();
	if (ret)
		goto out_cdev;
	ret = ib_register_client(&weft_rdma_ib_client);
	if (ret)
		goto out_peer;
	ret = weft_transport_register(&weft_rdma_transport);
	if (ret)
		goto out_client;
	return 0;

out_client:
	ib_unregister_client(&weft_rdma_ib_client);
out_peer:
	weft_rdma_peer_exit();
out_cdev:
	weft_rdma_cdev_exit();
out_wq:
	destroy_workqueue(weft_rdma_wq);
	return ret;
}

static void __exit weft_rdma_exit(void)
{
	struct weft_rdma_ctrl *ctrl;

	/* No controller can be made after this. */
	weft_transport_unregister(&weft_rdma_transport);
	for (;;) {
		mutex_lock(&weft_rdma_ctrls_lock);
		ctrl = list_first_entry_or_null(&weft_rdma_ctrls, struct weft_rdma_ctrl, list);
		if (ctrl)
			list_del_init(&ctrl->list);
		mutex_unlock(&weft_rdma_ctrls_lock);
		if (!ctrl)
			break;
		weft_rdma_ctrl_remove(ctrl);
	}
	/* Controllers that were given up are off the list, and being removed. */
	destroy_workqueue(weft_rdma_wq);
	ib_unregister_client(&weft_rdma_ib_client);
	weft_rdma_peer_exit();
	weft_rdma_cdev_exit();
}

module_init(weft_rdma_init);
module_exit(weft_rdma_exit);

MODULE_DESCRIPTION("NVMe over RDMA host for striped volumes");
MODULE_AUTHOR("The weft developers");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
MODULE_ALIAS("weft-transport-rdma");
