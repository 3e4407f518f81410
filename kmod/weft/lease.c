// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lease that a heartbeat gives: the state of this host's claim on a volume, and
 * what becomes of I/O by it. owner.c does the heartbeats, and describes them.
 */
#include "weft.h"

#include "trace.h"

static const char * const weft_ownership_text[] = {
	[WEFT_OWNERSHIP_NONE]		= "the volume is released",
	[WEFT_OWNERSHIP_HELD]		= "the heartbeat succeeds",
	[WEFT_OWNERSHIP_SUSPENDED]	=
		"no heartbeat succeeded in time; writes wait until two in a row succeed",
	[WEFT_OWNERSHIP_FAILED]		= "heartbeats fail; writes fail until two in a row succeed",
};

/*
 * May the claim go from one state to another? LOST is final until the release,
 * and from NONE the claim can only become HELD.
 */
static bool weft_owner_may(enum weft_ownership from, enum weft_ownership to)
{
	switch (to) {
	case WEFT_OWNERSHIP_NONE:
		return true;
	case WEFT_OWNERSHIP_HELD:
		return from != WEFT_OWNERSHIP_LOST;
	case WEFT_OWNERSHIP_SUSPENDED:
		return from == WEFT_OWNERSHIP_HELD ||
		       from == WEFT_OWNERSHIP_FAILED;
	case WEFT_OWNERSHIP_FAILED:
		return from == WEFT_OWNERSHIP_HELD ||
		       from == WEFT_OWNERSHIP_SUSPENDED;
	case WEFT_OWNERSHIP_LOST:
		return from != WEFT_OWNERSHIP_NONE;
	}
	return false;
}

/**
 * weft_owner_set() - the one place where the state of a claim changes
 * @vol: the volume
 * @to: the new state; a change that is not allowed does nothing
 * @text: the reason for the log and the event; NULL for the state's default, which
 *	LOST has not
 *
 * Sends or fails the writes that wait.
 *
 * Context: process context; never where a bio is submitted.
 */
void weft_owner_set(struct weft_volume *vol, enum weft_ownership to, const char *text)
{
	struct weft_owner_claim *owner = &vol->owner;
	struct bio_list held = BIO_EMPTY_LIST;
	enum weft_ownership from;
	bool kick = false;
	struct bio *bio;
	u32 i;

	spin_lock_irq(&owner->lock);
	from = owner->state;
	if (!weft_owner_may(from, to)) {
		spin_unlock_irq(&owner->lock);
		return;
	}
	owner->state = to;
	/*
	 * Also if the state stays HELD: a write may have been held while a
	 * heartbeat was late.
	 */
	if (to != WEFT_OWNERSHIP_SUSPENDED) {
		held = owner->held;
		bio_list_init(&owner->held);
		kick = owner->members_wait || from != to;
		owner->members_wait = false;
	}
	spin_unlock_irq(&owner->lock);

	/* Not here: sending may wait for a member, and the next heartbeat for this one. */
	while ((bio = bio_list_pop(&held)))
		if (to == WEFT_OWNERSHIP_HELD)
			weft_defer(vol, bio);
		else
			bio_io_error(bio);
	for (i = 0; kick && i < vol->member_count; i++)
		weft_mpath_kick(vol->members[i]);
	if (from == to)
		return;
	trace_weft_ownership(vol, from, to);
	/* Assembly and stop report the first claim and the release. */
	if (from == WEFT_OWNERSHIP_NONE || to == WEFT_OWNERSHIP_NONE)
		return;
	text = text ?: weft_ownership_text[to];
	weft_warn(vol, "%s\n", text);
	weft_event(vol, WEFT_EVENT_TYPE_OWNERSHIP, NULL, 0, text);
}

/**
 * weft_owner_kick() - start a heartbeat now
 * @vol: the volume; without a claim on it nothing happens
 *
 * Context: any.
 */
void weft_owner_kick(struct weft_volume *vol)
{
	struct weft_owner_claim *owner = &vol->owner;
	unsigned long flags;

	/* The next one is due an interval after that, see weft_owner_may_renew(). */
	if (READ_ONCE(owner->regained) &&
	    time_before(jiffies, READ_ONCE(owner->regained_at) + weft_owner_interval(vol)))
		return;
	spin_lock_irqsave(&owner->lock, flags);
	if (!owner->ended && owner->state != WEFT_OWNERSHIP_NONE &&
	    owner->state != WEFT_OWNERSHIP_LOST)
		mod_delayed_work(vol->wq, &owner->work, 0);
	spin_unlock_irqrestore(&owner->lock, flags);
}

/**
 * weft_owner_admit() - may a write that a member held be sent now?
 * @vol: the volume
 *
 * The lease was checked when the write was submitted, maybe long ago. Another
 * host may have taken the volume since. After WAIT, the next heartbeat that
 * decides calls weft_mpath_kick() for all members.
 *
 * Context: process context; does not sleep.
 * Return: the decision.
 */
enum weft_admission weft_owner_admit(struct weft_volume *vol)
{
	struct weft_owner_claim *owner = &vol->owner;
	enum weft_admission admission = WEFT_ADMISSION_FAIL;

	/* A read-only volume does not write: this is another program's write to the disk. */
	if (vol->read_only)
		return WEFT_ADMISSION_PASS;
	spin_lock_irq(&owner->lock);
	if (!weft_lease_is_over(&vol->lease)) {
		admission = WEFT_ADMISSION_PASS;
	} else if (weft_owner_waits(vol)) {
		admission = WEFT_ADMISSION_WAIT;
		owner->members_wait = true;
	}
	spin_unlock_irq(&owner->lock);
	if (admission == WEFT_ADMISSION_WAIT)
		weft_owner_kick(vol);
	return admission;
}

/**
 * weft_owner_refuses() - do writes fail at once?
 * @vol: the volume
 *
 * Context: any.
 * Return: true if they fail, false if they pass or wait.
 */
bool weft_owner_refuses(struct weft_volume *vol)
{
	enum weft_ownership state = READ_ONCE(vol->owner.state);

	return state == WEFT_OWNERSHIP_FAILED || state == WEFT_OWNERSHIP_LOST;
}

/**
 * weft_owner_waits() - does I/O that needs the lease wait where it is over?
 * @vol: the volume
 *
 * Context: any.
 * Return: true if it waits, false if it fails.
 */
bool weft_owner_waits(struct weft_volume *vol)
{
	enum weft_ownership state = READ_ONCE(vol->owner.state);

	return state == WEFT_OWNERSHIP_HELD || state == WEFT_OWNERSHIP_SUSPENDED;
}

/**
 * weft_owner_hold() - handle a write that came after the end of the lease
 * @vol: the volume
 * @bio: a write; it is held, sent or ended
 *
 * Context: where a bio is submitted; does not sleep.
 */
void weft_owner_hold(struct weft_volume *vol, struct bio *bio)
{
	struct weft_owner_claim *owner = &vol->owner;
	bool expired;

	/* A read-only volume does not write, so its flush has no data. */
	if (vol->read_only && !bio_sectors(bio)) {
		bio_endio(bio);
		return;
	}

	spin_lock_irq(&owner->lock);
	expired = weft_lease_is_over(&vol->lease);
	if (weft_owner_waits(vol)) {
		if (bio->bi_opf & REQ_NOWAIT) {
			spin_unlock_irq(&owner->lock);
			bio_wouldblock_error(bio);
			return;
		}
		if (expired) {
			bio_list_add(&owner->held, bio);
			spin_unlock_irq(&owner->lock);
			/* A late heartbeat reports the state SUSPENDED. */
			weft_owner_kick(vol);
			return;
		}
	}
	spin_unlock_irq(&owner->lock);
	if (expired)
		bio_io_error(bio);
	else
		submit_bio_noacct(bio);	/* a heartbeat came in between */
}
