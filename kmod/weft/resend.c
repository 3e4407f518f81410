// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes that are sent again after their path was lost, and the writes that
 * have to wait for them.
 *
 * DOC: writes that are sent again
 *
 * A write that may have reached its target is sent again at once. Its shadow
 * (shadow.c) stops other writes to its range until the target cannot execute
 * the first copy any more; these wait in mpath->quiet. If the write fails while
 * the target may still execute the first copy, its error waits for the end of
 * the shadow: the submitter could otherwise write something else there. For
 * that, weft_resend_end_io() replaces the bi_end_io of the bio. An operation on
 * registered memory has a shadow, too, and its command delays the error
 * (mem_part.c).
 *
 * A write may be what ends the associations. After WEFT_RESENDS_AT_ONCE of them
 * it waits for the end of its own shadow, so that other I/O goes on meanwhile.
 */
#include "qos.h"

#define WEFT_RESENDS_AT_ONCE	3

/**
 * struct weft_resend - a bio or an operation that is sent again, or was and has ended
 * @shadow: its range; protected by the lock of the member's paths
 * @member: the member
 * @bio: the bio until it has ended; NULL for an operation on registered memory
 * @losses: how often it was lost while its target may have received it
 * @end_io: bi_end_io of @bio before ours
 * @private: bi_private of @bio before ours
 * @failed: @bio has failed, and ends with the shadow
 */
struct weft_resend {
	struct weft_shadow	shadow;
	struct weft_member	*member;
	struct bio		*bio;
	u32			losses;
	bio_end_io_t		*end_io;
	void			*private;
	bool			failed;
};

bio_end_io_t *weft_chain_end_io __ro_after_init;

static void weft_resend_end_io(struct bio *bio)
{
	struct weft_resend *resend = bio->bi_private;
	struct weft_mpath *mpath = &resend->member->mpath;
	bio_end_io_t *end_io = resend->end_io;
	void *private = resend->private;
	unsigned long flags;
	bool over;

	spin_lock_irqsave(&mpath->lock, flags);
	over = RB_EMPTY_NODE(&resend->shadow.node);
	if (!over && bio->bi_status) {
		resend->failed = true;
		/* Its path may be removed before it ends. */
		weft_bio_forget_queue(bio);
		spin_unlock_irqrestore(&mpath->lock, flags);
		return;
	}
	resend->shadow.owner = NULL;
	resend->bio = NULL;
	spin_unlock_irqrestore(&mpath->lock, flags);
	/* A shadow that is not over yet is freed by weft_resend_over(). */
	if (over)
		kfree(resend);
	weft_bio_end_before(bio, end_io, private);
}

/* Returns NULL if there is no memory. */
static struct weft_resend *weft_resend_alloc(struct weft_member *member, sector_t first,
					     sector_t sectors, const void *owner)
{
	struct weft_resend *resend = kzalloc_obj(*resend, GFP_ATOMIC | __GFP_NOMEMALLOC |
						    __GFP_NOWARN);

	if (!resend)
		return NULL;
	resend->member = member;
	resend->shadow.first = first;
	resend->shadow.last = first + sectors - 1;
	resend->shadow.owner = owner;
	RB_CLEAR_NODE(&resend->shadow.node);
	return resend;
}

/* A volume may be a member of another: compare the member, too. */
static struct weft_resend *weft_resend_of(const struct weft_member *member, const struct bio *bio)
{
	struct weft_resend *resend = bio->bi_private;

	return bio->bi_end_io == weft_resend_end_io && resend->member == member ? resend : NULL;
}

static struct weft_resend *weft_resend_begin(struct weft_member *member, struct bio *bio)
{
	struct weft_resend *resend = weft_resend_alloc(member, bio->bi_iter.bi_sector,
						       bio_sectors(bio), bio);

	if (!resend)
		return NULL;
	resend->bio = bio;
	resend->end_io = bio->bi_end_io;
	resend->private = bio->bi_private;
	bio->bi_end_io = weft_resend_end_io;
	bio->bi_private = resend;
	return resend;
}

/**
 * weft_resend_lost() - a bio lost its path
 * @member: the member; the lock of its paths is held
 * @bio: the caller sends it again
 * @after: from then on the target cannot execute it any more, in jiffies
 *
 * Without memory for a shadow, all writes to the member wait until @after, @bio
 * too.
 *
 * Context: any.
 * Return: whether the bio may be sent again at once.
 */
bool weft_resend_lost(struct weft_member *member, struct bio *bio, unsigned long after)
{
	bool late = bio_sectors(bio) && op_is_write(bio->bi_opf) && time_after(after, jiffies);
	struct weft_mpath *mpath = &member->mpath;
	struct weft_resend *resend;

	lockdep_assert_held(&mpath->lock);
	if (!late)
		return true;
	/* The path of the second copy may be lost, too. */
	resend = weft_resend_of(member, bio) ?: weft_resend_begin(member, bio);
	if (!resend) {
		weft_shadow_cast(&mpath->shadows, &mpath->shadows.whole, after);
		return false;
	}
	/* On a read-only volume it is another program's, which may write past the volume. */
	if (++resend->losses > WEFT_RESENDS_AT_ONCE || member->volume->read_only)
		resend->shadow.owner = NULL;
	weft_shadow_cast(&mpath->shadows, &resend->shadow, after);
	return true;
}

/**
 * weft_resend_stops() - hold a write that has to wait for the end of a shadow
 * @member: the member
 * @bio: it is about to be sent
 *
 * Context: any.
 * Return: true if the bio is held, or has ended because it may not wait.
 */
bool weft_resend_stops(struct weft_member *member, struct bio *bio)
{
	struct weft_mpath *mpath = &member->mpath;
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	unsigned long flags;
	bool stops;

	if (!op_is_write(bio->bi_opf))
		return false;
	spin_lock_irqsave(&mpath->lock, flags);
	stops = weft_shadow_stops(&mpath->shadows, bio->bi_iter.bi_sector, bio_sectors(bio), bio);
	if (stops && !nowait) {
		/* Its device may be NULL, or of a path that was removed. */
		bio_set_dev(bio, member->bdev);
		bio_list_add(&mpath->quiet, bio);
		WRITE_ONCE(mpath->quiet_bytes, mpath->quiet_bytes +
			   min_t(u32, bio->bi_iter.bi_size, WEFT_QOS_PIECE));
	}
	spin_unlock_irqrestore(&mpath->lock, flags);
	if (stops && nowait)
		bio_wouldblock_error(bio);
	return stops;
}

/**
 * weft_resend_over() - end the shadows whose time is over
 * @member: the member; the lock of its paths is held
 * @now: in jiffies
 * @failed: gets the bios that have failed; weft_resend_fail() ends them
 *
 * Writes that waited for a shadow wait for a path from now on.
 *
 * Context: any.
 * Return: jiffies until the next shadow ends; MAX_JIFFY_OFFSET if there is none.
 */
unsigned long weft_resend_over(struct weft_member *member, unsigned long now,
			       struct bio_list *failed)
{
	struct weft_mpath *mpath = &member->mpath;
	struct weft_shadow *shadow, *next;
	LIST_HEAD(over);

	lockdep_assert_held(&mpath->lock);
	if (!weft_shadows_any(&mpath->shadows))
		return MAX_JIFFY_OFFSET;
	weft_shadows_take_over(&mpath->shadows, now, &over);
	list_for_each_entry_safe(shadow, next, &over, over) {
		struct weft_resend *resend = container_of(shadow, struct weft_resend, shadow);

		if (shadow == &mpath->shadows.whole)
			continue;
		if (!resend->bio)
			kfree(resend);
		else if (resend->failed)
			bio_list_add(failed, resend->bio);
		/* Otherwise the bio is on its way, and frees it. */
	}
	/* While that of the whole member stays, it would stop all of them again. */
	if (!list_empty(&over) && RB_EMPTY_NODE(&mpath->shadows.whole.node)) {
		bio_list_merge(&mpath->held, &mpath->quiet);
		bio_list_init(&mpath->quiet);
		WRITE_ONCE(mpath->quiet_bytes, 0);
	}
	if (!weft_shadows_any(&mpath->shadows))
		return MAX_JIFFY_OFFSET;
	return mpath->shadows.end - now;
}

/**
 * weft_resend_fail() - end the bios whose errors waited for the end of a shadow
 * @failed: from weft_resend_over(); empty afterwards
 *
 * Context: any.
 */
void weft_resend_fail(struct bio_list *failed)
{
	struct bio *bio;

	/* The shadow has ended, so this goes on to the submitter. */
	while ((bio = bio_list_pop(failed)))
		weft_resend_end_io(bio);
}

/**
 * weft_resend_op_lost() - the same as weft_resend_lost(), for an operation
 * @member: the member; the lock of its paths is held
 * @op: a write; the caller calls weft_resend_op_ended() when it has ended
 * @after: see there
 *
 * Context: any.
 */
void weft_resend_op_lost(struct weft_member *member, const struct weft_mem_op *op,
			 unsigned long after)
{
	struct weft_mpath *mpath = &member->mpath;
	sector_t sectors = op->length >> SECTOR_SHIFT;
	struct weft_shadow *shadow;
	struct weft_resend *resend;

	lockdep_assert_held(&mpath->lock);
	shadow = weft_shadow_of(&mpath->shadows, op->sector, sectors, op);
	if (!shadow) {
		resend = weft_resend_alloc(member, op->sector, sectors, op);
		shadow = resend ? &resend->shadow : &mpath->shadows.whole;
	}
	weft_shadow_cast(&mpath->shadows, shadow, after);
}

/**
 * weft_resend_op_ended() - an operation that was sent again has ended
 * @member: the member
 * @op: the operation, which may be freed now
 *
 * Context: any.
 */
void weft_resend_op_ended(struct weft_member *member, const struct weft_mem_op *op)
{
	struct weft_mpath *mpath = &member->mpath;
	struct weft_shadow *shadow;
	unsigned long flags;

	spin_lock_irqsave(&mpath->lock, flags);
	shadow = weft_shadow_of(&mpath->shadows, op->sector, op->length >> SECTOR_SHIFT, op);
	if (shadow)
		shadow->owner = NULL;
	spin_unlock_irqrestore(&mpath->lock, flags);
}

/**
 * weft_resend_op_stops() - does an operation have to wait for the end of a shadow?
 * @member: the member
 * @op: a write that is about to be sent
 *
 * Context: any.
 * Return: true if it has to wait.
 */
bool weft_resend_op_stops(struct weft_member *member, const struct weft_mem_op *op)
{
	struct weft_mpath *mpath = &member->mpath;
	unsigned long flags;
	bool stops;

	spin_lock_irqsave(&mpath->lock, flags);
	stops = weft_shadow_stops(&mpath->shadows, op->sector, op->length >> SECTOR_SHIFT, op);
	spin_unlock_irqrestore(&mpath->lock, flags);
	return stops;
}

/**
 * weft_resend_outlast() - wait until a member has no shadow
 * @member: the member; no I/O on it is in flight
 *
 * After a stop, this host or another one may write to the volume at once, without
 * these shadows.
 *
 * Context: process context; sleeps for as long as targets may execute writes.
 */
void weft_resend_outlast(struct weft_member *member)
{
	struct weft_mpath *mpath = &member->mpath;
	bool any;

	do {
		long wait = 0;

		spin_lock_irq(&mpath->lock);
		any = weft_shadows_any(&mpath->shadows);
		if (any)
			wait = mpath->shadows.end - jiffies;
		spin_unlock_irq(&mpath->lock);
		/* The work of the paths ends the shadow, a little later. */
		if (any)
			schedule_timeout_idle(clamp(wait, 1L, (long)HZ));
	} while (any);
}

/**
 * weft_resend_exit() - end all shadows of a member
 * @member: the member; its paths are gone
 *
 * Only writes of other programs to the member's disk can have left shadows.
 *
 * Context: process context.
 */
void weft_resend_exit(struct weft_member *member)
{
	struct weft_mpath *mpath = &member->mpath;
	struct bio_list failed = BIO_EMPTY_LIST;

	spin_lock_irq(&mpath->lock);
	while (weft_shadows_any(&mpath->shadows))
		weft_resend_over(member, mpath->shadows.end, &failed);
	spin_unlock_irq(&mpath->lock);
	weft_resend_fail(&failed);
}

void __init weft_resend_init(void)
{
	struct bio parent, child;

	bio_init(&parent, NULL, NULL, 0, REQ_OP_READ);
	bio_init(&child, NULL, NULL, 0, REQ_OP_READ);
	bio_chain(&child, &parent);
	weft_chain_end_io = child.bi_end_io;
}
