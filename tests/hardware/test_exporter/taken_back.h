/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the exporter hears of reads that come too late: they leave no trace in
 * memory. What page_private() is of a page of the host's that it took back; who
 * reaches that page by DMA (tests/hardware/softhca) adds one.
 */
#ifndef WEFT_TEST_TAKEN_BACK_H
#define WEFT_TEST_TAKEN_BACK_H

#include <linux/mm.h>

#define EXPORTER_TAKEN_BACK	0x57ef7000000UL
#define EXPORTER_TOUCHES_MAX	0xffffffUL

static inline bool exporter_page_is_back(const struct page *page)
{
	return (page_private(page) & ~EXPORTER_TOUCHES_MAX) == EXPORTER_TAKEN_BACK;
}

static inline void exporter_page_touched(struct page *page)
{
	if (exporter_page_is_back(page))
		set_page_private(page, page_private(page) + 1);
}

static inline unsigned long exporter_page_touches(const struct page *page)
{
	return page_private(page) & EXPORTER_TOUCHES_MAX;
}

#endif /* WEFT_TEST_TAKEN_BACK_H */
