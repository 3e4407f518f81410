/* SPDX-License-Identifier: GPL-2.0-only */
/* Classes of I/O, and how background I/O leaves room for feed I/O. See qos.c. */
#ifndef WEFT_QOS_H
#define WEFT_QOS_H

#include <linux/hrtimer.h>
#include <linux/ioprio.h>
#include <linux/jump_label.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "../compat/journal.h"
#include "pace.h"
#include "share.h"
#include "weft.h"

struct cgroup;

#define WEFT_CLASSES		2	/* enum weft_io_class */
/* Commands without a class are never held and not measured. */
#define WEFT_IO_CLASS_NONE	0xff

/* The largest background read or write. A discard or write zeroes never counts as more. */
#define WEFT_QOS_PIECE		SZ_256K
#define WEFT_QOS_BUCKETS	32
/* Latencies below two to this power of nanoseconds are counted in one bucket. */
#define WEFT_QOS_FINEST		10

struct weft_qos_item;

/**
 * struct weft_qos_item_ops - what differs between commands on the two paths
 * @send: sends a command that was held; process context
 * @held: the command is held from now on; under the member's lock. May be NULL
 * @is_over: the command's process exits. weft_qos_sweep() takes the command off the
 *	queue, and @send ends it. Under the member's lock, or without. May be NULL
 */
struct weft_qos_item_ops {
	void (*send)(struct weft_qos_item *item);
	void (*held)(struct weft_qos_item *item);
	bool (*is_over)(const struct weft_qos_item *item);
};

/**
 * struct weft_qos_item - a command that may be held
 * @list: in a queue, while it is held
 * @ops: of its path
 * @held_at: when it began to be held, in nanoseconds
 * @bytes: its size
 * @class: its class, enum weft_io_class
 */
struct weft_qos_item {
	struct list_head		list;
	const struct weft_qos_item_ops	*ops;
	u64				held_at;
	u32				bytes;
	u8				class;
};

/**
 * struct weft_qos_counts - commands of one CPU
 * @bytes: sizes of those that completed on it, by class
 * @latency: these by the time from sending to completion, see weft_qos_count()
 * @begun: feed commands that were sent on it, or held for a limit
 * @ended: those that completed well on it
 * @failed: those that failed on it, or were not sent after all
 * @added: of @ended, those that were added to the member's
 * @add_at: when the others will be, in jiffies
 */
struct weft_qos_counts {
	u64		bytes[WEFT_CLASSES];
	u64		latency[WEFT_CLASSES][65 - WEFT_QOS_FINEST];
	u32		begun;
	u32		ended;
	u32		failed;
	u32		added;
	unsigned long	add_at;
};

/**
 * struct weft_qos_stats - commands that completed, by class
 * @bytes: their sizes
 * @latency: commands by the time from sending to completion: bucket b has those
 *	below 2^b units of 1,024 ns, and not below half of that. The last one has all
 *	that took longer
 */
struct weft_qos_stats {
	u64	bytes[WEFT_CLASSES];
	u64	latency[WEFT_CLASSES][WEFT_QOS_BUCKETS];
};

/**
 * struct weft_qos_queue - commands of one class that a member holds
 * @held: the commands, the oldest first
 * @count: their number
 * @in_flight: bytes of the commands that were sent
 * @stalls: commands that were held, ever
 * @stalled: how long in sum, in nanoseconds
 */
struct weft_qos_queue {
	struct list_head	held;
	u32			count;
	u64			in_flight;
	u64			stalls;
	u64			stalled;
};

/**
 * struct weft_qos_member - a member's background I/O
 * @counts: counters, per CPU
 * @target: the target of feed commands, in nanoseconds; U64_MAX for none
 * @least: the least time by which one exceeded its time on an idle member, in
 *	nanoseconds; U64_MAX without one
 * @passes_at: in this jiffy, feed commands are sent without another look
 * @feed_at: when a feed command was last sent, in jiffies
 * @feed_passes: feed commands have no limit
 * @qos: of its volume
 * @usual: the time of large feed commands
 * @lock: protects what follows; also taken in interrupts
 * @done: feed commands since the rate was judged; without the lock
 * @late: those that took longer than the target; without the lock
 * @pace: the rate
 * @share: the window, for members that several hosts use
 * @queue: by class
 * @sweep: weft_qos_sweep() was called
 * @waited_at: when @feed_waits was found, in jiffies
 * @feed_waits: feed commands are in flight
 * @limited: a background command was held for the rate since it was judged
 * @judge_at: when it will be judged again, in jiffies
 * @sent: bytes of background commands that completed since @counted_at
 * @counted_at: in nanoseconds
 * @best: the best rate of background commands of late, in bytes per second
 * @forgot_at: when @best and @usual were weakened, in nanoseconds
 * @behind: since then, background commands were held because of those in flight alone
 * @timer: queues @work when a held command may be sent
 * @work: sends held commands
 */
struct weft_qos_member {
	struct weft_qos_counts __percpu	*counts;
	u64				target;
	u64				least;
	unsigned long			passes_at;
	unsigned long			feed_at;
	bool				feed_passes;
	struct weft_qos			*qos;
	struct weft_usual		usual;
	spinlock_t			lock ____cacheline_aligned_in_smp;	/* see above */
	atomic_t			done;
	atomic_t			late;
	struct weft_pace		pace;
	struct weft_share		share;
	struct weft_qos_queue		queue[WEFT_CLASSES];
	u32				sweep;
	unsigned long			waited_at;
	bool				feed_waits;
	bool				limited;
	unsigned long			judge_at;
	u64				sent;
	u64				counted_at;
	u64				best;
	u64				forgot_at;
	bool				behind;
	struct hrtimer			timer;
	struct work_struct		work;
};

/**
 * struct weft_qos_settings - what the user sets
 * @on: I/O has classes, which are measured
 * @feed_latency: the target of small feed commands, in nanoseconds; 0: none,
 *	and background commands are not held for it
 * @floor: background I/O gets this share of what the member can do, in percent
 * @background_latency: the target of the mean of background commands on members
 *	that several hosts use, in nanoseconds. It sets their window; 0: they have none
 * @background_weight: what this host gets against others, 1 to WEFT_SHARE_WEIGHT_MAX
 * @max_bytes: limit of a class on the volume, in bytes per second; 0: none
 * @max_ios: the same in commands per second
 * @reads: class of a read that nothing else gives one
 * @writes: class of a write, discard or write zeroes, likewise
 * @background_from: a command of so many bytes is background, likewise; 0: none is
 */
struct weft_qos_settings {
	bool			on;
	u64			feed_latency;
	u32			floor;
	u64			background_latency;
	u32			background_weight;
	u64			max_bytes[WEFT_CLASSES];
	u32			max_ios[WEFT_CLASSES];
	u8			reads;
	u8			writes;
	u32			background_from;
};

/**
 * struct weft_qos - QoS of a volume; made when it is first set, freed with the volume
 * @vol: the volume
 * @set: the settings; changed under weft_volumes_lock, each field is read once
 * @plain: the class of a command is by rule, unless its I/O priority says another
 * @cgroup: tasks below it have that class; NULL for none. Under RCU
 * @wq: for the members' works
 * @caps_lock: protects @bytes and @ios; inside the members' locks
 * @bytes: limit of a class
 * @ios: limit of a class
 * @member: by the index of the member
 */
struct weft_qos {
	struct weft_volume		*vol;
	struct weft_qos_settings	set;
	bool				plain;
	struct cgroup __rcu		*cgroup[WEFT_CLASSES];
	struct workqueue_struct		*wq;
	spinlock_t			caps_lock;	/* see above */
	struct weft_bucket		bytes[WEFT_CLASSES];
	struct weft_bucket		ios[WEFT_CLASSES];
	struct weft_qos_member		member[];
};

/**
 * struct weft_qos_view - a member's state at one moment
 * @rate: of background commands while feed commands come, in bytes per second
 * @best: see struct weft_qos_member
 * @window: bytes of background commands in flight, at most; 0 without a target for them
 * @queue: by class; the lists have no meaning
 */
struct weft_qos_view {
	u64			rate;
	u64			best;
	u64			window;
	struct weft_qos_queue	queue[WEFT_CLASSES];
};

DECLARE_STATIC_KEY_FALSE(weft_qos_used);

/* qos.c */
u8 weft_qos_class_of_bio(struct weft_qos *qos, struct bio *bio);
u8 weft_qos_class_of_task(struct weft_volume *vol, u8 class, bool write, u32 bytes);
void weft_qos_keep_class(struct weft_volume *vol, u8 class, struct bio *bio);
bool weft_qos_begin(struct weft_member *member, struct weft_qos_item *item);
void weft_qos_end(struct weft_member *member, const struct weft_qos_item *item, u64 nsecs);
bool weft_qos_feed_comes(struct weft_qos_member *qm);
void weft_qos_add(struct weft_qos_member *qm);
void weft_qos_sweep(struct weft_volume *vol);
int weft_qos_make(struct weft_volume *vol);
void weft_qos_set(struct weft_qos *qos, const struct weft_qos_settings *set);
void weft_qos_set_cgroup(struct weft_qos *qos, enum weft_io_class class, struct cgroup *cgroup);
void weft_qos_exit(struct weft_volume *vol);
void weft_qos_sum(const struct weft_qos_member *qm, struct weft_qos_stats *sum);
void weft_qos_look(struct weft_qos_member *qm, struct weft_qos_view *view);

/**
 * weft_qos_is_used() - does any volume tell classes apart?
 *
 * A test of this costs nothing while none does.
 *
 * Return: true if so.
 */
static __always_inline bool weft_qos_is_used(void)
{
	return static_branch_unlikely(&weft_qos_used);
}

/* The I/O priority by which weft_qos_class() finds a class again. */
static inline u16 weft_qos_ioprio(u8 class)
{
	return class == WEFT_IO_CLASS_FEED ? IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, IOPRIO_NORM) :
					     IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
}

/* Flags of bios whose class the rule does not give. */
#define WEFT_QOS_SPECIAL	(REQ_META | REQ_PRIO | REQ_SWAP)

/**
 * weft_qos_is_plain_feed() - is this bio of the most common case?
 * @vol: the volume that it enters
 * @bio: the bio
 *
 * A read that is feed by rule is never held, whatever its task.
 *
 * Context: any.
 * Return: true if it is feed. Otherwise weft_qos_class() finds its class.
 */
static __always_inline bool weft_qos_is_plain_feed(const struct weft_volume *vol,
						   const struct bio *bio)
{
	/*
	 * The classes RT and IDLE are the odd ones; so are the operations that write.
	 * Pairs with weft_qos_set_plain(): the members have their QoS.
	 */
	return smp_load_acquire(&vol->reads_are_feed) &&
	       !(bio->bi_opf & (WEFT_QOS_SPECIAL | (__force blk_opf_t)REQ_OP_WRITE)) &&
	       !(bio->bi_ioprio & BIT(IOPRIO_CLASS_SHIFT));
}

/**
 * weft_qos_class() - the class of a bio that enters a volume
 * @vol: the volume
 * @bio: the bio, not of weft_qos_is_plain_feed()
 *
 * Context: any.
 * Return: the class, or WEFT_IO_CLASS_NONE.
 */
static __always_inline u8 weft_qos_class(struct weft_volume *vol, struct bio *bio)
{
	/* Pairs with weft_qos_make(). */
	struct weft_qos *qos = smp_load_acquire(&vol->qos);

	if (!qos)
		return WEFT_IO_CLASS_NONE;
	if (unlikely(!READ_ONCE(qos->plain) || bio->bi_opf & WEFT_QOS_SPECIAL ||
		     bio->bi_ioprio & BIT(IOPRIO_CLASS_SHIFT) || !bio->bi_iter.bi_size ||
		     current->flags & (PF_MEMALLOC | WEFT_PF_JOURNAL)))
		return weft_qos_class_of_bio(qos, bio);
	return op_is_write(bio->bi_opf) ? READ_ONCE(qos->set.writes) : READ_ONCE(qos->set.reads);
}

/* Does the volume tell classes apart now? */
static inline bool weft_qos_is_on(const struct weft_volume *vol)
{
	/* Pairs with weft_qos_make(). */
	const struct weft_qos *qos = smp_load_acquire(&vol->qos);

	return qos && READ_ONCE(qos->set.on);
}

/**
 * weft_qos_begun() - a command is about to be sent; weft_qos_passes() says so, too
 * @member: the member; its volume has QoS
 * @class: the command's class
 *
 * Undo with weft_qos_measure() or weft_qos_failed().
 *
 * Context: any.
 */
static __always_inline void weft_qos_begun(const struct weft_member *member, u8 class)
{
	if (class == WEFT_IO_CLASS_FEED)
		this_cpu_inc(member->qos->counts->begun);
}

/**
 * weft_qos_passes() - a command is about to be sent: is it of those that are never held?
 * @member: the member; its volume has QoS
 * @class: the command's class
 *
 * Undo with weft_qos_measure() or weft_qos_failed().
 *
 * Context: any.
 * Return: true if so. Otherwise weft_qos_begin() decides.
 */
static __always_inline bool weft_qos_passes(const struct weft_member *member, u8 class)
{
	struct weft_qos_member *qm = member->qos;

	weft_qos_begun(member, class);
	if (class != WEFT_IO_CLASS_FEED)
		return false;
	return likely(!time_after(jiffies, READ_ONCE(qm->passes_at))) || weft_qos_feed_comes(qm);
}

/* By the highest bit of the time. Bucket 0 has all below 2^WEFT_QOS_FINEST nanoseconds. */
static __always_inline void weft_qos_count(struct weft_qos_counts __percpu *counts,
					   enum weft_io_class class, u32 bytes, u64 nsecs)
{
	unsigned int bucket = fls64(nsecs | GENMASK(WEFT_QOS_FINEST - 1, 0)) - WEFT_QOS_FINEST;

	this_cpu_add(counts->bytes[class], bytes);
	this_cpu_inc(counts->latency[class][bucket]);
}

/**
 * weft_qos_measure_feed() - a feed command has completed well
 * @qm: the member's
 * @bytes: its size
 * @nsecs: from sending to completion
 *
 * Context: any.
 */
static __always_inline void weft_qos_measure_feed(struct weft_qos_member *qm, u32 bytes, u64 nsecs)
{
	struct weft_qos_counts __percpu *counts = qm->counts;

	weft_qos_count(counts, WEFT_IO_CLASS_FEED, bytes, nsecs);
	if (unlikely(bytes > WEFT_USUAL_SMALL))
		nsecs = weft_usual_beyond(&qm->usual, bytes, nsecs);
	if (unlikely(nsecs < READ_ONCE(qm->least)))
		WRITE_ONCE(qm->least, nsecs);
	if (unlikely(nsecs > READ_ONCE(qm->target)))
		atomic_inc(&qm->late);
	this_cpu_inc(counts->ended);
	/* Not each time, as what all CPUs write is dear. */
	if (unlikely(time_after_eq(jiffies, this_cpu_read(counts->add_at))))
		weft_qos_add(qm);
}

/**
 * weft_qos_failed() - a command of a class has failed, or has not been sent after all
 * @member: the member
 * @class: the class
 *
 * Context: any.
 */
static inline void weft_qos_failed(struct weft_member *member, u8 class)
{
	if (class == WEFT_IO_CLASS_FEED)
		this_cpu_inc(member->qos->counts->failed);
}

/**
 * weft_qos_measure() - a command of a class has completed well
 * @member: the member
 * @class: the class
 * @bytes: its size
 * @nsecs: from sending to completion
 *
 * Context: any.
 */
static __always_inline void weft_qos_measure(struct weft_member *member, u8 class, u32 bytes,
					     u64 nsecs)
{
	if (likely(class == WEFT_IO_CLASS_FEED))
		weft_qos_measure_feed(member->qos, bytes, nsecs);
	else
		weft_qos_count(member->qos->counts, WEFT_IO_CLASS_BACKGROUND, bytes, nsecs);
}

#endif /* WEFT_QOS_H */
