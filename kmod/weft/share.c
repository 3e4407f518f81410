// SPDX-License-Identifier: GPL-2.0-only
/*
 * A window of background I/O by a weight, on members that several hosts use.
 *
 * DOC: how hosts share a member without talking to each other
 *
 * This is the rule of PARDA (Gulati, Ahmad, Waldspurger: "PARDA: Proportional
 * Allocation of Resources for Distributed Storage Access", FAST 2009). All hosts
 * have the same target for the mean latency of background commands. They see
 * nearly the same latency, because they wait in the same queue of the member. Each
 * host sets its window w of bytes in flight so:
 *
 *	w = (1 - 1/8) w + 1/8 (target / latency x w + weight x unit)
 *
 * Above the target, windows shrink in proportion, and all hosts grow by their
 * weights. They are at rest where w = weight x unit x latency / (latency - target):
 * the windows, and with them the bandwidths, relate as the weights.
 */
#include "share.h"

#define WEFT_SHARE_UNIT		16384U
#define WEFT_SHARE_START	1048576ULL
#define WEFT_SHARE_MIN		262144ULL
#define WEFT_SHARE_MAX		268435456ULL
#define WEFT_SHARE_STEP_SHIFT	3
/* Of target / latency. */
#define WEFT_SHARE_ONE		1024ULL

/**
 * weft_share_init() - begin with a window, before anything is known of the member
 * @share: the share
 */
void weft_share_init(struct weft_share *share)
{
	*share = (struct weft_share) {
		.window	= WEFT_SHARE_START,
	};
}

/**
 * weft_share_admits() - may a command be sent?
 * @share: the share
 * @in_flight: bytes that were sent and have not completed
 * @bytes: size of the command
 *
 * A command may be a large part of the window. Half of it has to fit: so rounding
 * favours no host.
 *
 * Return: true if so.
 */
bool weft_share_admits(struct weft_share *share, u64 in_flight, u32 bytes)
{
	bool admits = !in_flight || in_flight + bytes / 2 <= share->window;

	share->limited |= !admits;
	return admits;
}

static void weft_share_set(struct weft_share *share, u64 target, u32 weight)
{
	u64 latency = div64_u64(share->sum, share->count), ratio, goal;

	share->latency = share->latency ? (3 * share->latency + latency) / 4 : latency;
	ratio = min(div64_u64(target * WEFT_SHARE_ONE, max(share->latency, 1ULL)),
		    2 * WEFT_SHARE_ONE);
	goal = share->window * ratio / WEFT_SHARE_ONE + (u64)weight * WEFT_SHARE_UNIT;
	/* A window that holds no command would grow without limit. */
	if (goal < share->window)
		share->window -= (share->window - goal) >> WEFT_SHARE_STEP_SHIFT;
	else if (share->limited)
		share->window += (goal - share->window) >> WEFT_SHARE_STEP_SHIFT;
	share->window = clamp(share->window, WEFT_SHARE_MIN, WEFT_SHARE_MAX);
}

/**
 * weft_share_done() - a command has completed: set the window if it is due
 * @share: the share
 * @nsecs: the command's time, from sending to completion
 * @target: the target of the mean, in nanoseconds, at most 2^40; 0: nothing is set
 * @weight: 1 to WEFT_SHARE_WEIGHT_MAX
 * @now: in nanoseconds
 */
void weft_share_done(struct weft_share *share, u64 nsecs, u64 target, u32 weight, u64 now)
{
	share->sum += nsecs;
	share->count++;
	/* Another CPU may have set it at a later time than this one's. */
	if ((s64)(now - share->set_at) < (s64)WEFT_SHARE_SET_NS)
		return;
	if (target)
		weft_share_set(share, target, weight);
	share->sum = 0;
	share->count = 0;
	share->limited = false;
	share->set_at = now;
}
