/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * /dev/weft/NAME.mem: I/O of a volume on registered memory.
 *
 * DOC: how it is used
 *
 * An open file of the device has registered memories and targets, each with an
 * id. A memory is a range of a dma-buf or of the caller's own pages. A target
 * says what may be read and written: the volume itself, for whoever has its
 * block device open, or a sealed file on it, for whoever has that open. I/O is IORING_OP_URING_CMD on the device, in a ring with
 * IORING_SETUP_SQE128: cmd_op is WEFT_MEM_CMD_*, the payload (sqe->cmd) is a
 * struct weft_mem_cmd. Its result is the number of bytes or a negative errno.
 *
 * What fails says why: the ioctls fill @why with a sentence, also when they
 * return an error.
 *
 * Closing the file ends all of it; memory is given back when what is in flight
 * on it has ended.
 */
#ifndef _UAPI_LINUX_WEFT_MEM_H
#define _UAPI_LINUX_WEFT_MEM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Room for a sentence, with its final zero. */
#define WEFT_MEM_WHY_SIZE	512

/*
 * Bytes of a command, memories and targets of an open file, commands in flight
 * of it, and bytes of those that bounce; a command beyond them fails with EBUSY.
 */
#define WEFT_MEM_CMD_BYTES_MAX	(64U << 20)
#define WEFT_MEM_MEMORIES_MAX	65536
#define WEFT_MEM_TARGETS_MAX	4096
#define WEFT_MEM_COMMANDS_MAX	65536
#define WEFT_MEM_BOUNCE_MAX	(256U << 20)

/**
 * enum weft_mem_route - the way that bytes take between a memory and a volume
 * @WEFT_MEM_ROUTE_DIRECT: members and adapters move them to and from the memory itself
 * @WEFT_MEM_ROUTE_VMAP: a software RDMA device moves them, by the CPU's mapping of the memory
 * @WEFT_MEM_ROUTE_BOUNCE: by host pages, and copied by the CPU
 */
enum weft_mem_route {
	WEFT_MEM_ROUTE_DIRECT,
	WEFT_MEM_ROUTE_VMAP,
	WEFT_MEM_ROUTE_BOUNCE,
};

#define WEFT_MEM_ROUTES		3

/**
 * struct weft_mem_geometry - of the volume
 * @size: in bytes
 * @block_size: of its logical blocks, in bytes; offsets and lengths are multiples
 * @chunk_size: in bytes
 * @member_count: members
 * @alignment: of addresses within a memory, in bytes
 * @bytes: moved so far by each route, by enum weft_mem_route
 * @uuid: of the volume
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
 * enum weft_mem_kind - what a memory is made of
 * @WEFT_MEM_KIND_PAGES: the caller's own pages, pinned while registered
 * @WEFT_MEM_KIND_DMABUF: a range of a dma-buf
 */
enum weft_mem_kind {
	WEFT_MEM_KIND_PAGES,
	WEFT_MEM_KIND_DMABUF,
};

/* The route may be vmap, or bounce, where there is no direct one. */
#define WEFT_MEM_ALLOW_VMAP	0x1
#define WEFT_MEM_ALLOW_BOUNCE	0x2
/* I/O may only write it to the volume. */
#define WEFT_MEM_READ_ONLY	0x4
/*
 * Registered once, and not for each command: fewer instructions. Every target of
 * the volume is trusted with all of the memory, at any time, until it is
 * unregistered. Without, a target reaches what a command gives it while the
 * command lasts.
 */
#define WEFT_MEM_PERSISTENT	0x8
#define WEFT_MEM_FLAGS		0xf

/**
 * struct weft_mem_register - a memory
 * @kind: in: enum weft_mem_kind
 * @flags: in: WEFT_MEM_ALLOW_*, WEFT_MEM_READ_ONLY, WEFT_MEM_PERSISTENT
 * @fd: in: of the dma-buf; -1 for pages
 * @id: out: of the memory
 * @start: in: where it begins, an address or an offset in the dma-buf
 * @length: in: in bytes
 * @route: out: enum weft_mem_route
 * @pad: 0
 * @why: out: the sentence, where it is refused
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

/* What a target allows. */
#define WEFT_MEM_MAY_READ	0x1
#define WEFT_MEM_MAY_WRITE	0x2

/**
 * struct weft_mem_target - what may be read and written
 * @fd: in: of the volume's block device, open for as much as is wanted, or of a
 *	sealed file, open for reading
 * @access: in: WEFT_MEM_MAY_*
 * @id: out: of the target
 * @pad: 0
 * @size: out: in bytes
 * @why: out: the sentence, where it is refused
 *
 * A target that may be written holds the volume exclusively, against mounts and
 * against others that do; all such targets of the volume share that.
 *
 * A file is sealed when it is immutable (chattr +i), nobody has it open for
 * writing, and it is on XFS or ext4 on the volume itself, with a written block
 * of its own for each byte. It is read, by offsets in the file. Until the target
 * is removed nobody writes, truncates, renames or unlinks it (ETXTBSY, EPERM),
 * also where it is made mutable meanwhile; nor does copy_file_range() copy it.
 * That is so on the host that has the volume assembled for writing, which this
 * has to be. Where it ends within a block of the
 * volume a read may go on to that one's end: it returns the bytes up to the
 * file's end, and what follows them in memory is zeros.
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
 * struct weft_mem_info - of a memory
 * @id: in: of the memory
 * @route: out: enum weft_mem_route
 * @length: out: in bytes
 * @bytes: out: moved so far by each route
 */
struct weft_mem_info {
	__u32	id;
	__u32	route;
	__u64	length;
	__u64	bytes[WEFT_MEM_ROUTES];
};

#define WEFT_MEM_IOC_GEOMETRY	_IOR('w', 0x40, struct weft_mem_geometry)
#define WEFT_MEM_IOC_REGISTER	_IOWR('w', 0x41, struct weft_mem_register)
/* Argument: the id. Waits until what is in flight has ended. */
#define WEFT_MEM_IOC_UNREGISTER	_IOW('w', 0x42, __u32)
#define WEFT_MEM_IOC_INFO	_IOWR('w', 0x43, struct weft_mem_info)
#define WEFT_MEM_IOC_TARGET	_IOWR('w', 0x44, struct weft_mem_target)
/* Argument: the id. */
#define WEFT_MEM_IOC_UNTARGET	_IOW('w', 0x45, __u32)

/**
 * struct weft_mem_cmd - a command, the payload of IORING_OP_URING_CMD
 * @target: id
 * @memory: id; 0 for a flush
 * @offset: within the target, in bytes
 * @memory_offset: within the memory, in bytes
 * @length: in bytes; 0 for a flush
 * @flags: 0
 */
struct weft_mem_cmd {
	__u32	target;
	__u32	memory;
	__u64	offset;
	__u64	memory_offset;
	__u32	length;
	__u32	flags;
};

#define WEFT_MEM_CMD_READ	_IOWR('w', 0x60, struct weft_mem_cmd)
#define WEFT_MEM_CMD_WRITE	_IOWR('w', 0x61, struct weft_mem_cmd)
#define WEFT_MEM_CMD_FLUSH	_IOWR('w', 0x62, struct weft_mem_cmd)

#endif /* _UAPI_LINUX_WEFT_MEM_H */
