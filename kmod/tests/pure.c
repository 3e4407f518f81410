// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files under test, compiled once more into the test module: they are
 * private to weft.ko and weft_rdma.ko, which export nothing of them.
 */
#include "../weft/map.c"
#include "../weft/superblock.c"
#include "../rdma/capsule.c"

#include <linux/module.h>

MODULE_DESCRIPTION("KUnit tests of weft's stripe map, superblocks and capsules");
MODULE_LICENSE("GPL");
