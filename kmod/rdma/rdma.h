/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Internals of weft_rdma.ko: the host side of NVMe over RDMA.
 *
 * A controller is one association with a subsystem over one path: an admin
 * queue and I/O queues, each with its own queue pair. Each of its namespaces is
 * a blk-mq disk. The target's answers are checked: see io.c.
 */
#ifndef WEFT_RDMA_H
#define WEFT_RDMA_H

#ifdef pr_fmt
#undef pr_fmt
#endif
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "../compat/compat.h"
#include "../compat/blk_mq.h"

#include <linux/blk-mq.h>
#include <linux/cdev.h>
#include <linux/completion.h>
#include <linux/device.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/pr.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include "../include/weft_transport.h"
#include "../include/weft_why.h"
#include "capsule.h"

#define WEFT_RDMA_ADMIN_SIZE	32	/* entries of the admin queue */
/* Reserved for Connect, Keep Alive, an asynchronous event, and Abort. */
#define WEFT_RDMA_ADMIN_RESERVED 4
#define WEFT_RDMA_QUEUE_MAX	256	/* entries of an I/O queue */
#define WEFT_RDMA_INLINE_SEGS	4
/* 1 MiB in 4 KiB pages, and one more for a start within a page. */
#define WEFT_RDMA_MR_PAGES	257
#define WEFT_RDMA_PDU_SEGS	4

/* Timeout of internal commands. */
#define WEFT_RDMA_SETUP_TIMEOUT	(10 * HZ)
#define WEFT_RDMA_ADMIN_TIMEOUT	(60 * HZ)
#define WEFT_RDMA_CM_TIMEOUT_MS	3000
/* Added to what the specification has writes wait, see recovery.c. */
#define WEFT_RDMA_QUIET_MARGIN_MS 1000
/* No target is believed to keep a lost association for longer, in ms. */
#define WEFT_RDMA_TARGET_KATO_MAX	(600U * 1000)
/* Queue pairs that are being connected at once: a target takes one after the other. */
#define WEFT_RDMA_CONNECTS	8
#define WEFT_RDMA_RETRIES	5
/*
 * A command that a target cannot execute now is sent again after each of these intervals,
 * for so long: a disk that is being reset is back then.
 */
#define WEFT_RDMA_LATER_MS	100
#define WEFT_RDMA_LATER_END	(5 * HZ)
#define WEFT_RDMA_LATER_ANA	(30 * HZ)
/* Before the first attempt to reconnect; a link that lost packets is back at once. */
#define WEFT_RDMA_FIRST_DELAY_MS 250U
/* It doubles, this often at most, if an association did not live for so long. */
#define WEFT_RDMA_FLAPS		2U
#define WEFT_RDMA_FLAP		HZ
/* A namespace whose commands a target refused so long ago is trusted as before. */
#define WEFT_RDMA_DOUBT_FORGET	(60 * HZ)
/* A namespace whose commands a target refuses is scanned again after this. */
#define WEFT_RDMA_SCAN_SOON	(HZ / 2)
/* Attempts to reconnect with all queues, before those are enough that the target took. */
#define WEFT_RDMA_ALL_QUEUES	3
#define WEFT_RDMA_SECONDS_MAX	(7 * 24 * 3600)

/* The RDMA device has no queue pair or memory registration left for a queue. */
#define WEFT_RDMA_ADAPTER_FULL	(-ENOBUFS)

/* What the target has announced. */
#define WEFT_NOTICE_NAMESPACES	BIT(0)
#define WEFT_NOTICE_ANA		BIT(1)

struct weft_domain;
struct weft_mapping;
struct weft_rdma_ctrl;
struct weft_rdma_ns;
struct weft_rdma_queue;

#define WEFT_RDMA_SGES		(1 + WEFT_RDMA_INLINE_SEGS)

/**
 * struct weft_rdma_slot - state of a queue for each of its command ids
 * @queue: the queue
 * @rq: the request in flight; NULL if there is none for this id
 * @mr: its memory registration; on queues for peer memory only the first slot has one
 * @pending: WEFT_SLOT_*, what the request still waits for; touched where
 *	completions are polled, and before the request is sent
 * @cid: its last command's identifier
 * @aborted: an Abort was sent for it
 * @mapped: @mr is registered, and the target has its key
 * @sent: number of its SEND, of a command on memory that is registered for good
 * @reg: the registration, all but @reg.wr.next, @reg.mr, @reg.key and @reg.access made
 *	with the queue; a SEND follows it
 * @send: the SEND, all but @send.num_sge made with the queue, and @send.send_flags on
 *	queues for peer memory; of a run, a copy is posted
 * @sge: of that: the capsule, and data that go with it
 * @send_cqe: completion of the SEND
 * @reg_cqe: completion of REG_MR, if it fails
 * @inv_cqe: completion of a local invalidation
 *
 * Each begins a cache line of its own: other CPUs use its neighbours.
 */
struct weft_rdma_slot {
	struct weft_rdma_queue	*queue;
	struct request		*rq;
	struct ib_mr		*mr;
	u8			pending;
	bool			aborted;
	bool			mapped;
	u16			cid;
	u32			sent;
	struct ib_reg_wr	reg;
	struct ib_send_wr	send;
	struct ib_sge		sge[WEFT_RDMA_SGES];
	struct ib_cqe		send_cqe;
	struct ib_cqe		reg_cqe;
	struct ib_cqe		inv_cqe;
} ____cacheline_aligned;

#define WEFT_SLOT_SEND		BIT(0)
#define WEFT_SLOT_RESPONSE	BIT(1)
#define WEFT_SLOT_INVALIDATE	BIT(2)
#define WEFT_SLOT_KEY		BIT(3)	/* its key is invalidated when the SEND has completed */

/**
 * struct weft_rdma_recv - one posted receive
 * @cqe: its completion
 * @wr: the work request
 * @sge: of that: the buffer
 * @nvme: the buffer
 *
 * It fills a cache line of 64 bytes. So its queue is known from the queue pair alone.
 */
struct weft_rdma_recv {
	struct ib_cqe		cqe;
	struct ib_recv_wr	wr;
	struct ib_sge		sge;
	struct nvme_completion	*nvme;
};

/* Requests of a run: as many as the block layer collects in a plug. */
#define WEFT_RUN_MAX		32

/**
 * struct weft_rdma_run - requests in a row for one queue pair, posted by one call
 * @lock: bit 0: a task has a run for this queue
 * @count: its requests
 * @first: its first work request
 * @next: where the work request that comes next is linked
 * @sends: SENDs. In a slot they would be used again, with another successor, when the
 *	request is answered, while the device's driver still follows the chain
 */
struct weft_rdma_run {
	unsigned long		lock;
	u32			count;
	struct ib_send_wr	*first;
	struct ib_send_wr	**next;
	struct ib_send_wr	sends[WEFT_RUN_MAX];
};

#define WEFT_BOUNCE_BYTES	SZ_8K	/* an owner record and the claim behind it */

/**
 * struct weft_rdma_bounce - where small reads of metadata go, see bounce.c
 * @mr: the buffer's registration
 * @cqe: of the work request that registers it
 * @mem: the buffer, as @capsules of a queue
 * @addr: for the device
 * @taken: bit 0: a read has it
 */
struct weft_rdma_bounce {
	struct ib_mr	*mr;
	struct ib_cqe	cqe;
	void		*mem;
	u64		addr;
	unsigned long	taken;
};

#define WEFT_QUEUE_LIVE		0	/* requests may be sent */
#define WEFT_QUEUE_CONNECTED	1	/* commands of the setup may be sent */
#define WEFT_QUEUE_STARTED	2	/* a queue pair is there to be torn down */

/**
 * struct weft_rdma_queue - a queue pair and its resources
 * @ctrl: its controller
 * @pd: protection domain of its keys: the controller's, or with @mem the domain's
 * @qp: queue pair
 * @cq: completion queue of sends and receives alike, so that they are handled
 *	in one context at a time; others have it as well, unless this one is polled
 * @capsules: commands, one for each slot; in coherent memory, like @responses,
 *	so they need no DMA synchronisation
 * @capsules_addr: for the device
 * @slots: by tag
 * @flags: WEFT_QUEUE_*
 * @size: entries as told to the target; one command less may be in flight
 * @index: 0 is the admin queue
 * @id: by which the target knows it, see weft_queue_id()
 * @inline_bytes: of data a capsule takes
 * @inline_segs: that these may have
 * @poll: it has no interrupts; io_uring polls it
 * @scarce: it has fewer slots than tags, so a request has to claim a slot
 * @claimed: bitmap of claimed slots, if @scarce
 * @mem: for peer memory that is registered for good, see peer.c
 * @for_background: it carries background I/O
 * @background: carries the background I/O of this one, or NULL. Changes while the
 *	association or the queues for peer memory are set up; some requests may read it then
 * @poll_lock: one poller at a time
 * @connect_lock: protects @connect
 * @connect: its Connect, or another command of its setup, or of the controller's shutdown,
 *	while that is in flight; there is one at a time
 * @sent: SENDs of commands on memory that is registered for good
 * @left: of these, so many have left the send queue, as far as is known
 * @signal_mask: one of so many more has a completion, see weft_queue_signals()
 * @run: of requests, to be posted
 * @bounce: for small reads of metadata, or NULL
 * @bad_send: written when a work request cannot be posted, and never read
 * @bad_recv: the same of receives
 * @recvs: receives
 * @responses: their buffers
 * @responses_addr: for the device
 * @lock: serializes stopping it
 * @cm_id: connection
 * @cm_done: the connection made a step, or failed
 * @cm_status: 0 or why not
 * @cm_event: the step, enum rdma_cm_event_type
 * @cm_why: what the target said with it
 */
struct weft_rdma_queue {
	struct weft_rdma_ctrl	*ctrl;
	struct ib_pd		*pd;
	struct ib_qp		*qp;
	struct ib_cq		*cq;
	struct nvme_command	*capsules;
	u64			capsules_addr;
	struct weft_rdma_slot	*slots;
	unsigned long		flags;
	u32			inline_bytes;
	u16			inline_segs;
	u16			size;
	u16			index;
	u16			id;
	bool			poll;
	bool			mem;
	bool			scarce;
	bool			for_background;
	struct weft_rdma_queue	*background;
	spinlock_t		poll_lock;	/* one poller at a time */
	spinlock_t		connect_lock;	/* the next */
	struct request		*connect;
	DECLARE_BITMAP(claimed, WEFT_RDMA_QUEUE_MAX);
	u32			signal_mask;
	atomic_t		sent ____cacheline_aligned_in_smp;
	u32			left;

	struct weft_rdma_run	*run;
	struct weft_rdma_bounce	*bounce;
	const struct ib_send_wr	*bad_send;
	const struct ib_recv_wr	*bad_recv;
	struct weft_rdma_recv	*recvs;
	struct nvme_completion	*responses;
	u64			responses_addr;

	struct mutex		lock;	/* stopping */
	struct rdma_cm_id	*cm_id;
	struct completion	cm_done;
	int			cm_status;
	int			cm_event;
	const char		*cm_why;
};

/*
 * An association can do without its queues for peer memory and for background I/O.
 * Errors of such a queue before it is live, and while it is stopped, do not end the
 * association: a target that refuses Connect may end the connection as well.
 */
static inline bool weft_queue_aside(const struct weft_rdma_queue *queue)
{
	return (queue->mem || queue->for_background) &&
	       !test_bit(WEFT_QUEUE_LIVE, &queue->flags);
}

/**
 * struct weft_rdma_pdu - driver data of each request
 * @queue: the queue it was sent on
 * @mem: it is sent on a queue for peer memory
 * @mapping: for peer memory: its mapping, with a reference; the request's
 *	end_io_data is then the operation
 * @cmd: for other passthrough: the command, without id and data pointer. Only
 *	valid while the caller waits; a timeout handler may run later
 * @opcode: opcode of @cmd
 * @connects: the queue that @cmd connects, or sets up; else NULL
 * @result: of the completion
 * @slot: of the queue, that it was sent by
 * @status: of the completion, see WEFT_STATUS_*
 * @retries: so far, at most WEFT_PDU_RETRIES_MAX; and WEFT_PDU_LATER
 * @later_since: with WEFT_PDU_LATER: when the first such answer came, jiffies
 * @nents: of @table; 0 where it is not there, WEFT_PDU_BOUNCED for the queue's buffer
 * @dma_nents: mapped
 * @table: data
 * @sgl: its first entries
 */
struct weft_rdma_pdu {
	struct weft_rdma_queue	*queue;
	bool			mem;
	struct weft_mapping	*mapping;
	struct nvme_command	*cmd;
	struct weft_rdma_queue	*connects;
	union nvme_result	result;
	u16			slot;
	u16			status;
	u8			retries;
	u8			opcode;
	unsigned long		later_since;
	int			nents;
	int			dma_nents;
	struct sg_table		table;
	struct scatterlist	sgl[WEFT_RDMA_PDU_SEGS];
};

#define WEFT_PDU_BOUNCED	(-1)
#define WEFT_PDU_RETRIES_MAX	0x7f
#define WEFT_PDU_LATER		0x80	/* the target could not execute it at that time */

/* A completion's status as it is kept: without the phase bit, which leaves one of 16. */
#define WEFT_STATUS_CODE	0x07ff	/* type and code */
#define WEFT_STATUS_TYPE	0x0700
#define WEFT_STATUS_TYPE_PATH	0x0300	/* path related (NVMe base 2.1, figure 98) */
#define WEFT_STATUS_DNR		0x4000	/* do not retry */
#define WEFT_STATUS_HOST	0x8000	/* of our own making: no target can say it */

/* The host aborted the command; the specification's status code for that. */
#define WEFT_STATUS_ABORTED	(WEFT_STATUS_HOST | 0x371)

/* @status of weft_rdma_command(): did it time out because its connection has ended? */
static inline bool weft_rdma_connection_ended(const struct weft_rdma_queue *queue, int status)
{
	return status > 0 && (status & WEFT_STATUS_HOST) &&
	       READ_ONCE(queue->cm_status) == -ECONNRESET;
}

/*
 * States of a controller; weft_rdma_set_state() checks the transitions.
 * AUTHENTICATING comes before LIVE if the target requires authentication.
 */
enum weft_rdma_state {
	WEFT_RDMA_NEW,
	WEFT_RDMA_CONNECTING,
	WEFT_RDMA_AUTHENTICATING,
	WEFT_RDMA_LIVE,
	WEFT_RDMA_RECOVERING,
	WEFT_RDMA_DELETING,
	WEFT_RDMA_DEAD,
};

/**
 * enum weft_rdma_end - why an association ended; the first error counts
 * @WEFT_RDMA_END_TIMEOUT: a command was not answered, or a work request did not
 *	complete, in time
 * @WEFT_RDMA_END_KEEP_ALIVE: a Keep Alive command was not answered in time, or it
 *	failed
 * @WEFT_RDMA_END_QUEUE_PAIR: a work request failed or could not be posted, or the
 *	queue pair went into error
 * @WEFT_RDMA_END_CONNECTION: the target ended a connection, or a connection was
 *	lost while the others were made
 * @WEFT_RDMA_END_DEVICE: the RDMA device is being removed, or the address moved to
 *	another device
 * @WEFT_RDMA_END_PROTOCOL: the target broke a rule of the protocol
 * @WEFT_RDMA_END_SCAN: the namespaces could not be read
 * @WEFT_RDMA_END_MEMORY: an exporter revoked peer memory, and a command on it did
 *	not end in time
 * @WEFT_RDMA_END_ANA: the ANA state of a namespace was in change for too long
 * @WEFT_RDMA_END_RESET: a user has reset the controller
 * @WEFT_RDMA_ENDS: number of reasons
 *
 * weft_rdma_end_text() has their names.
 */
enum weft_rdma_end {
	WEFT_RDMA_END_TIMEOUT,
	WEFT_RDMA_END_KEEP_ALIVE,
	WEFT_RDMA_END_QUEUE_PAIR,
	WEFT_RDMA_END_CONNECTION,
	WEFT_RDMA_END_DEVICE,
	WEFT_RDMA_END_PROTOCOL,
	WEFT_RDMA_END_SCAN,
	WEFT_RDMA_END_MEMORY,
	WEFT_RDMA_END_ANA,
	WEFT_RDMA_END_RESET,
	WEFT_RDMA_ENDS,
};

/**
 * struct weft_rdma_options - options of a controller
 * @subnqn: subsystem
 * @host_nqn: this host
 * @host_id: this host
 * @traddr: target's address, numeric
 * @trsvcid: target's port
 * @host_traddr: ours, or empty
 * @remote: the same as a socket address
 * @local: the same, family 0 where none is given
 * @io_queues: requested number without poll queues; at most one per CPU
 * @poll_queues: requested number of additional poll queues; at most one per CPU
 * @queue_size: entries of an I/O queue
 * @kato_ms: keep-alive timeout
 * @reconnect_delay: seconds before the second attempt; doubles up to 8 times
 * @ctrl_loss_timeout: seconds until it is given up, -1 for never
 * @fast_io_fail_timeout: seconds until I/O fails, -1 for never
 * @tos: type of service of the connections, -1 for the adapter's default
 * @background_tos: type of service of connections for background I/O; -1: there are none
 */
struct weft_rdma_options {
	char			subnqn[224];
	char			host_nqn[224];
	u8			host_id[16];
	char			traddr[64];
	char			trsvcid[8];
	char			host_traddr[64];
	struct sockaddr_storage	remote;
	struct sockaddr_storage	local;
	u32			io_queues;
	u32			poll_queues;
	u32			queue_size;
	u32			kato_ms;
	u32			reconnect_delay;
	int			ctrl_loss_timeout;
	int			fast_io_fail_timeout;
	int			tos;
	int			background_tos;
};

/**
 * struct weft_rdma_secret - a secret for DH-HMAC-CHAP (NVMe base 2.1, 8.3.5.8)
 * @key: the secret
 * @len: bytes of it: 32, 48 or 64; 0 if there is none
 * @hash: NVME_AUTH_HASH_* that transforms it; 0 for none
 */
struct weft_rdma_secret {
	u8	key[64];
	u8	len;
	u8	hash;
};

/**
 * struct weft_rdma_auth - how the admin queue was authenticated
 * @hash: NVME_AUTH_HASH_*; 0 if it was not
 * @group: NVME_AUTH_DHGROUP_*
 * @mutual: the controller has proven who it is, too
 */
struct weft_rdma_auth {
	u8	hash;
	u8	group;
	bool	mutual;
};

/* I/O queues in all: each may have one beside it for peer memory, and both one for background I/O. */
static inline u32 weft_rdma_all_queues(const struct weft_rdma_options *opts)
{
	return opts->io_queues * (opts->background_tos >= 0 ? 4 : 2) + opts->poll_queues;
}

/**
 * struct weft_rdma_ctrl - a controller
 * @state: changed by weft_rdma_set_state_locked() alone, under @lock
 * @lock: @state, @errors, @ends, @end, @notices, @event_asked
 * @ref: put by weft_rdma_ctrl_put()
 * @list: protected by weft_rdma_ctrls_lock
 * @dev: /dev/weft-rdmaN
 * @cdev: the same
 * @instance: N
 * @opts: how it is connected
 * @secret_lock: the next three
 * @host_secret: with which this host authenticates
 * @ctrl_secret: with which the controller has to authenticate
 * @auth_hashes: bit NVME_AUTH_HASH_* of each hash that this kernel has loaded
 * @used_host: that of them with which the association was begun; queues that are
 *	connected later use it, too. Changed by an attempt to connect
 * @used_ctrl: likewise
 * @used_hashes: likewise
 * @auth_id: of the next authentication; one queue authenticates at a time
 * @auth: how the admin queue was authenticated
 * @info: its identify data, checked
 * @cap: its property CAP
 * @ib: the RDMA device while any queue has one
 * @node: NUMA node of the RDMA device, or NUMA_NO_NODE
 * @p2pdma: I/O may be on pages of P2PDMA type
 * @pd: protection domain, of this controller alone, while @ib is set
 * @mr_pages: pages of a registration
 * @map_bytes: the DMA layer maps at once at most
 * @queues: [0] is the admin queue
 * @queue_count: how many are in use, with the admin queue
 * @max_queues: length of @queues
 * @queues_made: number of I/O queues that the last attempt connected
 * @target_queues: number of I/O queues to try, because the target took no more; 0 for all
 * @device_queues: the same, because the RDMA device had no room for more
 * @poll_from: index of the first poll queue
 * @io_up: number of connected queues before @poll_from, shared by all others
 * @poll_up: number of connected poll queues, shared by all others
 * @background_first: index of the first queue for background I/O; one for each
 *	connected I/O queue that is not polled
 * @background_count: number of these queues; 0 if there are none
 * @background_ids: ids that were set aside for them; as many, or those that could not
 *	be connected
 * @admin_set: tags of the admin queue
 * @admin_q: its request queue
 * @set: tags of the I/O queues
 * @connect_q: request queue on @set for Connect
 * @set_ready: @set is there: after the first success; cleared under @mem_lock
 * @recover_work: takes everything down after an error
 * @connect_work: tries to come back
 * @fail_fast_work: ends the patience of fast_io_fail_timeout
 * @keep_alive_work: does what it says
 * @removal_work: takes it off when it is given up; on weft_rdma_wq, with a reference
 * @mem_lock: the queues for peer memory that is registered for good, and all
 *	that follows
 * @mem_work: connects them, again
 * @mem_volume: UUID of the volume they are for, while there are @mem_users
 * @mem_users: paths of that volume that have peer memory
 * @mem_refused: how often @mem_work could not map a memory, one time after the other
 * @mem_failed: how often it could not connect the queues for memory, likewise
 * @mem_first: index of the first of these queues; one for each I/O queue that
 *	is not polled, and as many again for background I/O
 * @mem_count: number of these queues; 0 if the target grants none
 * @mem_ready: commands on peer memory may begin: it is mapped in @domain
 * @mem_up: the queues are connected
 * @domain: where peer memory is mapped for the controller; what the queues' keys
 *	are good for
 * @scan_work: looks for namespaces
 * @again_work: looks again for those of which nothing is known
 * @add_work: makes disks of the namespaces that are new; on weft_rdma_wq
 * @dead_work: ends the disks that a scan has found dead; on weft_rdma_wq
 * @scan_owed: it is to look for all
 * @log_owed: before that, it is to read the log of changed namespaces: until this was
 *	read, the target announces no change
 * @scans: scans that have begun; changed under @scan_lock
 * @scan_tries: so often a namespace is looked for again that the target lists and
 *	that is not there; changed under @scan_lock
 * @target_kato_ms: keep-alive timeout that the target uses; at least the host's
 * @quiet_ms: for so long the target may execute commands of an association that has ended
 * @ana_work: reads the ANA log page
 * @ana_log: the ANA log page as it was last read, or NULL; under @ns_lock
 * @ana_lock: held from the command that reads a page to its place in @ana_log; before
 *	@ns_lock
 * @ana_bytes: its length
 * @event_work: does what an asynchronous event asks for, then asks for the next one
 * @wq: for all of these but where another is named
 * @end_writes_work: ends the association if a write is in flight whose lease is over
 * @recovery_wq: for @end_writes_work, @recover_work and @connect_work
 * @attempts: to reconnect since the loss
 * @reconnects: that succeeded
 * @errors: recoveries that were begun
 * @ends: the same by reason; changed under @lock, as @errors
 * @end: reason of the last recovery, if @errors is not 0; changed under @lock, before
 *	@recover_work is queued
 * @live_at: when the last association began, jiffies
 * @flaps: so many associations in turn were short, at most WEFT_RDMA_FLAPS
 * @lost_at: when the last association ended that served its disks, jiffies
 * @quiet_at: from then on, no command of an ended association can execute
 * @keeps_writes: a disk without a volume holds writes that the target may still
 *	execute, so the next association waits for @quiet_at
 * @unscanned: connected again, and no scan has ended since; then under @ns_lock
 * @lost: a connection or its device was lost while the others were being made
 * @ending: weft_rdma_teardown() ends all requests; under @mem_lock
 * @fail_fast: fast_io_fail_timeout is over
 * @notices: WEFT_NOTICE_* that @event_work has not seen
 * @event_asked: an Asynchronous Event Request is in flight; set by @event_work
 * @namespaces: under @ns_lock
 * @ns_lock: protects the list and the disks' states; not held during commands
 * @scan_lock: serializes scans; held where a disk that was not added is freed
 * @create_lock: held until a new controller is ready; removal waits for it
 * @attempt_lock: held during an attempt to connect
 * @abort_busy: bit 0: an Abort is in flight; at most one at a time
 * @reason: why the association ended, for messages
 * @rail: local RDMA device and port
 * @gone_lock: held for reading during a command of a user
 * @gone: commands of users are refused
 */
struct weft_rdma_ctrl {
	enum weft_rdma_state	state;
	spinlock_t		lock;	/* see above */
	struct kref		ref;
	struct list_head	list;
	struct device		dev;
	struct cdev		cdev;
	int			instance;
	struct weft_rdma_options opts;
	struct mutex		secret_lock;	/* the next three */
	struct weft_rdma_secret	host_secret;
	struct weft_rdma_secret	ctrl_secret;
	u8			auth_hashes;
	struct weft_rdma_secret	used_host;
	struct weft_rdma_secret	used_ctrl;
	u8			used_hashes;
	u16			auth_id;
	struct weft_rdma_auth	auth;
	struct weft_ctrl_info	info;
	u64			cap;

	struct ib_device	*ib;
	int			node;
	bool			p2pdma;
	struct ib_pd		*pd;
	u32			mr_pages;
	size_t			map_bytes;

	struct weft_rdma_queue	*queues;
	u32			queue_count;
	u32			max_queues;
	u32			queues_made;
	u32			target_queues;
	u32			device_queues;
	u32			poll_from;
	u32			io_up;
	u32			poll_up;
	u32			background_first;
	u32			background_count;
	u32			background_ids;
	struct blk_mq_tag_set	admin_set;
	struct request_queue	*admin_q;
	struct blk_mq_tag_set	set;
	struct request_queue	*connect_q;
	bool			set_ready;

	struct workqueue_struct	*wq;
	struct workqueue_struct	*recovery_wq;
	struct work_struct	recover_work;
	struct delayed_work	connect_work;
	struct delayed_work	fail_fast_work;
	struct delayed_work	keep_alive_work;
	struct work_struct	removal_work;

	struct mutex		mem_lock;	/* see above */
	struct delayed_work	mem_work;
	u8			mem_volume[16];
	u32			mem_users;
	int			mem_refused;
	u32			mem_failed;
	u32			mem_first;
	u32			mem_count;
	bool			mem_ready;
	bool			mem_up;
	struct weft_domain	*domain;

	struct work_struct	scan_work;
	struct delayed_work	again_work;
	struct work_struct	add_work;
	struct work_struct	dead_work;
	struct work_struct	end_writes_work;
	bool			scan_owed;
	bool			log_owed;
	u32			scans;
	u8			scan_tries;
	u32			target_kato_ms;
	u32			quiet_ms;
	struct delayed_work	ana_work;
	void			*ana_log;
	struct mutex		ana_lock;	/* order of pages */
	u32			ana_bytes;
	struct work_struct	event_work;
	u32			attempts;
	u32			reconnects;
	u32			errors;
	u32			ends[WEFT_RDMA_ENDS];
	enum weft_rdma_end	end;
	unsigned long		live_at;
	u32			flaps;
	unsigned long		lost_at;
	unsigned long		quiet_at;
	bool			keeps_writes;
	bool			unscanned;
	bool			lost;
	bool			ending;
	bool			fail_fast;
	u32			notices;
	bool			event_asked;

	struct list_head	namespaces;
	struct mutex		ns_lock;	/* namespaces */
	struct mutex		scan_lock;	/* one scan at a time */
	struct mutex		create_lock;	/* being made */
	struct mutex		attempt_lock;	/* an attempt to connect */
	unsigned long		abort_busy;
	char			reason[128];
	char			rail[IB_DEVICE_NAME_MAX + 8];
	struct rw_semaphore	gone_lock;	/* commands from outside */
	bool			gone;
};

#define weft_ctrl_err(ctrl, fmt, ...) \
	pr_err("%s: " fmt, dev_name(&(ctrl)->dev), ##__VA_ARGS__)
#define weft_ctrl_warn(ctrl, fmt, ...) \
	pr_warn("%s: " fmt, dev_name(&(ctrl)->dev), ##__VA_ARGS__)
#define weft_ctrl_info(ctrl, fmt, ...) \
	pr_info("%s: " fmt, dev_name(&(ctrl)->dev), ##__VA_ARGS__)

/* state.c */
extern struct mutex weft_rdma_ctrls_lock;
extern struct list_head weft_rdma_ctrls;
bool weft_rdma_set_state(struct weft_rdma_ctrl *ctrl, enum weft_rdma_state to);
enum weft_rdma_state weft_rdma_state(struct weft_rdma_ctrl *ctrl);
const char *weft_rdma_state_text(enum weft_rdma_state state);
const char *weft_rdma_end_text(enum weft_rdma_end end);
__printf(3, 4)
bool weft_rdma_error(struct weft_rdma_ctrl *ctrl, enum weft_rdma_end end, const char *fmt, ...);
int weft_rdma_reset(struct weft_rdma_ctrl *ctrl);
bool weft_rdma_queue(struct weft_rdma_ctrl *ctrl, struct workqueue_struct *wq,
		     struct work_struct *work);
int weft_rdma_rescan(struct weft_rdma_ctrl *ctrl);
void weft_rdma_scan_later(struct weft_rdma_ctrl *ctrl, unsigned long delay);
void weft_rdma_scan_owe(struct weft_rdma_ctrl *ctrl, unsigned long delay);
void weft_rdma_ana_kick(struct weft_rdma_ctrl *ctrl, unsigned long delay);
void weft_rdma_ctrl_put(struct weft_rdma_ctrl *ctrl);
struct weft_rdma_ctrl *weft_rdma_ctrl_next(struct weft_rdma_ctrl *ctrl);

/* ctrl.c */
int weft_rdma_ctrl_create(const struct weft_controller_request *req,
			  char *name, size_t size, struct weft_why *why);
int weft_rdma_ctrl_secrets(const char *name, const struct weft_dhchap_secrets *secrets,
			   struct weft_why *why);
int weft_rdma_ctrl_delete(const char *name, struct weft_why *why);
void weft_rdma_ctrl_remove(struct weft_rdma_ctrl *ctrl);

/* main.c */
extern struct workqueue_struct *weft_rdma_wq;

/* device.c */
void *weft_rdma_alloc_shared(struct ib_device *ib, size_t bytes, u64 *addr);
void weft_rdma_free_shared(struct ib_device *ib, size_t bytes, void *mem, u64 addr);
int weft_rdma_device_init(void);
void weft_rdma_device_exit(void);
bool weft_rdma_ib_usable(struct ib_device *ib);
int weft_rdma_device_get(struct weft_rdma_ctrl *ctrl, struct rdma_cm_id *id,
			 struct weft_why *why);
void weft_rdma_device_put(struct weft_rdma_ctrl *ctrl);

/* auth.c */
#if IS_ENABLED(CONFIG_CRYPTO_HMAC)
u8 weft_rdma_auth_hashes(void);
int weft_rdma_authenticate(struct weft_rdma_queue *queue, u32 wanted, struct weft_why *why);
#else
static inline u8 weft_rdma_auth_hashes(void)
{
	return 0;
}

static inline int weft_rdma_authenticate(struct weft_rdma_queue *queue, u32 wanted,
					 struct weft_why *why)
{
	if (!(wanted & (WEFT_CONNECT_ATR | WEFT_CONNECT_ASCR)) && !queue->ctrl->ctrl_secret.len)
		return 0;
	return weft_refuse(why, -EOPNOTSUPP,
			   "this kernel cannot authenticate: it lacks CONFIG_CRYPTO_HMAC");
}
#endif
int weft_rdma_secrets_set(struct weft_rdma_ctrl *ctrl, const struct weft_dhchap_secrets *secrets,
			  struct weft_why *why);

/**
 * weft_rdma_is_short() - has the target, or the RDMA device, no room for a queue?
 * @error: of weft_rdma_setup()
 *
 * Return: true if fewer queues can be connected.
 */
static inline bool weft_rdma_is_short(int error)
{
	return error == -ECONNREFUSED || error == WEFT_RDMA_ADAPTER_FULL;
}

/* setup.c */
int weft_rdma_setup(struct weft_rdma_ctrl *ctrl, struct weft_why *why);
int weft_rdma_setup_again(struct weft_rdma_ctrl *ctrl, struct weft_why *why);
int weft_rdma_setup_fewer(struct weft_rdma_ctrl *ctrl, struct weft_why *why);
void weft_rdma_teardown(struct weft_rdma_ctrl *ctrl, bool shutdown);
void weft_rdma_free_sets(struct weft_rdma_ctrl *ctrl);
int weft_rdma_start_queues(struct weft_rdma_ctrl *ctrl, u32 first, u32 count, u32 *made,
			   struct weft_why *why);

/* command.c */
int weft_rdma_command(struct request_queue *q, struct nvme_command *cmd,
		      void *data, unsigned int len, union nvme_result *result,
		      unsigned long timeout, blk_mq_req_flags_t flags,
		      struct weft_rdma_queue *queue);
int weft_rdma_refuse_status(struct weft_why *why, int status, const char *what);
int weft_rdma_property_read(struct weft_rdma_ctrl *ctrl, u32 offset, bool wide, u64 *value);
int weft_rdma_property_write(struct weft_rdma_ctrl *ctrl, u32 offset, u32 value);
int weft_rdma_identify(struct weft_rdma_ctrl *ctrl, u8 cns, u32 nsid, void *data,
		       struct weft_rdma_queue *queue);
void weft_rdma_abort(struct weft_rdma_queue *queue, u16 cid);
void weft_rdma_async_event(struct weft_rdma_ctrl *ctrl);

/**
 * weft_rdma_large_pages() - can an RDMA device register pages of 64 KiB?
 * @ib: the RDMA device
 *
 * page_size_cap is for memory of users. Some drivers (erdma, vmw_pvrdma) register
 * with the page size of the allocation, whatever that of the mapping is, so that the
 * device would move other bytes: only drivers that pass it on are here.
 *
 * Context: any.
 * Return: true if it can, and has a use for them.
 */
static inline bool weft_rdma_large_pages(struct ib_device *ib)
{
	switch (ib->ops.driver_id) {
	case RDMA_DRIVER_MLX5:
	case RDMA_DRIVER_MLX4:
	case RDMA_DRIVER_CXGB4:
	case RDMA_DRIVER_BNXT_RE:
	case RDMA_DRIVER_QEDR:
	case RDMA_DRIVER_HNS:
		return ib->attrs.page_size_cap & SZ_64K;
	default:
		return false;
	}
}

/**
 * weft_rdma_max_sectors() - the most that one command transfers
 * @ctrl: the controller; its identify data are known
 *
 * A start within a page costs a page of the registration.
 *
 * Context: any.
 * Return: in sectors of 512 bytes.
 */
static inline u32 weft_rdma_max_sectors(const struct weft_rdma_ctrl *ctrl)
{
	u32 bytes = min_t(size_t, ctrl->info.max_bytes, ctrl->map_bytes);

	return min(bytes >> SECTOR_SHIFT, (ctrl->mr_pages - 1) * (SZ_4K >> SECTOR_SHIFT));
}

/**
 * weft_rdma_post_recv() - give the device a buffer for a response
 * @queue: its queue pair is there
 * @recv: not posted
 *
 * Inline, because it runs for every I/O.
 *
 * Context: any.
 * Return: 0 or a negative errno.
 */
static inline int weft_rdma_post_recv(struct weft_rdma_queue *queue,
				      struct weft_rdma_recv *recv)
{
	return ib_post_recv(queue->qp, &recv->wr, &queue->bad_recv);
}

/**
 * weft_rdma_post_send() - give the device work requests
 * @queue: its queue pair is there
 * @wr: the first one of the chain
 *
 * Inline, because it runs for every I/O. Without a place for the one that cannot be posted,
 * the verb has one on its stack, which hardened kernels clear, and guard, each time.
 *
 * Context: any.
 * Return: 0 or a negative errno.
 */
static inline int weft_rdma_post_send(struct weft_rdma_queue *queue, const struct ib_send_wr *wr)
{
	return ib_post_send(queue->qp, wr, &queue->bad_send);
}

/* queue.c */
int weft_rdma_queue_start(struct weft_rdma_queue *queue, struct weft_why *why);
int weft_rdma_queue_wait(struct weft_rdma_queue *queue, struct weft_why *why);
void weft_rdma_queue_break(struct weft_rdma_queue *queue);
void weft_rdma_queue_stop(struct weft_rdma_queue *queue);
void weft_rdma_queue_free(struct weft_rdma_queue *queue);
int weft_rdma_queue_poll(struct weft_rdma_queue *queue);
bool weft_rdma_queue_set_connect(struct weft_rdma_queue *queue, struct request *rq);
void weft_rdma_queue_lost(struct weft_rdma_queue *queue);

/* bounce.c */
void weft_rdma_bounce_start(struct weft_rdma_queue *queue);
void weft_rdma_bounce_free(struct weft_rdma_queue *queue);
bool weft_rdma_bounce_begin(struct weft_rdma_queue *queue, struct request *rq,
			    struct weft_rdma_pdu *pdu, struct nvme_command *cmd);
void weft_rdma_bounce_end(struct request *rq, struct weft_rdma_pdu *pdu);

/* io.c */
blk_status_t weft_rdma_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd);
void weft_rdma_queue_rqs(struct rq_list *list);
void weft_rdma_complete(struct request *rq);
void weft_rdma_recv_done(struct ib_cq *cq, struct ib_wc *wc);
void weft_rdma_send_done(struct ib_cq *cq, struct ib_wc *wc);
void weft_rdma_mem_send_done(struct ib_cq *cq, struct ib_wc *wc);
void weft_rdma_reg_done(struct ib_cq *cq, struct ib_wc *wc);
void weft_rdma_inv_done(struct ib_cq *cq, struct ib_wc *wc);

/**
 * weft_rdma_must_fail_fast() - does a request fail at once in place of being repeated?
 * @rq: the request
 *
 * Read-ahead does. A request may be read-ahead with other reads that were merged behind
 * it: these are repeated, and the read-ahead with them.
 *
 * Context: any.
 * Return: true if so.
 */
static inline bool weft_rdma_must_fail_fast(const struct request *rq)
{
	return blk_noretry_request(rq) && !(rq->rq_flags & RQF_MIXED_MERGE);
}

/* failed.c */
void weft_rdma_failed(struct request *rq, struct weft_rdma_pdu *pdu);

/* mq.c */
extern const struct blk_mq_ops weft_rdma_admin_ops;
extern const struct blk_mq_ops weft_rdma_io_ops;
int weft_rdma_set_alloc(struct weft_rdma_ctrl *ctrl, struct blk_mq_tag_set *set,
			struct request_queue **queue);
void weft_rdma_set_free(struct blk_mq_tag_set *set, struct request_queue *queue);
bool weft_rdma_cancel_reads(struct blk_mq_tag_set *set);
void weft_rdma_end_writes_work(struct work_struct *work);
void weft_rdma_cancel_all(struct blk_mq_tag_set *set);
void weft_rdma_map_hctxs(struct weft_rdma_ctrl *ctrl, struct request_queue *q);
void weft_rdma_cancel_peers(struct blk_mq_tag_set *set);

/* recovery.c */
void weft_rdma_recover_work(struct work_struct *work);
void weft_rdma_connect_work(struct work_struct *work);
void weft_rdma_fail_fast_work(struct work_struct *work);
void weft_rdma_keep_alive_work(struct work_struct *work);
void weft_rdma_went_live(struct weft_rdma_ctrl *ctrl);

/* scan.c */
void weft_rdma_scan_work(struct work_struct *work);
void weft_rdma_again_work(struct work_struct *work);
void weft_rdma_add_work(struct work_struct *work);
void weft_rdma_event_work(struct work_struct *work);

/**
 * weft_rdma_queue_tell_lost() - tell a setup that still goes on that a queue is lost
 * @queue: the queue; call this before weft_rdma_error(), which does nothing until the
 *	association is up
 *
 * Context: any.
 */
static inline void weft_rdma_queue_tell_lost(struct weft_rdma_queue *queue)
{
	/* Read when the association is up, where that is not the case yet. */
	WRITE_ONCE(queue->ctrl->lost, true);
	/* Pairs with weft_rdma_went_live(). */
	smp_mb();
}

/**
 * weft_queue_soft_iwarp() - does soft-iWARP carry a queue?
 * @queue: it has a cm_id
 *
 * Return: true if so.
 */
static inline bool weft_queue_soft_iwarp(const struct weft_rdma_queue *queue)
{
	return ib_uses_virt_dma(queue->ctrl->ib) &&
	       rdma_protocol_iwarp(queue->ctrl->ib, queue->cm_id->port_num);
}

/* transport.c */
extern struct weft_transport_ops weft_rdma_transport;

/* mapping.c */
int weft_rdma_peer_sg(struct weft_mapping *mapping, u64 at, u32 length, struct sg_table *table,
		      struct scatterlist *first, unsigned int first_count);
void weft_rdma_peer_keys_lost(struct weft_rdma_queue *queue);

/* peer.c */
struct weft_peer *weft_rdma_peer_add(const struct weft_peer_request *req);
int weft_rdma_peer_prepare(struct weft_peer *peer, struct weft_path *path,
			   struct weft_why *why);
int weft_rdma_peer_distance(struct weft_peer *peer, struct weft_path *path);
void weft_rdma_peer_remove(struct weft_peer *peer);
bool weft_rdma_peer_lost(struct weft_peer *peer);
int weft_rdma_peer_submit(struct weft_path *path, struct weft_mem_op *op);
void weft_rdma_peer_work(struct work_struct *work);
void weft_rdma_peer_waiting_work(struct work_struct *work);
void weft_rdma_peer_kick(struct weft_rdma_ctrl *ctrl);
void weft_rdma_peer_leave(struct weft_path *path);
int weft_rdma_peer_init(void);
void weft_rdma_peer_exit(void);

/* cdev.c */
extern const struct attribute_group *weft_ns_groups[];
int weft_rdma_ioctl(struct weft_rdma_ctrl *ctrl, struct weft_rdma_ns *ns,
		    unsigned int cmd, unsigned long arg);
int weft_rdma_cdev_init(void);
void weft_rdma_cdev_exit(void);
int weft_rdma_cdev_add(struct weft_rdma_ctrl *ctrl);
void weft_rdma_cdev_del(struct weft_rdma_ctrl *ctrl);

/* pr.c */
extern const struct pr_ops weft_rdma_pr_ops;

#endif /* WEFT_RDMA_H */
