// SPDX-License-Identifier: GPL-2.0-only
/* weft_p2p.ko: memory of other devices. Independent of volumes and of RDMA verbs. */
#include "p2p.h"

static int __init weft_p2p_init(void)
{
	int ret;

	ret = weft_reach_init();
	if (ret)
		return ret;
	ret = weft_bar_init();
	if (ret)
		weft_reach_exit();
	return ret;
}

static void __exit weft_p2p_exit(void)
{
	weft_bar_exit();
	weft_reach_exit();
}

module_init(weft_p2p_init);
module_exit(weft_p2p_exit);

MODULE_DESCRIPTION("Peer memory for weft: dma-bufs as addresses for a device, BARs as dma-bufs");
MODULE_AUTHOR("The weft developers");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
MODULE_INFO(import_ns, "DMA_BUF");
