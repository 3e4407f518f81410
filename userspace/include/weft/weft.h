/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libweft for C, and for whatever calls C: what the soname promises.
 *
 * Objects are made by functions that return NULL on failure and leave the reason
 * in a struct weft_error, which may be NULL. A volume outlives its files and
 * registrations, a memory its registrations, a registration the I/O on it. An
 * engine, and what is done by it, is one thread's; the others are for any. CUDA memory
 * that an engine stages is of one context, which outlives it.
 * Sizes and offsets are in bytes.
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
	uint32_t block_size;	/* offsets and lengths are multiples of it */
	uint32_t alignment;	/* of host memory */
	uint32_t chunk_size;	/* that stay together on one member, 0: not known */
	uint32_t member_count;
};

enum weft_access { WEFT_READ = 1, WEFT_WRITE = 2, WEFT_READ_WRITE = 3 };

/* What a registration may do beside what is direct, and whether it is for good. */
enum weft_policy {
	WEFT_ALLOW_VMAP = 1,
	WEFT_ALLOW_BOUNCE = 2,
	WEFT_ALLOW_STAGED = 4,
	WEFT_READ_ONLY = 8,
	WEFT_PERSISTENT = 16	/* every target of the volume is trusted with the memory */
};

enum weft_route {
	WEFT_ROUTE_DIRECT,
	WEFT_ROUTE_VMAP,
	WEFT_ROUTE_BOUNCE,
	WEFT_ROUTE_STAGED,
	WEFT_ROUTE_CACHED
};

/* A weft volume by its name, or any block device or file by a path with a slash. */
struct weft_volume *weft_volume_open(const char *name, enum weft_access access, struct weft_error *error);
void weft_volume_close(struct weft_volume *volume);
void weft_volume_geometry(const struct weft_volume *volume, struct weft_geometry *geometry);

/* A file on it. Not strict: it is read through its filesystem where it is not sealed. */
struct weft_file *weft_file_open(const struct weft_volume *volume, const char *path, int strict,
				 struct weft_error *error);
void weft_file_close(struct weft_file *file);
void weft_file_geometry(const struct weft_file *file, struct weft_geometry *geometry);

struct weft_memory *weft_memory_allocate(size_t bytes, struct weft_error *error);
/* Host memory as a dma-buf of udmabuf, or memory of a GPU by CUDA. */
struct weft_memory *weft_memory_allocate_udmabuf(size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_allocate_cuda(int gpu, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_of(void *data, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_from_dmabuf(int fd, uint64_t offset, size_t bytes, struct weft_error *error);
struct weft_memory *weft_memory_from_cuda(uint64_t device_pointer, size_t bytes, struct weft_error *error);
void weft_memory_free(struct weft_memory *memory);
void *weft_memory_data(const struct weft_memory *memory); /* NULL: not for the CPU */
size_t weft_memory_size(const struct weft_memory *memory);
/* By the CPU or by CUDA; they wait for it. 0, or a negative errno. */
int weft_memory_copy_in(const struct weft_memory *memory, size_t offset, const void *from, size_t bytes);
int weft_memory_copy_out(const struct weft_memory *memory, size_t offset, void *to, size_t bytes);

/* policy: of enum weft_policy, 0 for direct or nothing. */
struct weft_registration *weft_volume_add(const struct weft_volume *volume, const struct weft_memory *memory,
					  unsigned int policy, struct weft_error *error);
struct weft_registration *weft_file_add(const struct weft_file *file, const struct weft_memory *memory,
					unsigned int policy, struct weft_error *error);
void weft_registration_end(struct weft_registration *registration);
enum weft_route weft_registration_route(const struct weft_registration *registration);
/* Why it is not direct; the registration's own. Empty for a direct one, and for WEFT_ROUTE_CACHED. */
const char *weft_registration_reason(const struct weft_registration *registration);

struct weft_engine *weft_engine_create(unsigned int entries, struct weft_error *error);
/* Saves instructions of each I/O by file, until it is detached or the engine ends: before it is closed. 0 or -ENOSPC. */
int weft_engine_attach(struct weft_engine *engine, const struct weft_volume *volume);
void weft_engine_detach(struct weft_engine *engine, const struct weft_volume *volume);
void weft_engine_destroy(struct weft_engine *engine); /* waits for what is in flight */

struct weft_completion {
	uint64_t token;
	int64_t result; /* bytes, or a negative errno */
	enum weft_route route;
};

/* Begun with the next submit, wait or poll. 0, or -EBUSY where the engine is full. */
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
/* How many completions were put there; wait: after there was one, 0 only where nothing is in flight. */
size_t weft_poll(struct weft_engine *engine, struct weft_completion *completions, size_t count);
size_t weft_wait(struct weft_engine *engine, struct weft_completion *completions, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_WEFT_H */
