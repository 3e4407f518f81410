// SPDX-License-Identifier: GPL-2.0-only
/*
 * Says in its information which RDMA headers it was built with, and needs a
 * symbol of ib_core, whose version says the same of Module.symvers. For the
 * test of builds against OFED; does nothing.
 */
#include <linux/module.h>
#include <rdma/ib_verbs.h>

#ifdef WEFT_TEST_VENDOR_RDMA
MODULE_INFO(rdma_headers, "vendor");
#else
MODULE_INFO(rdma_headers, "kernel");
#endif

static int rdma_stack_add(struct ib_device *device)
{
	return -EOPNOTSUPP;
}

static struct ib_client rdma_stack_client = {
	.name	= "rdma_stack",
	.add	= rdma_stack_add,
};

static int __init rdma_stack_init(void)
{
	return ib_register_client(&rdma_stack_client);
}

static void __exit rdma_stack_exit(void)
{
	ib_unregister_client(&rdma_stack_client);
}

module_init(rdma_stack_init);
module_exit(rdma_stack_exit);
MODULE_DESCRIPTION("test: whose RDMA stack is it built for");
MODULE_LICENSE("GPL");
