// SPDX-License-Identifier: GPL-2.0-only
/* weft.ko, striped volumes: module load and unload. */
#include "weft.h"
#include "mem.h"

static void weft_check_sizes(void)
{
	BUILD_BUG_ON(sizeof(struct weft_superblock) != WEFT_SB_SIZE);
	BUILD_BUG_ON(sizeof(struct weft_owner) != WEFT_OWNER_SIZE);
	BUILD_BUG_ON(offsetof(struct weft_superblock, reserved) != 160);
	BUILD_BUG_ON(offsetof(struct weft_owner, machine) != 304);
	BUILD_BUG_ON(offsetof(struct weft_owner, reserved) != 320);
	BUILD_BUG_ON(WEFT_UUID_LEN != WEFT_UUID_SIZE);
	/* With 64-bit jiffies a lease in the past stays in the past. */
	BUILD_BUG_ON(BITS_PER_LONG != 64);
	BUILD_BUG_ON(sizeof("weft!") - 1 + WEFT_NAME_MAX + 1 > DISK_NAME_LEN);
}

static int __init weft_init(void)
{
	int ret;

	weft_check_sizes();
	weft_resend_init();
	ret = weft_owner_start();
	if (ret)
		return ret;
	ret = weft_bio_init();
	if (ret)
		goto out_owner;
	ret = weft_bdev_init();
	if (ret)
		goto out_bio;
	ret = weft_mem_init();
	if (ret)
		goto out_bdev;
	ret = weft_netlink_init();
	if (ret)
		goto out_mem;
	return 0;

out_mem:
	weft_mem_exit();
out_bdev:
	weft_bdev_exit();
out_bio:
	weft_bio_exit();
out_owner:
	weft_owner_finish();
	return ret;
}

static void __exit weft_exit(void)
{
	/* No volume is left: each volume holds a module reference. */
	weft_netlink_exit();
	weft_mem_exit();
	weft_bdev_exit();
	weft_bio_exit();
	weft_owner_finish();
}

module_init(weft_init);
module_exit(weft_exit);

MODULE_AUTHOR("The weft developers");
MODULE_DESCRIPTION("Striped volumes over NVMe over Fabrics and other block devices");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
MODULE_INFO(import_ns, "DMA_BUF");
MODULE_ALIAS_GENL_FAMILY(WEFT_FAMILY_NAME);
