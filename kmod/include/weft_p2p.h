/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What weft_p2p.ko offers: memory of other devices, by their exporters'
 * dma-bufs, as addresses that a device may use.
 *
 * DOC: life of an import
 *
 * weft_import_attach() asks the exporter whether the device may; then, any
 * number of times, weft_import_map() makes addresses and weft_import_unmap()
 * gives them back. The exporter may take the memory away at any time: it calls
 * @invalidate with the reservation lock held, under which the importer must
 * stop using the addresses, now, and unmap them. Afterwards they can be mapped
 * anew, unless the exporter has none for good.
 */
#ifndef WEFT_P2P_H
#define WEFT_P2P_H

#include <linux/dma-direction.h>
#include <linux/types.h>

#include "weft_why.h"

struct device;
struct dma_buf;
struct sg_table;
struct weft_import;

/**
 * struct weft_segment - memory that lies in one run for the device
 * @at: where it begins, in bytes from the beginning of the import's range
 * @length: in bytes
 * @address: for the device
 */
struct weft_segment {
	u64		at;
	u64		length;
	dma_addr_t	address;
};

/**
 * struct weft_segments - memory as a device sees it
 * @table: by @at, without gaps
 * @count: of @table
 */
struct weft_segments {
	struct weft_segment	*table;
	u32			count;
};

int weft_segments_make(struct weft_segments *segments, struct sg_table *sgt, u64 start,
		       u64 length, const char *whose, struct weft_why *why);
void weft_segments_free(struct weft_segments *segments);
const struct weft_segment *weft_segments_find(const struct weft_segments *segments, u64 at);

/**
 * struct weft_import_request - what is to be imported
 * @dmabuf: kept until weft_import_detach()
 * @start: where the range begins, in bytes
 * @length: of the range
 * @device: that will use it
 * @direction: of all its use
 * @invalidate: the addresses end; reservation lock held, may sleep, must unmap
 * @owner: for @invalidate
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
