/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* /dev/weft-test-exporter, as tests/system/exporter.py speaks to it. */
#ifndef WEFT_TEST_EXPORTER_UAPI_H
#define WEFT_TEST_EXPORTER_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define EXPORTER_PIN		0x01	/* offers pin */
#define EXPORTER_NO_VMAP	0x02
#define EXPORTER_REFUSE		0x04	/* no attach */
#define EXPORTER_ONE_RUN	0x08	/* not in 4 KiB pieces */
#define EXPORTER_BAR		0x10	/* in the BAR of the device that is bound */
#define EXPORTER_READ_ONLY	0x20
#define EXPORTER_PIN_MOVES	0x40	/* it moves where it is pinned first, all mappings are told */
#define EXPORTER_FLAGS		(0x80 - 1)

/**
 * struct exporter_create - a dma-buf
 * @size: in bytes, whole pages
 * @flags: EXPORTER_*
 * @unmap_ms: how long an unmap takes
 * @fd: out: the dma-buf
 */
struct exporter_create {
	__u64	size;
	__u32	flags;
	__u32	unmap_ms;
	__s32	fd;
	__u32	pad;
};

/**
 * struct exporter_stats - of a dma-buf
 * @fd: in: the dma-buf
 * @attached: importers
 * @mapped: by them
 * @pinned: by them
 * @moves: so far
 * @maps: so far
 */
struct exporter_stats {
	__s32	fd;
	__u32	attached;
	__u32	mapped;
	__u32	pinned;
	__u32	moves;
	__u32	maps;
};

#define EXPORTER_CREATE	_IOWR('w', 0x60, struct exporter_create)
/* The dma-buf's memory is elsewhere from now on; argument: its descriptor. */
#define EXPORTER_MOVE	_IOW('w', 0x61, __s32)
/* It has no memory any more, for good. */
#define EXPORTER_REVOKE	_IOW('w', 0x62, __s32)
#define EXPORTER_STATS	_IOWR('w', 0x63, struct exporter_stats)
/* Bytes written to memory, and accesses of the adapter, after it was taken back; it is let go. */
#define EXPORTER_CHECK	_IOR('w', 0x64, __u64)

#endif /* WEFT_TEST_EXPORTER_UAPI_H */
