// SPDX-License-Identifier: GPL-2.0-only
/* weft_rdma.ko: module load and unload. */
#include "namespace.h"

/*
 * For works that wait for the users of a disk. The users may wait for the
 * controller's own workqueue, which restores the association.
 */
struct workqueue_struct *weft_rdma_wq;

static int __init weft_rdma_init(void)
{
	int ret;

	weft_rdma_wq = alloc_workqueue("weft-rdma", WQ_UNBOUND, 0);
	if (!weft_rdma_wq)
		return -ENOMEM;
	ret = weft_rdma_held_init();
	if (ret)
		goto out_wq;
	ret = weft_rdma_cdev_init();
	if (ret)
		goto out_held;
	ret = weft_rdma_peer_init();
	if (ret)
		goto out_cdev;
	ret = weft_rdma_device_init();
	if (ret)
		goto out_peer;
	ret = weft_transport_register(&weft_rdma_transport);
	if (ret)
		goto out_device;
	return 0;

out_device:
	weft_rdma_device_exit();
out_peer:
	weft_rdma_peer_exit();
out_cdev:
	weft_rdma_cdev_exit();
out_held:
	weft_rdma_held_exit();
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
	weft_rdma_device_exit();
	weft_rdma_peer_exit();
	weft_rdma_cdev_exit();
	weft_rdma_held_exit();
}

module_init(weft_rdma_init);
module_exit(weft_rdma_exit);

MODULE_DESCRIPTION("NVMe over RDMA host for striped volumes");
MODULE_AUTHOR("The weft developers");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
MODULE_ALIAS("weft-transport-rdma");
