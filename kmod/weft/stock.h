/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stock of free objects on each CPU, in front of a slab cache. Allocation and
 * release cost 20 instructions for each I/O here, and some hundred in the slab
 * allocator. Only its own CPU uses a stock.
 *
 * An object stays charged to the cgroup that has allocated it first. A stock has few.
 *
 * Objects keep their bytes, except the first eight, which link free objects. Where
 * KASAN looks for uses after a free, every object comes from the cache and goes
 * back there.
 */
#ifndef WEFT_STOCK_H
#define WEFT_STOCK_H

#include <linux/percpu.h>
#include <linux/slab.h>

/**
 * struct weft_stock - free objects of one CPU; zeroed at first
 * @head: the first to allocate; the first bytes of each point to the next. Only tasks
 *	use it, with preemption off
 * @freed: the last that was freed, likewise; any context adds to it. When @head is
 *	empty, all of them move there
 * @count: length of @freed
 */
struct weft_stock {
	void		*head;
	void		*freed;
	unsigned int	count;
};

#define WEFT_STOCK_MAX	64

void *weft_stock_refill(struct weft_stock __percpu *stock);
void weft_stock_empty(struct weft_stock __percpu *stock, struct kmem_cache *cache);

/**
 * weft_stock_alloc() - take an object
 * @stock: of all CPUs
 * @cache: where the objects are from
 * @gfp: for an object of the cache
 *
 * Context: any that @gfp allows.
 * Return: an object that is not initialized, or NULL if there is no memory.
 */
static __always_inline void *weft_stock_alloc(struct weft_stock __percpu *stock,
					      struct kmem_cache *cache, gfp_t gfp)
{
	void *object;

	/* A driver above this one may submit where it must not; its bio must not break others. */
	if (IS_ENABLED(CONFIG_KASAN) || unlikely(!in_task()))
		return kmem_cache_alloc(cache, gfp);
	preempt_disable();
	object = __this_cpu_read(stock->head);
	if (unlikely(!object))
		object = weft_stock_refill(stock);
	if (likely(object))
		__this_cpu_write(stock->head, *(void **)object);
	preempt_enable();
	return likely(object) ? object : kmem_cache_alloc(cache, gfp);
}

/**
 * weft_stock_free() - give an object back
 * @stock: of all CPUs
 * @cache: where it is from
 * @object: from weft_stock_alloc()
 *
 * Context: any.
 */
static __always_inline void weft_stock_free(struct weft_stock __percpu *stock,
					    struct kmem_cache *cache, void *object)
{
	void *last;

	if (IS_ENABLED(CONFIG_KASAN) ||
	    unlikely(this_cpu_read(stock->count) >= WEFT_STOCK_MAX)) {
		kmem_cache_free(cache, object);
		return;
	}
	this_cpu_inc(stock->count);
	/* If this moves to another CPU in between, its last one differs, or is the same: both are right. */
	do {
		last = this_cpu_read(stock->freed);
		*(void **)object = last;
	} while (this_cpu_cmpxchg(stock->freed, last, object) != last);
}

#endif /* WEFT_STOCK_H */
