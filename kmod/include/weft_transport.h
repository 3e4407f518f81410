/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between weft.ko and the transports, which provide the paths to
 * members.
 *
 * A transport turns an address into a path. A path is a gendisk that the volume
 * layer sends bios to, whatever is behind it. A module with a transport has
 * MODULE_ALIAS("weft-transport-NAME"), so that it is loaded when a volume names
 * the transport.
 */
#ifndef WEFT_TRANSPORT_H
#define WEFT_TRANSPORT_H

#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "weft_abi.h"
#include "weft_why.h"

struct dma_buf;
struct weft_bdev;
struct weft_path;
struct weft_peer;
struct weft_transport_ops;

/**
 * struct weft_path_events - calls from a transport about a path
 * @gone: the device was removed for good. Called once, in process context; may
 *	sleep, must not disconnect
 * @settle: called after @gone by a transport that gives bios back. Returns when
 *	all I/O that had chosen the path is submitted to its device. Process
 *	context, may sleep; meanwhile the device must not hold its I/O
 * @down: the path cannot carry I/O now; the reason is a sentence. Process
 *	context
 * @up: the path can carry I/O again, or how well it does changed, see
 *	&weft_path.nonoptimized. Process context
 * @resized: its device has another size now, which is not less than it was at
 *	connect. Process context
 * @peers: the path's ability to do I/O on peer memory may have changed. Any
 *	context
 * @requeue: gives back bios that were submitted to the path and did not
 *	complete. From @after (jiffies) on, the target cannot execute them any
 *	more. Any context
 * @may_write: after the end of the lease: may this write still be sent? A
 *	transport that gives bios back asks when it sends, because a write may
 *	wait long for a tag or a retry. Any context
 *
 * A transport whose errors are final calls only @gone. A new path can carry I/O
 * when ->connect() returns it.
 */
struct weft_path_events {
	void	(*gone)(struct weft_path *path);
	void	(*settle)(struct weft_path *path);
	void	(*down)(struct weft_path *path, const char *reason);
	void	(*up)(struct weft_path *path, bool nonoptimized);
	void	(*resized)(struct weft_path *path);
	void	(*peers)(struct weft_path *path);
	void	(*requeue)(struct weft_path *path, struct bio_list *bios,
			   unsigned long after);
	bool	(*may_write)(struct weft_path *path, const struct bio *bio);
};

/**
 * enum weft_path_mem - what a path can do with memory that has no pages
 * @WEFT_PATH_MEM_NONE: nothing
 * @WEFT_PATH_MEM_SOFTWARE: software RDMA moves the bytes through CPU mappings
 * @WEFT_PATH_MEM_DEVICE: an RDMA device with a DMA engine moves the bytes
 */
enum weft_path_mem {
	WEFT_PATH_MEM_NONE,
	WEFT_PATH_MEM_SOFTWARE,
	WEFT_PATH_MEM_DEVICE,
};

/**
 * struct weft_path - a path to a member
 * @ops: its transport
 * @bdev: the device that gets its bios; valid from connect to disconnect
 * @address: its address; owned by the caller of connect
 * @writable: writes are allowed
 * @node: set by the transport: NUMA node of the local device, or NUMA_NO_NODE
 * @mem: set by the transport: what it can do with memory that has no pages
 * @sectors: the size that the volume relies on: set by the transport at connect,
 *	then lowered by weft.ko. The transport takes the path down if its device
 *	gets smaller
 * @mem_bytes: set by the transport: largest operation on peer memory, in bytes
 * @events: set by the transport from the request, before the first event
 * @owner_data: set by the transport from the request, before the first event
 * @lease: set from the request by a transport that gives bios back: it sends
 *	writes until then, in jiffies, and later if @events->may_write agrees
 * @nonoptimized: I/O takes it only if the member has no usable path that is
 *	better; set by the transport at connect, then by weft.ko
 * @usable: it can carry I/O; set by the transport at connect, then by weft.ko
 * @standby: its superblock has not been read, so it carries no I/O of the volume;
 *	set by the transport at connect, see @like of struct weft_path_request, then
 *	by weft.ko
 * @added: set by weft.ko: it is, or was, one of its member's paths
 * @dead: set by weft.ko: @events->gone was called
 * @check: reads the superblock of a path in standby when it is usable
 *
 * The transport embeds it in its own structure.
 */
struct weft_path {
	const struct weft_transport_ops	*ops;
	struct block_device		*bdev;
	const char			*address;
	bool				writable;
	int				node;
	enum weft_path_mem		mem;
	u32				mem_bytes;
	sector_t			sectors;
	const struct weft_path_events	*events;
	void				*owner_data;
	const unsigned long		*lease;
	bool				nonoptimized;
	bool				usable;
	bool				standby;
	bool				added;
	bool				dead;
	struct delayed_work		check;
};

/* Any context. The lease may end between the answer false and the caller's next step. */
static inline bool weft_lease_is_over(const unsigned long *lease)
{
	unsigned long now = jiffies;

	return time_after(now, READ_ONCE(*lease));
}

/**
 * struct weft_path_request - a request to connect a path
 * @address: in the transport's format; lives as long as the path
 * @devt: the block device at @address. It is looked up in the caller's context,
 *	because a worker may see other file names
 * @lookup: 0, or the error of the lookup of @devt
 * @writable: open it for writing, too
 * @like: a path of the same transport that leads to the same disk, or NULL. If the
 *	disks' identifiers say so too, the path is connected also while its ANA
 *	state lets no I/O through: in standby
 * @events: see struct weft_path
 * @owner_data: see struct weft_path
 * @lease: see struct weft_path
 */
struct weft_path_request {
	const char			*address;
	dev_t				devt;
	int				lookup;
	bool				writable;
	const struct weft_path		*like;
	const struct weft_path_events	*events;
	void				*owner_data;
	const unsigned long		*lease;
};

/**
 * struct weft_dhchap_secret - a secret for DH-HMAC-CHAP
 * @key: the secret; NULL if none is given
 * @len: bytes of it
 * @hash: that transforms it, as in its representation (NVMe base 2.1, 8.3.5.8): 0 for
 *	none, 1 to 3 for SHA-256, SHA-384 and SHA-512
 */
struct weft_dhchap_secret {
	const u8	*key;
	u32		len;
	u32		hash;
};

/**
 * struct weft_dhchap_secrets - the secrets by which a host and a controller authenticate
 * @host: the host's
 * @ctrl: the controller's; without it, the controller need not authenticate
 */
struct weft_dhchap_secrets {
	struct weft_dhchap_secret	host;
	struct weft_dhchap_secret	ctrl;
};

/**
 * struct weft_controller_request - a request to connect a controller
 * @subnqn: NQN of the subsystem
 * @host_nqn: NQN of this host
 * @host_id: identifier of this host, 16 bytes
 * @address: the target's address
 * @service: the target's port
 * @host_address: this host's address, or NULL
 * @io_queues: number of I/O queues; 0 for the default
 * @poll_queues: number of additional queues for polling
 * @queue_size: entries of a queue; 0 for the default
 * @keep_alive: seconds; 0 for the default
 * @reconnect_delay: seconds; 0 for the default
 * @ctrl_loss_timeout: seconds, -1 for never
 * @fast_io_fail_timeout: seconds, -1 for never
 * @tos: type of service of its connections, 0 to 255; -1 for the adapter's default
 * @background_tos: background I/O has connections of its own with this type of service;
 *	-1: it has none
 * @secrets: with which it authenticates
 */
struct weft_controller_request {
	const char	*subnqn;
	const char	*host_nqn;
	const u8	*host_id;
	const char	*address;
	const char	*service;
	const char	*host_address;
	u32		io_queues;
	u32		poll_queues;
	u32		queue_size;
	u32		keep_alive;
	u32		reconnect_delay;
	int		ctrl_loss_timeout;
	int		fast_io_fail_timeout;
	int		tos;
	int		background_tos;
	struct weft_dhchap_secrets secrets;
};

/*
 * Persistent memory has one registration for each run of so many bytes. An
 * operation ends at the end of a run, or with the block (at most 4 KiB) that
 * lies across that end.
 */
#define WEFT_PEER_RUN	SZ_1M

/**
 * struct weft_peer_request - registered memory for I/O by paths
 * @volume: UUID of the volume
 * @dmabuf: a dma-buf; the caller keeps it until the memory is removed
 * @pages: pinned pages if @dmabuf is NULL; kept by the caller, too
 * @page_count: number of @pages
 * @start: start of the range in @dmabuf or @pages, in bytes
 * @length: length of the range, in bytes
 * @read_only: I/O only reads from it
 * @persistent: one registration for all I/O. All targets of the volume can
 *	access the memory while it is registered
 */
struct weft_peer_request {
	const u8	*volume;
	struct dma_buf	*dmabuf;
	struct page	**pages;
	unsigned long	page_count;
	u64		start;
	u64		length;
	bool		read_only;
	bool		persistent;
};

/**
 * struct weft_mem_op - one transfer between a path and peer memory
 * @peer: the memory
 * @at: offset in the memory, in bytes
 * @length: in bytes, whole blocks, at most the path's mem_bytes
 * @sector: first sector on the path's device
 * @write: true to write to the device, false to read from it
 * @background: it is background I/O
 * @near: for weft.ko: bitmap of the paths nearest to the memory; 0 for any path
 * @blameless: set by the transport before @done with BLK_STS_TRANSPORT: it was
 *	not sent, or the path was lost because an exporter took memory away
 * @waiting: for the transport, until @done is called
 * @done: called once, in any context. With BLK_STS_TRANSPORT the path could not
 *	carry it, and from @after (jiffies) on the target cannot execute it any
 *	more. With BLK_STS_AGAIN it was not sent. Any other status is final
 *
 * The transport owns it from the success of ->peer_submit() until @done.
 */
struct weft_mem_op {
	struct weft_peer	*peer;
	u64			at;
	u32			length;
	sector_t		sector;
	bool			write;
	bool			background;
	u8			near;
	bool			blameless;
	struct llist_node	waiting;
	void			(*done)(struct weft_mem_op *op, blk_status_t status,
					unsigned long after);
};

/**
 * struct weft_transport_ops - a transport
 * @name: its name
 * @owner: its module; held while it has a path
 * @owns_requests: it gives back the bios of a lost path
 * @connect: connect a path. On failure it stores a sentence in the struct
 *	weft_why and returns an ERR_PTR. Process context, may sleep
 * @disconnect: undo @connect; no bio is in flight. Process context, may sleep
 * @drain: wait until the path's disk has no bio or operation of the volume left, which does
 *	not choose it any more; those that wait are sent or given back. Otherwise NULL.
 *	Process context
 * @end_writes: the lease of the path's volume is over, so end the connection if writes
 *	are in flight over the path. Otherwise NULL. Process context; does not wait
 * @outlast_ms: milliseconds, since the connection or this host was lost, after which the
 *	target cannot execute a write any more that was sent over the path; at most
 *	WEFT_OUTLAST_MAX_MS. NULL if that is not known. May sleep
 * @controller_create: connect a controller, which makes disks, and return its
 *	name; NULL for a transport without controllers. Process context
 * @controller_secrets: replace the secrets of a controller, given by its name. Process
 *	context
 * @controller_delete: delete a controller by its name. Process context
 * @peer_add: register peer memory for a volume; NULL if paths cannot do I/O on
 *	it. Process context
 * @peer_prepare: make the memory known to a path's device, and set up the path
 *	for I/O on it. After a reconnect the transport does this by itself.
 *	Process context
 * @peer_distance: distance from the memory to the path's device, smaller is
 *	nearer; INT_MAX if the memory is not prepared there. Process context
 * @peer_leave: undo the path's setup by @peer_prepare; the volume has no peer
 *	memory left. Process context
 * @peer_remove: undo @peer_add; no operation on the memory is in flight.
 *	Process context
 * @peer_lost: has the exporter withdrawn the memory permanently? Any context
 * @peer_submit: start an operation. Returns -ENOTCONN if this path cannot carry
 *	it now, -EFAULT if the exporter has withdrawn the memory permanently.
 *	Process context; does not wait for other operations
 * @list: private to weft.ko
 */
struct weft_transport_ops {
	const char		*name;
	struct module		*owner;
	bool			owns_requests;
	struct weft_path	*(*connect)(const struct weft_path_request *req,
					    struct weft_why *why);
	void			(*disconnect)(struct weft_path *path);
	void			(*drain)(struct weft_path *path);
	void			(*end_writes)(struct weft_path *path);
	u32			(*outlast_ms)(struct weft_path *path);
	int			(*controller_create)(const struct weft_controller_request *req,
						     char *name, size_t size,
						     struct weft_why *why);
	int			(*controller_secrets)(const char *name,
						      const struct weft_dhchap_secrets *secrets,
						      struct weft_why *why);
	int			(*controller_delete)(const char *name,
						     struct weft_why *why);
	struct weft_peer	*(*peer_add)(const struct weft_peer_request *req);
	int			(*peer_prepare)(struct weft_peer *peer, struct weft_path *path,
						struct weft_why *why);
	int			(*peer_distance)(struct weft_peer *peer, struct weft_path *path);
	void			(*peer_leave)(struct weft_path *path);
	void			(*peer_remove)(struct weft_peer *peer);
	bool			(*peer_lost)(struct weft_peer *peer);
	int			(*peer_submit)(struct weft_path *path, struct weft_mem_op *op);
	struct list_head	list;
};

#define weft_transport_register	WEFT_ABI(weft_transport_register)
int weft_transport_register(struct weft_transport_ops *ops);
void weft_transport_unregister(struct weft_transport_ops *ops);

int weft_path_open(struct weft_bdev *wb, const struct weft_path_request *req,
		   struct weft_why *why);
void weft_path_close(struct weft_bdev *wb);

#endif /* WEFT_TRANSPORT_H */
