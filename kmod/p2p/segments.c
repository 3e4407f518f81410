// SPDX-License-Identifier: GPL-2.0-only
/* Memory as a device sees it: a sorted table of contiguous segments. */
#include "../compat/compat.h"
#include "../include/weft_p2p.h"

#include <linux/module.h>
#include <linux/scatterlist.h>

/* Add a run, or extend the last segment if the run follows it. */
static void weft_segments_add(struct weft_segments *segments, dma_addr_t address, u64 length)
{
	struct weft_segment *last = segments->count ? &segments->table[segments->count - 1] : NULL;

	if (last && last->address + last->length == address) {
		last->length += length;
		return;
	}
	segments->table[segments->count++] = (struct weft_segment) {
		.at		= last ? last->at + last->length : 0,
		.length		= length,
		.address	= address,
	};
}

/* RDMA needs 4 KiB boundaries between segments, except at the first and last byte. */
static bool weft_segments_whole(const struct weft_segments *segments)
{
	u32 i;

	for (i = 1; i < segments->count; i++) {
		const struct weft_segment *last = &segments->table[i - 1];

		if (!IS_ALIGNED(segments->table[i].address, SZ_4K) ||
		    !IS_ALIGNED(last->address + last->length, SZ_4K))
			return false;
	}
	return true;
}

/**
 * weft_segments_make() - make the table for a range of a mapping
 * @segments: empty; set
 * @sgt: the mapping; only its DMA addresses are used, it may have no pages
 * @start: start of the range, in bytes
 * @length: length of the range, in bytes
 * @whose: name of the exporter, for messages
 * @why: gets the reason of a failure
 *
 * Context: process context.
 * Return: 0 or a negative errno. Call weft_segments_free() after an error, too.
 */
int weft_segments_make(struct weft_segments *segments, struct sg_table *sgt, u64 start,
		       u64 length, const char *whose, struct weft_why *why)
{
	u64 skip = start, left = length;
	struct scatterlist *sg;
	u32 i;

	segments->count = 0;
	segments->table = kvcalloc(sgt->nents, sizeof(*segments->table), GFP_KERNEL_ACCOUNT);
	if (!segments->table)
		return -ENOMEM;
	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 run = sg_dma_len(sg), from = min(skip, run);

		skip -= from;
		run = min(run - from, left);
		if (!run)
			continue;
		weft_segments_add(segments, sg_dma_address(sg) + from, run);
		left -= run;
	}
	if (left)
		return weft_refuse(why, -EINVAL, "%s mapped %llu bytes too few", whose, left);
	if (!weft_segments_whole(segments))
		return weft_refuse(why, -EOPNOTSUPP, "%s mapped pieces that are not whole pages",
				   whose);
	return 0;
}
EXPORT_SYMBOL_GPL(weft_segments_make);

/**
 * weft_segments_free() - undo weft_segments_make()
 * @segments: made or empty
 */
void weft_segments_free(struct weft_segments *segments)
{
	kvfree(segments->table);
	segments->table = NULL;
	segments->count = 0;
}
EXPORT_SYMBOL_GPL(weft_segments_free);

/**
 * weft_segments_find() - find the segment of a byte
 * @segments: not empty
 * @at: offset in the range, in bytes
 *
 * Context: any.
 * Return: the segment; the following ones are after it in the table.
 */
const struct weft_segment *weft_segments_find(const struct weft_segments *segments, u64 at)
{
	u32 low = 0, high = segments->count;

	while (high - low > 1) {
		u32 middle = low + (high - low) / 2;

		if (segments->table[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return &segments->table[low];
}
EXPORT_SYMBOL_GPL(weft_segments_find);
