// SPDX-License-Identifier: GPL-2.0-only
/*
 * The way of a bio down to its member.
 *
 * DOC: two paths
 *
 * A bio is remapped in place and sent on: no copy of it is made. While the
 * queue's iostats are on, it is also tracked: its completion is led through
 * weft_end_io() by putting our own bi_end_io and bi_private in place of the
 * submitter's, which are kept in a struct weft_io and put back before the
 * submitter hears of it. This is what dm targets do with dm_bio_record(), and
 * a third of the instructions of a clone. With iostats off nothing needs the
 * completion and nothing is done for it.
 *
 * DOC: splits
 *
 * A bio that crosses into another member is split at the border; the front
 * goes down, the rest is submitted to the volume again. So at most one
 * fragment is allocated in each call, and it can complete before the next is
 * needed: the mempools cannot deadlock.
 *
 * With REQ_NOWAIT the fragments carry it too, and are cut to what a member
 * takes without splitting again, so nobody waits for a request on the
 * submitter's time. A fragment may be turned away for that when others are on
 * their way, and to fail the whole would hide what was done. So such a bio is
 * always tracked, and if it ends with BLK_STS_AGAIN it is done again from its
 * start where it may wait. That writes the same data twice at worst. The
 * submitter sees BLK_STS_AGAIN only when nothing was issued.
 *
 * Nothing here takes a lock, and nothing is written that another cpu writes.
 */
#include "weft.h"

#include <linux/timekeeping.h>
#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

#define WEFT_IO_FRAGMENT	BIT(0)	/* @whole is set and not @bdev */
#define WEFT_IO_ACCOUNTED	BIT(1)	/* in the disk's iostats */
#define WEFT_IO_RETRY		BIT(2)	/* from @iter, if a fragment is turned away */

/**
 * struct weft_io - what is kept of a tracked bio until it completes
 * @vol: the volume
 * @end_io: the submitter's
 * @private: the submitter's
 * @bdev: where the bio was submitted, to be accounted there
 * @whole: instead, tracking of the bio that this is a fragment of
 * @start: when it was submitted, in jiffies
 * @member: where it went, NULL until then
 * @sent: when that was, in nanoseconds
 * @sectors: how many the bio had
 * @group: enum weft_stat_group
 * @flags: WEFT_IO_*
 * @part_failed: a fragment of this bio failed, so its status is not @member's
 * @iter: where a retry starts from
 */
struct weft_io {
	struct weft_volume	*vol;
	bio_end_io_t		*end_io;
	void			*private;
	union {
		struct block_device	*bdev;
		struct weft_io		*whole;
	};
	unsigned long		start;
	struct weft_member	*member;
	u64			sent;
	u32			sectors;
	u8			group;
	u8			flags;
	bool			part_failed;
	struct bvec_iter	iter;
};

/* What bio_chain() puts into a bio: the one bi_end_io that is not for calling. */
static bio_end_io_t *weft_chain_end_io __ro_after_init;

static struct kmem_cache *weft_io_cache;
static mempool_t *weft_io_pool;

#define WEFT_IO_RESERVE	256

/**
 * struct weft_io_stock - a cpu's own few struct weft_io, ready for use
 * @head: the first; each holds the next in @private
 * @count: how many
 *
 * Taking from the slab and giving back costs 300 instructions an I/O, this 30.
 * Touched with interrupts off, by its cpu alone.
 */
struct weft_io_stock {
	struct weft_io	*head;
	unsigned int	count;
};

#define WEFT_IO_STOCK_MAX	64

static DEFINE_PER_CPU(struct weft_io_stock, weft_io_stocks);

static struct weft_io *weft_io_alloc(gfp_t gfp)
{
	struct weft_io_stock *stock;
	unsigned long irqflags;
	struct weft_io *io;

	local_irq_save(irqflags);
	stock = this_cpu_ptr(&weft_io_stocks);
	io = stock->head;
	if (likely(io)) {
		stock->head = io->private;
		stock->count--;
	}
	local_irq_restore(irqflags);
	return likely(io) ? io : mempool_alloc(weft_io_pool, gfp);
}

static void weft_io_free(struct weft_io *io)
{
	struct weft_io_stock *stock;
	unsigned long irqflags;

	/*
	 * While the pool lacks some of its reserve somebody may wait for it,
	 * and everything freed must go back there.
	 */
	if (unlikely(READ_ONCE(weft_io_pool->curr_nr) < weft_io_pool->min_nr)) {
		mempool_free(io, weft_io_pool);
		return;
	}
	local_irq_save(irqflags);
	stock = this_cpu_ptr(&weft_io_stocks);
	if (likely(stock->count < WEFT_IO_STOCK_MAX)) {
		io->private = stock->head;
		stock->head = io;
		stock->count++;
		io = NULL;
	}
	local_irq_restore(irqflags);
	if (unlikely(io))
		mempool_free(io, weft_io_pool);
}

static void weft_io_stocks_empty(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct weft_io_stock *stock = per_cpu_ptr(&weft_io_stocks, cpu);
		struct weft_io *io;

		while ((io = stock->head)) {
			stock->head = io->private;
			mempool_free(io, weft_io_pool);
		}
		stock->count = 0;
	}
}

static enum weft_stat_group weft_stat_group(const struct bio *bio)
{
	if (op_is_discard(bio->bi_opf))
		return WEFT_STAT_DISCARD;
	return op_is_write(bio_op(bio)) ? WEFT_STAT_WRITE : WEFT_STAT_READ;
}

static void weft_member_done(struct weft_io *io, struct bio *bio)
{
	struct weft_member *member = io->member;
	u64 nsecs = ktime_get_ns() - io->sent;

	this_cpu_add(member->stats->nsecs[io->group], nsecs);
	trace_weft_done(member, nsecs, bio->bi_status);
	if (likely(!bio->bi_status) || READ_ONCE(io->part_failed))
		return;
	/* What the caller asked not to wait for is no fault of the member. */
	if (bio->bi_status == BLK_STS_AGAIN)
		return;
	if (io->flags & WEFT_IO_FRAGMENT)
		WRITE_ONCE(io->whole->part_failed, true);
	weft_volume_member_failed(member);
}

/*
 * All fragments have completed. The bio keeps its tracking and starts again;
 * what has ended with the first try (chain, cgroup) is set up by submission.
 */
static void weft_io_retry(struct weft_io *io, struct bio *bio)
{
	io->flags &= ~WEFT_IO_RETRY;
	io->member = NULL;
	io->part_failed = false;
	/* Counted down to zero, and not set up again by bio_chain(). */
	atomic_set(&bio->__bi_remaining, 1);
	bio->bi_status = BLK_STS_OK;
	bio->bi_iter = io->iter;
	bio_set_dev(bio, io->bdev);
	weft_defer(io->vol, bio);
}

static void weft_end_io(struct bio *bio)
{
	struct weft_io *io = bio->bi_private;
	struct weft_volume *vol = io->vol;

	if (io->member)
		weft_member_done(io, bio);
	if (unlikely(bio->bi_status == BLK_STS_AGAIN) &&
	    io->flags & WEFT_IO_RETRY) {
		weft_io_retry(io, bio);
		return;
	}
	if (io->flags & WEFT_IO_ACCOUNTED)
		weft_acct_end(io->bdev, io->sectors, bio_op(bio), io->start);
	bio->bi_end_io = io->end_io;
	bio->bi_private = io->private;
	weft_io_free(io);
	/*
	 * bio_endio() has run, so what is left is the call. But of a chained
	 * bio it is bio_endio() that goes on to the parent, and that has
	 * nothing to undo twice.
	 */
	if (unlikely(bio->bi_end_io == weft_chain_end_io))
		bio_endio(bio);
	else if (bio->bi_end_io)
		bio->bi_end_io(bio);
	/* The volume may be gone after this, see weft_volume_drain(). */
	this_cpu_dec(*vol->in_flight);
}

/* The tracking of a bio that came by here before, such as a split's rest. */
static struct weft_io *weft_io_of(struct weft_volume *vol, struct bio *bio)
{
	struct weft_io *io = bio->bi_private;

	/* A volume may be a member of another: the function alone says nothing. */
	return bio->bi_end_io == weft_end_io && io->vol == vol ? io : NULL;
}

/* Lead a bio's completion through weft_end_io(). NULL where memory lacks. */
static __always_inline struct weft_io *
weft_io_start(struct weft_volume *vol, struct bio *bio, bool accounted,
	      gfp_t gfp)
{
	struct weft_io *io;

	io = weft_io_alloc(gfp);
	if (unlikely(!io))
		return NULL;
	this_cpu_inc(*vol->in_flight);
	io->vol = vol;
	io->end_io = bio->bi_end_io;
	io->private = bio->bi_private;
	io->bdev = bio->bi_bdev;
	io->member = NULL;
	io->sectors = bio_sectors(bio);
	io->group = weft_stat_group(bio);
	io->flags = accounted ? WEFT_IO_ACCOUNTED : 0;
	io->part_failed = false;
	if (accounted)
		io->start = weft_acct_start(io->bdev, io->sectors, bio_op(bio));
	bio->bi_end_io = weft_end_io;
	bio->bi_private = io;
	return io;
}

static gfp_t weft_gfp(const struct bio *bio)
{
	return bio->bi_opf & REQ_NOWAIT ? GFP_NOWAIT : GFP_NOIO;
}

/*
 * The same for a fragment, which is accounted with the whole. Whoever holds
 * the whole's from the pool must not wait for a second one: with no memory the
 * fragment goes untracked, and all it costs is that it is not counted.
 */
static struct weft_io *weft_io_start_fragment(struct weft_volume *vol,
					      struct bio *bio, struct weft_io *whole)
{
	struct weft_io *io = weft_io_start(vol, bio, false, GFP_NOWAIT);

	if (io) {
		io->flags = WEFT_IO_FRAGMENT;
		io->whole = whole;
	}
	return io;
}

/* The bio is mapped: all that is left is to count it and let it go. */
static __always_inline void weft_send(struct weft_member *member,
				      struct bio *bio, sector_t sector,
				      struct weft_io *io)
{
	struct block_device *bdev;

	trace_weft_map(member, bio, sector);
	if (io) {
		struct weft_stats __percpu *stats = member->stats;

		io->member = member;
		io->sent = ktime_get_ns();
		this_cpu_inc(stats->ios[io->group]);
		this_cpu_add(stats->sectors[io->group], bio_sectors(bio));
	}
	if (trace_block_bio_remap_enabled())
		trace_block_bio_remap(bio, disk_devt(member->volume->disk),
				      bio->bi_iter.bi_sector);
	bio->bi_iter.bi_sector = sector;
	bdev = READ_ONCE(member->route);
	if (unlikely(!bdev)) {
		weft_route_submit(member, bio);
		return;
	}
	bio_set_dev(bio, bdev);
	submit_bio_noacct(bio);
}

/**
 * weft_submit_part() - send a part of a bio that was made for one member
 * @member: where to
 * @bio: of our own making, chained to @whole
 * @sector: on the member
 * @whole: the bio it is a part of; tracked or not
 *
 * Context: process context, may sleep.
 */
void weft_submit_part(struct weft_member *member, struct bio *bio,
		      sector_t sector, struct bio *whole)
{
	struct weft_volume *vol = member->volume;
	struct weft_io *io = weft_io_of(vol, whole);

	if (io)
		io = weft_io_start_fragment(vol, bio, io);
	weft_send(member, bio, sector, io);
}

static void weft_end_status(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
}

/*
 * Cut off what the first member gets, send it, and submit the rest again.
 * Kept out of line: small I/O never comes here.
 */
static noinline void weft_split(struct weft_volume *vol, struct bio *bio,
				struct weft_io *io, sector_t sectors)
{
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	struct weft_io *front_io = NULL;
	struct weft_place place;
	struct bio *front;

	/* The limits promise that none reaches over a chunk. */
	if (unlikely(bio->bi_opf & WEFT_REQ_ATOMIC)) {
		weft_end_status(bio, BLK_STS_INVAL);
		return;
	}
	/* Who polls waits for one cookie; fragments have many. */
	bio_clear_polled(bio);
	if (nowait && !io) {
		io = weft_io_start(vol, bio, false, GFP_NOWAIT);
		if (!io) {
			weft_end_status(bio, BLK_STS_AGAIN);
			return;
		}
	}
	if (nowait && !(io->flags & WEFT_IO_RETRY)) {
		io->iter = bio->bi_iter;
		io->flags |= WEFT_IO_RETRY;
	}
	front = bio_split(bio, sectors, weft_gfp(bio), &vol->bios);
	if (IS_ERR_OR_NULL(front)) {
		weft_end_status(bio, nowait ? BLK_STS_AGAIN : BLK_STS_RESOURCE);
		return;
	}
	bio_chain(front, bio);
	if (io)
		front_io = weft_io_start_fragment(vol, front, io);
	submit_bio_noacct(bio);
	place = weft_map_sector(&vol->map, front->bi_iter.bi_sector);
	weft_send(vol->members[place.member], front, place.sector, front_io);
}

/* How much of a bio, from its start, goes to one member as one piece. */
static sector_t weft_piece(const struct weft_volume *vol, const struct bio *bio)
{
	sector_t sectors = weft_map_contiguous(&vol->map, bio->bi_iter.bi_sector);

	/* A member's queue turns away what it would have to split itself. */
	if (bio->bi_opf & REQ_NOWAIT)
		sectors = min_t(sector_t, sectors, vol->max_sectors);
	return sectors;
}

/**
 * weft_submit_bio() - what the block layer calls for each bio of a volume
 * @bio: within the volume's capacity
 *
 * Context: process context; sleeps only for memory, and not with REQ_NOWAIT.
 */
void weft_submit_bio(struct bio *bio)
{
	struct weft_volume *vol = bio->bi_bdev->bd_disk->private_data;
	struct weft_io *io = weft_io_of(vol, bio);
	struct weft_place place;
	sector_t piece;

	if (!io && blk_queue_io_stat(vol->disk->queue)) {
		io = weft_io_start(vol, bio, true, weft_gfp(bio));
		if (unlikely(!io)) {
			weft_end_status(bio, BLK_STS_AGAIN);
			return;
		}
	}
	if (op_is_write(bio->bi_opf)) {
		if (unlikely(time_after(jiffies, READ_ONCE(vol->lease)))) {
			weft_owner_hold(vol, bio);
			return;
		}
		if (unlikely(bio->bi_opf & REQ_PREFLUSH)) {
			weft_flush_submit(vol, bio);
			return;
		}
	}

	piece = weft_piece(vol, bio);
	if (unlikely(piece < bio_sectors(bio))) {
		if (weft_op_is_range(bio))
			weft_defer(vol, bio);
		else
			weft_split(vol, bio, io, piece);
		return;
	}
	place = weft_map_sector(&vol->map, bio->bi_iter.bi_sector);
	weft_send(vol->members[place.member], bio, place.sector, io);
}

static void __init weft_learn_chain_end_io(void)
{
	struct bio parent, child;

	bio_init(&parent, NULL, NULL, 0, REQ_OP_READ);
	bio_init(&child, NULL, NULL, 0, REQ_OP_READ);
	bio_chain(&child, &parent);
	weft_chain_end_io = child.bi_end_io;
}

int __init weft_bio_init(void)
{
	weft_learn_chain_end_io();
	weft_io_cache = KMEM_CACHE(weft_io, SLAB_HWCACHE_ALIGN);
	if (!weft_io_cache)
		return -ENOMEM;
	weft_io_pool = mempool_create_slab_pool(WEFT_IO_RESERVE, weft_io_cache);
	if (!weft_io_pool) {
		kmem_cache_destroy(weft_io_cache);
		return -ENOMEM;
	}
	return 0;
}

void weft_bio_exit(void)
{
	weft_io_stocks_empty();
	mempool_destroy(weft_io_pool);
	kmem_cache_destroy(weft_io_cache);
}
