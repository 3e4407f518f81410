/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Includes of the pure files (map.c, superblock.c), which the kernel, weftctl
 * and the unit tests on the host compile.
 */
#ifndef WEFT_PORTABLE_H
#define WEFT_PORTABLE_H

#ifdef __KERNEL__
#include <linux/bits.h>
#include <linux/blk_types.h>
#include <linux/build_bug.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "../../userspace/portable_host.h"
#endif

#endif /* WEFT_PORTABLE_H */
