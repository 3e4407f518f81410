/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Namespaces of a controller: disks, and paths of volumes; and the I/O that one of them
 * cannot send now.
 */
#ifndef WEFT_RDMA_NAMESPACE_H
#define WEFT_RDMA_NAMESPACE_H

#include "rdma.h"

/**
 * enum weft_ns_state - state of a namespace
 * @WEFT_NS_READY: a scan of this association has identified it as the same disk, and
 *	has ended
 * @WEFT_NS_UNKNOWN: not identified; no I/O is sent to it
 * @WEFT_NS_IDENTIFIED: identified; it is READY when the scan ends
 * @WEFT_NS_DEAD: removed, or another disk now; I/O fails. Final
 */
enum weft_ns_state {
	WEFT_NS_READY,
	WEFT_NS_UNKNOWN,
	WEFT_NS_IDENTIFIED,
	WEFT_NS_DEAD,
};

/**
 * struct weft_rdma_ns - a namespace of a controller, a disk
 * @ctrl: its controller, with a reference
 * @disk: the disk
 * @nsid: its number
 * @info: its identify data
 * @list: in the controller's namespaces; protected by its ns_lock
 * @path: the volume's path that it is, or NULL; changed under @path_lock, read under
 *	it or under RCU
 * @path_lock: inside the controller's ns_lock; held while the volume is told
 * @state: changed by weft_ns_set_state() alone, under the controller's ns_lock
 * @leaving: its volume does not choose it any more; likewise, until @path is NULL
 * @closed: the block layer's requests are turned away: @state is not READY, or @leaving
 * @closed_at: when @state was READY for the last time, jiffies
 * @fails_fast: fast_io_fail_timeout is over since then, which the log says; under the
 *	controller's ns_lock
 * @given_back: how many of its requests were given back to its volume
 * @held_lock: @held
 * @held: bios that wait until the disk is open (held.c)
 * @held_work: submits them again
 * @lost: the target does not have it any more: the disk goes; under the controller's
 *	ns_lock
 * @back: and has it again meanwhile; likewise
 * @missed: the target has listed it, and answered that it does not exist; under the
 *	controller's scan_lock, as the next two
 * @missed_errors: the controller's @errors then: in another association it may be different
 * @missed_at: when it first answered so, jiffies
 * @adding: the disk is being added: dead_work ends it later; likewise
 * @ended: its users were notified that it is dead
 * @ana: enum nvme_ana_state of its group, 0 if it is not known; changed under the
 *	controller's ns_lock
 * @ana_since: when @ana changed, jiffies
 * @ana_refused: the target refused a command by its ANA state, after the log page
 *	was last looked at
 * @ana_odd: it does so although the log page says that it is accessible ...
 * @ana_odd_since: ... since then, jiffies
 * @ana_odd_at: ... and then for the last time, jiffies
 * @refused_work: takes the path down after such a refusal
 * @doubt_work: the target refused a command as if the namespace was not there
 * @doubts: how often, with less than WEFT_RDMA_DOUBT_FORGET between
 * @doubted_at: when it was last, jiffies
 */
struct weft_rdma_ns {
	struct weft_rdma_ctrl	*ctrl;
	struct gendisk		*disk;
	u32			nsid;
	struct weft_ns_info	info;
	struct list_head	list;
	struct weft_rdma_path	*path;
	struct mutex		path_lock;	/* @path */
	enum weft_ns_state	state;
	bool			leaving;
	bool			closed;
	unsigned long		closed_at;
	bool			fails_fast;
	atomic_t		given_back;
	spinlock_t		held_lock;	/* @held */
	struct bio_list		held;
	struct work_struct	held_work;
	bool			lost;
	bool			back;
	bool			missed;
	u32			missed_errors;
	unsigned long		missed_at;
	bool			adding;
	bool			ended;
	u8			ana;
	unsigned long		ana_since;
	bool			ana_refused;
	bool			ana_odd;
	unsigned long		ana_odd_since;
	unsigned long		ana_odd_at;
	struct work_struct	refused_work;
	struct work_struct	doubt_work;
	u32			doubts;
	unsigned long		doubted_at;
};

/* The size of a namespace in sectors. */
static inline sector_t weft_info_sectors(const struct weft_ns_info *info)
{
	return info->blocks << (info->lba_shift - SECTOR_SHIFT);
}

/**
 * weft_rdma_ana_ok() - may I/O be sent to a namespace?
 * @ns: the namespace
 *
 * Context: any.
 * Return: true if it is accessible, or the controller does not report ANA.
 */
static inline bool weft_rdma_ana_ok(const struct weft_rdma_ns *ns)
{
	u8 state = READ_ONCE(ns->ana);

	return !state || state == NVME_ANA_OPTIMIZED || state == NVME_ANA_NONOPTIMIZED;
}

/* ana.c */
const char *weft_rdma_ana_text(u8 state);
struct weft_rdma_ns *weft_rdma_ana_lost(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ana_look_up(struct weft_rdma_ns *ns);
void weft_rdma_ana_read(struct weft_rdma_ctrl *ctrl);
unsigned long weft_rdma_ana_tell_all(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ana_work(struct work_struct *work);
void weft_rdma_ana_refused_work(struct work_struct *work);

/* ns.c */
struct weft_rdma_ns *weft_rdma_ns_find(struct weft_rdma_ctrl *ctrl, u32 nsid);
int weft_rdma_ns_add(struct weft_rdma_ctrl *ctrl, u32 nsid, const struct weft_ns_info *info,
		     u32 errors, u32 scans);
int weft_rdma_ns_update(struct weft_rdma_ns *ns, const struct weft_ns_info *info,
			struct weft_why *why);
void weft_rdma_ns_trust(struct weft_rdma_ns *ns, u32 errors);
void weft_rdma_ns_doubt(struct weft_rdma_ns *ns, const char *why);
void weft_rdma_ns_lose(struct weft_rdma_ns *ns);
void weft_rdma_ns_kill(struct weft_rdma_ns *ns);
void weft_rdma_doubt_work(struct work_struct *work);
void weft_rdma_dead_work(struct work_struct *work);
void weft_rdma_ns_close_all(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ns_leave(struct weft_rdma_ns *ns);
void weft_rdma_ns_left(struct weft_rdma_ns *ns);
bool weft_rdma_ns_open_identified(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ns_resubmit_all(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ns_remove_all(struct weft_rdma_ctrl *ctrl);
bool weft_rdma_ns_release(struct weft_rdma_ctrl *ctrl);
struct weft_rdma_ns *weft_rdma_ns_of(struct gendisk *disk);
void weft_rdma_ns_kill_all(struct weft_rdma_ctrl *ctrl, bool closed_only);
void weft_rdma_ns_sync(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ns_flush_timeouts(struct weft_rdma_ctrl *ctrl);
void weft_rdma_ns_fit(struct weft_rdma_ctrl *ctrl);

/**
 * struct weft_rdma_path - a disk of weft_rdma as a volume's path
 * @path: the path that the volume sees; first
 * @wb: the disk, claimed
 * @ns: its namespace
 * @has_peers: it is counted in its controller's mem_users
 * @users: one while it is attached, and one for each call of weft_rdma_path_settle()
 * @unused: completed with the last of these
 * @waiting: operations on peer memory that got no tag
 * @waiting_work: waits for a tag for each of @waiting
 */
struct weft_rdma_path {
	struct weft_path	path;
	struct weft_bdev	wb;
	struct weft_rdma_ns	*ns;
	bool			has_peers;
	refcount_t		users;
	struct completion	unused;
	struct llist_head	waiting;
	struct work_struct	waiting_work;
};

/**
 * weft_rdma_may_write() - is the lease of a namespace's volume still valid?
 * @ns: the namespace
 * @bio: the write; NULL for one from registered memory
 *
 * A write may have waited since the volume allowed it, for a tag or for a retry.
 * After the lease another host may own the volume.
 *
 * Context: any, under rcu_read_lock(), as the block layer calls queue_rq(). Inline,
 * because it runs for every write.
 * Return: whether the write may be sent; true for the disk of no volume.
 */
static inline bool weft_rdma_may_write(struct weft_rdma_ns *ns, const struct bio *bio)
{
	struct weft_rdma_path *rp = READ_ONCE(ns->path);

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "a path may be freed while it is used");
	return likely(!rp || !weft_lease_is_over(rp->path.lease)) ||
	       rp->path.events->may_write(&rp->path, bio);
}

/* held.c */
int weft_rdma_held_init(void);
void weft_rdma_held_exit(void);
void weft_rdma_held_begin(struct weft_rdma_ns *ns);
void weft_rdma_held_end(struct weft_rdma_ns *ns);
bool weft_rdma_held_too_long(const struct weft_rdma_ns *ns);
void weft_rdma_end_empty(struct request *rq);
bool weft_rdma_hold(struct weft_rdma_ns *ns, struct request *rq);
void weft_rdma_resubmit(struct weft_rdma_ns *ns);

/* path.c */
bool weft_rdma_path_attach(struct weft_rdma_path *rp, bool known);
void weft_rdma_path_detach(struct weft_rdma_path *rp);
void weft_rdma_path_wait(struct weft_rdma_path *rp);
bool weft_rdma_failover(struct request *rq, bool sent);
void weft_rdma_path_gone(struct weft_rdma_ns *ns);
void weft_rdma_path_settle(struct weft_rdma_ns *ns);
void weft_rdma_paths_peers(struct weft_rdma_ctrl *ctrl);
void weft_rdma_path_fit(struct weft_rdma_ns *ns, u32 bytes);
void weft_rdma_path_up(struct weft_rdma_ns *ns);
void weft_rdma_path_resized(struct weft_rdma_ns *ns);
u64 weft_rdma_path_blocks(struct weft_rdma_ns *ns);
void weft_rdma_path_down(struct weft_rdma_ns *ns, const char *reason);
void weft_rdma_paths_down(struct weft_rdma_ctrl *ctrl);

#endif /* WEFT_RDMA_NAMESPACE_H */
