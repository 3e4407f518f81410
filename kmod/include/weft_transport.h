/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a transport offers weft.ko: ways to reach members.
 *
 * A transport turns an address into a path, and a path is a gendisk: the
 * volume layer sends bios to it and knows nothing of what lies behind. A
 * module that offers one carries MODULE_ALIAS("weft-transport-NAME") so that
 * it is loaded when a volume names it.
 */
#ifndef WEFT_TRANSPORT_H
#define WEFT_TRANSPORT_H

#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/module.h>

#include "weft_why.h"

struct dma_buf;
struct weft_bdev;
struct weft_path;
struct weft_peer;
struct weft_transport_ops;

/**
 * struct weft_path_events - what a transport tells of a path
 * @gone: once, in process context, when the device goes away for good; may
 *	sleep, must not disconnect
 * @down: it cannot carry I/O now; the reason is a sentence. Process context
 * @up: it can again. Process context
 * @peers: it carries I/O on peer memory now, as far as that can be. Any context
 * @requeue: gives bios back that were submitted to the path and did not
 *	complete. From @after (jiffies) on they cannot execute any more where
 *	they were sent. Any context
 *
 * A transport whose errors are final calls @gone alone. A path starts as one
 * that can carry I/O.
 */
struct weft_path_events {
	void	(*gone)(struct weft_path *path);
	void	(*down)(struct weft_path *path, const char *reason);
	void	(*up)(struct weft_path *path);
	void	(*peers)(struct weft_path *path);
	void	(*requeue)(struct weft_path *path, struct bio_list *bios,
			   unsigned long after);
};

/**
 * enum weft_path_mem - what a path can do with memory that has no pages
 * @WEFT_PATH_MEM_NONE: nothing
 * @WEFT_PATH_MEM_SOFTWARE: its RDMA device is software, and moves bytes by the
 *	CPU's mappings
 * @WEFT_PATH_MEM_DEVICE: its RDMA device has a DMA engine
 */
enum weft_path_mem {
	WEFT_PATH_MEM_NONE,
	WEFT_PATH_MEM_SOFTWARE,
	WEFT_PATH_MEM_DEVICE,
};

/**
 * struct weft_path - one way to reach a member
 * @ops: the transport it belongs to
 * @bdev: where its bios go; valid from connect to disconnect
 * @address: what it was made of; owned by the caller of connect
 * @writable: whether writes are allowed
 * @node: the transport's: NUMA node of the device it leaves by, NUMA_NO_NODE where
 *	that is nowhere in particular
 * @mem: the transport's: what it can do with memory that has no pages
 * @mem_bytes: the transport's: how much of that one operation moves at most
 * @events: the caller's; set before the first of them
 * @owner_data: the caller's, likewise
 * @usable: weft.ko's: it can carry I/O
 * @dead: weft.ko's: @events->gone was called
 *
 * Embedded as the first thing in the transport's own structure.
 */
struct weft_path {
	const struct weft_transport_ops	*ops;
	struct block_device		*bdev;
	const char			*address;
	bool				writable;
	int				node;
	enum weft_path_mem		mem;
	u32				mem_bytes;
	const struct weft_path_events	*events;
	void				*owner_data;
	bool				usable;
	bool				dead;
};

/**
 * struct weft_path_request - what a path is asked to be
 * @address: in the transport's own words; lives as long as the path
 * @writable: for writing too
 * @events: see struct weft_path
 * @owner_data: see struct weft_path
 */
struct weft_path_request {
	const char			*address;
	bool				writable;
	const struct weft_path_events	*events;
	void				*owner_data;
};

/**
 * struct weft_controller_request - a controller that a transport is to connect
 * @subnqn: subsystem
 * @host_nqn: this host
 * @host_id: this host, 16 bytes
 * @address: target's address
 * @service: target's port
 * @host_address: ours, or NULL
 * @io_queues: wanted, 0 for the default
 * @poll_queues: wanted beside
 * @queue_size: entries, 0 for the default
 * @keep_alive: seconds, 0 for the default
 * @reconnect_delay: seconds, 0 for the default
 * @ctrl_loss_timeout: seconds, -1 for never
 * @fast_io_fail_timeout: seconds, -1 for never
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
};

/*
 * An operation on persistent memory goes over no multiple of this, in bytes from
 * the memory's beginning, by more than a block of at most 4 KiB that lies across:
 * a registration covers so much.
 */
#define WEFT_PEER_RUN	SZ_1M

/**
 * struct weft_peer_request - registered memory that paths are to do I/O on
 * @volume: UUID of the volume whose paths they are
 * @dmabuf: a dma-buf; kept by the caller until it is removed, as are
 * @pages: pinned pages, where @dmabuf is NULL
 * @page_count: of @pages
 * @start: where it begins, in bytes
 * @length: in bytes; the range is within it
 * @read_only: nothing is written to it
 * @persistent: one registration for all I/O: every target of the volume is
 *	trusted with the memory for as long as it is registered
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
 * @at: within it, in bytes
 * @length: in bytes, whole blocks, at most the path's mem_bytes
 * @sector: of the path's device
 * @write: to the device
 * @near: weft.ko's: the paths that are nearest to the memory, by index; 0: any
 * @done: called once, in any context. BLK_STS_TRANSPORT: the path could not
 *	carry it, and from @after (jiffies) on what was sent cannot execute any
 *	more. All else is final
 *
 * The caller's until ->peer_submit() returned 0, and from @done on.
 */
struct weft_mem_op {
	struct weft_peer	*peer;
	u64			at;
	u32			length;
	sector_t		sector;
	bool			write;
	u8			near;
	void			(*done)(struct weft_mem_op *op, blk_status_t status,
					unsigned long after);
};

/**
 * struct weft_transport_ops - a transport
 * @name: by which volumes ask for it
 * @owner: the module, held while a path of it exists
 * @owns_requests: it gives back what a lost path could not carry
 * @connect: make a path; process context, may sleep. Returns an ERR_PTR and
 *	leaves a sentence in the struct weft_why otherwise
 * @disconnect: undo; process context, may sleep. No bio is in flight any more
 * @controller_create: connect a controller, which makes disks; or NULL where a
 *	transport has none. The name is set on success. Process context
 * @controller_delete: undo, by its name. Process context
 * @peer_add: peer memory is there, and known by the volume; or NULL where paths
 *	cannot do I/O on it. Process context
 * @peer_prepare: bring it to where a path leads from, and the path to where it
 *	can do I/O on it; later, for as long as it is there, the transport does so
 *	by itself. Process context
 * @peer_distance: from it to the device a path leaves by, once that is prepared;
 *	the smaller the nearer, INT_MAX where it is not. Process context
 * @peer_leave: no peer memory is there any more; undo @peer_prepare. Process context
 * @peer_remove: undo; no operation on it is in flight. Process context
 * @peer_lost: whether its exporter took it away for good. Any context
 * @peer_submit: begin an operation. -ENOTCONN: not now, by this path; -EFAULT:
 *	the exporter took the memory away for good. Process context, may sleep
 * @list: private to weft.ko
 */
struct weft_transport_ops {
	const char		*name;
	struct module		*owner;
	bool			owns_requests;
	struct weft_path	*(*connect)(const struct weft_path_request *req,
					    struct weft_why *why);
	void			(*disconnect)(struct weft_path *path);
	int			(*controller_create)(const struct weft_controller_request *req,
						     char *name, size_t size,
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

int weft_transport_register(struct weft_transport_ops *ops);
void weft_transport_unregister(struct weft_transport_ops *ops);

int weft_path_open(struct weft_bdev *wb, const struct weft_path_request *req,
		   struct weft_why *why);
void weft_path_close(struct weft_bdev *wb);

#endif /* WEFT_TRANSPORT_H */
