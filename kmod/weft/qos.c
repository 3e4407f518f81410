// SPDX-License-Identifier: GPL-2.0-only
/*
 * Classes of I/O: background I/O leaves room for feed I/O.
 *
 * DOC: the steps of a command
 *
 * A command is a bio or a part of one on the block path, or a part of a command
 * on registered memory: what goes to one member in one piece. Its class is
 * found once, when the bio or command enters the volume. When it is sent to its
 * member, weft_qos_begin() counts it, and holds it while the member's rate of
 * background I/O, or a limit of the user, is used up. The submitter
 * does not wait, so REQ_NOWAIT makes no difference. weft_qos_end() counts the
 * command back. The parts of a command that was split are held each for itself:
 * a slow member delays only what goes to it.
 *
 * Feed commands take no lock and are not held, unless the user limits them.
 *
 * DOC: the rate
 *
 * pace.c sets the rate of each member from the latency of feed commands on it.
 * The latency is that of the member, from sending to completion. The target is
 * for small commands. For larger ones, the least time that a command of that
 * size takes is added. While the member has had no feed command for
 * WEFT_QOS_FEED_GONE and none is in flight, or for WEFT_QOS_FEED_WAITS, background
 * commands are not held for the rate. The rate is kept, and holds them again from the
 * next feed command on.
 *
 * DOC: the window
 *
 * On members that several hosts use, a host does not see the feed commands of the
 * others. If the user gives all of them a target for background commands, share.c
 * sets a window of these by the host's weight. It holds them with and without feed
 * commands.
 *
 * DOC: held commands
 *
 * A work sends them. A timer queues the work when the next command is due, and so
 * does a completion. The timer runs only while a command is held. Commands on
 * registered memory that go out in parts do not outlive their process: when it
 * exits, the work takes its parts off the queue, and they fail. Bios stay until they
 * are sent, as in the block layer, also those of commands on registered memory.
 */
#include "qos.h"

#include "../compat/timer.h"
#include "qos_cgroup.h"
#include "trace.h"

/*
 * Without a feed command on the member for this time, background commands are not held.
 * With WEFT_QOS_LOOK_NS, all that feed leaves is taken within 100 ms.
 */
#define WEFT_QOS_FEED_GONE	(HZ / 16)
/* A feed command in flight still counts for this time: its sender may wait for it before the next. */
#define WEFT_QOS_FEED_WAITS	HZ
/* This number of held commands is sent before the state is checked again. */
#define WEFT_QOS_COLLECT	32
/* How often a held command checks whether feed commands have stopped. */
#define WEFT_QOS_LOOK_NS	(10 * NSEC_PER_MSEC)
/* The same in jiffies: how often it reads the counts of all CPUs. */
#define WEFT_QOS_WAITED		max(HZ / 100, 1)
/* A command that was held this long for the rate is sent with the next completion. */
#define WEFT_QOS_HELD_NS	(60ULL * NSEC_PER_SEC)
/* While feed commands come, so much background I/O is in flight at most: bytes, and time at its rate. */
#define WEFT_QOS_FLIGHT		(2 * WEFT_QOS_PIECE)
#define WEFT_QOS_FLIGHT_DIV	50	/* of a second */
/* How often the best rate of background commands is measured. */
#define WEFT_QOS_BEST_NS	(100 * NSEC_PER_MSEC)
/* In jiffies: so often a CPU adds what it counts, and the rate is judged at most. */
#define WEFT_QOS_ADD		max(HZ / 200, 1)
#define WEFT_QOS_JUDGE		msecs_to_jiffies(WEFT_PACE_JUDGE_NS / NSEC_PER_MSEC)
/* At this interval, old measurements of a member lose a 64th of their weight. */
#define WEFT_QOS_FORGET_NS	NSEC_PER_SEC

DEFINE_STATIC_KEY_FALSE(weft_qos_used);

/* The class that the cgroup of the submitter or of the data gives. */
static noinline u8 weft_qos_class_of_cgroup(struct weft_qos *qos, struct bio *bio)
{
	u8 class, found = WEFT_IO_CLASS_NONE;

	rcu_read_lock();
	for (class = 0; class < WEFT_CLASSES; class++) {
		struct cgroup *cgroup = rcu_dereference(qos->cgroup[class]);

		if (cgroup && weft_cgroup_submits(cgroup, bio))
			found = class;
	}
	rcu_read_unlock();
	return found;
}

static bool weft_qos_has_cgroups(struct weft_qos *qos)
{
	return rcu_access_pointer(qos->cgroup[WEFT_IO_CLASS_FEED]) ||
	       rcu_access_pointer(qos->cgroup[WEFT_IO_CLASS_BACKGROUND]);
}

static u8 weft_qos_class_by_rule(struct weft_qos *qos, bool write, u32 bytes)
{
	u32 from = READ_ONCE(qos->set.background_from);

	if (from && bytes >= from)
		return WEFT_IO_CLASS_BACKGROUND;
	return write ? READ_ONCE(qos->set.writes) : READ_ONCE(qos->set.reads);
}

/**
 * weft_qos_class_of_bio() - the class of a bio that weft_qos_class() does not find
 * @qos: the volume's
 * @bio: the bio
 *
 * A bio that others wait for has none: a journal's, and those that free memory.
 *
 * Context: any.
 * Return: the class, or WEFT_IO_CLASS_NONE.
 */
u8 weft_qos_class_of_bio(struct weft_qos *qos, struct bio *bio)
{
	u8 class;

	if (!READ_ONCE(qos->set.on) ||
	    bio->bi_opf & WEFT_QOS_SPECIAL || current->flags & PF_MEMALLOC ||
	    weft_bio_is_journal(bio))
		return WEFT_IO_CLASS_NONE;
	if (bio_op(bio) == REQ_OP_FLUSH || !bio_sectors(bio))
		return WEFT_IO_CLASS_NONE;
	switch (IOPRIO_PRIO_CLASS(bio->bi_ioprio)) {
	case IOPRIO_CLASS_RT:
		return WEFT_IO_CLASS_FEED;
	case IOPRIO_CLASS_IDLE:
		return WEFT_IO_CLASS_BACKGROUND;
	}
	if (unlikely(weft_qos_has_cgroups(qos))) {
		class = weft_qos_class_of_cgroup(qos, bio);
		if (class != WEFT_IO_CLASS_NONE)
			return class;
	}
	return weft_qos_class_by_rule(qos, op_is_write(bio_op(bio)), bio->bi_iter.bi_size);
}

/**
 * weft_qos_class_of_task() - the class of a command on registered memory
 * @vol: the volume
 * @class: the class that the command says, or WEFT_IO_CLASS_NONE
 * @write: it is a write
 * @bytes: its length
 *
 * Context: the submitter's task.
 * Return: the class, or WEFT_IO_CLASS_NONE.
 */
u8 weft_qos_class_of_task(struct weft_volume *vol, u8 class, bool write, u32 bytes)
{
	/* Pairs with weft_qos_make(). */
	struct weft_qos *qos = smp_load_acquire(&vol->qos);

	if (!qos || !READ_ONCE(qos->set.on) || !bytes)
		return WEFT_IO_CLASS_NONE;
	if (class != WEFT_IO_CLASS_NONE)
		return class;
	if (unlikely(weft_qos_has_cgroups(qos)))
		class = weft_qos_class_of_cgroup(qos, NULL);
	return class == WEFT_IO_CLASS_NONE ? weft_qos_class_by_rule(qos, write, bytes) : class;
}

/**
 * weft_qos_keep_class() - a bio that a worker will submit gets its class again
 * @vol: the volume
 * @class: what weft_qos_class_of_task() returned
 * @bio: a part of that command
 *
 * The worker's cgroup is the wrong one. If neither the bio's priority nor the rule
 * gives the class, the cgroup of the task gave it.
 *
 * Context: any.
 */
void weft_qos_keep_class(struct weft_volume *vol, u8 class, struct bio *bio)
{
	/* Pairs with weft_qos_make(). */
	struct weft_qos *qos = smp_load_acquire(&vol->qos);

	if (!qos || class == WEFT_IO_CLASS_NONE || bio->bi_ioprio & BIT(IOPRIO_CLASS_SHIFT) ||
	    class == weft_qos_class_by_rule(qos, op_is_write(bio_op(bio)), bio->bi_iter.bi_size))
		return;
	bio->bi_ioprio = weft_qos_ioprio(class);
}

static u32 weft_qos_index(const struct weft_qos_member *qm)
{
	return qm - qm->qos->member;
}

static bool weft_qos_is_stopping(const struct weft_qos *qos)
{
	return READ_ONCE(qos->vol->state) == WEFT_VOLUME_STATE_STOPPING;
}

static bool weft_qos_is_capped(const struct weft_qos *qos, u8 class)
{
	return READ_ONCE(qos->set.max_bytes[class]) || READ_ONCE(qos->set.max_ios[class]);
}

/* Feed commands that were sent and have not ended, or are held for a limit. */
static s32 weft_qos_feed_begun(const struct weft_qos_member *qm)
{
	const struct weft_qos_counts *counts;
	u32 begun = 0, ended = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		counts = per_cpu_ptr(qm->counts, cpu);
		ended += READ_ONCE(counts->ended) + READ_ONCE(counts->failed);
	}
	/* Afterwards: one that begins and ends meanwhile is rather in flight than one too few. */
	smp_rmb();
	for_each_possible_cpu(cpu)
		begun += READ_ONCE(per_cpu_ptr(qm->counts, cpu)->begun);
	return begun - ended;
}

/* Are feed commands in flight at the member? Looks at all CPUs, each WEFT_QOS_WAITED at most. */
static bool weft_qos_feed_waits(struct weft_qos_member *qm)
{
	unsigned long now = jiffies;

	lockdep_assert_held(&qm->lock);
	if (time_after_eq(now, qm->waited_at + WEFT_QOS_WAITED)) {
		qm->waited_at = now;
		qm->feed_waits = weft_qos_feed_begun(qm) >
				 (s32)qm->queue[WEFT_IO_CLASS_FEED].count;
	}
	return qm->feed_waits;
}

static bool weft_qos_feed_is_gone(struct weft_qos_member *qm)
{
	unsigned long feed_at = READ_ONCE(qm->feed_at);

	if (time_before(jiffies, feed_at + WEFT_QOS_FEED_GONE))
		return false;
	return !time_before(jiffies, feed_at + WEFT_QOS_FEED_WAITS) || !weft_qos_feed_waits(qm);
}

/* Is background I/O on the member held for the rate now? */
static bool weft_qos_is_paced(struct weft_qos_member *qm)
{
	return READ_ONCE(qm->qos->set.feed_latency) && !weft_qos_is_stopping(qm->qos) &&
	       !weft_qos_feed_is_gone(qm);
}

/* Take from the limits of the class. Returns 0, or the time to wait in nanoseconds. */
static u64 weft_qos_take_caps(struct weft_qos *qos, u8 class, u32 bytes, u64 now)
{
	u64 wait;

	if (likely(!weft_qos_is_capped(qos, class)) || weft_qos_is_stopping(qos))
		return 0;
	spin_lock(&qos->caps_lock);
	wait = max(weft_bucket_wait(&qos->bytes[class], now),
		   weft_bucket_wait(&qos->ios[class], now));
	if (!wait) {
		weft_bucket_take(&qos->bytes[class], bytes, now);
		weft_bucket_take(&qos->ios[class], 1, now);
	}
	spin_unlock(&qos->caps_lock);
	return wait;
}

/* What is in flight at the member, without what waits for the end of a shadow (resend.c). */
static u64 weft_qos_in_flight(const struct weft_qos_member *qm, u8 class)
{
	const struct weft_mpath *mpath = &qm->qos->vol->members[weft_qos_index(qm)]->mpath;
	u64 in_flight = qm->queue[class].in_flight;

	return in_flight - min(in_flight, READ_ONCE(mpath->quiet_bytes));
}

/* Does the share of this host let it pass? */
static bool weft_qos_is_in_share(struct weft_qos_member *qm, const struct weft_qos_item *item)
{
	return item->class != WEFT_IO_CLASS_BACKGROUND ||
	       !READ_ONCE(qm->qos->set.background_latency) || weft_qos_is_stopping(qm->qos) ||
	       weft_owner_writes_wait(qm->qos->vol) ||
	       weft_share_admits(&qm->share, weft_qos_in_flight(qm, item->class), item->bytes);
}

/*
 * May a command be sent? Returns 0 if so, and counts it. Otherwise the time to
 * wait in nanoseconds.
 */
static u64 weft_qos_take(struct weft_qos_member *qm, const struct weft_qos_item *item, u64 now)
{
	struct weft_qos_queue *queue = &qm->queue[item->class];
	struct weft_bucket *bucket = &qm->pace.bucket;
	u32 bytes = item->bytes;
	bool paced = item->class == WEFT_IO_CLASS_BACKGROUND && weft_qos_is_paced(qm);
	u64 wait, in_flight;

	lockdep_assert_held(&qm->lock);
	if (paced) {
		wait = weft_bucket_wait(bucket, now);
		in_flight = weft_qos_in_flight(qm, item->class);
		/*
		 * A completion sends the next one. While writes wait for the lease, what is in
		 * flight does not show the member's speed, and reads go on.
		 */
		if (in_flight && !weft_owner_writes_wait(qm->qos->vol) &&
		    in_flight + bytes > max_t(u64, WEFT_QOS_FLIGHT,
					      bucket->rate / WEFT_QOS_FLIGHT_DIV)) {
			/* The rate would let it pass: the member is slower than that. */
			qm->behind |= !wait;
			wait = WEFT_QOS_LOOK_NS;
		}
		/* After too long, one at a time. */
		if (now - item->held_at >= WEFT_QOS_HELD_NS && !in_flight)
			wait = 0;
		if (wait) {
			qm->limited = true;
			return min_t(u64, wait, WEFT_QOS_LOOK_NS);
		}
	}
	/* A completion sends the next one. */
	if (!weft_qos_is_in_share(qm, item))
		return WEFT_QOS_LOOK_NS;
	wait = weft_qos_take_caps(qm->qos, item->class, bytes, now);
	if (wait)
		return min_t(u64, wait, WEFT_QOS_LOOK_NS);
	if (paced)
		weft_bucket_take(bucket, bytes, now);
	queue->in_flight += bytes;
	return 0;
}

/* Look again after that time, or earlier. */
static void weft_qos_arm(struct weft_qos_member *qm, u64 now, u64 wait)
{
	ktime_t at = ns_to_ktime(now + wait);

	if (!hrtimer_is_queued(&qm->timer) || ktime_before(at, hrtimer_get_expires(&qm->timer)))
		hrtimer_start(&qm->timer, at, HRTIMER_MODE_ABS);
}

static enum hrtimer_restart weft_qos_timer(struct hrtimer *timer)
{
	struct weft_qos_member *qm = container_of(timer, struct weft_qos_member, timer);

	queue_work(qm->qos->wq, &qm->work);
	return HRTIMER_NORESTART;
}

static bool weft_qos_is_over(const struct weft_qos_item *item)
{
	return item->ops->is_over && item->ops->is_over(item);
}

/*
 * Take what may be sent now off the queue, but not all of a long one: the lock
 * is held, and feed commands may come meanwhile. Returns true if more is left that
 * may be sent.
 */
static bool weft_qos_collect(struct weft_qos_member *qm, u8 class, u64 now,
			     struct list_head *ready)
{
	struct weft_qos_queue *queue = &qm->queue[class];
	struct weft_qos_item *item;
	unsigned int count = 0;
	u64 wait;

	while ((item = list_first_entry_or_null(&queue->held, struct weft_qos_item, list))) {
		/* One that only ends does not use the rate; weft_qos_end() counts it back. */
		if (weft_qos_is_over(item)) {
			queue->in_flight += item->bytes;
			wait = 0;
		} else {
			wait = weft_qos_take(qm, item, now);
		}
		if (wait) {
			weft_qos_arm(qm, now, wait);
			return false;
		}
		list_move_tail(&item->list, ready);
		queue->count--;
		queue->stalled += now - item->held_at;
		if (class == WEFT_IO_CLASS_FEED)
			WRITE_ONCE(qm->feed_at, jiffies);
		trace_weft_qos_held(qm->qos->vol, weft_qos_index(qm), class, item->bytes,
				    now - item->held_at);
		if (++count == WEFT_QOS_COLLECT)
			return !list_empty(&queue->held);
	}
	return false;
}

/*
 * Take the commands off the queue whose process exits. The queue may be long, so
 * the lock is released during the search. New commands may pass the others meanwhile.
 */
static void weft_qos_drop(struct weft_qos_member *qm, u8 class, struct list_head *ready)
{
	struct weft_qos_queue *queue = &qm->queue[class];
	struct weft_qos_item *item, *next;
	LIST_HEAD(held);
	u64 bytes = 0;
	u32 count = 0;

	spin_lock_irq(&qm->lock);
	list_splice_init(&queue->held, &held);
	spin_unlock_irq(&qm->lock);
	list_for_each_entry_safe(item, next, &held, list) {
		if (!weft_qos_is_over(item))
			continue;
		list_move_tail(&item->list, ready);
		bytes += item->bytes;
		count++;
	}
	spin_lock_irq(&qm->lock);
	list_splice(&held, &queue->held);
	queue->count -= count;
	/* weft_qos_end() counts them back. */
	queue->in_flight += bytes;
	spin_unlock_irq(&qm->lock);
}

static void weft_qos_work(struct work_struct *work)
{
	struct weft_qos_member *qm = container_of(work, struct weft_qos_member, work);
	struct weft_qos_item *item, *next;
	struct blk_plug plug;
	LIST_HEAD(ready);
	u8 class;
	u64 now;

	/* Pairs with weft_qos_sweep(). */
	if (unlikely(xchg(&qm->sweep, 0)))
		for (class = 0; class < WEFT_CLASSES; class++)
			weft_qos_drop(qm, class, &ready);
	spin_lock_irq(&qm->lock);
	now = ktime_get_ns();
	for (class = 0; class < WEFT_CLASSES; class++)
		if (weft_qos_collect(qm, class, now, &ready))
			queue_work(qm->qos->wq, &qm->work);
	spin_unlock_irq(&qm->lock);
	blk_start_plug(&plug);
	list_for_each_entry_safe(item, next, &ready, list)
		item->ops->send(item);
	blk_finish_plug(&plug);
}

/**
 * weft_qos_begin() - a command that may be held is about to be sent to its member
 * @member: the member
 * @item: embedded in the command; @ops, @bytes and @class are set, and the class
 *	is not WEFT_IO_CLASS_NONE
 *
 * Undo with weft_qos_end().
 *
 * Context: process context.
 * Return: true if it is held: then @item->ops->send will send it, and the command may
 * be gone already.
 */
bool weft_qos_begin(struct weft_member *member, struct weft_qos_item *item)
{
	struct weft_qos_member *qm = member->qos;
	struct weft_qos_queue *queue = &qm->queue[item->class];
	u64 now = ktime_get_ns(), wait = 0;
	unsigned long flags;
	bool held;

	item->held_at = now;
	spin_lock_irqsave(&qm->lock, flags);
	held = !list_empty(&queue->held);
	if (!held) {
		wait = weft_qos_take(qm, item, now);
		held = wait;
	}
	if (held) {
		list_add_tail(&item->list, &queue->held);
		queue->count++;
		queue->stalls++;
		if (item->ops->held)
			item->ops->held(item);
		if (wait)
			weft_qos_arm(qm, now, wait);
	}
	spin_unlock_irqrestore(&qm->lock, flags);
	return held;
}

/* Under the lock, each WEFT_QOS_JUDGE at most. */
static void weft_qos_judge_locked(struct weft_qos_member *qm, u64 now)
{
	u64 target = READ_ONCE(qm->target);
	struct weft_pace_sample sample;

	sample.late = atomic_xchg(&qm->late, 0);
	/* CPUs add to late at once, and to done later. */
	sample.done = max_t(u32, atomic_xchg(&qm->done, 0), sample.late);
	sample.least = xchg(&qm->least, U64_MAX);
	if (sample.least == U64_MAX)
		sample.least = 0;
	sample.limited = qm->limited;
	qm->limited = false;
	qm->pace.floor = qm->best / 100 * READ_ONCE(qm->qos->set.floor);
	if (target != U64_MAX) {
		weft_pace_judge(&qm->pace, &sample, target);
		trace_weft_qos_rate(qm->qos->vol, weft_qos_index(qm), &sample,
				    qm->pace.bucket.rate);
	}
	WRITE_ONCE(qm->judge_at, jiffies + WEFT_QOS_JUDGE);
	/* A member may become slower for good. */
	if (now - qm->forgot_at < WEFT_QOS_FORGET_NS)
		return;
	qm->forgot_at = now;
	weft_usual_forget(&qm->usual);
	/* I/O that the rate limits does not show what the member can do. */
	if (!sample.limited || qm->behind)
		qm->best -= qm->best / 64;
	qm->behind = false;
}

/**
 * weft_qos_feed_comes() - a feed command is about to be sent
 * @qm: the member's
 *
 * While feed commands have no limit, the first one in a jiffy asks for all. A limit
 * holds them from the jiffy on that follows the one in which it is set.
 *
 * Context: any.
 * Return: true if feed commands have no limit.
 */
bool weft_qos_feed_comes(struct weft_qos_member *qm)
{
	unsigned long now = jiffies;

	/* Few writes: all CPUs read these. */
	if (time_after(now, READ_ONCE(qm->feed_at)))
		WRITE_ONCE(qm->feed_at, now);
	if (!READ_ONCE(qm->feed_passes))
		return false;
	WRITE_ONCE(qm->passes_at, now);
	return true;
}

/**
 * weft_qos_add() - add this CPU's feed commands, and judge the rate if it is due
 * @qm: the member's
 *
 * Called each WEFT_QOS_ADD by a CPU on which feed commands complete.
 *
 * Context: any.
 */
void weft_qos_add(struct weft_qos_member *qm)
{
	struct weft_qos_counts *counts = get_cpu_ptr(qm->counts);
	unsigned long flags;
	u32 ended;

	WRITE_ONCE(counts->add_at, jiffies + WEFT_QOS_ADD);
	/* An interrupt between the two adds its own, and is taken off here. */
	ended = READ_ONCE(counts->ended);
	atomic_add(ended - xchg(&counts->added, ended), &qm->done);
	put_cpu_ptr(qm->counts);
	if (time_before(jiffies, READ_ONCE(qm->judge_at)))
		return;
	if (!spin_trylock_irqsave(&qm->lock, flags)) {
		/* The next command tries again. */
		this_cpu_write(qm->counts->add_at, jiffies);
		return;
	}
	/* Another CPU may have done it meanwhile. */
	if (time_after_eq(jiffies, qm->judge_at))
		weft_qos_judge_locked(qm, ktime_get_ns());
	spin_unlock_irqrestore(&qm->lock, flags);
}

/**
 * weft_qos_end() - undo weft_qos_begin(), and send what was held up
 * @member: the member
 * @item: the command has completed, or was not sent after all
 * @nsecs: from sending to completion; 0 if it has not read or written its bytes
 *
 * Context: any.
 */
void weft_qos_end(struct weft_member *member, const struct weft_qos_item *item, u64 nsecs)
{
	struct weft_qos_member *qm = member->qos;
	struct weft_qos_queue *queue = &qm->queue[item->class];
	const struct weft_qos_settings *set = &qm->qos->set;
	u64 now = ktime_get_ns();
	unsigned long flags;

	spin_lock_irqsave(&qm->lock, flags);
	queue->in_flight -= item->bytes;
	if (item->class == WEFT_IO_CLASS_BACKGROUND) {
		if (nsecs) {
			qm->sent += item->bytes;
			weft_share_done(&qm->share, nsecs, READ_ONCE(set->background_latency),
					READ_ONCE(set->background_weight), now);
		}
		if (now - qm->counted_at >= WEFT_QOS_BEST_NS) {
			qm->best = max(qm->best, mul_u64_u32_div(qm->sent, NSEC_PER_SEC,
								 min_t(u64, now - qm->counted_at,
								       U32_MAX)));
			qm->sent = 0;
			qm->counted_at = now;
		}
	}
	if (!list_empty(&queue->held))
		queue_work(qm->qos->wq, &qm->work);
	spin_unlock_irqrestore(&qm->lock, flags);
}

/**
 * weft_qos_sum() - sum the counters of all CPUs
 * @qm: the member's
 * @sum: filled
 */
void weft_qos_sum(const struct weft_qos_member *qm, struct weft_qos_stats *sum)
{
	int cpu, class, i;

	*sum = (struct weft_qos_stats) {};
	for_each_possible_cpu(cpu) {
		const struct weft_qos_counts *counts = per_cpu_ptr(qm->counts, cpu);

		for (class = 0; class < WEFT_CLASSES; class++) {
			sum->bytes[class] += READ_ONCE(counts->bytes[class]);
			for (i = 0; i < ARRAY_SIZE(counts->latency[class]); i++)
				sum->latency[class][min(i, WEFT_QOS_BUCKETS - 1)] +=
					READ_ONCE(counts->latency[class][i]);
		}
	}
}

/**
 * weft_qos_look() - a member's state now
 * @qm: the member's
 * @view: filled
 *
 * Context: process context.
 */
void weft_qos_look(struct weft_qos_member *qm, struct weft_qos_view *view)
{
	spin_lock_irq(&qm->lock);
	/* Without a target nothing is paced. */
	view->rate = READ_ONCE(qm->qos->set.feed_latency) ? qm->pace.bucket.rate : 0;
	view->best = qm->best;
	view->window = READ_ONCE(qm->qos->set.background_latency) ? qm->share.window : 0;
	memcpy(view->queue, qm->queue, sizeof(view->queue));
	spin_unlock_irq(&qm->lock);
}

static void weft_qos_kick(struct weft_qos *qos)
{
	u32 i;

	for (i = 0; i < qos->vol->member_count; i++)
		queue_work(qos->wq, &qos->member[i].work);
}

/**
 * weft_qos_sweep() - end held commands whose process exits
 * @vol: the volume
 *
 * The members' works call weft_qos_item_ops.is_over() for each held command.
 *
 * Context: process context.
 */
void weft_qos_sweep(struct weft_volume *vol)
{
	/* Pairs with weft_qos_make(). */
	struct weft_qos *qos = smp_load_acquire(&vol->qos);
	u32 i;

	if (!qos)
		return;
	/* A full barrier: the work sees the change, or is queued again. */
	for (i = 0; i < vol->member_count; i++)
		xchg(&qos->member[i].sweep, 1);
	weft_qos_kick(qos);
}

/* Can weft_qos_class() and weft_qos_is_plain_feed() find most classes? */
static void weft_qos_set_plain(struct weft_qos *qos)
{
	bool plain = qos->set.on && !qos->set.background_from && !weft_qos_has_cgroups(qos);

	WRITE_ONCE(qos->plain, plain);
	/* Pairs with weft_qos_is_plain_feed(). */
	smp_store_release(&qos->vol->reads_are_feed,
			  plain && qos->set.reads == WEFT_IO_CLASS_FEED &&
			  !weft_qos_is_capped(qos, WEFT_IO_CLASS_FEED));
}

/**
 * weft_qos_set() - change the settings
 * @qos: the volume's
 * @set: all of them
 *
 * A new limit of feed commands holds them from the next jiffy on.
 *
 * Context: process context, under weft_volumes_lock.
 */
void weft_qos_set(struct weft_qos *qos, const struct weft_qos_settings *set)
{
	int class;
	u32 i;

	lockdep_assert_held(&weft_volumes_lock);
	spin_lock_irq(&qos->caps_lock);
	for (class = 0; class < WEFT_CLASSES; class++) {
		weft_bucket_set(&qos->bytes[class], set->max_bytes[class]);
		weft_bucket_set(&qos->ios[class], set->max_ios[class]);
		WRITE_ONCE(qos->set.max_bytes[class], set->max_bytes[class]);
		WRITE_ONCE(qos->set.max_ios[class], set->max_ios[class]);
	}
	spin_unlock_irq(&qos->caps_lock);
	WRITE_ONCE(qos->set.floor, set->floor);
	WRITE_ONCE(qos->set.background_latency, set->background_latency);
	WRITE_ONCE(qos->set.background_weight, set->background_weight);
	WRITE_ONCE(qos->set.feed_latency, set->feed_latency);
	for (i = 0; i < qos->vol->member_count; i++) {
		WRITE_ONCE(qos->member[i].target, set->feed_latency ?: U64_MAX);
		WRITE_ONCE(qos->member[i].feed_passes,
			   !weft_qos_is_capped(qos, WEFT_IO_CLASS_FEED));
	}
	WRITE_ONCE(qos->set.background_from, set->background_from);
	WRITE_ONCE(qos->set.reads, set->reads);
	WRITE_ONCE(qos->set.writes, set->writes);
	WRITE_ONCE(qos->set.on, set->on);
	weft_qos_set_plain(qos);
	weft_qos_kick(qos);
}

/**
 * weft_qos_set_cgroup() - give the tasks of a cgroup a class
 * @qos: the volume's
 * @class: the class
 * @cgroup: with a reference, which is taken over; NULL for none
 *
 * Context: process context, under weft_volumes_lock.
 */
void weft_qos_set_cgroup(struct weft_qos *qos, enum weft_io_class class, struct cgroup *cgroup)
{
	struct cgroup *old;

	old = rcu_replace_pointer(qos->cgroup[class], cgroup,
				  lockdep_is_held(&weft_volumes_lock));
	weft_qos_set_plain(qos);
	if (!old)
		return;
	synchronize_rcu();
	weft_cgroup_put(old);
}

/**
 * weft_qos_make() - allocate the QoS of a volume, with everything off
 * @vol: the volume, LIVE or FAILED; it has none yet
 *
 * Context: process context; the volume's busy flag is set.
 * Return: 0 or -ENOMEM; undo by weft_qos_exit().
 */
int weft_qos_make(struct weft_volume *vol)
{
	struct weft_qos *qos;
	u32 i;

	qos = kvzalloc(struct_size(qos, member, vol->member_count), GFP_KERNEL);
	if (!qos)
		return -ENOMEM;
	qos->vol = vol;
	spin_lock_init(&qos->caps_lock);
	qos->wq = alloc_workqueue("weft-qos-%s", WQ_MEM_RECLAIM | WQ_UNBOUND | WQ_HIGHPRI, 0,
				  vol->name);
	if (!qos->wq)
		goto out_free;
	for (i = 0; i < vol->member_count; i++) {
		struct weft_qos_member *qm = &qos->member[i];
		int class, cpu;

		qm->counts = alloc_percpu(struct weft_qos_counts);
		if (!qm->counts)
			goto out_counts;
		qm->qos = qos;
		qm->least = U64_MAX;
		qm->target = U64_MAX;
		qm->feed_at = jiffies - WEFT_QOS_FEED_WAITS;
		qm->waited_at = jiffies - WEFT_QOS_WAITED;
		qm->passes_at = jiffies - 1;
		qm->judge_at = jiffies;
		for_each_possible_cpu(cpu)
			per_cpu_ptr(qm->counts, cpu)->add_at = jiffies;
		weft_usual_init(&qm->usual);
		spin_lock_init(&qm->lock);
		weft_pace_init(&qm->pace);
		weft_share_init(&qm->share);
		for (class = 0; class < WEFT_CLASSES; class++)
			INIT_LIST_HEAD(&qm->queue[class].held);
		hrtimer_setup(&qm->timer, weft_qos_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
		INIT_WORK(&qm->work, weft_qos_work);
		vol->members[i]->qos = qm;
	}
	/* Pairs with smp_load_acquire() of its readers, who read the members' afterwards. */
	smp_store_release(&vol->qos, qos);
	static_branch_inc(&weft_qos_used);
	return 0;

out_counts:
	while (i--)
		free_percpu(qos->member[i].counts);
	destroy_workqueue(qos->wq);
out_free:
	kvfree(qos);
	return -ENOMEM;
}

/**
 * weft_qos_exit() - free the QoS of a volume
 * @vol: the volume; it has no I/O any more
 *
 * Context: process context.
 */
void weft_qos_exit(struct weft_volume *vol)
{
	struct weft_qos *qos = vol->qos;
	int class;
	u32 i;

	if (!qos)
		return;
	static_branch_dec(&weft_qos_used);
	for (i = 0; i < vol->member_count; i++)
		hrtimer_cancel(&qos->member[i].timer);
	destroy_workqueue(qos->wq);
	for (i = 0; i < vol->member_count; i++) {
		/* Whatever begins ends once. */
		WARN_ON_ONCE(weft_qos_feed_begun(&qos->member[i]));
		free_percpu(qos->member[i].counts);
	}
	for (class = 0; class < WEFT_CLASSES; class++)
		weft_cgroup_put(rcu_dereference_protected(qos->cgroup[class], true));
	kvfree(qos);
}
