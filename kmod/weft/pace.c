// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rate of a member's background I/O.
 *
 * DOC: why a rate, and not a window
 *
 * A window of bytes in flight limits what waits in a member only if a command
 * stays in flight for as long as it uses the medium. A disk with a write buffer
 * completes writes before that, and a disk behind a limit of its rate completes
 * all of them at once until its time slice is used up. In both, a window of one
 * command already is too much. A rate limits all of them. Where commands wait in
 * the member, a rate below its bandwidth keeps few of them there.
 *
 * DOC: how the rate follows
 *
 * The target is a time that at most one feed command in 200 exceeds. Each that
 * does takes a 32nd off the rate, and each that does not adds a 6,200th of it.
 * The two cancel out where one of 200 is late. If even the fastest feed command
 * of 10 ms is late, commands stand in the member's queue (as in CoDel), and the
 * rate is lowered in proportion, at most by half.
 *
 * Where the rate is far below the one at which feed commands were last late, it
 * grows by a 20th every 10 ms. It grows only while it limits the background I/O.
 */
#include "pace.h"

#define WEFT_PACE_NS		1000000000ULL
/* After a rest, commands for this time at the rate may be sent at once. */
#define WEFT_PACE_BURST_NS	200000ULL
#define WEFT_PACE_CUT_SHIFT	5
#define WEFT_PACE_GROW_DIV	6200U
#define WEFT_PACE_FAST_DIV	20
/* Units of struct weft_usual in a nanosecond, and a time that is longer than any of interest. */
#define WEFT_USUAL_SHIFT	8
#define WEFT_USUAL_NSECS_MAX	1099511627776ULL

/**
 * weft_bucket_wait() - how long the next command has to wait
 * @bucket: the limit
 * @now: in nanoseconds
 *
 * Return: nanoseconds; 0 if it may be sent now.
 */
u64 weft_bucket_wait(const struct weft_bucket *bucket, u64 now)
{
	return bucket->rate && bucket->next > now ? bucket->next - now : 0;
}

/**
 * weft_bucket_take() - count a command that is sent
 * @bucket: the limit
 * @units: its size, at most 2^32
 * @now: in nanoseconds
 */
void weft_bucket_take(struct weft_bucket *bucket, u64 units, u64 now)
{
	u64 from = now > WEFT_PACE_BURST_NS ? now - WEFT_PACE_BURST_NS : 0;

	if (!bucket->rate)
		return;
	bucket->next = max(bucket->next, from);
	bucket->next += div64_u64(units * WEFT_PACE_NS, bucket->rate);
}

/**
 * weft_bucket_set() - change the limit
 * @bucket: the limit
 * @rate: the new one, in units per second; 0 for none
 *
 * What was sent before counts for the old one only.
 */
void weft_bucket_set(struct weft_bucket *bucket, u64 rate)
{
	if (rate != bucket->rate)
		bucket->next = 0;
	bucket->rate = rate;
}

/**
 * weft_pace_init() - begin with a rate, before anything is known of the member
 * @pace: the pace; the user sets @floor
 */
void weft_pace_init(struct weft_pace *pace)
{
	*pace = (struct weft_pace) {
		.bucket.rate	= WEFT_PACE_START,
	};
}

/* What the commands in time add. */
static u64 weft_pace_more(u64 rate, const struct weft_pace_sample *sample)
{
	return rate / WEFT_PACE_GROW_DIV * min(sample->done - sample->late, WEFT_PACE_GROW_DIV / 4);
}

static u64 weft_pace_lower(u64 rate, const struct weft_pace_sample *sample, u64 target)
{
	u64 lowest = rate / 2, in_proportion = rate;
	u32 i;

	if (sample->least > target)
		in_proportion = rate / 1000 * div64_u64(target * 1000, sample->least);
	rate += sample->limited ? weft_pace_more(rate, sample) : 0;
	for (i = 0; i < sample->late && rate > lowest; i++)
		rate -= rate >> WEFT_PACE_CUT_SHIFT;
	return max(min(rate, in_proportion), lowest);
}

static u64 weft_pace_higher(const struct weft_pace *pace, const struct weft_pace_sample *sample)
{
	u64 rate = pace->bucket.rate, more = weft_pace_more(rate, sample);

	if (rate < pace->late_at - pace->late_at / 8 || !pace->late_at)
		more = max(more, rate / WEFT_PACE_FAST_DIV);
	return rate + more;
}

/**
 * weft_pace_judge() - set the rate after feed commands completed
 * @pace: the pace
 * @sample: what was seen since the last time
 * @target: in nanoseconds, at most 2^40
 *
 * @sample->late must not exceed @sample->done.
 */
void weft_pace_judge(struct weft_pace *pace, const struct weft_pace_sample *sample, u64 target)
{
	u64 rate = pace->bucket.rate;

	if (sample->late) {
		if (sample->limited)
			pace->late_at = pace->late_at ? (pace->late_at + rate) / 2 : rate;
		rate = weft_pace_lower(rate, sample, target);
	} else if (sample->limited) {
		rate = weft_pace_higher(pace, sample);
	}
	pace->bucket.rate = clamp(rate, max(pace->floor, WEFT_PACE_MIN), WEFT_PACE_MAX);
}

/**
 * weft_usual_init() - nothing is known of the member
 * @usual: filled
 */
void weft_usual_init(struct weft_usual *usual)
{
	int i;

	for (i = 0; i < WEFT_USUAL_SIZES; i++)
		usual->each[i] = U64_MAX;
}

/**
 * weft_usual_beyond() - the time of a large feed command beyond that on an idle member
 * @usual: the member's; a shorter time than any of late is taken over
 * @bytes: size of the command, more than WEFT_USUAL_SMALL
 * @nsecs: its time, in nanoseconds
 *
 * Context: any.
 * Return: the difference, in nanoseconds.
 */
u64 weft_usual_beyond(struct weft_usual *usual, u32 bytes, u64 nsecs)
{
	int size = min(ilog2((bytes - 1) / WEFT_USUAL_SMALL), WEFT_USUAL_SIZES - 1);
	u64 least = READ_ONCE(usual->each[size]);
	u32 sectors = bytes >> SECTOR_SHIFT;
	u64 each = div_u64(min(nsecs, WEFT_USUAL_NSECS_MAX) << WEFT_USUAL_SHIFT, sectors);

	if (each > least)
		return nsecs - (least * sectors >> WEFT_USUAL_SHIFT);
	WRITE_ONCE(usual->each[size], each);
	return 0;
}

/**
 * weft_usual_forget() - old times lose a 64th of their weight
 * @usual: the member's, which may be slower for good
 */
void weft_usual_forget(struct weft_usual *usual)
{
	int i;

	for (i = 0; i < WEFT_USUAL_SIZES; i++)
		if (usual->each[i] != U64_MAX)
			WRITE_ONCE(usual->each[i], usual->each[i] + usual->each[i] / 64);
}
