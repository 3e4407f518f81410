// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes: one flush of all members' caches serves all waiting bios.
 *
 * DOC: one fan-out at a time
 *
 * A bio with REQ_PREFLUSH waits while the members' caches are flushed. Then it
 * ends or, if it has data, is submitted again without the flag, so the data
 * follows the flush. A volume has at most one fan-out in flight. Each member
 * has a preallocated bio for it, so a flush allocates nothing. If a bio arrives
 * while the fan-out is in flight, the fan-out might not cover the writes before
 * it. Such bios wait for the next fan-out, which serves all of them: many
 * fsyncs cost as much as one. The block layer does the same for a request
 * queue.
 *
 * submit_bio does not wait: the last member's completion continues the flush.
 * The fan-out starts in a work and not in submit_bio, because a bio submitted
 * within submit_bio waits on a list of the task until the bio before it has a
 * request. The work hands each member its bio before it chooses the next
 * member's path.
 */
#include "weft.h"

#include "trace.h"

static void weft_flush_done(struct weft_volume *vol);

static void weft_flush_member_end(struct bio *bio);

static void weft_flush_init_bio(struct weft_member *member)
{
	/* weft_mpath_submit() sets the device. */
	bio_init(&member->flush, NULL, NULL, 0, REQ_OP_WRITE | REQ_PREFLUSH);
	member->flush.bi_end_io = weft_flush_member_end;
	member->flush.bi_private = member;
}

/*
 * May a flush that lost its path be sent again? WEFT_FLUSH_TRIES times at once,
 * and then for as long as other I/O waits for a path.
 */
static bool weft_flush_may_retry(struct weft_member *member)
{
	if (member->flush_tries == WEFT_FLUSH_TRIES)
		member->flush_lost = jiffies;
	if (member->flush_tries) {
		member->flush_tries--;
		return true;
	}
	return weft_mpath_patience(member, member->flush_lost);
}

static void weft_flush_member_end(struct bio *bio)
{
	struct weft_member *member = bio->bi_private;
	struct weft_volume *vol = member->volume;

	/*
	 * The flush request of a lost path is the block layer's own, so the
	 * transport cannot give it back. Send the flush over another path, or
	 * over this one when it is back.
	 */
	if (bio->bi_status == BLK_STS_TRANSPORT && member->owns_requests &&
	    weft_flush_may_retry(member)) {
		weft_flush_init_bio(member);
		weft_mpath_again(member, bio);
		return;
	}
	this_cpu_inc(member->stats->group[WEFT_STAT_FLUSH].ios);
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

		if (!weft_mpath_write_cache(member))
			continue;
		atomic_inc(&flush->remaining);
		weft_flush_init_bio(member);
		member->flush_tries = WEFT_FLUSH_TRIES;
		weft_mpath_submit(member, &member->flush);
		sent++;
	}
	trace_weft_flush(vol, sent, bio_list_size(&flush->running));
	if (atomic_dec_and_test(&flush->remaining))
		weft_flush_done(vol);
}

/* The last member has completed. May run in an interrupt. */
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
	/* Stay busy: the work, not weft_flush_submit(), starts the next one. */
	flush->busy = more;
	spin_unlock_irqrestore(&flush->lock, irqflags);

	if (more)
		queue_work(vol->split_wq, &flush->work);
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

	/* First, because the next fan-out may wait for a member that is slow. */
	while ((bio = bio_list_pop(&ready))) {
		/* It has waited for a flush, so it may also wait here. */
		bio->bi_opf &= ~REQ_NOWAIT;
		submit_bio_noacct(bio);
	}
	if (start)
		weft_flush_start(vol);
}

/* Where no member has a volatile cache, all writes that have ended are on the members. */
static bool weft_flush_is_needed(struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < vol->member_count; i++)
		if (weft_mpath_write_cache(vol->members[i]))
			return true;
	return false;
}

/**
 * weft_flush_submit() - flush all members, then end a bio or send its data
 * @vol: the volume
 * @bio: with REQ_PREFLUSH
 *
 * Context: where a bio is submitted; does not sleep.
 * Return: false if there is nothing to flush, and the caller sends the bio's data.
 */
bool weft_flush_submit(struct weft_volume *vol, struct bio *bio)
{
	struct weft_flush *flush = &vol->flush;
	bool start;

	if (!weft_flush_is_needed(vol)) {
		bio->bi_opf &= ~REQ_PREFLUSH;
		if (bio_sectors(bio))
			return false;
		bio_endio(bio);
		return true;
	}
	spin_lock_irq(&flush->lock);
	start = !flush->busy;
	flush->busy = true;
	bio_list_add(&flush->pending, bio);
	spin_unlock_irq(&flush->lock);

	if (start)
		queue_work(vol->split_wq, &flush->work);
	return true;
}

/**
 * weft_flush_init() - initialize a volume's flush state
 * @vol: the volume
 *
 * It needs no exit function.
 */
void weft_flush_init(struct weft_volume *vol)
{
	spin_lock_init(&vol->flush.lock);
	bio_list_init(&vol->flush.pending);
	bio_list_init(&vol->flush.running);
	bio_list_init(&vol->flush.ready);
	INIT_WORK(&vol->flush.work, weft_flush_work);
}
