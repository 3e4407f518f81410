/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O on registered memory, inside weft.ko: the device /dev/weft/NAME.mem, what
 * is registered with an open file of it, and commands.
 *
 * DOC: lifetimes
 *
 * A file counts as an opener of its volume, which therefore outlives it. What
 * is registered has a per-cpu reference count: a command holds one of its
 * memory and one of its target, and who unregisters waits until those are
 * back. io_uring keeps the file while a command is in flight, so that at its
 * release there is none.
 */
#ifndef WEFT_MEM_H
#define WEFT_MEM_H

#include "weft.h"

#include "../compat/dmabuf.h"

#include <linux/cdev.h>
#include <linux/completion.h>
#include <linux/iosys-map.h>
#include <linux/percpu-refcount.h>
#include <linux/xarray.h>

#include <uapi/weft_mem.h>

struct io_uring_cmd;
struct weft_sealed;

/**
 * struct weft_mem_bytes - moved by each route
 * @route: bytes, by enum weft_mem_route
 */
struct weft_mem_bytes {
	u64	route[WEFT_MEM_ROUTES];
};

/**
 * struct weft_mem_node - the device of a volume
 * @dev: /dev/weft/NAME.mem; its release frees this
 * @cdev: the same
 * @vol: the volume, which is there while @closed is not set
 * @lock: protects the rest
 * @closed: cannot be opened
 * @openers: files
 * @writers: targets that may be written
 * @claim: on the volume's block device, while there are @writers
 * @sealed: struct weft_sealed by inode number
 * @bytes: moved, per cpu
 * @held_lock: protects @held
 * @held: parts of commands that wait for a path or for their memory
 * @held_work: sends them on, or fails them
 */
struct weft_mem_node {
	struct device			dev;
	struct cdev			cdev;
	struct weft_volume		*vol;
	struct mutex			lock;	/* see above */
	bool				closed;
	u32				openers;
	u32				writers;
	struct weft_bdev		claim;
	struct xarray			sealed;
	struct weft_mem_bytes __percpu	*bytes;
	spinlock_t			held_lock;	/* @held; taken in interrupts too */
	struct list_head		held;
	struct delayed_work		held_work;
};

/**
 * struct weft_mem_file - an open file of a device
 * @node: the device
 * @vol: the volume
 * @block: its logical block, in bytes
 * @memories: struct weft_memory by id
 * @targets: struct weft_mem_target_ref by id
 * @in_flight: commands
 * @bounced: host pages that carry bytes of commands
 * @owner: descriptors of who opened it
 * @dying: that one began to exit, or was killed, then, in jiffies; 0 for not
 */
struct weft_mem_file {
	struct weft_mem_node	*node;
	struct weft_volume	*vol;
	u32			block;
	struct xarray		memories;
	struct xarray		targets;
	atomic_t		in_flight;
	atomic_t		bounced;
	fl_owner_t		owner;
	unsigned long		dying;
};

/**
 * struct weft_mem_ref - what commands hold of something registered
 * @count: theirs, and the registration's own until it is killed
 * @gone: the last one is back
 */
struct weft_mem_ref {
	struct percpu_ref	count;
	struct completion	gone;
};

/**
 * struct weft_memory - a registered memory
 * @ref: commands'; first
 * @length: in bytes
 * @route: which way its bytes take
 * @read_only: may only be written to the volume
 * @persistent: registered once
 * @first: where it begins within the first of @pages, or within @map
 * @pages: what it is made of, where it has pages for block I/O; NULL where
 *	bytes are copied by @map
 * @page_count: of @pages
 * @user: who pays for pinned pages
 * @dmabuf: instead of the caller's own pages
 * @map: of all of the dma-buf for the CPU
 * @transport: of all paths, where they do I/O on it themselves
 * @peer: the memory as that one knows it, or NULL
 * @near: of each member the paths that are nearest to it, by index
 * @piece: how much one operation of any path moves, in bytes, whole blocks
 * @list: in the volume's peers
 * @bytes: moved, per cpu
 * @moved: of these, those by @route
 * @moved_all: the same of all memories of the volume
 * @rcu: who looks it up
 */
struct weft_memory {
	struct weft_mem_ref		ref;
	u64				length;
	enum weft_mem_route		route;
	bool				read_only;
	bool				persistent;
	u64				first;
	struct page			**pages;
	unsigned long			page_count;
	struct user_struct		*user;
	struct dma_buf			*dmabuf;
	struct iosys_map		map;
	const struct weft_transport_ops	*transport;
	struct weft_peer		*peer;
	u8				*near;
	u32				piece;
	struct list_head		list;
	struct weft_mem_bytes __percpu	*bytes;
	u64 __percpu			*moved;
	u64 __percpu			*moved_all;
	struct rcu_head			rcu;
};

/**
 * struct weft_mem_target_ref - a target
 * @ref: commands'; first
 * @file: the block device's; NULL for a sealed file
 * @sealed: that one
 * @access: WEFT_MEM_MAY_*
 * @size: in bytes
 * @rcu: who looks it up
 */
struct weft_mem_target_ref {
	struct weft_mem_ref	ref;
	struct file		*file;
	struct weft_sealed	*sealed;
	u32			access;
	u64			size;
	struct rcu_head		rcu;
};

/* Under RCU. */
static inline bool weft_mem_get(struct weft_mem_ref *ref)
{
	return percpu_ref_tryget_live_rcu(&ref->count);
}

static inline void weft_mem_put(struct weft_mem_ref *ref)
{
	percpu_ref_put(&ref->count);
}

/* mem.c */
int weft_mem_init(void);
void weft_mem_exit(void);
int weft_mem_add(struct weft_volume *vol);
void weft_mem_del(struct weft_volume *vol);
bool weft_mem_close(struct weft_volume *vol, bool close);
int weft_mem_ref_init(struct weft_mem_ref *ref);
void weft_mem_ref_end(struct weft_mem_ref *ref, struct weft_mem_file *mf);

/* memory.c */
int weft_memory_register(struct weft_mem_file *mf, struct weft_mem_register *req,
			 struct weft_why *why);
int weft_memory_unregister(struct weft_mem_file *mf, u32 id);
int weft_memory_info(struct weft_mem_file *mf, struct weft_mem_info *info);
void weft_memory_unregister_all(struct weft_mem_file *mf);
void weft_memory_copy(struct weft_memory *mem, u64 at, struct page **pages, u32 length,
		      bool from_memory);
void weft_mem_sum(struct weft_mem_bytes __percpu *bytes, u64 *sum);

/* peers.c */
int weft_peers_add(struct weft_memory *mem, struct weft_volume *vol, struct weft_why *why);
void weft_peers_remove(struct weft_memory *mem, struct weft_volume *vol);
void weft_peers_path_added(struct weft_member *member, struct weft_path *path);

/* target.c */
int weft_target_add(struct weft_mem_file *mf, struct weft_mem_target *req,
		    struct weft_why *why);
int weft_target_remove(struct weft_mem_file *mf, u32 id);
void weft_target_remove_all(struct weft_mem_file *mf);

/* sealed.c */
struct weft_sealed *weft_sealed_get(struct weft_mem_node *node, struct file *file,
				    struct weft_why *why);
void weft_sealed_put(struct weft_sealed *sealed);
u64 weft_sealed_size(const struct weft_sealed *sealed);
u64 weft_sealed_run(const struct weft_sealed *sealed, u64 offset, u64 *at);

/* mem_io.c */
extern struct workqueue_struct *weft_mem_wq;
int weft_mem_io_init(void);
void weft_mem_io_exit(void);
int weft_mem_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);
void weft_mem_held_work(struct work_struct *work);

#endif /* WEFT_MEM_H */
