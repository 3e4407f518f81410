/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libweft for C, and for languages that call C. The soname stands for this interface.
 *
 * Functions that make an object return NULL on failure, and store the reason in the struct weft_error, which may
 * be NULL. A volume has to outlive its files and registrations, a memory its registrations, and a registration the
 * I/O on it. Use an engine in one thread only; all other objects may be used in any thread. All CUDA memory that an
 * engine stages has to be of one context, which has to outlive the engine.
 *
 * Sizes and offsets are in bytes. Unknown values (of a policy or an access) fail with EINVAL. Fields "reserved" of a
 * struct that a function fills are 0; later versions may use them.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_volume;
struct weft_file;
struct weft_memory;
struct weft_registration;
struct weft_engine;

struct weft_error {
	int code;	/* an errno, positive */
	char text[512];	/* one sentence */
};

struct weft_geometry {
	uint64_t size;
	uint32_t block_size;	/* offsets and lengths have to be multiples of it */
	uint32_t alignment;	/* required alignment of host memory */
	uint32_t chunk_size;	/* contiguous bytes on one member; 0: unknown */
	uint32_t member_count;
	uint64_t reserved[5];
};

/* WEFT_SHARED is added to one of the others: do not claim a block device that is opened for writing. */
enum weft_access { WEFT_READ = 1, WEFT_WRITE = 2, WEFT_READ_WRITE = 3, WEFT_SHARED = 4 };

/* Routes that a registration may use besides direct, and its other properties. */
enum weft_policy {
	WEFT_ALLOW_VMAP = 1,
	WEFT_ALLOW_BOUNCE = 2,
	WEFT_ALLOW_STAGED = 4,
	WEFT_READ_ONLY = 8,
	WEFT_PERSISTENT = 16	/* registered once; all targets of the volume can then access the memory */
};

enum weft_route {
	WEFT_ROUTE_DIRECT,
	WEFT_ROUTE_VMAP,
	WEFT_ROUTE_BOUNCE,
	WEFT_ROUTE_STAGED,
	WEFT_ROUTE_CACHED
};

/*
 * Opens a weft volume by its name, or any block device or file by a path with a slash. EBUSY: a block device to be
 * written is mounted or claimed. EINVAL: the access is not a valid value.
 */
struct weft_volume *weft_volume_open(const char *name, enum weft_access access, struct weft_error *error);
void weft_volume_close(struct weft_volume *volume);
void weft_volume_geometry(const struct weft_volume *volume, struct weft_geometry *geometry);

/* Opens a file on the volume. If it is not sealed, this fails with "strict", or reads it through its filesystem without. */
struct weft_file *weft_file_open(const struct weft_volume *volume, const char *path, int strict,
				 struct weft_error *error);
void weft_file_close(struct weft_file *file);
void weft_file_geometry(const struct weft_file *file, struct weft_geometry *geometry);

struct weft_memory *weft_memory_allocate(size_t bytes, struct weft_error *error);
/* Host memory as a dma-buf of udmabuf, and GPU memory from CUDA. */
struct weft_memory *weft_memory_allocate_udmabuf(size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_allocate_cuda(int gpu, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_of(void *data, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_from_dmabuf(int fd, uint64_t offset, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_from_cuda(uint64_t device_pointer, size_t bytes, struct weft_error *error);
void weft_memory_free(struct weft_memory *memory);
void *weft_memory_data(const struct weft_memory *memory); /* NULL if the CPU cannot access it */
size_t weft_memory_size(const struct weft_memory *memory);
/* Copy with the CPU or CUDA, and wait for the copy. Return 0 or a negative errno. */
int weft_memory_copy_in(const struct weft_memory *memory, size_t offset, const void *from, size_t bytes);
int weft_memory_copy_out(const struct weft_memory *memory, size_t offset, void *to, size_t bytes);

/* policy: flags of enum weft_policy; 0 allows only the direct route. */
struct weft_registration *weft_volume_add(const struct weft_volume *volume, const struct weft_memory *memory,
					  unsigned int policy, struct weft_error *error);
struct weft_registration *weft_file_add(const struct weft_file *file, const struct weft_memory *memory,
					unsigned int policy, struct weft_error *error);
void weft_registration_end(struct weft_registration *registration);
enum weft_route weft_registration_route(const struct weft_registration *registration);
/* The reason why the route is not direct; owned by the registration. Empty for WEFT_ROUTE_DIRECT and WEFT_ROUTE_CACHED. */
const char *weft_registration_reason(const struct weft_registration *registration);

struct weft_engine *weft_engine_create(unsigned int entries, struct weft_error *error);
/*
 * Registers the volume's file with the ring, which saves instructions for each I/O that does not use a .mem device. Detach
 * it, or destroy the engine, before you close the volume. Returns 0 or a negative errno; -ENOSPC beyond 64 volumes.
 */
int weft_engine_attach(struct weft_engine *engine, const struct weft_volume *volume);
void weft_engine_detach(struct weft_engine *engine, const struct weft_volume *volume);
void weft_engine_destroy(struct weft_engine *engine); /* waits for the I/O in flight */

struct weft_completion {
	uint64_t token;
	int64_t result; /* bytes, or a negative errno */
	enum weft_route route;
	uint32_t reserved[3];
};

/* Begin an I/O; the next submit, wait or poll passes it to the kernel. Return 0, or -EBUSY if the engine is full. */
int weft_read(struct weft_engine *engine, const struct weft_volume *volume,
	      const struct weft_registration *memory, uint64_t offset, uint64_t memory_offset, uint32_t length,
	      uint64_t token);
int weft_write(struct weft_engine *engine, const struct weft_volume *volume,
	       const struct weft_registration *memory, uint64_t offset, uint64_t memory_offset, uint32_t length,
	       uint64_t token);
int weft_read_file(struct weft_engine *engine, const struct weft_file *file,
		   const struct weft_registration *memory, uint64_t offset, uint64_t memory_offset,
		   uint32_t length, uint64_t token);
int weft_flush(struct weft_engine *engine, const struct weft_volume *volume, uint64_t token);
int weft_submit(struct weft_engine *engine);
/* Return the number of completions stored. weft_wait() waits for one first; it returns 0 only if nothing is in flight. */
size_t weft_poll(struct weft_engine *engine, struct weft_completion *completions, size_t count);
size_t weft_wait(struct weft_engine *engine, struct weft_completion *completions, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_WEFT_H */
