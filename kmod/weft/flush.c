// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes: every member's cache, once for all who wait.
 *
 * DOC: one fan-out at a time
 *
 * A bio with REQ_PREFLUSH is parked and the members' caches are flushed; then
 * it ends, or, if it carries data, is submitted again without the flag: data
 * follows the flush. One fan-out is in flight for a volume, from a bio that
 * each member has ready for it, so nothing is allocated. A bio that comes
 * while it is in flight may follow writes that it does not cover, so it waits
 * for the next one, with all others that come until then: many fsyncs cost as
 * much as one. The block layer does the same for a request queue.
 *
 * Nothing waits in submit_bio: the last member's completion goes on from there.
 */
#include "weft.h"

#include "trace.h"

static void weft_flush_done(struct weft_volume *vol);

static void weft_flush_member_end(struct bio *bio);

static void weft_flush_init_bio(struct weft_member *member)
{
	bio_init(&member->flush, member->bdev, NULL, 0, REQ_OP_WRITE | REQ_PREFLUSH);
	member->flush.bi_end_io = weft_flush_member_end;
	member->flush.bi_private = member;
}

static void weft_flush_member_end(struct bio *bio)
{
	struct weft_member *member = bio->bi_private;
	struct weft_volume *vol = member->volume;

	/*
	 * The block layer's own flush of a path that was lost: it fails, and is
	 * done again by another, or when the path is back.
	 */
	if (bio->bi_status == BLK_STS_TRANSPORT && member->owns_requests &&
	    member->flush_tries) {
		member->flush_tries--;
		weft_flush_init_bio(member);
		weft_route_again(member, bio);
		return;
	}
	if (bio->bi_status) {
		WRITE_ONCE(vol->flush.status, bio->bi_status);
		weft_volume_member_failed(member);
	}
	if (atomic_dec_and_test(&vol->flush.remaining))
		weft_flush_done(vol);
}

/* Send the fan-out for the bios in flush.running. */
static void weft_flush_start(struct weft_volume *vol)
{
	struct weft_flush *flush = &vol->flush;
	u32 i, sent = 0;

	flush->status = BLK_STS_OK;
	atomic_set(&flush->remaining, 1);
	for (i = 0; i < vol->member_count; i++) {
		struct weft_member *member = vol->members[i];

		if (!bdev_write_cache(member->bdev))
			continue;
		atomic_inc(&flush->remaining);
		weft_flush_init_bio(member);
		member->flush_tries = WEFT_FLUSH_TRIES;
		this_cpu_inc(member->stats->ios[WEFT_STAT_FLUSH]);
		weft_route_submit(member, &member->flush);
		sent++;
	}
	trace_weft_flush(vol, sent, bio_list_size(&flush->running));
	if (atomic_dec_and_test(&flush->remaining))
		weft_flush_done(vol);
}

/* The last member answered; may be in an interrupt. */
static void weft_flush_done(struct weft_volume *vol)
{
	struct weft_flush *flush = &vol->flush;
	blk_status_t status = READ_ONCE(flush->status);
	struct bio_list ended = BIO_EMPTY_LIST;
	unsigned long irqflags;
	struct bio *bio;
	bool more;

	spin_lock_irqsave(&flush->lock, irqflags);
	while ((bio = bio_list_pop(&flush->running))) {
		bio->bi_opf &= ~REQ_PREFLUSH;
		if (!status && bio_sectors(bio))
			bio_list_add(&flush->ready, bio);
		else
			bio_list_add(&ended, bio);
	}
	more = !bio_list_empty(&flush->ready) || !bio_list_empty(&flush->pending);
	/* Keep others from starting a fan-out that the work is to start. */
	flush->busy = more;
	spin_unlock_irqrestore(&flush->lock, irqflags);

	if (more)
		queue_work(vol->wq, &flush->work);
	while ((bio = bio_list_pop(&ended))) {
		bio->bi_status = status;
		bio_endio(bio);
	}
}

static void weft_flush_work(struct work_struct *work)
{
	struct weft_volume *vol = container_of(work, struct weft_volume, flush.work);
	struct weft_flush *flush = &vol->flush;
	struct bio_list ready;
	struct bio *bio;
	bool start;

	spin_lock_irq(&flush->lock);
	ready = flush->ready;
	bio_list_init(&flush->ready);
	bio_list_merge(&flush->running, &flush->pending);
	bio_list_init(&flush->pending);
	start = !bio_list_empty(&flush->running);
	flush->busy = start;
	spin_unlock_irq(&flush->lock);

	if (start)
		weft_flush_start(vol);
	while ((bio = bio_list_pop(&ready))) {
		/* It waited for a flush already, there is nothing left to refuse. */
		bio->bi_opf &= ~REQ_NOWAIT;
		submit_bio_noacct(bio);
	}
}

/**
 * weft_flush_submit() - flush all members, then end a bio or send its data
 * @vol: the volume
 * @bio: with REQ_PREFLUSH
 *
 * Context: where a bio is submitted; does not sleep.
 */
void weft_flush_submit(struct weft_volume *vol, struct bio *bio)
{
	struct weft_flush *flush = &vol->flush;
	bool start;

	spin_lock_irq(&flush->lock);
	start = !flush->busy;
	flush->busy = true;
	bio_list_add(start ? &flush->running : &flush->pending, bio);
	spin_unlock_irq(&flush->lock);

	if (start)
		weft_flush_start(vol);
}

/**
 * weft_flush_init() - nothing to undo
 * @vol: the volume
 */
void weft_flush_init(struct weft_volume *vol)
{
	spin_lock_init(&vol->flush.lock);
	bio_list_init(&vol->flush.pending);
	bio_list_init(&vol->flush.running);
	bio_list_init(&vol->flush.ready);
	INIT_WORK(&vol->flush.work, weft_flush_work);
}
