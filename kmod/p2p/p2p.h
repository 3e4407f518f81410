/* SPDX-License-Identifier: GPL-2.0-only */
/* Internals of weft_p2p.ko. */
#ifndef WEFT_P2P_INSIDE_H
#define WEFT_P2P_INSIDE_H

#ifdef pr_fmt
#undef pr_fmt
#endif
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "../compat/compat.h"
#include "../compat/dmabuf.h"
#include "../include/weft_p2p.h"

#include <linux/module.h>
#include <linux/pci.h>

/* topology.c */
int weft_p2p_reaches(struct pci_dev *memory, struct device *device, struct weft_why *why);
int weft_p2p_distance(u64 address, struct pci_dev *device);

/* reach.c */
int weft_reach_init(void);
void weft_reach_exit(void);

/* import.c */
extern const struct dma_buf_attach_ops weft_import_ops;

/* export.c */
int weft_bar_init(void);
void weft_bar_exit(void);

#endif /* WEFT_P2P_INSIDE_H */
