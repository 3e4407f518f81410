// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a volume: the one place that changes it, the list of volumes, and
 * what failures of members do to it.
 *
 * Everything here can be called from below, for example by paths. volume.c does
 * what follows.
 */
#include "weft.h"

#include "trace.h"

/*
 * Protects weft_volumes, and keeps the volumes on it. A holder must not wait
 * for I/O, and must allocate under memalloc_noio_save(): reclaim may do I/O.
 */
DEFINE_MUTEX(weft_volumes_lock);
LIST_HEAD(weft_volumes);
/* Protects the state of every volume. */
static DEFINE_SPINLOCK(weft_state_lock);

static bool weft_volume_may(enum weft_volume_state from, enum weft_volume_state to)
{
	switch (to) {
	case WEFT_VOLUME_STATE_ASSEMBLING:
		return false;
	case WEFT_VOLUME_STATE_LIVE:
		return from == WEFT_VOLUME_STATE_ASSEMBLING;
	case WEFT_VOLUME_STATE_FAILED:
		return from == WEFT_VOLUME_STATE_LIVE ||
		       from == WEFT_VOLUME_STATE_FAILED;
	case WEFT_VOLUME_STATE_STOPPING:
		return from == WEFT_VOLUME_STATE_LIVE ||
		       from == WEFT_VOLUME_STATE_FAILED;
	}
	return false;
}

/**
 * weft_volume_set_state() - the one place where a volume's state changes
 * @vol: the volume
 * @state: the new state
 *
 * Context: any.
 * Return: true if the change is allowed and was made.
 */
bool weft_volume_set_state(struct weft_volume *vol, enum weft_volume_state state)
{
	enum weft_volume_state from;
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&weft_state_lock, flags);
	from = vol->state;
	ok = weft_volume_may(from, state);
	if (ok)
		vol->state = state;
	spin_unlock_irqrestore(&weft_state_lock, flags);
	if (ok)
		trace_weft_state(vol, from, state);
	return ok;
}

/**
 * weft_volume_find() - find a volume by name
 * @name: the name
 *
 * Context: the caller holds weft_volumes_lock, which keeps the volume.
 * Return: the volume or NULL.
 */
struct weft_volume *weft_volume_find(const char *name)
{
	struct weft_volume *vol;

	lockdep_assert_held(&weft_volumes_lock);
	list_for_each_entry(vol, &weft_volumes, list)
		if (!strcmp(vol->name, name))
			return vol;
	return NULL;
}

/**
 * weft_volume_begin() - find a live volume and set its busy flag
 * @name: of the volume
 * @why: gets the reason of a failure
 *
 * The flag keeps the volume, and makes other commands on it fail.
 *
 * Context: process context.
 * Return: the volume, or an ERR_PTR. Undo with weft_volume_done().
 */
struct weft_volume *weft_volume_begin(const char *name, struct weft_why *why)
{
	struct weft_volume *vol;
	int ret = 0;

	mutex_lock(&weft_volumes_lock);
	vol = weft_volume_find(name);
	if (!vol)
		ret = weft_refuse(why, -ENOENT, "no volume is called %s", name);
	else if (vol->state == WEFT_VOLUME_STATE_ASSEMBLING)
		ret = weft_refuse(why, -EBUSY,
				  "volume %s is being assembled by another command", name);
	else if (vol->state == WEFT_VOLUME_STATE_STOPPING)
		ret = weft_refuse(why, -EBUSY,
				  "volume %s is being stopped by another command", name);
	else if (vol->busy)
		ret = weft_refuse(why, -EBUSY,
				  "volume %s is being changed by another command", name);
	else
		vol->busy = true;
	mutex_unlock(&weft_volumes_lock);
	return ret ? ERR_PTR(ret) : vol;
}

/**
 * weft_volume_done() - undo weft_volume_begin()
 * @vol: the volume
 */
void weft_volume_done(struct weft_volume *vol)
{
	mutex_lock(&weft_volumes_lock);
	vol->busy = false;
	mutex_unlock(&weft_volumes_lock);
}

/**
 * weft_volume_member_failed() - count and report an I/O that a member failed
 * @member: the member
 *
 * Context: any; called where bios complete.
 */
void weft_volume_member_failed(struct weft_member *member)
{
	struct weft_volume *vol = member->volume;

	this_cpu_inc(member->stats->errors);
	if (!test_and_set_bit(member->index, vol->errored))
		queue_delayed_work(vol->wq, &vol->event_work, HZ);
}

/**
 * weft_volume_member_gone() - mark a volume as failed after a removal
 * @member: the member whose device was removed; it is marked as gone
 *
 * During assembly this does nothing: assembly looks for removed members when
 * the volume is live.
 *
 * Context: process context, may sleep.
 */
void weft_volume_member_gone(struct weft_member *member)
{
	if (weft_volume_set_state(member->volume, WEFT_VOLUME_STATE_FAILED))
		weft_event(member->volume, WEFT_EVENT_TYPE_MEMBER_GONE, member,
			   ENODEV, "the member's device was removed");
}

/**
 * weft_member_gone() - the devices of all paths of a member were removed
 * @member: the member
 *
 * Only the first call has an effect.
 *
 * Context: process context, may sleep.
 */
void weft_member_gone(struct weft_member *member)
{
	if (xchg(&member->gone, true))
		return;
	weft_warn(member->volume, "member %u (%s) is gone\n", member->index,
		  member->address);
	weft_volume_member_gone(member);
}
