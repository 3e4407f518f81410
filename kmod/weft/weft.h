/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * weft.ko inside: volumes, their members, and the way of a bio through them.
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
#include <linux/mempool.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>

#include <uapi/weft.h>

#include "../include/weft_transport.h"
#include "map.h"
#include "superblock.h"

struct weft_mem_node;
struct weft_volume;

/* Kinds of I/O that are counted apart, in the order of a disk's stat file. */
enum weft_stat_group {
	WEFT_STAT_READ,
	WEFT_STAT_WRITE,
	WEFT_STAT_DISCARD,
	WEFT_STAT_FLUSH,
	WEFT_STAT_GROUPS,
};

/**
 * struct weft_stats - what a cpu sent to a member
 * @ios: commands sent
 * @sectors: sectors sent
 * @nsecs: time that completed commands took
 * @errors: commands that failed
 */
struct weft_stats {
	u64	ios[WEFT_STAT_GROUPS];
	u64	sectors[WEFT_STAT_GROUPS];
	u64	nsecs[WEFT_STAT_GROUPS];
	u64	errors;
};

#define WEFT_PATHS_MAX		8
#define WEFT_FLUSH_TRIES	10
/* Seconds; a server reboots within it. */
#define WEFT_NO_PATH_TIMEOUT	600
#define WEFT_NO_PATH_TIMEOUT_MAX (30 * 24 * 3600)

/**
 * struct weft_route - a member's paths
 * @lock: protects the rest; taken in interrupts too
 * @prepare_lock: keeps a path that is asked for what may take long; may be taken
 *	under weft_volumes_lock, and that not under it
 * @path: the paths, NULL where there is none
 * @usable: those that can carry I/O, a bit each
 * @held: bios that wait for a path
 * @quiet: bios that wait until @quiet_until as well
 * @quiet_until: in jiffies, 0 for not set
 * @stalled: no path can carry I/O
 * @stalled_at: since when, in jiffies
 * @retried: times that a path gave bios back
 * @turn: counts I/O by several paths, per cpu
 * @work: sends on what waits, or fails it
 */
struct weft_route {
	spinlock_t		lock;	/* see above */
	struct mutex		prepare_lock;	/* see above */
	struct weft_path	*path[WEFT_PATHS_MAX];
	unsigned long		usable;
	struct bio_list		held;
	struct bio_list		quiet;
	unsigned long		quiet_until;
	bool			stalled;
	unsigned long		stalled_at;
	u64			retried;
	unsigned int __percpu	*turn;
	struct delayed_work	work;
};

/**
 * struct weft_member - one member of a volume
 * @route: where its bios go, for the hot path; NULL while that is not one
 *	device alone, see route.c
 * @stats: per cpu
 * @volume: it is a member of
 * @index: place in the stripe
 * @gone: its device was removed
 * @flush: the slot for its part of a flush, see flush.c
 * @bdev: a device that it is, for its size and limits
 * @transport: name of the first path's
 * @owns_requests: it gives back what a lost path could not carry
 * @flush_tries: how often the flush in flight may be sent again
 * @paths: how it is reached, see route.c
 * @sysfs: its folder, NULL before and after the disk is there
 * @address: as the user gave it, owned
 * @sb: its superblock
 */
struct weft_member {
	struct block_device		*route;
	struct weft_stats __percpu	*stats;
	struct weft_volume		*volume;
	u32				index;
	bool				gone;
	struct bio			flush;
	struct block_device		*bdev;
	char				transport[32];
	bool				owns_requests;
	u8				flush_tries;
	struct weft_route		paths;
	struct kobject			*sysfs;
	char				*address;
	struct weft_sb_info		sb;
};

/**
 * struct weft_flush - flushes of a volume, one fan-out at a time
 * @lock: protects @pending, @running and @busy; taken in interrupts too
 * @pending: bios that wait for the next fan-out
 * @running: bios that the fan-out in flight is for
 * @ready: bios with data whose flush is done, to be sent on by @work
 * @busy: a fan-out is in flight
 * @remaining: members it waits for, and one for who starts it
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
 * struct weft_deferred - bios that go on in process context, see defer.c
 * @lock: protects @bios; taken in interrupts too
 * @bios: what waits for @work
 * @work: sends them on
 */
struct weft_deferred {
	spinlock_t		lock;	/* @bios */
	struct bio_list		bios;
	struct work_struct	work;
};

/**
 * struct weft_owner_claim - this host's claim on a volume, see owner.c
 * @lock: protects @state and @held
 * @state: changed by weft_owner_set() alone
 * @held: writes that wait for a beat
 * @work: beats
 * @page: for reading and writing the record
 * @info: the record as last written
 */
struct weft_owner_claim {
	spinlock_t		lock;	/* @state and @held */
	enum weft_ownership	state;
	struct bio_list		held;
	struct delayed_work	work;
	struct page		*page;
	struct weft_owner_info	info;
};

/**
 * enum weft_iopolicy - which of a member's paths a bio takes; names as nvme's
 * @WEFT_IOPOLICY_ROUND_ROBIN: all in turn
 * @WEFT_IOPOLICY_NUMA: those whose device is nearest to the processor that
 *	submits, in turn
 */
enum weft_iopolicy {
	WEFT_IOPOLICY_ROUND_ROBIN,
	WEFT_IOPOLICY_NUMA,
};

/**
 * struct weft_volume - a volume
 * @map: its geometry
 * @lease: in jiffies; writes go through until then (owner.c). Long past for
 *	a volume assembled read-only
 * @max_sectors: what every member takes in one command, at least a block
 * @disk: its block device
 * @bios: for fragments
 * @in_flight: tracked bios submitted less those completed, per cpu; a cpu's
 *	own number means nothing, their sum does
 * @wq: for what must not be done where a bio completes
 * @flush: see flush.c
 * @deferred: see defer.c
 * @owner: see owner.c
 * @mem: its device for I/O on registered memory, see mem.c
 * @peers: memories that the transport does I/O on; protected by weft_volumes_lock
 * @near_work: finds the paths that are nearest to them
 * @errored: members that failed an I/O since @event_work last ran
 * @event_work: tells of them
 * @list: protected by weft_volumes_lock, as are @state and @name_taken
 * @state: changed by weft_volume_set_state() alone
 * @stopping: no new opener, before and after; protected by the disk's
 *	open_mutex
 * @read_only: no write passes
 * @no_path_timeout: seconds that I/O waits for a path, -1 for ever
 * @iopolicy: which of several paths a bio takes
 * @name: of the volume
 * @uuid: of the volume
 * @sysfs_members: folder of the members' folders
 * @member_count: how many @members are there; fewer than map.members only
 *	while assembling
 * @members: by index, once assembled
 */
struct weft_volume {
	/* read only in the hot path */
	struct weft_map		map;
	unsigned long		lease;
	u32			max_sectors;
	struct gendisk		*disk;
	struct bio_set		bios;
	long __percpu		*in_flight;

	struct workqueue_struct	*wq;
	struct weft_flush	flush;
	struct weft_deferred	deferred;
	struct weft_owner_claim	owner;
	struct weft_mem_node	*mem;
	struct list_head	peers;
	struct delayed_work	near_work;
	DECLARE_BITMAP(errored, WEFT_MEMBERS_MAX);
	struct delayed_work	event_work;

	struct list_head	list;
	enum weft_volume_state	state;
	bool			stopping;
	bool			read_only;
	int			no_path_timeout;
	enum weft_iopolicy	iopolicy;
	char			name[WEFT_NAME_SIZE];
	u8			uuid[WEFT_UUID_SIZE];
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
 * @transport: name
 * @address: what that transport takes
 */
struct weft_member_request {
	const char	*transport;
	const char	*address;
};

/**
 * struct weft_assemble_request - a volume as the user asks for it
 * @name: it must have
 * @uuid: it must have, or NULL
 * @host_nqn: of this host; may be NULL with @read_only
 * @read_only: claim and write nothing
 * @take_over: claim although another host's record is there
 * @iostats: count and time I/O
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
	u32				count;
	struct weft_member_request	members[];
};

/**
 * struct weft_path_change - a path that comes or goes
 * @volume: name
 * @member: index
 * @transport: name
 * @address: what that transport takes
 */
struct weft_path_change {
	const char	*volume;
	u32		member;
	const char	*transport;
	const char	*address;
};

/* paths.c */
int weft_volume_path_add(const struct weft_path_change *change, struct weft_why *why);
int weft_volume_path_remove(const struct weft_path_change *change, struct weft_why *why);

/* volume.c */
extern struct mutex weft_volumes_lock;
extern struct list_head weft_volumes;
int weft_volume_assemble(const struct weft_assemble_request *req,
			 struct weft_why *why);
int weft_volume_stop(const char *name, struct weft_why *why);
struct weft_volume *weft_volume_find(const char *name);
bool weft_volume_set_state(struct weft_volume *vol, enum weft_volume_state state);
void weft_volume_member_failed(struct weft_member *member);
void weft_volume_member_gone(struct weft_member *member);

/* peers.c */
void weft_peers_changed(struct weft_volume *vol);
void weft_peers_near_work(struct work_struct *work);

/* member.c */
struct weft_member *weft_member_open(struct weft_volume *vol,
				     const struct weft_member_request *req,
				     bool writable, struct weft_why *why);
void weft_member_close(struct weft_member *member);
void weft_member_gone(struct weft_member *member);
void weft_member_drop_path(struct weft_member *member, struct weft_path *path);
int weft_member_rw(struct weft_member *member, blk_opf_t opf, u64 offset,
		   struct page *page);
void weft_member_stats(struct weft_member *member, struct weft_stats *sum);

/* transport.c */
struct weft_path *weft_path_connect(const char *transport,
				    const struct weft_path_request *req,
				    struct weft_why *why);
void weft_path_disconnect(struct weft_path *path);

int weft_controller_create(const char *transport,
			   const struct weft_controller_request *req,
			   char *name, size_t size, struct weft_why *why);
int weft_controller_delete(const char *transport, const char *name,
			   struct weft_why *why);

/* route.c */
extern const struct weft_path_events weft_route_events;
int weft_route_init(struct weft_member *member);
void weft_route_exit(struct weft_member *member);
int weft_route_add(struct weft_member *member, struct weft_path *path);
struct weft_path *weft_route_path(const struct weft_member *member, u32 index);
void weft_route_remove(struct weft_member *member, struct weft_path *path);
void weft_route_submit(struct weft_member *member, struct bio *bio);
void weft_route_kick(struct weft_member *member);
void weft_route_again(struct weft_member *member, struct bio *bio);
void weft_route_take(struct weft_member *member, struct weft_path **taken);
void weft_route_look_for_dead(struct weft_member *member);
enum weft_path_mem weft_route_mem(struct weft_member *member);
unsigned long weft_route_patience(struct weft_member *member, unsigned long since);

/* bdev.c */
int weft_bdev_init(void);
void weft_bdev_exit(void);

/* bio.c */
int __init weft_bio_init(void);
void weft_bio_exit(void);
void weft_submit_bio(struct bio *bio);
void weft_submit_part(struct weft_member *member, struct bio *bio,
		      sector_t sector, struct bio *whole);

static inline bool weft_op_is_range(const struct bio *bio)
{
	return bio_op(bio) == REQ_OP_DISCARD ||
	       bio_op(bio) == REQ_OP_WRITE_ZEROES;
}

/* flush.c */
void weft_flush_init(struct weft_volume *vol);
void weft_flush_submit(struct weft_volume *vol, struct bio *bio);

/* defer.c */
void weft_deferred_init(struct weft_volume *vol);
void weft_defer(struct weft_volume *vol, struct bio *bio);

/* owner.c */
int weft_owner_init(struct weft_volume *vol);
void weft_owner_exit(struct weft_volume *vol);
int weft_owner_take(struct weft_volume *vol, const char *host_nqn,
		    bool take_over, struct weft_why *why);
void weft_owner_release(struct weft_volume *vol);
void weft_owner_hold(struct weft_volume *vol, struct bio *bio);
enum weft_ownership weft_owner_state(struct weft_volume *vol);

/* sysfs.c */
extern const struct attribute_group *weft_disk_groups[];
int weft_sysfs_add_members(struct weft_volume *vol);
void weft_sysfs_del_members(struct weft_volume *vol);

/* netlink.c */
int weft_netlink_init(void);
void weft_netlink_exit(void);
void weft_event(struct weft_volume *vol, enum weft_event_type type,
		const struct weft_member *member, int err, const char *text);

#endif /* WEFT_H */
