/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface of weft_p2p.ko: maps the dma-bufs of other devices to addresses
 * that a device can use.
 *
 * DOC: life of an import
 *
 * weft_import_attach() asks the exporter whether the device may use the memory.
 * Then weft_import_map() and weft_import_unmap() may be called any number of
 * times. The exporter may revoke the addresses at any time: it calls
 * @invalidate with the reservation lock held. @invalidate must stop all use of
 * the addresses and unmap them before it returns. They can be mapped again
 * later, unless the exporter has withdrawn the memory permanently.
 */
#ifndef WEFT_P2P_H
#define WEFT_P2P_H

#include <linux/dma-direction.h>
#include <linux/types.h>

#include "weft_abi.h"
#include "weft_why.h"

struct device;
struct dma_buf;
struct sg_table;
struct weft_import;

/**
 * struct weft_segment - memory that is contiguous for the device
 * @at: its offset in the import's range, in bytes
 * @length: in bytes
 * @address: its DMA address
 */
struct weft_segment {
	u64		at;
	u64		length;
	dma_addr_t	address;
};

/**
 * struct weft_segments - memory as a device sees it
 * @table: the segments, sorted by @at, without gaps
 * @count: length of @table
 */
struct weft_segments {
	struct weft_segment	*table;
	u32			count;
};

#define weft_segments_make	WEFT_ABI(weft_segments_make)
int weft_segments_make(struct weft_segments *segments, struct sg_table *sgt, u64 start,
		       u64 length, const char *whose, struct weft_why *why);
void weft_segments_free(struct weft_segments *segments);
const struct weft_segment *weft_segments_find(const struct weft_segments *segments, u64 at);

/**
 * struct weft_import_request - arguments of weft_import_attach()
 * @dmabuf: the dma-buf; a reference is held until weft_import_detach()
 * @start: start of the range, in bytes
 * @length: length of the range, in bytes
 * @device: the device that will use it
 * @direction: DMA direction of all uses
 * @invalidate: called when the addresses are revoked, with the reservation lock
 *	held; may sleep, must unmap
 * @owner: argument of @invalidate
 */
struct weft_import_request {
	struct dma_buf		*dmabuf;
	u64			start;
	u64			length;
	struct device		*device;
	enum dma_data_direction	direction;
	void			(*invalidate)(void *owner);
	void			*owner;
};

#define weft_import_attach	WEFT_ABI(weft_import_attach)
struct weft_import *weft_import_attach(const struct weft_import_request *req,
				       struct weft_why *why);
void weft_import_detach(struct weft_import *import);
void weft_import_lock(struct weft_import *import);
void weft_import_unlock(struct weft_import *import);
int weft_import_map(struct weft_import *import, struct weft_why *why);
void weft_import_unmap(struct weft_import *import);
int weft_import_distance(const struct weft_import *import);
const struct weft_segments *weft_import_segments(const struct weft_import *import);

#endif /* WEFT_P2P_H */
