/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WEFT_RDMA_FFDHE_H
#define WEFT_RDMA_FFDHE_H

#include <linux/types.h>

void weft_ffdhe_prime(u8 group, u8 *prime);

#endif /* WEFT_RDMA_FFDHE_H */
