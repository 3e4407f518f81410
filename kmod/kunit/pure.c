// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files under test, compiled into the test module: weft.ko and weft_rdma.ko
 * do not export their functions.
 */
#include "../weft/map.c"
#include "../weft/shadow.c"
#include "../weft/superblock.c"
#include "../rdma/capsule.c"
#include "../rdma/chap.c"
#include "../rdma/ffdhe.c"

#include <linux/module.h>

MODULE_DESCRIPTION("KUnit tests of weft's stripe map, shadows, superblocks, capsules and authentication");
MODULE_LICENSE("GPL");
MODULE_VERSION(WEFT_VERSION);
