// SPDX-License-Identifier: GPL-2.0-only
/*
 * The owner record: one host writes to a volume.
 *
 * DOC: heartbeat and lease
 *
 * The host that has a volume assembled read-write says so in a record on
 * member 0 (uapi/weft_format.h) and rewrites it every interval: its heart
 * beats. Another host that wants the volume watches the record. A beat seen
 * refuses it at once; none seen for WEFT_LEASE_BEATS + WEFT_OBSERVE_MARGIN
 * intervals means that the heart stopped, and then it needs to be told to take
 * over, unless the record is its own from before a reboot.
 *
 * A host that stands still (a debugger, a stuck path) does not know it. So a
 * beat is a lease: writes pass for WEFT_LEASE_BEATS intervals after the start
 * of the last beat that succeeded, and wait after that until one does. (A
 * machine whose clock stood still as well, paused or suspended, is caught by
 * the next beat, at most an interval after it goes on.) Before each beat the
 * record is read; somebody else's name in it means that the volume was taken,
 * and no write passes any more. A beat that took a lease's length to read is
 * not written but begun again.
 *
 * What this cannot do: a disk has no compare-and-write that every device
 * offers, so a host that stands still while the write of its beat is on its
 * way may write over a newer record. The two checks that follow (after the
 * claim, and before each beat) leave one of the two the owner. And a write that was
 * sent before the host stood still may arrive late; only a reservation on the
 * target keeps that out.
 *
 * weft_owner_set() is the one place where the state changes.
 */
#include "weft.h"

#include <linux/delay.h>
#include <linux/random.h>
#include <linux/timekeeping.h>

#include "trace.h"

static unsigned int weft_heartbeat_ms = 1000;

static int weft_heartbeat_set(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, WEFT_HEARTBEAT_MIN_MS,
				     WEFT_HEARTBEAT_MAX_MS);
}

static const struct kernel_param_ops weft_heartbeat_ops = {
	.set	= weft_heartbeat_set,
	.get	= param_get_uint,
};

module_param_cb(heartbeat_ms, &weft_heartbeat_ops, &weft_heartbeat_ms, 0644);
MODULE_PARM_DESC(heartbeat_ms,
		 "interval of the owner's heartbeat in ms, 100 to 60000, for volumes assembled from now on; the same on all hosts (default 1000)");

static const char * const weft_ownership_text[] = {
	[WEFT_OWNERSHIP_NONE]		= "the volume is released",
	[WEFT_OWNERSHIP_HELD]		= "the heart beats",
	[WEFT_OWNERSHIP_SUSPENDED]	= "no heartbeat got through in time, writes wait for one",
	[WEFT_OWNERSHIP_FAILED]		= "heartbeats fail, writes fail until one gets through",
	[WEFT_OWNERSHIP_LOST]		= "another host took the volume, writes fail for good",
};

/*
 * May the claim go from one state to another? LOST is final until release, and
 * a claim that was given up comes back as nothing but a new one.
 */
static bool weft_owner_may(enum weft_ownership from, enum weft_ownership to)
{
	switch (to) {
	case WEFT_OWNERSHIP_NONE:
		return true;
	case WEFT_OWNERSHIP_HELD:
		return from != WEFT_OWNERSHIP_LOST;
	case WEFT_OWNERSHIP_SUSPENDED:
		return from == WEFT_OWNERSHIP_HELD;
	case WEFT_OWNERSHIP_FAILED:
		return from == WEFT_OWNERSHIP_HELD ||
		       from == WEFT_OWNERSHIP_SUSPENDED;
	case WEFT_OWNERSHIP_LOST:
		return from != WEFT_OWNERSHIP_NONE;
	}
	return false;
}

/*
 * Change the state, and let the waiting writes go where the new one says.
 * Process context: never called where a bio is submitted.
 */
static void weft_owner_set(struct weft_volume *vol, enum weft_ownership to)
{
	struct weft_owner_claim *owner = &vol->owner;
	struct bio_list held = BIO_EMPTY_LIST;
	enum weft_ownership from;
	struct bio *bio;

	spin_lock_irq(&owner->lock);
	from = owner->state;
	if (!weft_owner_may(from, to)) {
		spin_unlock_irq(&owner->lock);
		return;
	}
	owner->state = to;
	/*
	 * Also when nothing changes: a write may have been held while a late
	 * beat was under way that never left HELD.
	 */
	if (to != WEFT_OWNERSHIP_SUSPENDED) {
		held = owner->held;
		bio_list_init(&owner->held);
	}
	spin_unlock_irq(&owner->lock);

	while ((bio = bio_list_pop(&held))) {
		if (to == WEFT_OWNERSHIP_HELD)
			submit_bio_noacct(bio);
		else
			bio_io_error(bio);
	}
	if (from == to)
		return;
	trace_weft_ownership(vol, from, to);
	/* The first claim and the release are told by assembly and stop. */
	if (from == WEFT_OWNERSHIP_NONE || to == WEFT_OWNERSHIP_NONE)
		return;
	weft_warn(vol, "%s\n", weft_ownership_text[to]);
	weft_event(vol, WEFT_EVENT_TYPE_OWNERSHIP, NULL, 0,
		   weft_ownership_text[to]);
}

/**
 * weft_owner_state() - what the claim is worth now
 * @vol: the volume
 *
 * Return: the state.
 */
enum weft_ownership weft_owner_state(struct weft_volume *vol)
{
	return READ_ONCE(vol->owner.state);
}

/**
 * weft_owner_hold() - a write that came after the lease ran out
 * @vol: the volume
 * @bio: a write; kept, sent on or ended
 *
 * Context: where a bio is submitted; does not sleep.
 */
void weft_owner_hold(struct weft_volume *vol, struct bio *bio)
{
	struct weft_owner_claim *owner = &vol->owner;
	enum weft_ownership state;
	bool expired;

	/* Nothing was written, so there is nothing to flush. */
	if (vol->read_only && !bio_sectors(bio)) {
		bio_endio(bio);
		return;
	}

	spin_lock_irq(&owner->lock);
	state = owner->state;
	expired = time_after(jiffies, READ_ONCE(vol->lease));
	if (state == WEFT_OWNERSHIP_HELD || state == WEFT_OWNERSHIP_SUSPENDED) {
		if (bio->bi_opf & REQ_NOWAIT) {
			spin_unlock_irq(&owner->lock);
			bio_wouldblock_error(bio);
			return;
		}
		if (expired) {
			bio_list_add(&owner->held, bio);
			spin_unlock_irq(&owner->lock);
			/* Let it find out that it is late, and say so. */
			mod_delayed_work(vol->wq, &owner->work, 0);
			return;
		}
	}
	spin_unlock_irq(&owner->lock);
	if (expired)
		bio_io_error(bio);
	else
		submit_bio_noacct(bio);	/* a beat came in between */
}

static int weft_owner_read(struct weft_volume *vol, struct weft_owner_info *info,
			   struct weft_why *why)
{
	struct page *page = vol->owner.page;
	int ret;

	ret = weft_member_rw(vol->members[0], REQ_OP_READ | REQ_META | REQ_PRIO,
			     WEFT_OWNER_OFFSET, page);
	if (ret)
		return weft_refuse(why, ret == -ENODATA ? -EIO : ret,
				   "the owner record cannot be read from member %s (error %d)",
				   vol->members[0]->address, -ret);
	ret = weft_owner_decode(page_address(page), info, why);
	if (!ret && memcmp(info->volume_uuid, vol->uuid, WEFT_UUID_SIZE))
		return -ENODATA;	/* left by another volume: nobody's */
	return ret;
}

static int weft_owner_write(struct weft_volume *vol, u32 state)
{
	struct weft_owner_claim *owner = &vol->owner;

	owner->info.state = state;
	owner->info.sequence++;
	owner->info.beat_time = ktime_get_real_seconds();
	clear_page(page_address(owner->page));
	weft_owner_encode(&owner->info, page_address(owner->page));
	return weft_member_rw(vol->members[0],
			      REQ_OP_WRITE | REQ_SYNC | REQ_META | REQ_PRIO |
			      REQ_PREFLUSH | REQ_FUA,
			      WEFT_OWNER_OFFSET, owner->page);
}

static bool weft_owner_is_ours(struct weft_volume *vol,
			       const struct weft_owner_info *info)
{
	return info->state == WEFT_OWNER_HELD &&
	       !memcmp(info->instance, vol->owner.info.instance, WEFT_UUID_SIZE);
}

static unsigned long weft_owner_interval(struct weft_volume *vol)
{
	return msecs_to_jiffies(vol->owner.info.interval_ms);
}

static unsigned long weft_owner_lease_end(struct weft_volume *vol,
					  unsigned long beat_start)
{
	return beat_start + WEFT_LEASE_BEATS * weft_owner_interval(vol);
}

/*
 * One beat. Its length is bounded by nothing but the member's own timeouts;
 * meanwhile the lease runs out and writes wait, which is what is wanted.
 */
static void weft_owner_beat(struct work_struct *work)
{
	struct weft_volume *vol = container_of(to_delayed_work(work),
					       struct weft_volume, owner.work);
	unsigned long start = jiffies;
	struct weft_owner_info seen;
	struct weft_why why = {};
	int ret;

	/* A late write may have kicked the work once more. */
	if (weft_owner_state(vol) == WEFT_OWNERSHIP_LOST)
		return;
	if (time_after(start, READ_ONCE(vol->lease)))
		weft_owner_set(vol, WEFT_OWNERSHIP_SUSPENDED);
	ret = weft_owner_read(vol, &seen, &why);
	if (ret == -ENODATA || ret == -EBADMSG || (!ret && !weft_owner_is_ours(vol, &seen))) {
		/* The lease ends with the claim, and nothing renews it. */
		WRITE_ONCE(vol->lease, jiffies - 1);
		weft_owner_set(vol, WEFT_OWNERSHIP_LOST);
		return;
	}
	/*
	 * Whoever stood still since the read began, for longer than a lease,
	 * may hold an old copy of a record that is another's by now.
	 */
	if (!ret && time_after(jiffies, weft_owner_lease_end(vol, start))) {
		queue_delayed_work(vol->wq, &vol->owner.work, 0);
		return;
	}
	if (!ret)
		ret = weft_owner_write(vol, WEFT_OWNER_HELD);
	if (!ret) {
		WRITE_ONCE(vol->lease, weft_owner_lease_end(vol, start));
		weft_owner_set(vol, WEFT_OWNERSHIP_HELD);
	} else if (time_after(jiffies, READ_ONCE(vol->lease))) {
		weft_owner_set(vol, WEFT_OWNERSHIP_FAILED);
	}
	queue_delayed_work(vol->wq, &vol->owner.work, weft_owner_interval(vol));
}

/* Wait, or leave when the user lost patience. */
static int weft_owner_sleep(unsigned int msecs)
{
	return msleep_interruptible(msecs) ? -EINTR : 0;
}

static int weft_owner_busy(struct weft_volume *vol,
			   const struct weft_owner_info *owner,
			   struct weft_why *why)
{
	return weft_refuse(why, -EBUSY,
			   "volume %s is owned by host %s, whose heart beats (%u ms between beats)",
			   vol->name, owner->host_nqn, owner->interval_ms);
}

/*
 * Watch a record that says HELD, until it changes or its owner's time is up.
 * Returns 0 when the heart stopped.
 */
static noinline_for_stack int
weft_owner_watch(struct weft_volume *vol, const struct weft_owner_info *first,
		 struct weft_why *why)
{
	unsigned int beats = WEFT_LEASE_BEATS + WEFT_OBSERVE_MARGIN;
	struct weft_owner_info seen;
	unsigned int i;
	int ret;

	/* Twice an interval, so that a beat cannot fall between two looks. */
	for (i = 0; i < 2 * beats; i++) {
		ret = weft_owner_sleep(DIV_ROUND_UP(first->interval_ms, 2));
		if (!ret)
			ret = weft_owner_read(vol, &seen, why);
		if (ret)
			return ret;
		if (seen.state != WEFT_OWNER_HELD)
			return 0;
		if (seen.sequence != first->sequence ||
		    memcmp(seen.instance, first->instance, WEFT_UUID_SIZE))
			return weft_owner_busy(vol, &seen, why);
	}
	return 0;
}

/* May this host claim the volume, as far as the record tells? */
static noinline_for_stack int
weft_owner_may_claim(struct weft_volume *vol, const char *host_nqn,
		     bool take_over, struct weft_why *why)
{
	struct weft_owner_info seen;
	struct weft_why damage = {};
	s64 age;
	int ret;

	ret = weft_owner_read(vol, &seen, &damage);
	if (ret == -ENODATA)
		return 0;
	if (ret == -EBADMSG) {
		if (take_over)
			return 0;
		return weft_refuse(why, -EBUSY,
				   "volume %s: %s, so nobody can tell whether a host owns it; --take-over if none does",
				   vol->name, damage.text);
	}
	if (ret)
		return weft_refuse(why, ret, "volume %s: %s", vol->name, damage.text);

	vol->owner.info.generation = seen.generation;
	if (seen.state == WEFT_OWNER_FREE)
		return 0;
	ret = weft_owner_watch(vol, &seen, why);
	if (ret || take_over || !strcmp(seen.host_nqn, host_nqn))
		return ret;
	age = ktime_get_real_seconds() - (s64)seen.beat_time;
	return weft_refuse(why, -EBUSY,
			   "volume %s is owned by host %s, whose heart stopped %lld seconds ago by the two clocks; --take-over if that host is down",
			   vol->name, seen.host_nqn, age);
}

/**
 * weft_owner_take() - claim a volume and let the heart beat
 * @vol: its members are open for writing
 * @host_nqn: of this host
 * @take_over: from a host whose heart stopped
 * @why: gets the reason of a failure
 *
 * Context: process context; takes some intervals, ends early on a signal.
 * Return: 0; -EBUSY when another host owns it; -EINTR; or an I/O error. Undo
 * by weft_owner_release().
 */
int weft_owner_take(struct weft_volume *vol, const char *host_nqn,
		    bool take_over, struct weft_why *why)
{
	struct weft_owner_claim *owner = &vol->owner;
	struct weft_owner_info seen;
	unsigned long start;
	int ret;

	ret = weft_owner_may_claim(vol, host_nqn, take_over, why);
	if (ret)
		return ret;

	memcpy(owner->info.volume_uuid, vol->uuid, WEFT_UUID_SIZE);
	get_random_bytes(owner->info.instance, WEFT_UUID_SIZE);
	owner->info.generation++;
	owner->info.interval_ms = READ_ONCE(weft_heartbeat_ms);
	strscpy(owner->info.host_nqn, host_nqn, sizeof(owner->info.host_nqn));
	start = jiffies;
	ret = weft_owner_write(vol, WEFT_OWNER_HELD);
	if (ret)
		return weft_refuse(why, ret,
				   "the owner record cannot be written to member %s (error %d)",
				   vol->members[0]->address, -ret);

	/*
	 * Two hosts may have found the volume free in the same moment; whoever
	 * wrote last has it, and the other sees that here.
	 */
	ret = weft_owner_sleep(2 * owner->info.interval_ms);
	if (!ret)
		ret = weft_owner_read(vol, &seen, why);
	if (!ret && !weft_owner_is_ours(vol, &seen))
		return weft_owner_busy(vol, &seen, why);
	if (ret) {
		weft_owner_write(vol, WEFT_OWNER_FREE);
		return ret;
	}
	WRITE_ONCE(vol->lease, weft_owner_lease_end(vol, start));
	weft_owner_set(vol, WEFT_OWNERSHIP_HELD);
	queue_delayed_work(vol->wq, &owner->work, 0);
	return 0;
}

/**
 * weft_owner_release() - let the heart stop and say so on the member
 * @vol: no write is in flight; a volume never claimed is left alone
 *
 * Context: process context, may sleep.
 */
void weft_owner_release(struct weft_volume *vol)
{
	enum weft_ownership state = weft_owner_state(vol);
	struct weft_owner_info seen;
	struct weft_why why = {};
	int ret;

	cancel_delayed_work_sync(&vol->owner.work);
	if (state == WEFT_OWNERSHIP_NONE)
		return;
	WRITE_ONCE(vol->lease, jiffies - 1);
	state = weft_owner_state(vol);
	weft_owner_set(vol, WEFT_OWNERSHIP_NONE);
	if (state == WEFT_OWNERSHIP_LOST)
		return;
	ret = weft_owner_read(vol, &seen, &why);
	if (!ret && !weft_owner_is_ours(vol, &seen))
		return;
	if (!ret)
		ret = weft_owner_write(vol, WEFT_OWNER_FREE);
	if (ret)
		weft_warn(vol, "the owner record could not be released (error %d): the next host waits until the heart has stopped, and needs --take-over\n",
			  -ret);
}

/**
 * weft_owner_init() - what a claim needs
 * @vol: the volume
 *
 * Return: 0 or -ENOMEM; undo by weft_owner_exit().
 */
int weft_owner_init(struct weft_volume *vol)
{
	struct weft_owner_claim *owner = &vol->owner;

	spin_lock_init(&owner->lock);
	bio_list_init(&owner->held);
	INIT_DELAYED_WORK(&owner->work, weft_owner_beat);
	WRITE_ONCE(vol->lease, jiffies - 1);
	owner->page = alloc_page(GFP_KERNEL);
	return owner->page ? 0 : -ENOMEM;
}

/**
 * weft_owner_exit() - undo weft_owner_init()
 * @vol: released
 */
void weft_owner_exit(struct weft_volume *vol)
{
	__free_page(vol->owner.page);
}
