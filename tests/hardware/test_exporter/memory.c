// SPDX-License-Identifier: GPL-2.0-only
/* Memory: taken from the host or the BAR, poisoned when it is taken back, and looked at after that. */
#include "exporter.h"

#include <linux/bitmap.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "taken_back.h"

#define EXPORTER_POISON	0xdb

/* Protects exporter_bar and what was taken back. */
DEFINE_MUTEX(exporter_lock);
struct exporter_bar exporter_bar;

static LIST_HEAD(exporter_back);
/* Pages in it, of which there are so many at most; and what exporter_check() will return. */
static u32 exporter_kept;
#define EXPORTER_KEPT_MAX	(SZ_512M >> PAGE_SHIFT)
static u64 exporter_strays;

static void exporter_memory_free(struct exporter_memory *mem)
{
	u32 i;

	if (mem->pages) {
		for (i = 0; i < mem->count && mem->pages[i]; i++)
			__free_page(mem->pages[i]);
		kvfree(mem->pages);
	} else {
		iounmap(mem->map);
		bitmap_clear(exporter_bar.used, mem->slot, mem->count);
	}
	kfree(mem);
}

static int exporter_alloc_run(struct exporter_memory *mem)
{
	unsigned int order = get_order((unsigned long)mem->count << PAGE_SHIFT);
	struct page *run;
	u32 i;

	if (order > MAX_PAGE_ORDER)
		return -EINVAL;
	run = alloc_pages(GFP_KERNEL | __GFP_ZERO, order);
	if (!run)
		return -ENOMEM;
	split_page(run, order);
	for (i = 0; i < 1U << order; i++) {
		if (i < mem->count)
			mem->pages[i] = run + i;
		else
			__free_page(run + i);
	}
	return 0;
}

/* Each page by itself, those that lie one after another the other way round. */
static int exporter_alloc_pieces(struct exporter_memory *mem)
{
	u32 i;

	for (i = 0; i < mem->count; i++) {
		mem->pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!mem->pages[i])
			return -ENOMEM;
	}
	for (i = 0; i + 1 < mem->count; i++)
		if (page_to_pfn(mem->pages[i]) + 1 == page_to_pfn(mem->pages[i + 1]))
			swap(mem->pages[i], mem->pages[i + 1]);
	return 0;
}

static int exporter_alloc_bar(struct exporter_memory *mem)
{
	unsigned long slot;

	lockdep_assert_held(&exporter_lock);
	if (!exporter_bar.pdev)
		return -ENODEV;
	slot = bitmap_find_next_zero_area(exporter_bar.used, exporter_bar.pages, 0, mem->count, 0);
	if (slot >= exporter_bar.pages)
		return -ENOSPC;
	mem->bar = exporter_bar.start + ((phys_addr_t)slot << PAGE_SHIFT);
	mem->map = (void __force *)ioremap_wc(mem->bar, (size_t)mem->count << PAGE_SHIFT);
	if (!mem->map)
		return -ENOMEM;
	mem->slot = slot;
	bitmap_set(exporter_bar.used, slot, mem->count);
	memset_io((void __iomem __force *)mem->map, 0, (size_t)mem->count << PAGE_SHIFT);
	return 0;
}

/**
 * exporter_memory_alloc() - memory of zeroes
 * @count: pages
 * @flags: EXPORTER_ONE_RUN, EXPORTER_BAR
 *
 * Return: it, until exporter_memory_take_back(), or an ERR_PTR.
 */
struct exporter_memory *exporter_memory_alloc(u32 count, u32 flags)
{
	struct exporter_memory *mem = kzalloc_obj(*mem);
	int ret;

	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->count = count;
	INIT_LIST_HEAD(&mem->list);
	if (flags & EXPORTER_BAR) {
		mutex_lock(&exporter_lock);
		ret = exporter_alloc_bar(mem);
		mutex_unlock(&exporter_lock);
		if (ret)
			kfree(mem);
		return ret ? ERR_PTR(ret) : mem;
	}
	mem->pages = kvcalloc(count, sizeof(*mem->pages), GFP_KERNEL);
	if (!mem->pages) {
		kfree(mem);
		return ERR_PTR(-ENOMEM);
	}
	ret = flags & EXPORTER_ONE_RUN ? exporter_alloc_run(mem) : exporter_alloc_pieces(mem);
	if (ret) {
		exporter_memory_free(mem);
		return ERR_PTR(ret);
	}
	return mem;
}

/* The CPU's address of a page. */
static u8 *exporter_memory_page(struct exporter_memory *mem, u32 page)
{
	if (mem->pages)
		return page_address(mem->pages[page]);
	return mem->map + ((size_t)page << PAGE_SHIFT);
}

unsigned long exporter_memory_pfn(struct exporter_memory *mem, u32 page)
{
	return mem->pages ? page_to_pfn(mem->pages[page]) : PHYS_PFN(mem->bar) + page;
}

void exporter_memory_copy(struct exporter_memory *to, struct exporter_memory *from)
{
	u32 i;

	for (i = 0; i < to->count; i++)
		memcpy(exporter_memory_page(to, i), exporter_memory_page(from, i), PAGE_SIZE);
}

/* Bytes of a page that was taken back that were written, and how often it was reached. */
static u64 exporter_check_page(struct exporter_memory *mem, u32 i)
{
	u8 *page = exporter_memory_page(mem, i), *at = page;
	u64 strays = 0;

	while ((at = memchr_inv(at, EXPORTER_POISON, page + PAGE_SIZE - at))) {
		strays++;
		at++;
	}
	if (mem->pages) {
		strays += exporter_page_touches(mem->pages[i]);
		set_page_private(mem->pages[i], 0);
	}
	return strays;
}

/* Look at memory that was taken back, and free it. */
static void exporter_let_go(struct exporter_memory *mem)
{
	u32 i;

	lockdep_assert_held(&exporter_lock);
	for (i = 0; i < mem->count; i++)
		exporter_strays += exporter_check_page(mem, i);
	exporter_kept -= mem->count;
	list_del(&mem->list);
	exporter_memory_free(mem);
}

/**
 * exporter_memory_take_back() - end the use of memory
 * @mem: poisoned, and kept until exporter_check(), or until there is too much
 */
void exporter_memory_take_back(struct exporter_memory *mem)
{
	u32 i;

	for (i = 0; i < mem->count; i++) {
		memset(exporter_memory_page(mem, i), EXPORTER_POISON, PAGE_SIZE);
		if (mem->pages)
			set_page_private(mem->pages[i], EXPORTER_TAKEN_BACK);
	}
	mutex_lock(&exporter_lock);
	list_add_tail(&mem->list, &exporter_back);
	exporter_kept += mem->count;
	/* What moves for long leaves more behind than a guest has. */
	while (exporter_kept > EXPORTER_KEPT_MAX)
		exporter_let_go(list_first_entry(&exporter_back, struct exporter_memory, list));
	mutex_unlock(&exporter_lock);
}

/**
 * exporter_check() - was memory used that had been taken back?
 *
 * What is looked at is let go.
 *
 * Return: how many bytes were written, and by how many accesses of the adapter
 * it was read or written, since the last call.
 */
u64 exporter_check(void)
{
	struct exporter_memory *mem, *next;
	u64 strays;

	mutex_lock(&exporter_lock);
	list_for_each_entry_safe(mem, next, &exporter_back, list)
		exporter_let_go(mem);
	strays = exporter_strays;
	exporter_strays = 0;
	mutex_unlock(&exporter_lock);
	return strays;
}
