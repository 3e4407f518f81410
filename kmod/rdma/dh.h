/* SPDX-License-Identifier: GPL-2.0-only */
/* Diffie-Hellman for the authentication, see auth.c. */
#ifndef WEFT_RDMA_DH_H
#define WEFT_RDMA_DH_H

#include <linux/types.h>

int weft_dh_exchange(u8 group, const u8 *theirs, u8 *ours, u8 *shared);

#endif /* WEFT_RDMA_DH_H */
