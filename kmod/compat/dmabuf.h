/* SPDX-License-Identifier: GPL-2.0-only */
/* What weft knows of dma-bufs in kernels older than the newest. */
#ifndef WEFT_COMPAT_DMABUF_H
#define WEFT_COMPAT_DMABUF_H

#include <linux/dma-buf.h>

/* Without the reservation lock it was the plain one before 6.2. Drop when the floor passes it. */
#ifndef WEFT_HAVE_VMAP_UNLOCKED
#define dma_buf_vmap_unlocked	dma_buf_vmap
#define dma_buf_vunmap_unlocked	dma_buf_vunmap
#endif

#endif /* WEFT_COMPAT_DMABUF_H */
