// SPDX-License-Identifier: GPL-2.0-only
/*
 * The owner record: one host writes to a volume.
 *
 * DOC: heartbeat and lease
 *
 * A host that has a volume assembled read-write owns it. It writes an owner
 * record to member 0 (uapi/weft_format.h) and rewrites it every interval: this
 * is its heartbeat. Another host that wants the volume watches the record. If
 * it sees a heartbeat, it is refused at once. If it sees none for
 * WEFT_LEASE_BEATS + WEFT_OBSERVE_MARGIN intervals, the heartbeat has stopped.
 * It waits on until no target can execute a write of the former owner any more
 * (see "late writes").
 * It may then take over if its user requests that, or if the record is its own
 * from before a reboot: it has the host's NQN, and the machine's UUID if both are
 * known. Machines that were cloned share the one, and not the other.
 *
 * A host that stalls (in a debugger, on a stuck path) does not notice this
 * itself. Therefore a heartbeat is a lease: writes pass for WEFT_LEASE_BEATS
 * intervals from the start of the last heartbeat that succeeded, and then wait
 * for the next two (weft_owner_may_renew()). Writes that are held for a path
 * (multipath.c) are checked again before they are sent. (If the host's clock stopped
 * as well, as in a paused or suspended machine, the next heartbeat detects the
 * loss, at most an interval after the host resumes.)
 *
 * Each heartbeat first reads the record. If the record names another owner, the
 * volume was taken, and all writes fail from then on. If the read took longer
 * than a lease, the heartbeat starts again instead of writing. A heartbeat is
 * not held for a path: it fails with its path, and the next one reads the
 * record again.
 *
 * DOC: the claim
 *
 * The write of a heartbeat may be delayed, and reach the record when another
 * host owns it. Not every device has a compare-and-write that would prevent
 * this. Therefore a host that takes the volume writes the record twice. The
 * second one is the claim, and heartbeats do not write it. Each heartbeat reads
 * both. If the claim is another host's, the volume was taken. If only the
 * record is another host's, and is of an older generation than the claim, it is
 * a late heartbeat of a former owner, and the next heartbeat overwrites it.
 *
 * DOC: late writes
 *
 * A target may execute a data write late that an owner sent while it had its lease. It
 * ends the association of a lost host only by its keep-alive timeout. And an owner that
 * lost member 0 may have writes in flight to other members, whose targets answer Keep
 * Alive and execute no I/O. So an owner whose lease is over for WEFT_OBSERVE_MARGIN
 * intervals ends the connections that have writes in flight. weft_rdma knows for how long
 * a target may execute writes of an association that has ended (@quiet_ms). The owner's
 * record says it for the slowest path of all members, and another host waits for as much
 * longer. Block devices do not say it. There, only a reservation on the target excludes a
 * late write.
 *
 * lease.c has the state, and what becomes of writes by it.
 */
#include "weft.h"

#include <linux/completion.h>
#include <linux/dmi.h>
#include <linux/random.h>
#include <linux/timekeeping.h>
#include <linux/uuid.h>

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

/* Not a volume's own: where memory is too short for threads, it would wait for a heartbeat. */
static struct workqueue_struct *weft_owner_wq;

/* A record counts as damaged after this number of bad reads. */
#define WEFT_OWNER_READS	3

/* The record and the claim. */
#define WEFT_OWNER_BYTES	(WEFT_CLAIM_OFFSET + WEFT_SB_SIZE - WEFT_OWNER_OFFSET)

static void *weft_owner_record_bytes(struct weft_volume *vol)
{
	return page_address(vol->owner.page);
}

static void *weft_owner_claim_bytes(struct weft_volume *vol)
{
	return page_address(vol->owner.page) + WEFT_CLAIM_OFFSET - WEFT_OWNER_OFFSET;
}

/* Anything but a valid claim to this volume counts as no claim. */
static noinline_for_stack void weft_owner_decode_claim(struct weft_volume *vol)
{
	struct weft_owner_info *claim = &vol->owner.claim;
	struct weft_why why = {};
	int ret;

	ret = weft_owner_decode(weft_owner_claim_bytes(vol), claim, &why);
	vol->owner.claim_damaged = ret == -EBADMSG;
	if (ret || memcmp(claim->volume_uuid, vol->uuid, WEFT_UUID_SIZE))
		memset(claim, 0, sizeof(*claim));
}

static int weft_owner_read(struct weft_volume *vol, struct weft_owner_info *info,
			   struct weft_why *why)
{
	int ret;

	vol->owner.read_at = jiffies;
	ret = weft_member_rw(vol->members[0], REQ_OP_READ | REQ_META | REQ_PRIO,
			     WEFT_OWNER_OFFSET, vol->owner.page, WEFT_OWNER_BYTES);
	if (ret)
		return weft_refuse(why, ret == -ENODATA ? -EIO : ret,
				   "the owner record cannot be read from member %s (error %d)",
				   vol->members[0]->address, -ret);
	weft_owner_decode_claim(vol);
	ret = weft_owner_decode(weft_owner_record_bytes(vol), info, why);
	if (!ret && memcmp(info->volume_uuid, vol->uuid, WEFT_UUID_SIZE))
		return -ENODATA;	/* left by another volume */
	return ret;
}

/*
 * How long targets may execute writes of this host, in milliseconds. It does not become
 * shorter: writes may still be on their way over a path that was removed or has changed.
 */
static u32 weft_owner_outlast_ms(struct weft_volume *vol)
{
	u32 i, most = vol->owner.info.outlast_ms;

	for (i = 0; i < vol->member_count; i++)
		most = max(most, weft_mpath_outlast_ms(vol->members[i]));
	return most;
}

/* FUA for a claim and a release; a lost heartbeat is replaced by the next. */
static int weft_owner_write(struct weft_volume *vol, u32 state, bool claim)
{
	struct weft_owner_claim *owner = &vol->owner;

	owner->info.state = state;
	owner->info.outlast_ms = weft_owner_outlast_ms(vol);
	owner->info.sequence++;
	owner->info.beat_time = ktime_get_real_seconds();
	memset(weft_owner_record_bytes(vol), 0, WEFT_OWNER_BYTES);
	weft_owner_encode(&owner->info, weft_owner_record_bytes(vol));
	if (claim)
		weft_owner_encode(&owner->info, weft_owner_claim_bytes(vol));
	return weft_member_rw(vol->members[0],
			      REQ_OP_WRITE | REQ_SYNC | REQ_META | REQ_PRIO |
			      (claim || state == WEFT_OWNER_FREE ? REQ_FUA : 0),
			      WEFT_OWNER_OFFSET, owner->page,
			      claim ? WEFT_OWNER_BYTES : WEFT_SB_SIZE);
}

static bool weft_owner_is_ours(struct weft_volume *vol,
			       const struct weft_owner_info *info)
{
	return info->state == WEFT_OWNER_HELD &&
	       !memcmp(info->instance, vol->owner.info.instance, WEFT_UUID_SIZE);
}

static bool weft_owner_claim_is_ours(struct weft_volume *vol)
{
	return !memcmp(vol->owner.claim.instance, vol->owner.info.instance, WEFT_UUID_SIZE);
}

/* Do the claim and the record that were read say that another host took it? */
static bool weft_owner_is_taken(struct weft_volume *vol, const struct weft_owner_info *record)
{
	if (!weft_owner_claim_is_ours(vol))
		return true;
	return !weft_owner_is_ours(vol, record) &&
	       record->generation >= vol->owner.info.generation;
}

static bool weft_owner_is_free(struct weft_volume *vol, const struct weft_owner_info *record)
{
	return record->state == WEFT_OWNER_FREE &&
	       record->generation >= vol->owner.claim.generation;
}

static unsigned long weft_owner_lease_end(struct weft_volume *vol,
					  unsigned long beat_start)
{
	return beat_start + WEFT_LEASE_BEATS * weft_owner_interval(vol);
}

/*
 * From then on another host counts the time of late writes (weft_owner_silence_ms()).
 * Not by the heartbeat, which may hang on member 0. Again, because a write that was
 * allowed in the lease may be sent as late.
 */
static void weft_owner_end_writes(struct work_struct *work)
{
	struct weft_volume *vol = container_of(to_delayed_work(work), struct weft_volume,
					       owner.end_writes);
	u32 i;

	if (!weft_lease_is_over(&vol->lease))
		return;
	for (i = 0; i < vol->member_count; i++)
		weft_mpath_end_writes(vol->members[i]);
	queue_delayed_work(weft_owner_wq, &vol->owner.end_writes, weft_owner_interval(vol));
}

/* The heartbeat that started then succeeded. */
static void weft_owner_renew(struct weft_volume *vol, unsigned long start)
{
	unsigned long end = weft_owner_lease_end(vol, start);
	long left = end + WEFT_OBSERVE_MARGIN * weft_owner_interval(vol) - jiffies;

	WRITE_ONCE(vol->lease, end);
	mod_delayed_work(weft_owner_wq, &vol->owner.end_writes, max(left, 0L));
}

/* The state after a failed heartbeat: do writes wait or fail? */
static enum weft_ownership weft_owner_failure(struct weft_volume *vol, int err)
{
	struct weft_member *member = vol->members[0];

	/* Without a path, writes wait for one, as all other I/O does. */
	if (err == -ENOLINK && member->owns_requests && weft_mpath_is_patient(member, jiffies))
		return WEFT_OWNERSHIP_SUSPENDED;
	return WEFT_OWNERSHIP_FAILED;
}

/* The reason why this host has lost the volume; NULL if it still owns it. */
static const char *weft_owner_loss(struct weft_volume *vol, int err,
				   const struct weft_owner_info *seen)
{
	switch (err) {
	case 0:
		return weft_owner_is_taken(vol, seen) ?
		       "another host took the volume, writes fail for good" : NULL;
	case -ENODATA:
		return "the owner record was erased, or the member is another volume's now; writes fail for good";
	case -EBADMSG:
		return "the owner record is damaged, and another host may have the volume; writes fail for good";
	default:
		return NULL;
	}
}

/* Read the record and the claim. A damaged one may be valid the next time. */
static int weft_owner_read_both(struct weft_volume *vol, struct weft_owner_info *seen)
{
	unsigned int tries = WEFT_OWNER_READS;
	struct weft_why why = {};
	int ret;

	do {
		ret = weft_owner_read(vol, seen, &why);
		if (!ret && vol->owner.claim_damaged)
			ret = -EBADMSG;
	} while (ret == -EBADMSG && --tries);
	return ret;
}

/*
 * May a heartbeat that succeeded renew the lease? While the old lease lasts,
 * no other host can have taken the volume. After its end another host may have
 * written its claim between our read and our write. So the lease comes back with
 * the second of two heartbeats. It starts an interval after the first one ended:
 * a host that read the record before the first one's write has written its claim
 * by then, and our read sees the claim, or it waits for our lease
 * (weft_owner_take()). And it ends within a lease of the first one's start: a
 * host that read the record after that write has not watched it for long enough.
 */
static bool weft_owner_may_renew(struct weft_volume *vol, unsigned long start)
{
	struct weft_owner_claim *owner = &vol->owner;

	if (!weft_lease_is_over(&vol->lease)) {
		owner->regained = false;
		return true;
	}
	if (!owner->regained || weft_lease_is_over(&owner->regained_until)) {
		owner->regained_at = jiffies;
		owner->regained_until = weft_owner_lease_end(vol, start);
		WRITE_ONCE(owner->regained, true);
		return false;
	}
	if (!time_after(start, owner->regained_at + weft_owner_interval(vol)))
		return false;
	owner->regained = false;
	return true;
}

/*
 * One heartbeat. Only the member's own timeouts limit its duration. If it takes
 * too long, the lease ends and writes wait, as intended.
 */
static void weft_owner_beat(struct work_struct *work)
{
	struct weft_volume *vol = container_of(to_delayed_work(work),
					       struct weft_volume, owner.work);
	unsigned long start = jiffies;
	struct weft_owner_info seen;
	const char *loss;
	int ret;
	u32 i;

	/* A late write may have started the work again. */
	if (weft_owner_state(vol) == WEFT_OWNERSHIP_LOST)
		return;
	/* If heartbeats fail already, the result of this one decides the state. */
	if (time_after(start, READ_ONCE(vol->lease)) && !weft_owner_refuses(vol))
		weft_owner_set(vol, WEFT_OWNERSHIP_SUSPENDED, NULL);
	ret = weft_owner_read_both(vol, &seen);
	loss = weft_owner_loss(vol, ret, &seen);
	if (loss) {
		/* End the lease now; the work stops, so nothing renews it. */
		WRITE_ONCE(vol->lease, jiffies - 1);
		mod_delayed_work(weft_owner_wq, &vol->owner.end_writes, 0);
		weft_owner_set(vol, WEFT_OWNERSHIP_LOST, loss);
		return;
	}
	/*
	 * The read took longer than a lease: another host may have taken the
	 * volume since. Read again before writing.
	 */
	if (!ret && time_after(jiffies, weft_owner_lease_end(vol, start))) {
		queue_delayed_work(vol->wq, &vol->owner.work, 0);
		return;
	}
	if (!ret)
		ret = weft_owner_write(vol, WEFT_OWNER_HELD, false);
	/* The two that give the lease back are in a row. */
	if (ret)
		WRITE_ONCE(vol->owner.regained, false);
	if (!ret && weft_owner_may_renew(vol, start)) {
		weft_owner_renew(vol, start);
		weft_owner_set(vol, WEFT_OWNERSHIP_HELD, NULL);
	} else if (!ret) {
		weft_owner_set(vol, WEFT_OWNERSHIP_SUSPENDED, NULL);
	} else if (weft_lease_is_over(&vol->lease)) {
		weft_owner_set(vol, weft_owner_failure(vol, ret), NULL);
	}
	/* Linux 6.1 does not tell holders that a device was removed, and an untracked bio shows no error. */
	for (i = 0; i < vol->member_count; i++)
		weft_mpath_look_for_dead(vol->members[i]);
	queue_delayed_work(vol->wq, &vol->owner.work, weft_owner_interval(vol) + 1);
}

/* Wait; -EINTR if the user gave up. */
static int weft_owner_sleep(struct weft_volume *vol, unsigned int msecs)
{
	return wait_for_completion_interruptible_timeout(vol->owner.left,
							 msecs_to_jiffies(msecs)) ? -EINTR : 0;
}

/* The UUID of this machine, or zero: not all have one. */
static void weft_owner_machine(u8 *machine)
{
	const char *text = dmi_get_system_info(DMI_PRODUCT_UUID);
	uuid_t uuid;

	if (text && !uuid_parse(text, &uuid))
		export_uuid(machine, &uuid);
	else
		memset(machine, 0, WEFT_UUID_SIZE);
}

static bool weft_owner_has_our_name(struct weft_volume *vol, const struct weft_owner_info *owner)
{
	return !strcmp(owner->host_nqn, vol->owner.info.host_nqn);
}

/* Is it this host, before a reboot? */
static bool weft_owner_is_this_host(struct weft_volume *vol, const struct weft_owner_info *owner)
{
	static const u8 unknown[WEFT_UUID_SIZE];
	const u8 *here = vol->owner.info.machine;

	return weft_owner_has_our_name(vol, owner) &&
	       (!memcmp(owner->machine, here, WEFT_UUID_SIZE) ||
		!memcmp(owner->machine, unknown, WEFT_UUID_SIZE) ||
		!memcmp(here, unknown, WEFT_UUID_SIZE));
}

/* For messages about an owner that this host is not. */
static const char *weft_owner_kind(struct weft_volume *vol, const struct weft_owner_info *owner)
{
	return weft_owner_has_our_name(vol, owner) ? "another machine with this host's name," :
						     "host";
}

static int weft_owner_busy(struct weft_volume *vol,
			   const struct weft_owner_info *owner,
			   struct weft_why *why)
{
	return weft_refuse(why, -EBUSY,
			   "volume %s is owned by %s %s, whose heartbeat is seen (interval %u ms)",
			   vol->name, weft_owner_kind(vol, owner), owner->host_nqn,
			   owner->interval_ms);
}

/* For how long a silent owner may be alive, or have writes on their way. In milliseconds. */
static u32 weft_owner_silence_ms(u32 interval_ms, u32 outlast_ms)
{
	return interval_ms * (WEFT_LEASE_BEATS + WEFT_OBSERVE_MARGIN) + outlast_ms;
}

/*
 * Watch a record that says HELD until it changes, or until the time of its
 * owner, and of the claim's, is over. Returns 0 if the heartbeat has stopped or
 * the volume was released.
 */
static noinline_for_stack int
weft_owner_watch(struct weft_volume *vol, const struct weft_owner_info *first,
		 struct weft_why *why)
{
	u32 interval_ms = max(first->interval_ms, vol->owner.claim.interval_ms);
	/* The owner may use the paths that this host has, and not have written it yet. */
	u32 left = weft_owner_silence_ms(interval_ms, weft_owner_outlast_ms(vol));
	struct weft_owner_info seen;
	u32 step;
	int ret;

	/* Look twice per interval: a heartbeat is then seen soon. */
	for (; left; left -= step) {
		step = min(left, DIV_ROUND_UP(interval_ms, 2));
		ret = weft_owner_sleep(vol, step);
		if (!ret)
			ret = weft_owner_read(vol, &seen, why);
		/* A heartbeat would have made it valid. */
		if (ret == -ENODATA || ret == -EBADMSG)
			continue;
		if (ret)
			return ret;
		if (weft_owner_is_free(vol, &seen)) {
			vol->owner.others_ms = 0;
			vol->owner.info.outlast_ms = 0;
			return 0;
		}
		if (seen.sequence != first->sequence ||
		    memcmp(seen.instance, first->instance, WEFT_UUID_SIZE))
			return weft_owner_busy(vol, &seen, why);
	}
	return 0;
}

/* May this host claim the volume, by the record and the claim on it? */
static noinline_for_stack int
weft_owner_may_claim(struct weft_volume *vol, bool take_over, struct weft_why *why)
{
	const struct weft_owner_info *holder;
	struct weft_owner_info seen;
	struct weft_why damage = {};
	s64 age;
	int ret;

	ret = weft_owner_read(vol, &seen, &damage);
	/* Without a record, the claim alone says whether another host has the volume. */
	if (ret == -ENODATA && vol->owner.claim_damaged) {
		damage.text[0] = 0;
		ret = weft_refuse(&damage, -EBADMSG,
				  "the claim behind the owner record is damaged");
	}
	vol->owner.info.generation = vol->owner.claim.generation;
	if (ret == -EBADMSG && !take_over)
		return weft_refuse(why, -EBUSY,
				   "volume %s: %s, so its owner is unknown; use --take-over if no host uses it",
				   vol->name, damage.text);
	if (ret == -ENODATA || ret == -EBADMSG) {
		/* The record is lost. A claim that was not released still counts. */
		if (vol->owner.claim.state != WEFT_OWNER_HELD) {
			vol->owner.unknown = ret == -EBADMSG;
			return 0;
		}
		seen = vol->owner.claim;
		ret = 0;
	}
	if (ret)
		return weft_refuse(why, ret, "volume %s: %s", vol->name, damage.text);

	holder = &seen;
	/* A former owner's late heartbeat may have overwritten the record. */
	if (seen.generation < vol->owner.claim.generation)
		holder = &vol->owner.claim;
	vol->owner.info.generation = holder->generation;
	if (weft_owner_is_free(vol, &seen))
		return 0;
	vol->owner.others_ms = max(seen.interval_ms, vol->owner.claim.interval_ms);
	/* Our record will say it, too: a third host may have read ours alone. */
	vol->owner.info.outlast_ms = max(seen.outlast_ms, vol->owner.claim.outlast_ms);
	ret = weft_owner_watch(vol, &seen, why);
	if (ret || take_over || weft_owner_is_this_host(vol, holder))
		return ret;
	age = ktime_get_real_seconds() - (s64)holder->beat_time;
	return weft_refuse(why, -EBUSY,
			   "volume %s is owned by %s %s, whose heartbeat stopped %lld seconds ago by the two clocks; use --take-over if that host is down",
			   vol->name, weft_owner_kind(vol, holder), holder->host_nqn, age);
}

/* Write that the volume is free, unless another host has taken it. */
static noinline_for_stack int weft_owner_free(struct weft_volume *vol)
{
	struct weft_owner_info seen;
	struct weft_why why = {};
	int ret;

	ret = weft_owner_read(vol, &seen, &why);
	if (ret)
		return ret;
	return weft_owner_is_taken(vol, &seen) ? 0 :
						 weft_owner_write(vol, WEFT_OWNER_FREE, false);
}

/* Is the claim on the volume still ours? The time of the read is in read_at. */
static noinline_for_stack int weft_owner_confirm(struct weft_volume *vol, struct weft_why *why)
{
	struct weft_owner_info seen;
	int ret;

	ret = weft_owner_read(vol, &seen, why);
	if (ret)
		return ret;
	if (!weft_owner_claim_is_ours(vol))
		return weft_owner_busy(vol, &vol->owner.claim, why);
	/* An older record is a former owner's late heartbeat: the next of ours overwrites it. */
	return weft_owner_is_taken(vol, &seen) ? weft_owner_busy(vol, &seen, why) : 0;
}

/*
 * After a claim that was silent for longer than a lease: two heartbeats, for the
 * reason of weft_owner_may_renew(). Sets @start to the start of the lease.
 */
static int weft_owner_begin(struct weft_volume *vol, unsigned long *start, struct weft_why *why)
{
	struct weft_owner_claim *owner = &vol->owner;
	unsigned long first = owner->read_at;
	int ret;

	ret = weft_owner_write(vol, WEFT_OWNER_HELD, false);
	if (!ret)
		ret = weft_owner_sleep(vol, owner->info.interval_ms + 1);
	if (!ret)
		ret = weft_owner_confirm(vol, why);
	*start = owner->read_at;
	if (!ret)
		ret = weft_owner_write(vol, WEFT_OWNER_HELD, false);
	/* Too late: writes wait for two others. */
	if (!ret && time_after(jiffies, weft_owner_lease_end(vol, first)))
		*start = first;
	return ret;
}

/**
 * weft_owner_take() - claim a volume and start the heartbeat
 * @vol: the volume; its members are open for writing
 * @req: the user's request: @host_nqn, @take_over and @left are used
 * @why: gets the reason of a failure
 *
 * Context: process context; takes several intervals, and ends early if the user
 * gives up.
 * Return: 0; -EBUSY if another host owns it; -EINTR; or an I/O error. Undo with
 * weft_owner_release().
 */
int weft_owner_take(struct weft_volume *vol, const struct weft_assemble_request *req,
		    struct weft_why *why)
{
	struct weft_owner_claim *owner = &vol->owner;
	bool alone = true;
	unsigned long start;
	u32 own_ms = READ_ONCE(weft_heartbeat_ms);
	u32 wait_ms;
	int ret;

	owner->left = req->left;
	strscpy_pad(owner->info.host_nqn, req->host_nqn, sizeof(owner->info.host_nqn));
	if (!weft_nqn_is_text((const u8 *)owner->info.host_nqn))
		return weft_refuse(why, -EINVAL,
				   "this host's NQN has a character that cannot be printed");
	weft_owner_machine(owner->info.machine);
	ret = weft_owner_may_claim(vol, req->take_over, why);
	if (ret)
		return ret;

	memcpy(owner->info.volume_uuid, vol->uuid, WEFT_UUID_SIZE);
	get_random_bytes(owner->info.instance, WEFT_UUID_SIZE);
	owner->info.generation++;
	/* The former owner may have a longer interval, and may have beaten just now. */
	owner->info.interval_ms = max(own_ms, owner->others_ms);
	start = jiffies;
	ret = weft_owner_write(vol, WEFT_OWNER_HELD, true);
	if (ret) {
		weft_refuse(why, ret,
			    "the owner record cannot be written to member %s (error %d)",
			    vol->members[0]->address, -ret);
		goto out_late;
	}

	/*
	 * Two hosts may find the volume free at the same time. The last one to
	 * write owns it, and the other one sees this here. If our claim took
	 * long, it may have overwritten another host's, whose lease still runs:
	 * wait for the end of that lease, and of its writes. They go to the same targets.
	 */
	wait_ms = 2 * owner->info.interval_ms;
	if (owner->unknown || time_after(jiffies, owner->read_at +
					 msecs_to_jiffies(min_not_zero(own_ms, owner->others_ms)))) {
		alone = false;
		wait_ms = weft_owner_silence_ms(owner->info.interval_ms, owner->info.outlast_ms);
	}
	ret = weft_owner_sleep(vol, wait_ms);
	if (!ret)
		ret = weft_owner_confirm(vol, why);
	if (!ret && !alone)
		ret = weft_owner_begin(vol, &start, why);
	if (ret) {
		/* Another lease may still run: the next owner has to wait for it, too. */
		if (alone)
			weft_owner_free(vol);
		goto out_late;
	}
	/* The former owner's writes are over. The next heartbeat says the time of ours. */
	owner->info.outlast_ms = 0;
	weft_owner_renew(vol, start);
	weft_owner_set(vol, WEFT_OWNERSHIP_HELD, NULL);
	queue_delayed_work(vol->wq, &owner->work, 0);
	return 0;

out_late:
	weft_mpath_outlast_own(vol->members[0]);
	return ret;
}

/**
 * weft_owner_release() - stop the heartbeat and write that the volume is free
 * @vol: no write is in flight; without a claim nothing is written
 *
 * Context: process context; sleeps for as long as a target may execute a lost heartbeat.
 */
void weft_owner_release(struct weft_volume *vol)
{
	enum weft_ownership state = weft_owner_state(vol);
	int ret;

	spin_lock_irq(&vol->owner.lock);
	vol->owner.ended = true;
	spin_unlock_irq(&vol->owner.lock);
	cancel_delayed_work_sync(&vol->owner.work);
	cancel_delayed_work_sync(&vol->owner.end_writes);
	if (state == WEFT_OWNERSHIP_NONE)
		return;
	WRITE_ONCE(vol->lease, jiffies - 1);
	state = weft_owner_state(vol);
	weft_owner_set(vol, WEFT_OWNERSHIP_NONE, NULL);
	/* A late one would overwrite this. */
	weft_mpath_outlast_own(vol->members[0]);
	if (state == WEFT_OWNERSHIP_LOST)
		return;
	ret = weft_owner_free(vol);
	weft_mpath_outlast_own(vol->members[0]);
	if (ret)
		weft_warn(vol, "the owner record could not be released (error %d): the next host waits until the heartbeat has stopped, and needs --take-over\n",
			  -ret);
}

/**
 * weft_owner_init() - allocate and initialize a volume's claim
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
	INIT_DELAYED_WORK(&owner->end_writes, weft_owner_end_writes);
	WRITE_ONCE(vol->lease, jiffies - 1);
	owner->page = alloc_pages(GFP_KERNEL | __GFP_COMP, get_order(WEFT_OWNER_BYTES));
	return owner->page ? 0 : -ENOMEM;
}

/**
 * weft_owner_exit() - undo weft_owner_init()
 * @vol: released
 */
void weft_owner_exit(struct weft_volume *vol)
{
	__free_pages(vol->owner.page, get_order(WEFT_OWNER_BYTES));
}

/**
 * weft_owner_start() - prepare for claims
 *
 * Return: 0 or -ENOMEM; undo by weft_owner_finish().
 */
int __init weft_owner_start(void)
{
	weft_owner_wq = alloc_workqueue("weft-owner", WQ_MEM_RECLAIM | WQ_UNBOUND | WQ_HIGHPRI, 0);
	return weft_owner_wq ? 0 : -ENOMEM;
}

/**
 * weft_owner_finish() - undo weft_owner_start()
 *
 * No volume is left.
 */
void weft_owner_finish(void)
{
	destroy_workqueue(weft_owner_wq);
}
