// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a command on registered memory is made of, and how it ends.
 *
 * DOC: the end of a command
 *
 * A command completes once, in its submitter's task, after its last bio or
 * part. It drops its references to the memory and the target earlier, where
 * the last bio or part completes, because the submitter may be waiting for
 * these references.
 */
#include "mem_io.h"

#define WEFT_MEM_DYING	(60 * HZ)

/* For work that takes the processor for long: a volume's own has the heartbeat. */
struct workqueue_struct *weft_mem_wq;
/* Of struct weft_mem_io. */
struct kmem_cache *weft_mem_io_cache;
DEFINE_PER_CPU(struct weft_stock, weft_mem_io_stock);

/**
 * weft_mem_unbounce() - undo weft_mem_bounce(), also after it failed
 * @io: the command
 *
 * Context: any.
 */
void weft_mem_unbounce(struct weft_mem_io *io)
{
	u32 i;

	for (i = 0; i < io->page_count; i++)
		__free_page(io->pages[i]);
	if (io->pages)
		kvfree_rcu(container_of(io->pages, struct weft_mem_buffer, pages[0]), rcu);
	atomic_sub(io->bounced, &io->mf->bounced);
}

/* Runs in the submitter's task, and completes the command. */
WEFT_URING_TW(weft_mem_io_done)
{
	struct io_uring_cmd *cmd = weft_uring_tw_cmd();
	struct weft_mem_io *io = *io_uring_cmd_to_pdu(cmd, struct weft_mem_io *);
	int ret = io->error ?: io->length - io->beyond;

	weft_mem_uncount(io->mf);
	weft_uring_tw_done(cmd, ret);
	/* Until then io_uring may cancel it: not all kernels hold the ring's lock here. */
	weft_mem_io_free(io);
}

/**
 * weft_mem_io_invalidate() - drop the pages of a command's range from the page cache
 * @io: the command
 *
 * Context: process context.
 * Return: 0 or a negative errno.
 */
int weft_mem_io_invalidate(struct weft_mem_io *io)
{
	return invalidate_inode_pages2_range(io->mf->mapping, io->offset >> PAGE_SHIFT,
					     (io->offset + io->length - 1) >> PAGE_SHIFT);
}

static void weft_mem_io_marked(struct weft_mem_mark *mark)
{
	weft_uring_in_task(mark->cmd, weft_mem_io_done);
}

/**
 * weft_mem_io_mark() - a part or a bio of a command waits: tell io_uring
 * @io: the command
 *
 * Context: any.
 */
void weft_mem_io_mark(struct weft_mem_io *io)
{
	weft_mem_mark(io->mf, &io->mark, io->cmd, weft_mem_io_marked);
}

static bool weft_mem_is_over(unsigned long since)
{
	return since && time_after(jiffies, since + WEFT_MEM_DYING);
}

/**
 * weft_mem_is_abandoned() - is the minute of an exiting submitter or a killed task over?
 * @io: the command
 *
 * Context: any.
 * Return: true if the command is held no longer.
 */
bool weft_mem_is_abandoned(const struct weft_mem_io *io)
{
	return weft_mem_is_over(READ_ONCE(io->cancelled)) ||
	       weft_mem_is_over(READ_ONCE(io->mf->dying)) ||
	       weft_mem_is_over(READ_ONCE(io->mf->killed_at));
}

/* Another process read the range into the page cache during the write. */
static void weft_mem_io_drop(struct work_struct *work)
{
	struct weft_mem_io *io = container_of(work, struct weft_mem_io, work);

	/* Pages that stay belong to another process that writes there, too. */
	weft_mem_io_invalidate(io);
	weft_mem_io_finish(io, false);
}

/**
 * weft_mem_io_end_cached() - end a write whose range was read into the page cache meanwhile
 * @io: the command; it may be gone afterwards
 *
 * Context: any.
 */
void weft_mem_io_end_cached(struct weft_mem_io *io)
{
	INIT_WORK(&io->work, weft_mem_io_drop);
	/* It waits for readers of these pages, whose I/O is this volume's. */
	queue_work(io->mf->node->wq, &io->work);
}

int weft_mem_cmd_init(void)
{
	BUILD_BUG_ON(offsetof(struct weft_memory, ref) ||
		     offsetof(struct weft_mem_target_ref, ref));
	weft_mem_io_cache = KMEM_CACHE(weft_mem_io, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!weft_mem_io_cache)
		return -ENOMEM;
	weft_mem_wq = alloc_workqueue("weft-mem", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (weft_mem_wq)
		return 0;
	kmem_cache_destroy(weft_mem_io_cache);
	return -ENOMEM;
}

void weft_mem_cmd_exit(void)
{
	destroy_workqueue(weft_mem_wq);
	weft_stock_empty(&weft_mem_io_stock, weft_mem_io_cache);
	kmem_cache_destroy(weft_mem_io_cache);
}
