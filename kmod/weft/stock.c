// SPDX-License-Identifier: GPL-2.0-only
/* Stocks of free objects: what is not done for each I/O. */
#include "stock.h"

/**
 * weft_stock_refill() - take what was freed on this CPU
 * @stock: of all CPUs; this one has no head
 *
 * Context: a task, with preemption off. An object that is freed here meanwhile is
 * counted at most once too little.
 * Return: the first of the objects, or NULL.
 */
void *weft_stock_refill(struct weft_stock __percpu *stock)
{
	void *object = this_cpu_xchg(stock->freed, NULL);

	this_cpu_write(stock->count, 0);
	return object;
}

static void weft_objects_free(void *object, struct kmem_cache *cache)
{
	while (object) {
		void *next = *(void **)object;

		kmem_cache_free(cache, object);
		object = next;
	}
}

/**
 * weft_stock_empty() - free the objects of all CPUs
 * @stock: of all CPUs; nothing uses it any more
 * @cache: where they are from
 *
 * Context: process context.
 */
void weft_stock_empty(struct weft_stock __percpu *stock, struct kmem_cache *cache)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct weft_stock *one = per_cpu_ptr(stock, cpu);

		weft_objects_free(one->head, cache);
		weft_objects_free(one->freed, cache);
		*one = (struct weft_stock) {};
	}
}
