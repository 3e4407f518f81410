/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * /dev/weft/NAME.mem: I/O between a volume and registered memory.
 *
 * DOC: how it is used
 *
 * An open file of the device has memories and targets, each with an id. A
 * memory is a range of a dma-buf or of the caller's own pages. A target is what
 * may be read or written: the volume itself, if the caller has its block device
 * open, or a sealed file on it, if the caller has that file open. I/O is done
 * by IORING_OP_URING_CMD on the device, in a ring with IORING_SETUP_SQE128.
 * cmd_op is WEFT_MEM_CMD_*, and the payload (sqe->cmd) is a struct
 * weft_mem_cmd. The result is the number of bytes, or a negative errno.
 *
 * If an ioctl with a field @why fails, @why has a sentence with the reason.
 *
 * Closing the file releases its memories and targets, after the commands in
 * flight have completed.
 */
#ifndef _UAPI_LINUX_WEFT_MEM_H
#define _UAPI_LINUX_WEFT_MEM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Size of the buffer for a sentence, with its final zero. */
#define WEFT_MEM_WHY_SIZE	512

/*
 * Limits of an open file: bytes of one command (EINVAL beyond), memories,
 * targets, commands in flight, and bytes in flight by the route bounce (EBUSY
 * beyond).
 */
#define WEFT_MEM_CMD_BYTES_MAX	(64U << 20)
#define WEFT_MEM_MEMORIES_MAX	65536
#define WEFT_MEM_TARGETS_MAX	4096
#define WEFT_MEM_COMMANDS_MAX	65536
#define WEFT_MEM_BOUNCE_MAX	(256U << 20)

/**
 * enum weft_mem_route - how bytes are moved between a memory and a volume
 * @WEFT_MEM_ROUTE_DIRECT: the members' devices access the memory itself
 * @WEFT_MEM_ROUTE_VMAP: software RDMA accesses the CPU mapping of the memory
 * @WEFT_MEM_ROUTE_BOUNCE: the CPU copies them through host pages
 */
enum weft_mem_route {
	WEFT_MEM_ROUTE_DIRECT,
	WEFT_MEM_ROUTE_VMAP,
	WEFT_MEM_ROUTE_BOUNCE,
};

#define WEFT_MEM_ROUTES		3

/**
 * struct weft_mem_geometry - geometry and counters of the volume
 * @size: in bytes
 * @block_size: logical block size, in bytes; offsets in the volume and lengths
 *	have to be multiples
 * @chunk_size: in bytes
 * @member_count: number of members
 * @alignment: required alignment of addresses in a memory, in bytes
 * @bytes: bytes moved so far by each route; index: enum weft_mem_route
 * @uuid: UUID of the volume
 */
struct weft_mem_geometry {
	__u64	size;
	__u32	block_size;
	__u32	chunk_size;
	__u32	member_count;
	__u32	alignment;
	__u64	bytes[WEFT_MEM_ROUTES];
	__u8	uuid[16];
};

/**
 * enum weft_mem_kind - kinds of memory
 * @WEFT_MEM_KIND_PAGES: the caller's own pages, pinned while registered
 * @WEFT_MEM_KIND_DMABUF: a range of a dma-buf
 */
enum weft_mem_kind {
	WEFT_MEM_KIND_PAGES,
	WEFT_MEM_KIND_DMABUF,
};

/* Allow the routes vmap and bounce, for memory without a direct route. */
#define WEFT_MEM_ALLOW_VMAP	0x1
#define WEFT_MEM_ALLOW_BOUNCE	0x2
/* Commands may only write this memory to the volume, and not read into it. */
#define WEFT_MEM_READ_ONLY	0x4
/*
 * Register the memory with the RDMA devices once, and not for each command.
 * This saves instructions, but every target of the volume can then access all
 * of the memory at any time until it is unregistered. Without this flag, a
 * target can access the range of a command while the command lasts.
 *
 * Memory with this flag never bounces, and needs weft_rdma on all members:
 * without a direct route (or vmap, if that is allowed) its registration fails.
 */
#define WEFT_MEM_PERSISTENT	0x8
#define WEFT_MEM_FLAGS		0xf

/**
 * struct weft_mem_register - argument of WEFT_MEM_IOC_REGISTER
 * @kind: in: enum weft_mem_kind
 * @flags: in: WEFT_MEM_ALLOW_*, WEFT_MEM_READ_ONLY, WEFT_MEM_PERSISTENT
 * @fd: in: descriptor of the dma-buf; -1 for pages
 * @id: out: id of the memory
 * @start: in: its start: an address, or an offset in the dma-buf, in bytes
 * @length: in: in bytes
 * @route: out: enum weft_mem_route
 * @pad: 0
 * @why: out: the reason of an error
 */
struct weft_mem_register {
	__u32	kind;
	__u32	flags;
	__s32	fd;
	__u32	id;
	__u64	start;
	__u64	length;
	__u32	route;
	__u32	pad;
	char	why[WEFT_MEM_WHY_SIZE];
};

/* Access rights of a target. */
#define WEFT_MEM_MAY_READ	0x1
#define WEFT_MEM_MAY_WRITE	0x2

/**
 * struct weft_mem_target - argument of WEFT_MEM_IOC_TARGET
 * @fd: in: descriptor of the volume's block device, open for @access, or of a
 *	sealed file, open for reading
 * @access: in: WEFT_MEM_MAY_*
 * @id: out: id of the target
 * @pad: 0
 * @size: out: in bytes
 * @why: out: the reason of an error
 *
 * A target with WEFT_MEM_MAY_WRITE claims the volume exclusively, which
 * excludes mounts and other exclusive users. All such targets of the volume
 * share one claim.
 *
 * A sealed file is immutable (chattr +i), is not open for writing, and is on
 * XFS or ext4 on the volume itself. Each of its bytes is in a written block
 * that no other file shares. Commands read it by offsets in the file. Until the
 * target is removed, writing, truncating, renaming and unlinking the file fail
 * (ETXTBSY, EPERM), also if it is made mutable meanwhile; copy_file_range()
 * from it fails, too. This host has to have the volume assembled read-write,
 * because only there these rules hold.
 *
 * If the file ends within a block of the volume, a read may include the whole
 * block. It returns the number of bytes up to the file's end, and the bytes
 * after these in memory are zeros.
 */
struct weft_mem_target {
	__s32	fd;
	__u32	access;
	__u32	id;
	__u32	pad;
	__u64	size;
	char	why[WEFT_MEM_WHY_SIZE];
};

/**
 * struct weft_mem_info - argument of WEFT_MEM_IOC_INFO
 * @id: in: id of the memory
 * @route: out: enum weft_mem_route
 * @length: out: in bytes
 * @bytes: out: bytes moved so far by each route
 */
struct weft_mem_info {
	__u32	id;
	__u32	route;
	__u64	length;
	__u64	bytes[WEFT_MEM_ROUTES];
};

#define WEFT_MEM_IOC_GEOMETRY	_IOR('w', 0x40, struct weft_mem_geometry)
#define WEFT_MEM_IOC_REGISTER	_IOWR('w', 0x41, struct weft_mem_register)
/* Argument: the id. Waits for the memory's commands in flight. */
#define WEFT_MEM_IOC_UNREGISTER	_IOW('w', 0x42, __u32)
#define WEFT_MEM_IOC_INFO	_IOWR('w', 0x43, struct weft_mem_info)
#define WEFT_MEM_IOC_TARGET	_IOWR('w', 0x44, struct weft_mem_target)
/* Argument: the id. Waits for the target's commands in flight. */
#define WEFT_MEM_IOC_UNTARGET	_IOW('w', 0x45, __u32)

/**
 * struct weft_mem_cmd - a command, the payload of IORING_OP_URING_CMD
 * @target: id of the target
 * @memory: id of the memory; 0 for a flush
 * @offset: offset in the target, in bytes; 0 for a flush
 * @memory_offset: offset in the memory, in bytes; 0 for a flush
 * @length: in bytes; 0 for a flush
 * @flags: 0, or the class of the command: WEFT_MEM_CMD_FEED or
 *	WEFT_MEM_CMD_BACKGROUND (see weftctl-qos(8))
 */
struct weft_mem_cmd {
	__u32	target;
	__u32	memory;
	__u64	offset;
	__u64	memory_offset;
	__u32	length;
	__u32	flags;
};

/* Only for a file that a process with CAP_SYS_NICE or CAP_SYS_ADMIN opened (EPERM). */
#define WEFT_MEM_CMD_FEED	0x1
/* For any file. */
#define WEFT_MEM_CMD_BACKGROUND	0x2

#define WEFT_MEM_CMD_READ	_IOWR('w', 0x60, struct weft_mem_cmd)
#define WEFT_MEM_CMD_WRITE	_IOWR('w', 0x61, struct weft_mem_cmd)
#define WEFT_MEM_CMD_FLUSH	_IOWR('w', 0x62, struct weft_mem_cmd)

#endif /* _UAPI_LINUX_WEFT_MEM_H */
