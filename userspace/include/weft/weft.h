/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libweft for C, and for languages that call C. The soname stands for this interface.
 *
 * Functions that make an object return NULL on failure, and store the reason in the struct weft_error, which may
 * be NULL. Other functions return 0 or a negative errno unless they say something else. A volume has to outlive its
 * files, a target and a memory their registrations, and all of them the I/O on them. Use an engine, and what was made
 * with it, in one thread only, or, with WEFT_ENGINE_ANY_THREAD, in one thread at a time; all other objects may be used
 * in any thread. All CUDA memory that an engine stages has to be of one context, which has to outlive the engine.
 *
 * Sizes and offsets are in bytes, times in nanoseconds. Unknown values (of a policy, an access, a flag) fail with
 * EINVAL. The caller sets the field "size" of a struct of options to the size of that struct, and the fields that it
 * does not use to 0; 0 stands for the default. A struct that is larger than this libweft's fails with E2BIG if a field
 * that it does not know is not 0. Fields "reserved" of a struct that a function fills are 0; later versions may use
 * them.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_target;
struct weft_memory;
struct weft_registration;
struct weft_engine;
struct weft_gather;
struct weft_read_stream;
struct weft_write_stream;

struct weft_error {
	int code;	/* an errno, positive */
	char text[512];	/* one sentence */
};

struct weft_geometry {
	uint64_t size;		/* now: a file may have grown since it was opened */
	uint32_t block_size;	/* writes, and reads without the route staged, are in multiples of it */
	uint32_t alignment;	/* required alignment of host memory for these */
	uint32_t chunk_size;	/* contiguous bytes on one member; 0: unknown */
	uint32_t member_count;
	uint64_t reserved[5];
};

/*
 * Flags. WEFT_SHARED is added to one of the others: do not claim a block device that is opened for writing. A weft
 * volume whose .mem device can be opened is always claimed; all writers through that share the claim.
 */
enum weft_access { WEFT_READ = 1, WEFT_WRITE = 2, WEFT_READ_WRITE = 3, WEFT_SHARED = 4 };

/* Routes that a registration may use besides direct, and its other properties. */
enum weft_policy {
	WEFT_ALLOW_VMAP = 1,
	WEFT_ALLOW_BOUNCE = 2,
	WEFT_ALLOW_STAGED = 4,
	WEFT_READ_ONLY = 8,
	/* Registered once; all targets of the volume can then access the memory. With WEFT_ALLOW_STAGED, it is registered
	 * for each I/O where it cannot be registered once. */
	WEFT_PERSISTENT = 16
};

enum weft_route {
	WEFT_ROUTE_DIRECT,
	WEFT_ROUTE_VMAP,
	WEFT_ROUTE_BOUNCE,
	WEFT_ROUTE_STAGED,
	WEFT_ROUTE_CACHED
};

/* "direct", "vmap", "bounce", "staged", "cached" */
const char *weft_route_name(enum weft_route route);

/*
 * Opens a weft volume by its name, or any block device or file by a path with a slash. A file that is opened for reading
 * is read without its filesystem if it is sealed and on a weft volume, as by weft_file_open(). EBUSY: a block device to
 * be written is mounted or claimed. EINVAL: the access is not a valid value.
 */
struct weft_target *weft_open(const char *name, unsigned int access, struct weft_error *error);
/* The same without that search for the volume of a file. */
struct weft_target *weft_volume_open(const char *name, unsigned int access, struct weft_error *error);
/* Opens a file on the volume. If it is not sealed, this fails with "strict", or reads it through its filesystem without. */
struct weft_target *weft_file_open(const struct weft_target *volume, const char *path, int strict,
				   struct weft_error *error);
/*
 * Makes a new file of this size, open for writing. It gets its name in weft_file_finish(), which replaces a regular file
 * of that name, or a link to one; if it is closed before that, it is removed. A process that is killed leaves a hidden
 * file, .NAME- and eight letters. All blocks are allocated here: ENOSPC. EEXIST, also in weft_file_finish(): the name is
 * that of a folder, a device, a pipe or a socket. As a target of weft_write() and streams its size is in whole pages.
 */
struct weft_target *weft_file_create(const char *path, uint64_t size, struct weft_error *error);
void weft_close(struct weft_target *target);
void weft_target_geometry(const struct weft_target *target, struct weft_geometry *geometry);
/*
 * The reason why a file is read through its filesystem, or why the .mem device of a weft volume cannot be opened; owned
 * by the target. Empty for all else.
 */
const char *weft_target_reason(const struct weft_target *target);

struct weft_memory *weft_memory_allocate(size_t bytes, struct weft_error *error);
/* Host memory as a dma-buf of udmabuf, and GPU memory from CUDA. */
struct weft_memory *weft_memory_allocate_udmabuf(size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_allocate_cuda(int gpu, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_of(void *data, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_from_dmabuf(int fd, uint64_t offset, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_from_cuda(uint64_t device_pointer, size_t bytes, struct weft_error *error);
void weft_memory_free(struct weft_memory *memory);
void *weft_memory_data(const struct weft_memory *memory); /* NULL if the CPU cannot access it */
uint64_t weft_memory_device_pointer(const struct weft_memory *memory); /* CUDA's; 0 if it is not CUDA memory */
size_t weft_memory_size(const struct weft_memory *memory);
/* Copy with the CPU or CUDA, and wait for the copy. */
int weft_memory_copy_in(const struct weft_memory *memory, size_t offset, const void *from, size_t bytes);
int weft_memory_copy_out(const struct weft_memory *memory, size_t offset, void *to, size_t bytes);

/*
 * Registers a memory for I/O on a target; for a weft volume, also on the files on it. policy: flags of enum weft_policy;
 * 0 allows only the direct route, and the route cached for host memory on a file without O_DIRECT.
 */
struct weft_registration *weft_register(const struct weft_target *target, const struct weft_memory *memory,
					unsigned int policy, struct weft_error *error);
void weft_unregister(struct weft_registration *registration); /* waits for the I/O on it */
enum weft_route weft_registration_route(const struct weft_registration *registration);
/* The reason why the route is not direct; owned by the registration. Empty for WEFT_ROUTE_DIRECT and WEFT_ROUTE_CACHED. */
const char *weft_registration_reason(const struct weft_registration *registration);

enum weft_engine_flags {
	WEFT_ENGINE_SQPOLL = 1,		/* a kernel thread submits */
	WEFT_ENGINE_IOPOLL = 2,		/* poll for completions; only for I/O with O_DIRECT that uses no .mem device */
	WEFT_ENGINE_ANY_THREAD = 4,	/* any thread may use it, one at a time; the caller ensures that */
	WEFT_ENGINE_NO_STAGING = 8	/* without memory for the route staged: such I/O fails with ENOBUFS */
};

struct weft_engine_options {
	size_t size;
	uint32_t flags;		/* of enum weft_engine_flags */
	uint32_t entries;	/* largest number of I/Os in flight; 256 */
	uint32_t staging_slots;	/* pieces that are staged at a time; 8 */
	uint32_t staging_bytes;	/* size of such a piece, a multiple of 4096; 1 MiB */
	void *stream;		/* CUDA stream for staged copies; one of its own */
};

struct weft_engine *weft_engine_create(const struct weft_engine_options *options, struct weft_error *error);
/*
 * Registers the target's file with the ring, which saves instructions for each I/O that does not use a .mem device. Detach
 * it, or destroy the engine, before you close the target. -ENOSPC beyond 64 targets.
 */
int weft_engine_attach(struct weft_engine *engine, const struct weft_target *target);
void weft_engine_detach(struct weft_engine *engine, const struct weft_target *target);
/* A descriptor, owned by the engine, that is readable from when weft_poll() has work until it is called. */
int weft_engine_event_fd(struct weft_engine *engine);
void weft_engine_destroy(struct weft_engine *engine); /* waits for the I/O in flight */

/*
 * A length beyond what one command moves is split. A read of any bytes is possible with WEFT_ALLOW_STAGED: what is not in
 * whole blocks, or not aligned in host memory, is staged, and the completion says so. A write is in whole blocks.
 */
struct weft_io {
	size_t size;
	uint64_t offset;	/* in the target */
	uint64_t memory_offset;
	uint64_t length;
	uint64_t token;		/* for the completion */
	int64_t deadline;	/* nanoseconds from now, then it ends with ETIME; 0: none */
};

struct weft_completion {
	uint64_t token;
	int64_t result; /* bytes, or a negative errno; less than the length only at the end of the target */
	enum weft_route route;
	uint32_t reserved[3];
};

/* Identifies an I/O that was begun. */
struct weft_ticket {
	uint32_t slot;
	uint32_t generation;
};

/*
 * Begin an I/O; the next submit, wait or poll passes it to the kernel. The ticket may be NULL. -EBUSY: the engine is full,
 * call weft_poll() first.
 */
int weft_read(struct weft_engine *engine, const struct weft_target *target,
	      const struct weft_registration *memory, const struct weft_io *io, struct weft_ticket *ticket);
int weft_write(struct weft_engine *engine, const struct weft_target *target,
	       const struct weft_registration *memory, const struct weft_io *io, struct weft_ticket *ticket);
int weft_flush(struct weft_engine *engine, const struct weft_target *target, uint64_t token);
/*
 * Writes any bytes of the memory to any offset of a file that weft_file_create() has made, and returns when they are written.
 * Bytes that are not in whole pages of the file are copied. Without WEFT_ALLOW_STAGED, the offsets in the file and in the
 * memory have to be equally aligned. -EBUSY: completions that weft_poll() has not returned fill the engine.
 */
int weft_file_write(struct weft_engine *engine, struct weft_target *file, const struct weft_registration *memory,
		    uint64_t offset, uint64_t memory_offset, uint64_t length, struct weft_error *error);
/*
 * Puts the data of such a file on the medium and gives the file its name. All I/O on it has to have ended. Afterwards, also
 * after an error, it can only be closed.
 */
int weft_file_finish(struct weft_target *file, struct weft_error *error);
/* It then ends with -ECANCELED, or normally if the kernel cannot cancel it. */
void weft_cancel(struct weft_engine *engine, struct weft_ticket ticket);
int weft_submit(struct weft_engine *engine);
/*
 * Return the number of completions stored. weft_wait() waits for one first, for at most this number of nanoseconds
 * (-1: without limit); without limit it returns 0 only if nothing is in flight, or in another thread than the engine's.
 */
size_t weft_poll(struct weft_engine *engine, struct weft_completion *completions, size_t count);
size_t weft_wait(struct weft_engine *engine, struct weft_completion *completions, size_t count, int64_t timeout);

/* Many small reads at once. The engine has to outlive the gather. */
struct weft_extent {
	uint64_t offset;	/* in the target */
	uint64_t memory_offset;
	uint32_t length;	/* 0 fails with -EINVAL */
	uint32_t order;		/* extents with a lower order are begun first */
};

struct weft_gather_options {
	size_t size;
	uint32_t capacity;	/* largest number of extents of a run; 4096 */
	uint32_t depth;		/* I/Os in flight, over all members; 64 */
	uint32_t largest;	/* adjacent extents are joined up to this many bytes; 128 KiB */
};

struct weft_gathered {
	uint64_t bytes;
	uint32_t failed;	/* extents */
	uint32_t reads;		/* reads sent */
	enum weft_route route;
	uint32_t reserved[3];
};

struct weft_gather *weft_gather_create(struct weft_engine *engine, const struct weft_gather_options *options,
				       struct weft_error *error);
/*
 * Reads all extents, and returns when all are done. "results" gets for each its bytes or a negative errno; "gathered" may
 * be NULL. -E2BIG: more than the capacity. -EBUSY: other completions, which weft_poll() has not returned, fill the engine.
 */
int weft_gather_run(struct weft_gather *gather, const struct weft_target *target,
		    const struct weft_registration *memory, const struct weft_extent *extents, size_t count,
		    int32_t *results, struct weft_gathered *gathered, struct weft_error *error);
void weft_gather_destroy(struct weft_gather *gather);

/* Records of one size, one behind the other in the target. */
struct weft_records {
	uint64_t offset;	/* of the first */
	uint64_t count;
	uint32_t length;	/* of each */
	uint32_t reserved;	/* 0 */
};

/*
 * The same for records by their numbers, from 0 on: they go one behind the other into the memory, from
 * "memory_offset" on. -ERANGE: a number is outside of the records; the memory is unchanged.
 */
int weft_gather_run_records(struct weft_gather *gather, const struct weft_target *target,
			    const struct weft_registration *memory, const struct weft_records *records,
			    const int64_t *numbers, size_t count, uint64_t memory_offset, int32_t *results,
			    struct weft_gathered *gathered, struct weft_error *error);

/*
 * The CRC32C (Castagnoli) of the bytes. crc: 0, or what this function returned for the bytes before these, so that pieces
 * that follow each other have the checksum of the whole. It reads nothing if bytes is 0.
 */
uint32_t weft_crc32c(uint32_t crc, const void *data, size_t bytes);

/*
 * Compares the CRC32C of many pieces of the data, each of lengths[i] bytes at offsets[i], with sums[i]. Returns the number of
 * the first that differs, or "count".
 */
size_t weft_crc32c_compare(const void *data, const uint64_t *offsets, const uint64_t *lengths, const uint32_t *sums,
			   size_t count);

/* Large sequential reads and writes with several pieces in flight. */
struct weft_stream_options {
	size_t size;
	uint64_t offset;	/* in whole blocks */
	uint64_t length;	/* to the target's end */
	uint32_t window;	/* largest number of pieces in flight; 4 */
	uint32_t piece;		/* size of a piece; whole stripes of about 1 MiB */
};

struct weft_piece {
	uint64_t offset;
	uint64_t memory_offset;
	uint32_t length;
	uint32_t reserved;
};

struct weft_read_stream *weft_read_stream_create(struct weft_engine *engine, const struct weft_target *target,
						 const struct weft_registration *memory,
						 const struct weft_stream_options *options, struct weft_error *error);
/* The next piece, which the caller may use until the next call. Length 0 is the end. */
int weft_read_stream_next(struct weft_read_stream *stream, struct weft_piece *piece, struct weft_error *error);
void weft_read_stream_end(struct weft_read_stream *stream); /* waits for the reads in flight */

struct weft_write_stream *weft_write_stream_create(struct weft_engine *engine, const struct weft_target *target,
						   const struct weft_registration *memory,
						   const struct weft_stream_options *options, struct weft_error *error);
/* A free piece to fill. Length 0 is the end. */
int weft_write_stream_next(struct weft_write_stream *stream, struct weft_piece *piece, struct weft_error *error);
/* Begins to write it. A length below the piece's, in whole blocks, ends the stream. */
int weft_write_stream_put(struct weft_write_stream *stream, uint32_t length, struct weft_error *error);
/* Waits for all writes, and until the data is on the medium. */
int weft_write_stream_finish(struct weft_write_stream *stream, struct weft_error *error);
void weft_write_stream_end(struct weft_write_stream *stream);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_WEFT_H */
