/* SPDX-License-Identifier: GPL-2.0-only */
/* A window of background I/O by a weight, on members that several hosts use. See share.c. */
#ifndef WEFT_SHARE_H
#define WEFT_SHARE_H

#include "portable.h"

/**
 * struct weft_share - the window of background I/O to one member
 * @window: so much may be in flight, in bytes
 * @latency: of commands of late, smoothed, in nanoseconds; 0 before the first
 * @sum: of the times of commands since the window was set, in nanoseconds
 * @count: their number
 * @limited: a command waited for the window since then
 * @set_at: when that was, in nanoseconds
 *
 * Its user has a lock.
 */
struct weft_share {
	u64	window;
	u64	latency;
	u64	sum;
	u32	count;
	bool	limited;
	u64	set_at;
};

#define WEFT_SHARE_WEIGHT_MAX	100U
/* The window is set so often at most. */
#define WEFT_SHARE_SET_NS	(20 * 1000 * 1000ULL)

void weft_share_init(struct weft_share *share);
bool weft_share_admits(struct weft_share *share, u64 in_flight, u32 bytes);
void weft_share_done(struct weft_share *share, u64 nsecs, u64 target, u32 weight, u64 now);

#endif /* WEFT_SHARE_H */
