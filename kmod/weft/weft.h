/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Internals of weft.ko: volumes, their members, and the path of a bio.
 */
#ifndef WEFT_H
#define WEFT_H

#ifdef pr_fmt
#undef pr_fmt
#endif
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "../compat/compat.h"

#include <linux/bio.h>
#include <linux/kobject.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>

#include <uapi/weft.h>

#include "../include/weft_transport.h"
#include "map.h"
#include "shadow.h"
#include "superblock.h"

struct genl_family;
struct weft_mem_node;
struct weft_qos;
struct weft_qos_member;
struct weft_volume;

/* Kinds of I/O with their own counters, in the order of a disk's stat file. */
enum weft_stat_group {
	WEFT_STAT_READ,
	WEFT_STAT_WRITE,
	WEFT_STAT_DISCARD,
	WEFT_STAT_FLUSH,
	WEFT_STAT_GROUPS,
};

/**
 * struct weft_stat - I/O of one kind
 * @ios: commands
 * @sectors: their sizes
 * @nsecs: sum of their latencies, in nanoseconds
 */
struct weft_stat {
	u64	ios;
	u64	sectors;
	u64	nsecs;
};

/**
 * struct weft_stats - I/O on a member that completed on one CPU
 * @group: by kind; together, because a command changes all three counters
 * @errors: commands that failed
 */
struct weft_stats {
	struct weft_stat	group[WEFT_STAT_GROUPS];
	u64			errors;
};

#define WEFT_PATHS_MAX		8
#define WEFT_FLUSH_TRIES	10
/* In seconds; long enough for a server to reboot. */
#define WEFT_NO_PATH_TIMEOUT	600
#define WEFT_NO_PATH_TIMEOUT_MAX (30 * 24 * 3600)

/**
 * struct weft_mpath - a member's paths
 * @lock: protects the other fields; also taken in interrupts
 * @prepare_lock: keeps a path while memory is prepared on it, which may take
 *	long; taken before weft_volumes_lock
 * @events_lock: changes of a path's state are reported in their order; taken before @lock
 * @path: the paths; NULL for a free slot
 * @leaving: a path that is being removed, and may have I/O in flight; or NULL
 * @usable: bitmap of the paths that can carry I/O
 * @best: bitmap of those of @usable that carry it best; empty only if @usable is
 * @only: the path of @best, if that is one; or NULL
 * @held: bios that wait for a path
 * @quiet: writes that wait for the end of a shadow, and then for a path
 * @quiet_bytes: size of those that met one when they were sent, as QoS counts it; read
 *	without @lock
 * @shadows: ranges of writes that a target may still execute, see resend.c
 * @stalled: no path can carry I/O
 * @stall_changed_at: when @stalled changed, in jiffies
 * @own_late: until then, in jiffies, a target may execute a lost write of the volume's
 *	own
 * @retried: how often a path gave bios back
 * @turn: round-robin counter, per CPU
 * @work: sends the waiting bios, or fails them
 */
struct weft_mpath {
	spinlock_t		lock;	/* see above */
	struct mutex		prepare_lock;	/* see above */
	struct mutex		events_lock;	/* see above */
	struct weft_path	*path[WEFT_PATHS_MAX];
	struct weft_path	*leaving;
	unsigned long		usable;
	unsigned long		best;
	struct weft_path	*only;
	struct bio_list		held;
	struct bio_list		quiet;
	u64			quiet_bytes;
	struct weft_shadows	shadows;
	bool			stalled;
	unsigned long		stall_changed_at;
	unsigned long		own_late;
	u64			retried;
	unsigned int __percpu	*turn;
	struct delayed_work	work;
};

/**
 * struct weft_member - one member of a volume
 * @fast_bdev: the device that the hot path sends bios to; NULL unless exactly one
 *	path is usable and no write has to wait, see multipath.c
 * @stats: counters, per CPU
 * @volume: the volume
 * @qos: its classes of I/O; valid if the volume's @qos is set
 * @index: place in the stripe
 * @gone: its device was removed
 * @flush: its preallocated bio for flushes, see flush.c
 * @bdev: the device of one of its paths, for size and limits
 * @transport: name of the first path's transport
 * @owns_requests: the transport of some path, now or before, gives back the bios of a
 *	lost path
 * @flush_tries: how often the flush in flight may be sent again at once
 * @flush_lost: when the flush in flight first lost its path, in jiffies
 * @mpath: its paths, see multipath.c
 * @sysfs: its sysfs folder; NULL while the disk is not added
 * @address: as the user gave it; owned
 * @sb: its superblock
 */
struct weft_member {
	struct block_device		*fast_bdev;
	struct weft_stats __percpu	*stats;
	struct weft_volume		*volume;
	struct weft_qos_member		*qos;
	u32				index;
	bool				gone;
	struct bio			flush;
	struct block_device		*bdev;
	char				transport[32];
	bool				owns_requests;
	u8				flush_tries;
	unsigned long			flush_lost;
	struct weft_mpath		mpath;
	struct kobject			*sysfs;
	char				*address;
	struct weft_sb_info		sb;
};

/**
 * struct weft_flush - flushes of a volume, one fan-out at a time
 * @lock: protects the bio lists and @busy; also taken in interrupts
 * @pending: bios that wait for the next fan-out
 * @running: bios that the fan-out in flight serves
 * @ready: bios with data whose flush is done; @work sends them on
 * @busy: a fan-out is in flight, or @work will start one
 * @remaining: member flushes in flight, plus one while they are being sent
 * @status: first error of the fan-out
 * @work: starts the next fan-out and sends on @ready
 */
struct weft_flush {
	spinlock_t		lock;	/* the bios and @busy */
	struct bio_list		pending;
	struct bio_list		running;
	struct bio_list		ready;
	bool			busy;
	atomic_t		remaining;
	blk_status_t		status;
	struct work_struct	work;
};

/**
 * struct weft_deferred - bios that continue in process context, see defer.c
 * @lock: protects @bios; also taken in interrupts
 * @bios: bios that wait for @work; others have works of their own
 * @work: calls @go_on for them
 * @go_on: weft_bio_continue()
 */
struct weft_deferred {
	spinlock_t		lock;	/* @bios */
	struct bio_list		bios;
	struct work_struct	work;
	void			(*go_on)(struct weft_volume *vol, struct bio *bio);
};

/**
 * struct weft_owner_claim - this host's claim on a volume, see owner.c
 * @lock: protects @state, @ended, @members_wait and @held
 * @state: changed by weft_owner_set() alone
 * @ended: no new heartbeat may start
 * @members_wait: members also hold writes that wait for a heartbeat
 * @held: writes that wait for a heartbeat
 * @work: does one heartbeat
 * @end_writes: ends connections with writes in flight, when the lease is over for long;
 *	on weft_owner_wq
 * @page: buffer for the record and the claim behind it
 * @read_at: start of the last read of the record, in jiffies
 * @regained: the lease has ended, and a heartbeat succeeded since
 * @regained_at: when that one ended, in jiffies
 * @regained_until: when a lease that began with it would end, in jiffies
 * @others_ms: the former owner's heartbeat interval; 0 if this host found the
 *	volume free
 * @unknown: record and claim are damaged, so another host's lease may still run
 * @info: the record as last written
 * @claim: the claim as last read; all zero if there is none
 * @claim_damaged: the claim's block is neither a valid claim nor all zero
 * @left: completed when the user gives up the assembly
 */
struct weft_owner_claim {
	spinlock_t		lock;	/* see above */
	enum weft_ownership	state;
	bool			ended;
	bool			members_wait;
	struct bio_list		held;
	struct delayed_work	work;
	struct delayed_work	end_writes;
	struct page		*page;
	unsigned long		read_at;
	bool			regained;
	unsigned long		regained_at;
	unsigned long		regained_until;
	u32			others_ms;
	bool			unknown;
	struct weft_owner_info	info;
	struct weft_owner_info	claim;
	bool			claim_damaged;
	struct completion	*left;
};

/**
 * enum weft_admission - decision about a write that was held
 * @WEFT_ADMISSION_PASS: send it to its member
 * @WEFT_ADMISSION_WAIT: the next heartbeat decides
 * @WEFT_ADMISSION_FAIL: fail it; another host may own the volume
 */
enum weft_admission {
	WEFT_ADMISSION_PASS,
	WEFT_ADMISSION_WAIT,
	WEFT_ADMISSION_FAIL,
};

/**
 * enum weft_iopolicy - which of a member's paths a bio takes; names as in nvme
 * @WEFT_IOPOLICY_ROUND_ROBIN: all usable paths in turn
 * @WEFT_IOPOLICY_NUMA: in turn, the paths whose device is nearest to the
 *	submitting CPU
 */
enum weft_iopolicy {
	WEFT_IOPOLICY_ROUND_ROBIN,
	WEFT_IOPOLICY_NUMA,
};

/**
 * struct weft_volume - a volume
 * @map: its geometry
 * @lease: in jiffies; writes pass until then (owner.c). Always in the past for
 *	a volume assembled read-only
 * @max_sectors: largest command that every member takes, at least one block
 * @whole_sectors: no member splits a command of at most this size, wherever it begins
 * @boundary: members may split commands that cross a multiple of it on the member,
 *	in sectors; a power of two that divides the chunk, or 0 if none does
 * @physical_mask: sectors of a physical block of the members, less one: a queue
 *	splits long commands at a multiple
 * @reads_are_feed: by rule, a read without an I/O priority is feed, which has no limit
 * @qos: classes of I/O, see qos.c; NULL until QoS is first set
 * @disk: its block device
 * @bios: bio pool for fragments
 * @in_flight: tracked bios submitted less those completed, per CPU; only the
 *	sum over all CPUs has a meaning
 * @wq: for work that must not run in a bio's completion
 * @split_wq: for work that allocates fragments, and so may wait for works of @wq and
 *	@again_wq, which send those that others have
 * @again_wq: for fragments that their members refused once; sleeps for members' tags alone
 * @path_srcu: held from the choice of a path until its queue has the bio or
 *	operation. A device that hangs delays the waiters of its own volume alone
 * @flush: see flush.c
 * @deferred: see defer.c
 * @owner: see owner.c
 * @mem: its device for I/O on registered memory, see mem.c
 * @peers: memories that the transport does I/O on; protected by
 *	weft_volumes_lock
 * @paths_added: counts added paths; protected by weft_volumes_lock
 * @near_work: finds the paths that are nearest to each of @peers
 * @errored: members that failed an I/O since @event_work last ran
 * @event_work: reports @errored
 * @list: protected by weft_volumes_lock
 * @number: grows along the list, and is not used again
 * @state: changed by weft_volume_set_state() alone
 * @busy: a command changes its paths or tries to stop it. Both may wait, so
 *	they run without weft_volumes_lock; this refuses other commands
 * @stopping: refuse openers, while it is assembled and after it is stopped;
 *	protected by the disk's open_mutex
 * @read_only: assembled read-only
 * @no_path_timeout: seconds that I/O waits for a path; -1: without limit
 * @iopolicy: which of several paths a bio takes
 * @name: its name
 * @uuid: its UUID
 * @kept_disks: see paths.c; protected by @busy
 * @sysfs_members: parent of the members' sysfs folders
 * @member_count: number of @members; below map.members only during assembly
 * @members: the members, sorted by index once assembled
 */
struct weft_volume {
	/* read only in the hot path */
	struct weft_map		map;
	unsigned long		lease;
	u32			max_sectors;
	u32			whole_sectors;
	u32			boundary;
	u32			physical_mask;
	bool			reads_are_feed;
	struct weft_qos		*qos;
	struct gendisk		*disk;
	struct bio_set		bios;
	long __percpu		*in_flight;

	struct workqueue_struct	*wq;
	struct workqueue_struct	*split_wq;
	struct workqueue_struct	*again_wq;
	struct srcu_struct	path_srcu;
	struct weft_flush	flush;
	struct weft_deferred	deferred;
	struct weft_owner_claim	owner;
	struct weft_mem_node	*mem;
	struct list_head	peers;
	u64			paths_added;
	struct delayed_work	near_work;
	DECLARE_BITMAP(errored, WEFT_MEMBERS_MAX);
	struct delayed_work	event_work;

	struct list_head	list;
	unsigned long		number;
	enum weft_volume_state	state;
	bool			busy;
	bool			stopping;
	bool			read_only;
	int			no_path_timeout;
	enum weft_iopolicy	iopolicy;
	char			name[WEFT_NAME_SIZE];
	u8			uuid[WEFT_UUID_SIZE];
	struct list_head	kept_disks;
	struct kobject		*sysfs_members;
	u32			member_count;
	struct weft_member	*members[];
};

#define weft_err(vol, fmt, ...) \
	pr_err("%s: " fmt, (vol)->name, ##__VA_ARGS__)
#define weft_warn(vol, fmt, ...) \
	pr_warn("%s: " fmt, (vol)->name, ##__VA_ARGS__)
#define weft_info(vol, fmt, ...) \
	pr_info("%s: " fmt, (vol)->name, ##__VA_ARGS__)

/**
 * struct weft_member_request - a member as the user names it
 * @transport: name of the transport
 * @address: address in that transport's format
 * @devt: the block device at @address, as the caller's process sees it
 * @lookup: 0, or the error of the lookup of @devt
 */
struct weft_member_request {
	const char	*transport;
	const char	*address;
	dev_t		devt;
	int		lookup;
};

/**
 * struct weft_assemble_request - the user's request to assemble a volume
 * @name: name that the superblocks must have
 * @uuid: UUID that the superblocks must have; NULL for any
 * @host_nqn: NQN of this host; may be NULL with @read_only
 * @read_only: do not claim the volume and do not write
 * @take_over: claim it although another host's record is there
 * @iostats: count and time I/O
 * @left: completed when the user gives up
 * @count: number of @members
 * @members: in any order
 */
struct weft_assemble_request {
	const char			*name;
	const u8			*uuid;
	const char			*host_nqn;
	bool				read_only;
	bool				take_over;
	bool				iostats;
	struct completion		*left;
	u32				count;
	struct weft_member_request	members[];
};

/**
 * struct weft_path_change - a request to add or remove a path
 * @volume: name of the volume
 * @member: index of the member
 * @transport: name of the transport
 * @address: in that transport's format; for a removal, the name of the disk
 * @devt: the block device at @address, as the caller's process sees it
 * @lookup: 0, or the error of the lookup of @devt
 */
struct weft_path_change {
	const char	*volume;
	u32		member;
	const char	*transport;
	const char	*address;
	dev_t		devt;
	int		lookup;
};

/* paths.c */
void weft_paths_put_disks(struct weft_volume *vol);
int weft_volume_path_add(const struct weft_path_change *change, struct weft_why *why);
int weft_volume_path_remove(const struct weft_path_change *change, struct weft_why *why);

/* state.c */
extern struct mutex weft_volumes_lock;
extern struct list_head weft_volumes;
struct weft_volume *weft_volume_find(const char *name);
struct weft_volume *weft_volume_begin(const char *name, struct weft_why *why);
void weft_volume_done(struct weft_volume *vol);
bool weft_volume_set_state(struct weft_volume *vol, enum weft_volume_state state);
void weft_volume_member_failed(struct weft_member *member);
void weft_volume_member_gone(struct weft_member *member);
void weft_member_gone(struct weft_member *member);

/* volume.c */
int weft_volume_assemble(const struct weft_assemble_request *req,
			 struct weft_why *why);
int weft_volume_stop(const char *name, struct weft_why *why);

/* peers.c */
void weft_peers_changed(struct weft_volume *vol);
void weft_peers_path_changed(struct weft_path *path);
void weft_peers_near_work(struct work_struct *work);

/* member.c */
struct weft_member *weft_member_open(struct weft_volume *vol,
				     const struct weft_member_request *req,
				     bool writable, struct weft_why *why);
void weft_member_close(struct weft_member *member);
sector_t weft_member_sectors(const struct weft_member *member);
void weft_member_drop_path(struct weft_member *member, struct weft_path *path);
int weft_member_find_sb(struct weft_member *member, struct weft_path *path,
			struct weft_sb_info *info, struct weft_why *why);
int weft_member_rw(struct weft_member *member, blk_opf_t opf, u64 offset,
		   struct page *page, u32 size);
void weft_member_stats(struct weft_member *member, struct weft_stats *sum);

/**
 * weft_member_count() - count a command that has ended
 * @member: the member
 * @group: its kind
 * @sectors: its size
 * @nsecs: its latency, in nanoseconds
 *
 * Context: any.
 */
static inline void weft_member_count(const struct weft_member *member,
				     enum weft_stat_group group, u32 sectors, u64 nsecs)
{
	struct weft_stat __percpu *stat = &member->stats->group[group];

	this_cpu_inc(stat->ios);
	this_cpu_add(stat->sectors, sectors);
	this_cpu_add(stat->nsecs, nsecs);
}

void weft_member_rw_end(struct bio *bio);

/**
 * struct weft_member_rw - what a bio of weft_member_rw() points to
 * @member: the member that it is for
 * @done: completed when it has ended
 */
struct weft_member_rw {
	const struct weft_member	*member;
	struct completion		done;
};

/**
 * weft_member_rw_is() - is a bio from weft_member_rw() or weft_member_find_sb()?
 * @member: the member
 * @bio: on its way to the member
 *
 * Such a bio never waits for a path. Its sender handles the error. A bio of this
 * kind that a volume on top has sent to one of its members is not one.
 *
 * Return: true if it is.
 */
static inline bool weft_member_rw_is(const struct weft_member *member, const struct bio *bio)
{
	return bio->bi_end_io == weft_member_rw_end &&
	       ((struct weft_member_rw *)bio->bi_private)->member == member;
}

/* transport.c */
struct weft_path *weft_path_connect(const char *transport,
				    const struct weft_path_request *req,
				    struct weft_why *why);
void weft_path_disconnect(struct weft_path *path);

int weft_controller_create(const char *transport,
			   const struct weft_controller_request *req,
			   char *name, size_t size, struct weft_why *why);
int weft_controller_secrets(const char *transport, const char *name,
			    const struct weft_dhchap_secrets *secrets, struct weft_why *why);
int weft_controller_delete(const char *transport, const char *name,
			   struct weft_why *why);

bool weft_mpath_write_cache(struct weft_member *member);
void weft_mpath_end_writes(struct weft_member *member);
u32 weft_mpath_outlast_ms(struct weft_member *member);
enum weft_path_mem weft_mpath_mem(struct weft_member *member);

/**
 * weft_member_path() - a member's path by its index
 * @member: the member
 * @index: 0 to WEFT_PATHS_MAX - 1
 *
 * Context: one of these keeps the path: weft_volumes_lock, the volume's
 * path_srcu, the prepare_lock of the paths, the volume's busy flag; or no other task
 * knows the member.
 * Return: the path; NULL for a free slot.
 */
static inline struct weft_path *weft_member_path(const struct weft_member *member, u32 index)
{
	return READ_ONCE(member->mpath.path[index]);
}

/**
 * weft_mpath_kick() - look at held bios again
 * @member: the member; its paths, its volume's state or a timeout changed
 *
 * Context: any.
 */
static inline void weft_mpath_kick(struct weft_member *member)
{
	mod_delayed_work(member->volume->wq, &member->mpath.work, 0);
}

/* multipath.c */
extern const struct weft_path_events weft_mpath_events;
int weft_mpath_init(struct weft_member *member);
void weft_mpath_exit(struct weft_member *member);
int weft_mpath_add(struct weft_member *member, struct weft_path *path);
void weft_mpath_identified(struct weft_path *path);
void weft_mpath_remove(struct weft_member *member, struct weft_path *path);
void weft_mpath_submit(struct weft_member *member, struct bio *bio);
void weft_mpath_again(struct weft_member *member, struct bio *bio);
void weft_mpath_wait(struct weft_member *member, struct bio *bio);
void weft_mpath_take(struct weft_member *member, struct weft_path **taken);
void weft_mpath_look_for_dead(struct weft_member *member);
void weft_mpath_outlast_own(struct weft_member *member);
unsigned long weft_mpath_patience(struct weft_member *member, unsigned long since);
bool weft_mpath_is_patient(struct weft_member *member, unsigned long since);

void weft_mpath_op_lost(struct weft_member *member, const struct weft_mem_op *op,
			unsigned long after);

/* resend.c */
void __init weft_resend_init(void);
void weft_resend_exit(struct weft_member *member);
bool weft_resend_lost(struct weft_member *member, struct bio *bio, unsigned long after);
bool weft_resend_stops(struct weft_member *member, struct bio *bio);
unsigned long weft_resend_over(struct weft_member *member, unsigned long now,
			       struct bio_list *failed);
void weft_resend_fail(struct bio_list *failed);
void weft_resend_op_lost(struct weft_member *member, const struct weft_mem_op *op,
			 unsigned long after);
void weft_resend_op_ended(struct weft_member *member, const struct weft_mem_op *op);
bool weft_resend_op_stops(struct weft_member *member, const struct weft_mem_op *op);
void weft_resend_outlast(struct weft_member *member);

/* The bi_end_io that bio_chain() sets. It must not be called directly. */
extern bio_end_io_t *weft_chain_end_io;

/**
 * weft_bio_forget_queue() - forget which queue has accounted a bio
 * @bio: it ended there, or was given back, and is submitted or ended elsewhere
 *
 * bio_endio() would account it once more, at the queue that bi_bdev has then,
 * which may not account, or be gone.
 *
 * Context: any; no other thread uses the bio.
 */
static inline void weft_bio_forget_queue(struct bio *bio)
{
	bio_clear_flag(bio, BIO_QOS_THROTTLED);
	bio_clear_flag(bio, BIO_QOS_MERGED);
}

/**
 * weft_bio_end_before() - end a bio with the bi_end_io that it had before ours
 * @bio: bio_endio() has called our bi_end_io
 * @end_io: the bi_end_io before; NULL if there was none
 * @private: the bi_private before
 *
 * bio_endio() has already run for this bio, so this only calls the submitter's
 * function. For a chained bio it calls bio_endio() again, which continues with
 * the parent, and undoes nothing twice for this bio.
 *
 * Context: any.
 */
static inline void weft_bio_end_before(struct bio *bio, bio_end_io_t *end_io, void *private)
{
	bio->bi_end_io = end_io;
	bio->bi_private = private;
	if (unlikely(end_io == weft_chain_end_io)) {
		weft_bio_forget_queue(bio);
		bio_endio(bio);
	} else if (end_io) {
		end_io(bio);
	}
}

/* bdev.c */
int weft_bdev_init(void);
void weft_bdev_exit(void);

/**
 * weft_unsplit() - cut a command so that no member's queue splits it
 * @vol: the volume
 * @sector: where it begins on the volume
 * @sectors: of one member, in one piece
 *
 * The places of the boundaries are those of the member: its data begin at
 * data_start, and the boundary divides the chunk.
 *
 * Return: its length in sectors, at least a block.
 */
static inline sector_t weft_unsplit(const struct weft_volume *vol, sector_t sector,
				    sector_t sectors)
{
	sector_t at = sector + vol->map.data_start;

	if (sectors > vol->max_sectors) {
		u32 rest = (at + vol->max_sectors) & vol->physical_mask;

		sectors = vol->max_sectors - (rest < vol->max_sectors ? rest : 0);
	}
	if (unlikely(vol->boundary))
		sectors = min_t(sector_t, sectors, vol->boundary - (at & (vol->boundary - 1)));
	return sectors;
}

/* bio.c */
int __init weft_bio_init(void);
void weft_bio_exit(void);
void weft_submit_bio(struct bio *bio);
void weft_bio_continue(struct weft_volume *vol, struct bio *bio);

/* flush.c */
void weft_flush_init(struct weft_volume *vol);
bool weft_flush_submit(struct weft_volume *vol, struct bio *bio);

/* owner.c */
int weft_owner_start(void);
void weft_owner_finish(void);
int weft_owner_init(struct weft_volume *vol);
void weft_owner_exit(struct weft_volume *vol);
int weft_owner_take(struct weft_volume *vol, const struct weft_assemble_request *req,
		    struct weft_why *why);
void weft_owner_release(struct weft_volume *vol);

/* lease.c */
void weft_owner_set(struct weft_volume *vol, enum weft_ownership to, const char *text);
void weft_owner_hold(struct weft_volume *vol, struct bio *bio);
enum weft_admission weft_owner_admit(struct weft_volume *vol);
bool weft_owner_refuses(struct weft_volume *vol);
bool weft_owner_waits(struct weft_volume *vol);
void weft_owner_kick(struct weft_volume *vol);

/* The time from one heartbeat to the next, in jiffies. */
static inline unsigned long weft_owner_interval(const struct weft_volume *vol)
{
	return msecs_to_jiffies(vol->owner.info.interval_ms);
}

/**
 * weft_owner_state() - the state of the claim now
 * @vol: the volume
 *
 * While a heartbeat does not complete, the stored state stays HELD, but writes
 * wait once the lease is over. Therefore this returns SUSPENDED then.
 *
 * Context: any.
 * Return: the state.
 */
static inline enum weft_ownership weft_owner_state(struct weft_volume *vol)
{
	enum weft_ownership state = READ_ONCE(vol->owner.state);

	if (state == WEFT_OWNERSHIP_HELD && weft_lease_is_over(&vol->lease))
		return WEFT_OWNERSHIP_SUSPENDED;
	return state;
}

/**
 * weft_owner_writes_wait() - do the writes of users wait for the lease?
 * @vol: the volume
 *
 * Context: any.
 * Return: whether they do.
 */
static inline bool weft_owner_writes_wait(struct weft_volume *vol)
{
	return weft_lease_is_over(&vol->lease) && !vol->read_only &&
	       READ_ONCE(vol->owner.state) != WEFT_OWNERSHIP_NONE;
}

/* defer.c */
void weft_defer(struct weft_volume *vol, struct bio *bio);
void weft_deferred_init(struct weft_volume *vol,
			void (*go_on)(struct weft_volume *vol, struct bio *bio));

/* sysfs.c */
extern const struct attribute_group *weft_disk_groups[];
int weft_sysfs_add_members(struct weft_volume *vol);
void weft_sysfs_del_members(struct weft_volume *vol);

/* netlink.c */
int weft_netlink_init(void);
void weft_netlink_exit(void);

/* event.c */
extern struct genl_family weft_nl_family;
void weft_event(struct weft_volume *vol, enum weft_event_type type,
		const struct weft_member *member, int err, const char *text);

#endif /* WEFT_H */
