/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O on registered memory, internals of weft.ko: the device
 * /dev/weft/NAME.mem, the memories and targets registered with an open file of
 * it, and commands.
 *
 * DOC: lifetimes
 *
 * Each memory and each target of a file is a user of the volume. A volume with
 * users cannot be stopped, so it outlives them. A file without memories and
 * targets does not prevent a stop; the stop revokes the file.
 *
 * Memories and targets have a per-CPU reference count. A command holds a
 * reference on its memory and on its target. Unregistering waits for these
 * references. io_uring keeps the file while a command is in flight, so a file
 * has no commands when it is released.
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
 * struct weft_mem_bytes - bytes moved by each route
 * @route: bytes, by enum weft_mem_route
 */
struct weft_mem_bytes {
	u64	route[WEFT_MEM_ROUTES];
};

/**
 * struct weft_mem_bio - a bio of a command
 * @start: of the whole bio, on the volume; to submit it again
 * @again: submits it again
 * @bio: last, as a bio pool needs it
 */
struct weft_mem_bio {
	struct bvec_iter	start;
	struct work_struct	again;
	struct bio		bio;
};

/**
 * struct weft_mem_node - the device of a volume
 * @dev: /dev/weft/NAME.mem; its release frees this structure
 * @cdev: its character device
 * @vol: the volume; valid while @closed is not set
 * @lock: protects @closed, @users, @writers, @claim and @sealed
 * @closed: it cannot be opened, and its open files are revoked
 * @users: memories and targets, including those being registered
 * @writers: targets that allow writing
 * @claim: exclusive claim on the volume's block device, while there are
 *	@writers
 * @sealed: struct weft_sealed by inode number
 * @bytes: bytes moved, per CPU
 * @bios: pool of struct weft_mem_bio for commands
 * @wq: for bios that wait, for example for a tag, each in a work of its own
 * @held_lock: protects @held and @held_bios
 * @held: parts of commands that wait for a path or for their memory
 * @held_bios: bios of reads that wait for the volume's lease
 * @held_work: sends the parts and bios that are held, or fails them
 */
struct weft_mem_node {
	struct device			dev;
	struct cdev			cdev;
	struct weft_volume		*vol;
	struct mutex			lock;	/* see above */
	bool				closed;
	u32				users;
	u32				writers;
	struct weft_bdev		claim;
	struct xarray			sealed;
	struct weft_mem_bytes __percpu	*bytes;
	struct bio_set			bios;
	struct workqueue_struct		*wq;
	spinlock_t			held_lock;	/* see above; also taken in interrupts */
	struct list_head		held;
	struct bio_list			held_bios;
	struct delayed_work		held_work;
};

enum weft_mem_mark_state {
	WEFT_MEM_MARK_NONE,
	WEFT_MEM_MARK_QUEUED,
	WEFT_MEM_MARK_RUNS,
	WEFT_MEM_MARK_ENDED,	/* the command has ended, and its mark is still being made */
	WEFT_MEM_MARK_MADE,
};

/**
 * struct weft_mem_mark - tells io_uring that a command waits, see mem_mark.c
 * @list: in the file's marks
 * @cmd: the command
 * @done: called where the command ended while its mark was made
 * @state: protected by the file's marks_lock; the others are set with it
 */
struct weft_mem_mark {
	struct list_head		list;
	struct io_uring_cmd		*cmd;
	void				(*done)(struct weft_mem_mark *mark);
	enum weft_mem_mark_state	state;
};

/**
 * struct weft_mem_ref - reference count of a memory or a target
 * @count: one reference for each command, and one until it is killed
 * @gone: completed when the last reference is dropped
 */
struct weft_mem_ref {
	struct percpu_ref	count;
	struct completion	gone;
};

/* Ids below are found without a walk through the tree. Most files have one target and few memories. */
#define WEFT_MEM_FIRST_IDS	16

/**
 * struct weft_mem_registry - memories or targets by id; ids begin with 1
 * @all: all of them; its lock protects @first, too
 * @first: those with ids below WEFT_MEM_FIRST_IDS; read under RCU
 */
struct weft_mem_registry {
	struct xarray		all;
	struct weft_mem_ref	*first[WEFT_MEM_FIRST_IDS];
};

/**
 * struct weft_mem_file - an open file of a device
 * @node: the device
 * @vol: the volume; valid while the file has a memory or a target
 * @mapping: page cache of the volume's block device
 * @block: logical block size of the volume, in bytes
 * @may_feed: its commands may say that they are feed
 * @memories: struct weft_memory by id
 * @targets: struct weft_mem_target_ref by id
 * @in_flight: number of commands in flight
 * @bounced: host pages in use as bounce buffers
 * @owner: file descriptor table of the process that opened the file
 * @dying: when that process began to exit, in jiffies; 0 if it did not, or if
 *	another process has submitted since
 * @cancelled_at: when io_uring last asked again to cancel a command, in jiffies
 * @killed: killed tasks that wait for commands; protected by the node's lock
 * @killed_at: when the first of them was killed, in jiffies; 0 if none was
 * @marks_lock: protects @marks and the states of all marks
 * @marks: commands to mark for io_uring next
 * @mark_work: marks them
 */
struct weft_mem_file {
	struct weft_mem_node	*node;
	struct weft_volume	*vol;
	struct address_space	*mapping;
	u32			block;
	bool			may_feed;
	struct weft_mem_registry memories;
	struct weft_mem_registry targets;
	atomic_t		in_flight;
	atomic_t		bounced;
	fl_owner_t		owner;
	unsigned long		dying;
	unsigned long		cancelled_at;
	u32			killed;
	unsigned long		killed_at;
	spinlock_t		marks_lock;	/* @marks; also taken in interrupts */
	struct list_head	marks;
	struct work_struct	mark_work;
};

/**
 * struct weft_memory - a registered memory
 * @ref: reference count; must be the first field
 * @length: in bytes
 * @route: how its bytes are moved
 * @read_only: commands may only read from it, that is, write to the volume
 * @persistent: registered with the RDMA devices until it is unregistered,
 *	not only while a command uses it
 * @first: offset of its first byte in @pages, or in @map
 * @pages: its pages, for I/O by bios; NULL for bytes copied through @map
 * @page_count: number of @pages
 * @user: the user whose RLIMIT_MEMLOCK the pinned pages count against
 * @dmabuf: the dma-buf; NULL for the caller's own pages
 * @map: CPU mapping of the whole dma-buf
 * @transport: the transport that does I/O on it
 * @peer: the transport's handle of the memory; NULL for I/O by bios
 * @near: for each member, a bitmap of the nearest paths
 * @piece: largest operation that every path can do, in bytes, whole blocks
 * @list: in the volume's peers
 * @preparing: it is being prepared for a new path and must stay until then
 * @paths_added: the volume's paths_added that it was prepared for
 * @bytes: bytes moved, per CPU
 * @moved: the counter in @bytes of @route
 * @moved_all: the same counter of the volume
 * @rcu: delays the release until all lookups under RCU have ended
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
	bool				preparing;
	u64				paths_added;
	struct weft_mem_bytes __percpu	*bytes;
	u64 __percpu			*moved;
	u64 __percpu			*moved_all;
	struct rcu_head			rcu;
};

/**
 * struct weft_mem_target_ref - a target
 * @ref: reference count; must be the first field
 * @file: open file of the block device; NULL for a sealed file
 * @sealed: the sealed file; NULL for the block device
 * @access: WEFT_MEM_MAY_*
 * @size: in bytes
 * @rcu: delays the release until all lookups under RCU have ended
 */
struct weft_mem_target_ref {
	struct weft_mem_ref	ref;
	struct file		*file;
	struct weft_sealed	*sealed;
	u32			access;
	u64			size;
	struct rcu_head		rcu;
};

/**
 * struct weft_run - contiguous bytes of a volume
 * @at: offset on the volume, in bytes
 * @length: in bytes
 */
struct weft_run {
	u64	at;
	u64	length;
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

/* A command of the file has ended, and has dropped its references. */
static inline void weft_mem_uncount(struct weft_mem_file *mf)
{
	/* Pairs with the acquire in weft_mem_ref_end(): what had the references may be freed. */
	smp_mb__before_atomic();
	atomic_dec(&mf->in_flight);
}

/* mem.c */
int weft_mem_init(void);
void weft_mem_exit(void);
int weft_mem_add(struct weft_volume *vol);
void weft_mem_del(struct weft_volume *vol);
bool weft_mem_close(struct weft_volume *vol, bool close);

/* mem_ref.c */
int weft_mem_use(struct weft_mem_file *mf);
void weft_mem_unuse(struct weft_mem_file *mf);
void weft_mem_kick(struct weft_mem_file *mf);
void weft_mem_drop_held(struct weft_mem_file *mf);
void weft_mem_sum(struct weft_mem_bytes __percpu *bytes, u64 *sum);
int weft_mem_ref_init(struct weft_mem_ref *ref);
void weft_mem_ref_end(struct weft_mem_ref *ref, struct weft_mem_file *mf);
void weft_mem_registry_init(struct weft_mem_registry *registry);
int weft_mem_registry_add(struct weft_mem_registry *registry, struct weft_mem_ref *ref, u32 *id,
			  u32 max);
void *weft_mem_registry_remove(struct weft_mem_registry *registry, u32 id);

/* mem_mark.c */
int weft_mem_mark_module_init(void);
void weft_mem_mark_module_exit(void);
void weft_mem_mark_init(struct weft_mem_file *mf);
void weft_mem_mark_exit(struct weft_mem_file *mf);
void weft_mem_mark(struct weft_mem_file *mf, struct weft_mem_mark *mark, struct io_uring_cmd *cmd,
		   void (*done)(struct weft_mem_mark *mark));
bool weft_mem_mark_end(struct weft_mem_file *mf, struct weft_mem_mark *mark);

/* memory.c */
int weft_memory_register(struct weft_mem_file *mf, struct weft_mem_register *req,
			 struct weft_why *why);
int weft_memory_unregister(struct weft_mem_file *mf, u32 id);
int weft_memory_info(struct weft_mem_file *mf, struct weft_mem_info *info);
void weft_memory_unregister_all(struct weft_mem_file *mf);
void weft_memory_copy(struct weft_memory *mem, u64 at, struct page **pages, u32 length,
		      bool from_memory);

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
struct weft_run weft_sealed_run(const struct weft_sealed *sealed, u64 offset);

/* mem_cmd.c */
extern struct workqueue_struct *weft_mem_wq;
int weft_mem_cmd_init(void);
void weft_mem_cmd_exit(void);

/* mem_io.c */
int weft_mem_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

/* mem_part.c */
int weft_mem_part_init(void);
void weft_mem_part_exit(void);
void weft_mem_held_parts(struct weft_mem_node *node);

/* mem_bio.c */
void weft_mem_held_bios(struct weft_mem_node *node);

#endif /* WEFT_MEM_H */
