// SPDX-License-Identifier: GPL-2.0-only
/*
 * The path of a bio from the volume to its member.
 *
 * DOC: tracked and untracked bios
 *
 * A bio is remapped in place and sent to its member without a copy. While the
 * queue's iostats are on, and memory is available, the bio is also tracked:
 * weft_end_io() and a struct weft_io replace the submitter's bi_end_io and
 * bi_private, which the struct weft_io keeps and restores at completion. dm
 * targets do the same with dm_bio_record(). It takes a third of the
 * instructions of a clone. With iostats off, a bio completes directly to its
 * submitter.
 *
 * DOC: splits
 *
 * A bio that crosses into another member is split at the border. The front
 * goes to its member, and the rest is submitted to the volume again. Each call
 * allocates at most one fragment, which can complete before the next one is
 * needed, so the volume's mempool cannot deadlock. The last part is a fragment,
 * too: the bio itself ends after all of them, when the disk of the last one may
 * be gone.
 *
 * The fragments of a bio with REQ_NOWAIT have REQ_NOWAIT too. They are cut to
 * the size that a member takes without another split, so the submitter never
 * waits for a request. A member may refuse one fragment with BLK_STS_AGAIN
 * while others are in flight; failing the whole bio would then hide the writes
 * that were done. Therefore such a bio and its fragments are always tracked. A
 * fragment that ends with BLK_STS_AGAIN is done again in process context, where
 * it may wait. The others are not: one that was sent again after its path was
 * lost would wait for its own shadow (resend.c). If there was no memory to track
 * a fragment, the whole bio is done again from its start, and at worst writes
 * the same data twice. The submitter sees BLK_STS_AGAIN only if nothing was
 * issued.
 *
 * This needs a bio whose status contains only the errors of our own fragments.
 * If another driver has already split fragments off the bio (BIO_CHAIN), for
 * example a volume that has this one as a member, its status contains their
 * errors too. Such a bio is split in process context and never retried.
 *
 * This path takes no lock and writes no data that another CPU writes.
 *
 * DOC: bios that continue in process context
 *
 * Discards and write zeroes over more than one member: each member's share is
 * one run (map.c), so such a bio becomes one bio for each member, not one for
 * each chunk. That is up to 256 bios, more than can be allocated safely within
 * submit_bio. A work sends each bio before it allocates the next one.
 *
 * Bios that cannot be split with REQ_NOWAIT, and fragments of reads and writes
 * with REQ_NOWAIT that failed with BLK_STS_AGAIN. There they may wait. A fragment
 * goes to its member past the volume's queue. That may be frozen for the removal
 * of a path until a submitter has got a fragment from the mempool, and this one
 * may be what the submitter waits for.
 */
#include "qos.h"
#include "stock.h"

#include <linux/timekeeping.h>
#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

#define WEFT_IO_ACCOUNTED	BIT(0)	/* counted in the disk's iostats */
#define WEFT_IO_RETRY		BIT(1)	/* retry from @iter on BLK_STS_AGAIN */
#define WEFT_IO_QOS		BIT(2)	/* undo weft_qos_begin() */
#define WEFT_IO_FEED		BIT(3)	/* of class feed, and not WEFT_IO_QOS */

/**
 * struct weft_io - state of a tracked bio until it completes
 * @vol: the volume
 * @end_io: the submitter's bi_end_io
 * @private: the submitter's bi_private
 * @bdev: the device that the bio was submitted to, for its accounting
 * @start: when it was submitted, in jiffies
 * @member: the member it was sent to; NULL before that, and for a bio that was
 *	split: its fragments are sent
 * @sent: when it was sent to @member, in nanoseconds
 * @sectors: size of the bio when it was submitted
 * @flags: WEFT_IO_*
 * @class: its class, if the volume has classes
 * @iter: start of a retry
 * @bio: the bio, if it may be held for its class, or is done again
 * @item: holds it
 * @again: does it again; it is not held then
 */
struct weft_io {
	struct weft_volume	*vol;
	bio_end_io_t		*end_io;
	void			*private;
	struct block_device	*bdev;
	unsigned long		start;
	struct weft_member	*member;
	u64			sent;
	u32			sectors;
	u8			flags;
	u8			class;
	struct bvec_iter	iter;
	struct bio		*bio;
	union {
		struct weft_qos_item	item;
		struct work_struct	again;
	};
};

static struct kmem_cache *weft_io_cache;

static DEFINE_PER_CPU(struct weft_stock, weft_io_stock);

/*
 * Never waits: the bios that hold the existing ones may be waiting for a path,
 * or in another volume. Returns NULL if there is no memory.
 */
static __always_inline struct weft_io *weft_io_alloc(void)
{
	return weft_stock_alloc(&weft_io_stock, weft_io_cache, GFP_NOWAIT | __GFP_NOWARN);
}

static bool weft_op_is_range(const struct bio *bio)
{
	return bio_op(bio) == REQ_OP_DISCARD ||
	       bio_op(bio) == REQ_OP_WRITE_ZEROES;
}

/* A constant group each, which no bounds check needs. */
static __always_inline void weft_io_count(const struct weft_io *io, const struct bio *bio,
					  u64 nsecs)
{
	if (unlikely(op_is_discard(bio->bi_opf)))
		weft_member_count(io->member, WEFT_STAT_DISCARD, io->sectors, nsecs);
	else if (op_is_write(bio_op(bio)))
		weft_member_count(io->member, WEFT_STAT_WRITE, io->sectors, nsecs);
	else
		weft_member_count(io->member, WEFT_STAT_READ, io->sectors, nsecs);
}

/* Not inline, so that feed commands that were not held do not pay. */
static noinline void weft_class_done(struct weft_io *io, const struct bio *bio, u64 nsecs)
{
	bool good = !bio->bi_status;

	if (io->flags & WEFT_IO_QOS)
		weft_qos_end(io->member, &io->item, good && !weft_op_is_range(bio) ? nsecs : 0);
	if (good)
		weft_qos_measure(io->member, io->class, io->sectors << SECTOR_SHIFT, nsecs);
	else
		weft_qos_failed(io->member, io->class);
}

/*
 * A SCSI disk finds out by the first command that it cannot write zeroes or discard. Its
 * limit is 0 from then on, and the volume's is not: say so, and the caller does it in
 * another way.
 */
static bool weft_is_unsupported(const struct bio *bio)
{
	/* The block layer's answer for a disk that has learned it. */
	if (bio->bi_status == BLK_STS_NOTSUPP)
		return weft_op_is_range(bio);
	if (bio->bi_status != BLK_STS_TARGET)
		return false;
	if (bio_op(bio) == REQ_OP_WRITE_ZEROES)
		return !bdev_write_zeroes_sectors(bio->bi_bdev);
	return bio_op(bio) == REQ_OP_DISCARD && !bdev_max_discard_sectors(bio->bi_bdev);
}

static noinline void weft_member_failed(struct weft_io *io, struct bio *bio, u64 nsecs)
{
	struct weft_member *member = io->member;

	if (weft_is_unsupported(bio)) {
		bio->bi_status = BLK_STS_NOTSUPP;
	/*
	 * With BLK_STS_AGAIN, which REQ_NOWAIT causes, there was no I/O. Nor was there where the
	 * block layer or the transport refuses what the bio has, such as its memory.
	 */
	} else if (bio->bi_status != BLK_STS_AGAIN && bio->bi_status != WEFT_STS_REFUSED) {
		weft_volume_member_failed(member);
		weft_io_count(io, bio, nsecs);
	}
	if (weft_qos_is_used() && io->class != WEFT_IO_CLASS_NONE)
		weft_class_done(io, bio, nsecs);
}

static __always_inline void weft_member_done(struct weft_io *io, struct bio *bio)
{
	struct weft_member *member = io->member;
	u64 nsecs = ktime_get_ns() - io->sent;

	trace_weft_done(member, nsecs, bio->bi_status);
	if (unlikely(bio->bi_status)) {
		weft_member_failed(io, bio, nsecs);
		return;
	}
	weft_io_count(io, bio, nsecs);
	if (!weft_qos_is_used())
		return;
	if (likely(io->flags & WEFT_IO_FEED))
		weft_qos_measure_feed(member->qos, io->sectors << SECTOR_SHIFT, nsecs);
	else if (io->class != WEFT_IO_CLASS_NONE)
		weft_class_done(io, bio, nsecs);
}

static void weft_part_again(struct work_struct *work);
static void weft_whole_again(struct work_struct *work);

/*
 * A fragment was refused, or a bio with an untracked one that was; all of its
 * fragments have completed. It keeps its tracking and starts again. The
 * submission sets up the chain, the cgroup and QoS again.
 */
static void weft_io_retry(struct weft_io *io, struct bio *bio)
{
	io->flags &= ~(WEFT_IO_RETRY | WEFT_IO_QOS);
	io->member = NULL;
	/* It has reached zero, and bio_chain() does not set it again. */
	atomic_set(&bio->__bi_remaining, 1);
	bio->bi_status = BLK_STS_OK;
	/* A request that had it may have had others. */
	bio->bi_next = NULL;
	bio->bi_iter = io->iter;
	weft_bio_forget_queue(bio);
	/* Its cgroup is set there: here, the current task may be any. */
	bio->bi_bdev = io->bdev;
	io->bio = bio;
	if (bio->bi_pool == &io->vol->bios) {
		INIT_WORK(&io->again, weft_part_again);
		queue_work(io->vol->again_wq, &io->again);
	} else {
		INIT_WORK(&io->again, weft_whole_again);
		queue_work(io->vol->split_wq, &io->again);
	}
}

static void weft_end_io(struct bio *bio)
{
	struct weft_io *io = bio->bi_private;
	struct weft_volume *vol = io->vol;
	bio_end_io_t *end_io = io->end_io;
	void *private = io->private;

	if (io->member)
		weft_member_done(io, bio);
	if (unlikely(bio->bi_status == BLK_STS_AGAIN) &&
	    io->flags & WEFT_IO_RETRY) {
		weft_io_retry(io, bio);
		return;
	}
	if (io->flags & WEFT_IO_ACCOUNTED)
		weft_acct_end(io->bdev, io->sectors, bio_op(bio), io->start);
	weft_stock_free(&weft_io_stock, weft_io_cache, io);
	weft_bio_end_before(bio, end_io, private);
	/* The volume may be freed after this, see weft_volume_drain(). */
	this_cpu_dec(*vol->in_flight);
}

/* The tracking of a bio that came here before, such as the rest of a split. */
static struct weft_io *weft_io_of(struct weft_volume *vol, struct bio *bio)
{
	struct weft_io *io = bio->bi_private;

	/* A volume may be a member of another: compare it too. */
	return bio->bi_end_io == weft_end_io && io->vol == vol ? io : NULL;
}

/*
 * Make weft_end_io() a bio's completion. A bio is accounted as a whole, and its
 * fragments are not. @class is its class, or WEFT_IO_CLASS_NONE. Returns NULL
 * without memory.
 */
static __always_inline struct weft_io *
weft_io_start(struct weft_volume *vol, struct bio *bio, bool accounted, u8 class)
{
	struct weft_io *io;

	io = weft_io_alloc();
	if (unlikely(!io))
		return NULL;
	this_cpu_inc(*vol->in_flight);
	io->vol = vol;
	io->end_io = bio->bi_end_io;
	io->private = bio->bi_private;
	io->bdev = bio->bi_bdev;
	io->member = NULL;
	io->sectors = bio_sectors(bio);
	io->flags = (accounted ? WEFT_IO_ACCOUNTED : 0) |
		    (class == WEFT_IO_CLASS_FEED ? WEFT_IO_FEED : 0);
	io->class = class;
	if (accounted)
		io->start = weft_acct_start(io->bdev, io->sectors, bio_op(bio));
	bio->bi_end_io = weft_end_io;
	bio->bi_private = io;
	return io;
}

/* A bio enters the volume: track it, and find its class. */
static noinline struct weft_io *weft_io_start_by_class(struct weft_volume *vol, struct bio *bio)
{
	bool accounted = blk_queue_io_stat(vol->disk->queue);
	u8 class = weft_qos_class(vol, bio);

	/*
	 * With QoS, a bio without a class keeps that, too: a worker that submits it again is
	 * not the task that wrote the journal, or freed memory.
	 */
	if (!accounted && class == WEFT_IO_CLASS_NONE && !weft_qos_is_on(vol))
		return NULL;
	return weft_io_start(vol, bio, accounted, class);
}

static __always_inline struct weft_io *weft_io_start_classed(struct weft_volume *vol, struct bio *bio)
{
	if (likely(weft_qos_is_plain_feed(vol, bio)))
		return weft_io_start(vol, bio, blk_queue_io_stat(vol->disk->queue),
				     WEFT_IO_CLASS_FEED);
	return weft_io_start_by_class(vol, bio);
}

/* Track a fragment of a bio; NULL if the bio is not tracked. */
static struct weft_io *weft_io_start_part(struct weft_volume *vol, struct bio *part,
					  const struct weft_io *whole)
{
	struct weft_io *io = whole ? weft_io_start(vol, part, false, whole->class) : NULL;

	if (io && whole->flags & WEFT_IO_RETRY) {
		io->iter = part->bi_iter;
		io->flags |= WEFT_IO_RETRY;
	}
	return io;
}

/* Note to which member a bio goes, and when, and point it there. */
static __always_inline void weft_map_bio(struct weft_member *member, struct bio *bio,
					 sector_t sector, struct weft_io *io)
{
	trace_weft_map(member, bio, sector);
	if (io) {
		io->member = member;
		io->sent = ktime_get_ns();
	}
	if (trace_block_bio_remap_enabled())
		trace_block_bio_remap(bio, disk_devt(member->volume->disk),
				      bio->bi_iter.bi_sector);
	bio->bi_iter.bi_sector = sector;
}

/* It was held for its class. Writes may have had to stop meanwhile. */
static void weft_send_held(struct weft_qos_item *item)
{
	struct weft_io *io = container_of(item, struct weft_io, item);
	struct weft_member *member = io->member;

	io->sent = ktime_get_ns();
	/* The submitter does not wait here. */
	io->bio->bi_opf &= ~REQ_NOWAIT;
	if (op_is_write(io->bio->bi_opf) && weft_lease_is_over(&member->volume->lease))
		weft_mpath_wait(member, io->bio);
	else
		weft_mpath_submit(member, io->bio);
}

static const struct weft_qos_item_ops weft_bio_qos_ops = {
	.send	= weft_send_held,
};

/* Returns true if the bio is held for its class. It may be gone then. */
static noinline bool weft_is_held(struct weft_member *member, struct bio *bio, struct weft_io *io)
{
	io->flags = (io->flags | WEFT_IO_QOS) & ~WEFT_IO_FEED;
	io->bio = bio;
	io->item.ops = &weft_bio_qos_ops;
	io->item.class = io->class;
	io->item.bytes = weft_op_is_range(bio) ? min_t(u32, bio->bi_iter.bi_size, WEFT_QOS_PIECE) :
						 bio->bi_iter.bi_size;
	/* Our initiator sends background I/O on queues of its own, if it has any. */
	if (member->owns_requests && io->class == WEFT_IO_CLASS_BACKGROUND)
		bio->bi_ioprio = weft_qos_ioprio(io->class);
	/* A poller would poll for a command that is not sent. */
	bio_clear_polled(bio);
	return weft_qos_begin(member, &io->item);
}

static __always_inline void weft_send(struct weft_member *member,
				      struct bio *bio, sector_t sector,
				      struct weft_io *io)
{
	struct block_device *bdev;

	weft_map_bio(member, bio, sector, io);
	if (weft_qos_is_used() && io && io->class != WEFT_IO_CLASS_NONE &&
	    !weft_qos_passes(member, io->class) && weft_is_held(member, bio, io))
		return;
	bdev = READ_ONCE(member->fast_bdev);
	if (unlikely(!bdev)) {
		weft_mpath_submit(member, bio);
		return;
	}
	bio_set_dev(bio, bdev);
	submit_bio_noacct(bio);
}

/*
 * Send a member's part of a bio. Its allocation, or the parts before it, may have
 * waited for long. If the lease of a write has ended since, multipath.c decides.
 */
static void weft_send_part(struct weft_member *member, struct bio *bio, sector_t sector,
			   struct weft_io *io)
{
	if (op_is_write(bio->bi_opf) && unlikely(weft_lease_is_over(&member->volume->lease))) {
		weft_map_bio(member, bio, sector, io);
		if (weft_qos_is_used() && io)
			weft_qos_begun(member, io->class);
		weft_mpath_wait(member, bio);
	} else {
		weft_send(member, bio, sector, io);
	}
}

/*
 * A fragment that its member refused. @io is gone once it has ended. A new work at that
 * address waits for the end of this function, which then waits for nothing of the volume.
 */
static void weft_part_again(struct work_struct *work)
{
	struct weft_io *io = container_of(work, struct weft_io, again);
	struct bio *part = io->bio;
	struct weft_volume *vol = io->vol;
	struct weft_place place = weft_map_sector(&vol->map, part->bi_iter.bi_sector);
	/* As in weft_range_fan_out(). */
	int srcu = srcu_read_lock(&vol->path_srcu);

	part->bi_opf &= ~REQ_NOWAIT;
	weft_send_part(vol->members[place.member], part, place.sector, io);
	srcu_read_unlock(&vol->path_srcu, srcu);
}

static void weft_whole_again(struct work_struct *work)
{
	struct weft_io *io = container_of(work, struct weft_io, again);
	struct bio *bio = io->bio;

	bio->bi_opf &= ~REQ_NOWAIT;
	/* It has no cgroup any more, and gets that of this worker. */
	bio_set_dev(bio, bio->bi_bdev);
	submit_bio_noacct(bio);
}

static void weft_range_fan_out(struct weft_volume *vol, struct bio *bio)
{
	sector_t start = bio->bi_iter.bi_sector;
	sector_t end = bio_end_sector(bio);
	int srcu;
	u32 i;

	for (i = 0; i < vol->member_count; i++) {
		sector_t sector, sectors;
		struct bio *part;

		sectors = weft_map_member_range(&vol->map, start, end, i, &sector);
		if (!sectors)
			continue;
		part = bio_alloc_clone(vol->disk->part0, bio, GFP_NOIO, &vol->bios);
		if (!part) {
			bio->bi_status = BLK_STS_RESOURCE;
			break;
		}
		part->bi_iter.bi_size = sectors << SECTOR_SHIFT;
		bio_chain(part, bio);
		/* The removal of a path waits for readers of member->fast_bdev. */
		srcu = srcu_read_lock(&vol->path_srcu);
		weft_send_part(vol->members[i], part, sector,
			       weft_io_start_part(vol, part, weft_io_of(vol, bio)));
		srcu_read_unlock(&vol->path_srcu, srcu);
	}
	/* Drops our reference; the last part to complete ends the bio. */
	bio_endio(bio);
}

/**
 * weft_bio_continue() - continue a bio in process context, see weft_defer()
 * @vol: the volume
 * @bio: a discard or write zeroes is fanned out to the members; any other bio is
 *	submitted to the volume again
 *
 * Context: process context; may sleep for a tag of a member.
 */
void weft_bio_continue(struct weft_volume *vol, struct bio *bio)
{
	bio->bi_opf &= ~REQ_NOWAIT;
	if (!weft_op_is_range(bio))
		submit_bio_noacct(bio);
	else if (weft_lease_is_over(&vol->lease))
		weft_owner_hold(vol, bio);	/* lease has ended */
	else
		weft_range_fan_out(vol, bio);
}

static void weft_end_status(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
}

/*
 * Split off the first member's part, send it, and submit the rest again.
 * Not inline, because small I/O is rarely split.
 */
static noinline void weft_split(struct weft_volume *vol, struct bio *bio,
				struct weft_io *io, sector_t sectors)
{
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	struct weft_io *front_io;
	struct weft_place place;
	struct bio *front;

	/* The queue limits keep an atomic write within a chunk. */
	if (unlikely(bio->bi_opf & WEFT_REQ_ATOMIC)) {
		weft_end_status(bio, BLK_STS_INVAL);
		return;
	}
	/* A poller polls one cookie; the fragments have several. */
	bio_clear_polled(bio);
	if (nowait && bio_flagged(bio, BIO_CHAIN) && !(io && io->flags & WEFT_IO_RETRY)) {
		weft_defer(vol, bio);
		return;
	}
	if (nowait && !io) {
		io = weft_io_start(vol, bio, false, WEFT_IO_CLASS_NONE);
		if (!io) {
			weft_end_status(bio, BLK_STS_AGAIN);
			return;
		}
	}
	if (nowait && !(io->flags & WEFT_IO_RETRY)) {
		io->iter = bio->bi_iter;
		io->flags |= WEFT_IO_RETRY;
	}
	front = bio_split(bio, sectors, nowait ? GFP_NOWAIT : GFP_NOIO, &vol->bios);
	if (IS_ERR_OR_NULL(front)) {
		weft_end_status(bio, nowait ? BLK_STS_AGAIN : BLK_STS_RESOURCE);
		return;
	}
	bio_chain(front, bio);
	front_io = weft_io_start_part(vol, front, io);
	submit_bio_noacct(bio);
	place = weft_map_sector(&vol->map, front->bi_iter.bi_sector);
	weft_send_part(vol->members[place.member], front, place.sector, front_io);
}

/* Send the last part of a bio that was split, as a fragment. */
static noinline void weft_send_last(struct weft_volume *vol, struct bio *bio, struct weft_io *io)
{
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	struct weft_place place = weft_map_sector(&vol->map, bio->bi_iter.bi_sector);
	struct bio *last;

	bio_clear_polled(bio);
	last = bio_alloc_clone(bio->bi_bdev, bio, nowait ? GFP_NOWAIT : GFP_NOIO, &vol->bios);
	if (!last) {
		weft_end_status(bio, nowait ? BLK_STS_AGAIN : BLK_STS_RESOURCE);
		return;
	}
	bio_chain(last, bio);
	weft_send_part(vol->members[place.member], last, place.sector,
		       weft_io_start_part(vol, last, io));
	/* Drops our reference; the last part to complete ends the bio. */
	bio_endio(bio);
}

/*
 * Background reads and writes are short, so that a feed command behind one does not wait
 * long. A discard of 1 TiB would be 4,194,304 commands.
 */
static bool weft_is_cut(const struct weft_io *io, const struct bio *bio)
{
	return io && io->class == WEFT_IO_CLASS_BACKGROUND && !weft_op_is_range(bio) &&
	       !(bio->bi_opf & WEFT_REQ_ATOMIC);
}

/* How many sectors from the start of a bio go to one member in one piece. */
static sector_t weft_piece(const struct weft_volume *vol, const struct bio *bio,
			   const struct weft_io *io)
{
	sector_t sectors = weft_map_contiguous(&vol->map, bio->bi_iter.bi_sector);

	/* A queue fails a REQ_NOWAIT bio that it would have to split. */
	if (unlikely(bio_sectors(bio) > vol->whole_sectors) && bio->bi_opf & REQ_NOWAIT)
		sectors = weft_unsplit(vol, bio->bi_iter.bi_sector, sectors);
	if (weft_qos_is_used() && unlikely(bio_sectors(bio) > WEFT_QOS_PIECE >> SECTOR_SHIFT) &&
	    weft_is_cut(io, bio))
		sectors = min_t(sector_t, sectors, WEFT_QOS_PIECE >> SECTOR_SHIFT);
	return sectors;
}

/**
 * weft_submit_bio() - the submit_bio operation of a volume's disk
 * @bio: within the volume's capacity
 *
 * Context: process context; may sleep for the memory of a fragment, except with
 * REQ_NOWAIT.
 */
void weft_submit_bio(struct bio *bio)
{
	struct weft_volume *vol = bio->bi_bdev->bd_disk->private_data;
	struct weft_io *io = weft_io_of(vol, bio);
	struct weft_place place;
	sector_t piece;

	/* Without memory the bio is sent untracked and is not counted. */
	if (weft_qos_is_used() && !io)
		io = weft_io_start_classed(vol, bio);
	else if (!io && blk_queue_io_stat(vol->disk->queue))
		io = weft_io_start(vol, bio, true, WEFT_IO_CLASS_NONE);
	if (op_is_write(bio->bi_opf)) {
		if (unlikely(weft_lease_is_over(&vol->lease))) {
			weft_owner_hold(vol, bio);
			return;
		}
		if (unlikely(bio->bi_opf & REQ_PREFLUSH) && weft_flush_submit(vol, bio))
			return;
		/* Always tracked: see weft_is_unsupported(). */
		if (unlikely(weft_op_is_range(bio)) && !io)
			io = weft_io_start(vol, bio, false, WEFT_IO_CLASS_NONE);
	}

	piece = weft_piece(vol, bio, io);
	if (unlikely(piece < bio_sectors(bio))) {
		if (weft_op_is_range(bio))
			weft_defer(vol, bio);
		else
			weft_split(vol, bio, io, piece);
		return;
	}
	if (unlikely(bio_flagged(bio, BIO_CHAIN))) {
		weft_send_last(vol, bio, io);
		return;
	}
	place = weft_map_sector(&vol->map, bio->bi_iter.bi_sector);
	weft_send(vol->members[place.member], bio, place.sector, io);
}

int __init weft_bio_init(void)
{
	weft_io_cache = KMEM_CACHE(weft_io, SLAB_HWCACHE_ALIGN);
	return weft_io_cache ? 0 : -ENOMEM;
}

void weft_bio_exit(void)
{
	weft_stock_empty(&weft_io_stock, weft_io_cache);
	kmem_cache_destroy(weft_io_cache);
}
