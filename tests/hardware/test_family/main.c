// SPDX-License-Identifier: GPL-2.0-only
/*
 * A family of generic netlink without commands. Its registration waits for messages of
 * all families that are being received, and later messages wait for the registration.
 */
#include <linux/module.h>
#include <net/genetlink.h>

static struct genl_family test_family __ro_after_init = {
	.name		= "weft_test",
	.version	= 1,
	.module		= THIS_MODULE,
};

static int __init test_family_init(void)
{
	return genl_register_family(&test_family);
}

static void __exit test_family_exit(void)
{
	genl_unregister_family(&test_family);
}

module_init(test_family_init);
module_exit(test_family_exit);
MODULE_DESCRIPTION("A family of generic netlink for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
