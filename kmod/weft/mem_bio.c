// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands whose memory has pages, or whose bytes are copied through host
 * pages: they are bios to the volume's block device, which handles chunks, paths
 * and lost paths.
 */
#include "mem_io.h"

/* Copy from the bounce buffer to the memory after a read. */
static void weft_mem_io_copy(struct work_struct *work)
{
	struct weft_mem_io *io = container_of(work, struct weft_mem_io, work);

	weft_memory_copy(io->memory, io->at, io->pages, io->length, false);
	weft_mem_io_end(io, false);
}

/* Context: any. */
static void weft_mem_io_put(struct weft_mem_io *io)
{
	if (!atomic_dec_and_test(&io->remaining))
		return;
	if (io->pages && io->op == REQ_OP_READ && !io->error)
		queue_work(weft_mem_wq, &io->work);
	else
		weft_mem_io_end(io, false);
}

static void weft_mem_bio_over(struct weft_mem_io *io, struct bio *bio, int error)
{
	/* Keep any one of several errors. */
	if (unlikely(error))
		WRITE_ONCE(io->error, error);
	bio_put(bio);
	weft_mem_io_put(io);
}

static void weft_mem_bio_again_work(struct work_struct *work)
{
	struct bio *bio = &container_of(work, struct weft_mem_bio, again)->bio;
	struct weft_mem_io *io = bio->bi_private;

	bio_set_dev(bio, io->mf->vol->disk->part0);
	submit_bio_noacct(bio);
}

/* Submit a bio again, where it may wait, for example for a tag. */
static noinline void weft_mem_bio_again(struct weft_mem_io *io, struct bio *bio)
{
	struct weft_mem_bio *mem_bio = container_of(bio, struct weft_mem_bio, bio);

	/* As in weft_io_retry(). */
	atomic_set(&bio->__bi_remaining, 1);
	bio->bi_status = BLK_STS_OK;
	bio->bi_iter = mem_bio->start;
	bio->bi_opf &= ~REQ_NOWAIT;
	/* Of the bios that the block layer had merged with it. */
	bio->bi_next = NULL;
	weft_qos_keep_class(io->mf->vol, io->class, bio);
	weft_bio_forget_queue(bio);
	INIT_WORK(&mem_bio->again, weft_mem_bio_again_work);
	queue_work(io->mf->node->wq, &mem_bio->again);
}

/* Hold the bio of a read until the lease is there. */
static noinline void weft_mem_bio_hold(struct weft_mem_io *io, struct bio *bio)
{
	struct weft_mem_node *node = io->mf->node;
	unsigned long flags;

	spin_lock_irqsave(&node->held_lock, flags);
	bio_list_add(&node->held_bios, bio);
	/* Under the lock: after it, the bio and the file may be gone. */
	queue_delayed_work(weft_mem_wq, &node->held_work, WEFT_MEM_AGAIN);
	spin_unlock_irqrestore(&node->held_lock, flags);
}

/**
 * weft_mem_held_bios() - submit held bios, or fail them
 * @node: the volume's device
 *
 * Context: process context; does not sleep.
 */
void weft_mem_held_bios(struct weft_mem_node *node)
{
	struct bio_list bios;
	struct bio *bio;

	spin_lock_irq(&node->held_lock);
	bios = node->held_bios;
	bio_list_init(&node->held_bios);
	spin_unlock_irq(&node->held_lock);
	while ((bio = bio_list_pop(&bios))) {
		struct weft_mem_io *io = bio->bi_private;

		weft_mem_io_mark(io);
		if (!weft_mem_lacks_lease(io))
			weft_mem_bio_again(io, bio);
		/* A cancelled read fails at once: its submitter exits. */
		else if (weft_owner_waits(io->mf->vol) && !READ_ONCE(io->cancelled) &&
			 !weft_mem_is_abandoned(io))
			weft_mem_bio_hold(io, bio);
		else
			weft_mem_bio_over(io, bio, -EIO);
	}
}

static void weft_mem_end_bio(struct bio *bio)
{
	struct weft_mem_io *io = bio->bi_private;

	/* The submitter must not wait, and the bio has to: nothing of it was issued. */
	if (unlikely(bio->bi_status == BLK_STS_AGAIN && bio->bi_opf & REQ_NOWAIT))
		weft_mem_bio_again(io, bio);
	/* Another host may have had the volume when the bytes were read. */
	else if (!bio->bi_status && io->op == REQ_OP_READ && weft_mem_lacks_lease(io))
		weft_mem_bio_hold(io, bio);
	else
		weft_mem_bio_over(io, bio, unlikely(bio->bi_status) ?
					   blk_status_to_errno(bio->bi_status) : 0);
}

/*
 * A bio of few pages is part of what one command costs. Those of a long command are
 * the caller's memory: nothing else limits how many commands wait.
 */
#define WEFT_MEM_FEW_PAGES	4

static gfp_t weft_mem_bio_gfp(const struct weft_mem_io *io, u32 vecs)
{
	return vecs > WEFT_MEM_FEW_PAGES || atomic_read(&io->remaining) > 1 ?
		       GFP_KERNEL_ACCOUNT : GFP_KERNEL;
}

static struct bio *weft_mem_bio(struct weft_mem_io *io, sector_t sector, u32 vecs, blk_opf_t opf)
{
	struct bio *bio = bio_alloc_bioset(io->mf->vol->disk->part0, vecs, io->op | opf,
					   weft_mem_bio_gfp(io, vecs), &io->mf->node->bios);

	bio->bi_iter.bi_sector = sector;
	bio->bi_private = io;
	bio->bi_ioprio = io->ioprio;
	bio->bi_end_io = weft_mem_end_bio;
	atomic_inc(&io->remaining);
	return bio;
}

/* Add pages to a bio. Returns the number of bytes added, in whole blocks. */
static u32 weft_mem_fill(struct bio *bio, struct page **pages, u64 from, u32 length)
{
	u32 block = queue_logical_block_size(bdev_get_queue(bio->bi_bdev)) - 1, filled = 0;

	while (filled < length) {
		u64 at = from + filled;
		u32 n = min_t(u32, length - filled, PAGE_SIZE - offset_in_page(at));

		if (bio_add_page(bio, pages[at >> PAGE_SHIFT], n, offset_in_page(at)) != n)
			break;
		filled += n;
	}
	/* If the data starts within a page, the bio may end within a block. */
	filled &= ~block;
	bio->bi_iter.bi_size = filled;
	return filled;
}

/* How many bytes from there on neither the volume nor a member's queue splits. */
static u64 weft_mem_piece(const struct weft_volume *vol, u64 at)
{
	sector_t sectors = weft_map_contiguous(&vol->map, at >> SECTOR_SHIFT);

	return (u64)weft_unsplit(vol, at >> SECTOR_SHIFT, sectors) << SECTOR_SHIFT;
}

/**
 * weft_mem_submit_bios() - submit a command by bios
 * @io: the command; its memory has pages, or it has a bounce buffer
 * @may_wait: the submitter may wait, for example for a tag. Otherwise a bio that
 *	has to wait goes to a worker
 *
 * Drops the submitter's count in @io->remaining.
 *
 * Context: process context.
 */
void weft_mem_submit_bios(struct weft_mem_io *io, bool may_wait)
{
	blk_opf_t opf = io->op == REQ_OP_WRITE ? REQ_SYNC | REQ_IDLE : REQ_SYNC;
	struct page **pages = io->pages ?: io->memory->pages;
	u64 from = io->pages ? 0 : io->memory->first + io->at;
	struct weft_volume *vol = io->mf->vol;
	struct blk_plug plug;
	u32 done = 0;

	if (!may_wait && bdev_nowait(vol->disk->part0))
		opf |= REQ_NOWAIT;
	blk_start_plug(&plug);
	while (done < io->length) {
		struct weft_run run = weft_mem_run(io, io->offset + done);
		u64 at = from + done;
		u32 left = min3((u64)(io->length - done), run.length,
				weft_mem_piece(vol, run.at));
		u32 vecs = min_t(u32, DIV_ROUND_UP(offset_in_page(at) + left, PAGE_SIZE),
				 BIO_MAX_VECS);
		struct bio *bio = weft_mem_bio(io, run.at >> SECTOR_SHIFT, vecs, opf);
		u32 filled = weft_mem_fill(bio, pages, at, left);

		/* Pages of two kinds, such as a device's, do not share a bio. */
		if (unlikely(!filled)) {
			bio->bi_status = BLK_STS_INVAL;
			bio_endio(bio);
			break;
		}
		done += filled;
		container_of(bio, struct weft_mem_bio, bio)->start = bio->bi_iter;
		/* By its size, it may be of another class than the command. */
		if (unlikely(io->class == WEFT_IO_CLASS_BACKGROUND))
			weft_qos_keep_class(vol, io->class, bio);
		/* The volume's disk holds writes without the lease, but not reads. */
		if (io->op == REQ_OP_READ && weft_mem_lacks_lease(io)) {
			/* As submit_bio() does: here is the task. */
			if (!bio->bi_ioprio)
				bio->bi_ioprio = get_current_ioprio();
			weft_mem_bio_hold(io, bio);
		} else {
			submit_bio(bio);
		}
	}
	blk_finish_plug(&plug);
	weft_mem_io_put(io);
}

/**
 * weft_mem_submit_flush() - submit a flush
 * @io: the command; it has no memory
 *
 * Drops the submitter's count in @io->remaining.
 *
 * Context: process context.
 */
void weft_mem_submit_flush(struct weft_mem_io *io)
{
	submit_bio(weft_mem_bio(io, 0, 0, REQ_PREFLUSH | REQ_SYNC));
	weft_mem_io_put(io);
}

/**
 * weft_mem_bounce() - allocate a bounce buffer
 * @io: the command
 *
 * For a write, also copy the bytes to it. Undo by weft_mem_unbounce(), also
 * after an error.
 *
 * Context: process context.
 * Return: 0, -EBUSY for too many bounce pages of its file, or -ENOMEM.
 */
int weft_mem_bounce(struct weft_mem_io *io)
{
	u32 count = DIV_ROUND_UP(io->length, PAGE_SIZE);
	struct weft_mem_buffer *buffer;

	INIT_WORK(&io->work, weft_mem_io_copy);
	io->bounced = count;
	if (atomic_add_return(count, &io->mf->bounced) > WEFT_MEM_BOUNCE_MAX >> PAGE_SHIFT)
		return -EBUSY;
	buffer = kvzalloc(struct_size(buffer, pages, count), GFP_KERNEL_ACCOUNT);
	if (!buffer)
		return -ENOMEM;
	io->pages = buffer->pages;
	for (; io->page_count < count; io->page_count++) {
		io->pages[io->page_count] = alloc_page(GFP_KERNEL_ACCOUNT);
		if (!io->pages[io->page_count])
			return -ENOMEM;
	}
	if (io->op == REQ_OP_WRITE)
		weft_memory_copy(io->memory, io->at, io->pages, io->length, true);
	return 0;
}
