/* SPDX-License-Identifier: GPL-2.0-only */
/* The rate of a member's background I/O, and limits of rates. See pace.c. */
#ifndef WEFT_PACE_H
#define WEFT_PACE_H

#include "portable.h"

/**
 * struct weft_bucket - a limit of a rate
 * @rate: units per second; 0: no limit
 * @next: from then on the next command may be sent, in nanoseconds
 *
 * Its user has a lock.
 */
struct weft_bucket {
	u64	rate;
	u64	next;
};

/**
 * struct weft_pace - the rate of background I/O to one member
 * @bucket: the rate now, in bytes per second
 * @late_at: the rate at which feed commands were late, smoothed; 0 if unknown
 * @floor: the rate is never lower, nor lower than WEFT_PACE_MIN, in bytes per second
 *
 * Its user has a lock.
 */
struct weft_pace {
	struct weft_bucket	bucket;
	u64			late_at;
	u64			floor;
};

/**
 * struct weft_pace_sample - what was seen since the rate was last judged
 * @done: feed commands that completed
 * @late: those that took longer than the target
 * @least: the shortest time of a feed command, in nanoseconds
 * @limited: background commands waited for the rate
 */
struct weft_pace_sample {
	u32	done;
	u32	late;
	u64	least;
	bool	limited;
};

/* A feed command of so many bytes at most takes as long as the smallest one. */
#define WEFT_USUAL_SMALL	16384
/* Larger ones are grouped by size: to 32 KiB, to 64 KiB, and so on. */
#define WEFT_USUAL_SIZES	12

/**
 * struct weft_usual - the time that a large feed command takes on an idle member
 * @each: by size, the least of late, in 256ths of a nanosecond per sector; U64_MAX if
 *	there was none
 *
 * Without a lock: an update that is lost comes again.
 */
struct weft_usual {
	u64	each[WEFT_USUAL_SIZES];
};

/* The rate is judged so often at most. */
#define WEFT_PACE_JUDGE_NS	(10 * 1000 * 1000ULL)
/* The rate before anything is known of the member, and bounds. In bytes per second. */
#define WEFT_PACE_START		(64ULL << 20)
#define WEFT_PACE_MIN		1048576ULL
#define WEFT_PACE_MAX		1099511627776ULL

u64 weft_bucket_wait(const struct weft_bucket *bucket, u64 now);
void weft_bucket_set(struct weft_bucket *bucket, u64 rate);
void weft_bucket_take(struct weft_bucket *bucket, u64 units, u64 now);
void weft_pace_init(struct weft_pace *pace);
void weft_pace_judge(struct weft_pace *pace, const struct weft_pace_sample *sample, u64 target);
void weft_usual_init(struct weft_usual *usual);
u64 weft_usual_beyond(struct weft_usual *usual, u32 bytes, u64 nsecs);
void weft_usual_forget(struct weft_usual *usual);

#endif /* WEFT_PACE_H */
