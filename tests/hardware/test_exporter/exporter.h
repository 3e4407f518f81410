/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * weft_test_exporter: dma-bufs that behave as real exporters do at their worst.
 *
 * DOC: what it models
 *
 * A GPU driver's exporter: memory in this host or in the BAR of a PCI function
 * (bound by driver_override; the lab uses ivshmem's), with or without pin, with
 * or without vmap, that moves on command, is revoked for good, refuses to be
 * attached or is slow to unmap, in 4 KiB pieces that never lie one after
 * another or in one run. Memory that it takes back (moved away from, revoked,
 * released) is filled with a pattern and kept: whoever writes to it later is
 * found, and by taken_back.h what the test adapter reads. It may move while it
 * is being pinned, as amdgpu does. As TTM does, it takes memory back when the fences of the reservation
 * object have signaled, not when the last mapping is gone.
 *
 * DOC: what it does not
 *
 * Allocation on demand, implicit fences of its own, CPU caches.
 *
 * DOC: locks
 *
 * A buffer's memory and counts are under its dma-buf's reservation lock; the
 * memory that was taken back is under exporter_lock, a mutex.
 */
#ifndef WEFT_TEST_EXPORTER_H
#define WEFT_TEST_EXPORTER_H

#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/types.h>

#include "uapi.h"

#define EXPORTER_MAX	SZ_256M

/**
 * struct exporter_memory - some memory
 * @list: of what was taken back
 * @count: pages
 * @pages: host memory, or NULL
 * @bar: the first address in the BAR otherwise
 * @slot: and its place there
 * @map: of that for the CPU
 */
struct exporter_memory {
	struct list_head	list;
	u32			count;
	struct page		**pages;
	phys_addr_t		bar;
	u32			slot;
	void			*map;
};

/* The PCI function that is bound, or NULL; under exporter_lock, it stays while a buffer is in it. */
struct exporter_bar {
	struct pci_dev		*pdev;
	struct p2pdma_provider	*provider;
	phys_addr_t		start;
	u32			pages;
	unsigned long		*used;
};

extern struct mutex exporter_lock;
extern struct exporter_bar exporter_bar;

/* memory.c */
struct exporter_memory *exporter_memory_alloc(u32 count, u32 flags);
void exporter_memory_take_back(struct exporter_memory *mem);
void exporter_memory_copy(struct exporter_memory *to, struct exporter_memory *from);
unsigned long exporter_memory_pfn(struct exporter_memory *mem, u32 page);
u64 exporter_check(void);

/* buffer.c */
int exporter_create(struct exporter_create *req);
int exporter_move(int fd);
int exporter_revoke(int fd);
int exporter_stats(struct exporter_stats *stats);

#endif /* WEFT_TEST_EXPORTER_H */
