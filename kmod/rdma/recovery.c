// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handling of an association that fails: tear it down, reconnect, or give up.
 *
 * DOC: recovery
 *
 * weft_rdma_error() (state.c) may be called in any context and several times. The
 * first call sets the controller from LIVE to RECOVERING, and stores and counts
 * the reason. The work then closes the disks, drains the queue pairs, and only
 * then ends the requests that were in flight. Bios of a volume's path go back to
 * the volume, which has other paths. Bios of a disk without a volume wait (held.c).
 *
 * DOC: when a write may be sent again
 *
 * The target cannot send anything through a drained queue pair, but it may
 * still execute commands that it has received. A late execution could then
 * overwrite a write that was sent again. The target ends an association after
 * the keep-alive timeout, and its commands at most CQT later. So writes that
 * may have reached it wait two timeouts (three with traffic based keep-alive),
 * CQT and a margin after the queue pair was torn down: until @quiet_at
 * (weft_info_quiet_ms()). A target without CQT gives no limit for commands that
 * its disk still executes; the host cannot detect that. Reads, and writes that
 * were never sent, do not wait. A volume sends its own writes again at once, and
 * has newer writes to the same bytes wait until then (kmod/weft/resend.c).
 * Writes of a disk without a volume are held there; if there are any
 * (@keeps_writes), the next association waits.
 */
#include "namespace.h"

#include <linux/random.h>
#include <linux/sched/mm.h>

/* The delay doubles, with 10 % random variation, so that hosts do not reconnect together. */
static unsigned long weft_ctrl_backoff(struct weft_rdma_ctrl *ctrl)
{
	u32 ms = ctrl->opts.reconnect_delay * 1000;

	if (!ctrl->attempts)
		ms = min(ms, WEFT_RDMA_FIRST_DELAY_MS << ctrl->flaps);
	else
		ms <<= min(ctrl->attempts - 1, 3U);
	return msecs_to_jiffies(ms - ms / 10 + get_random_u32_below(ms / 5 + 1));
}

static void weft_ctrl_connect_later(struct weft_rdma_ctrl *ctrl)
{
	unsigned long delay = weft_ctrl_backoff(ctrl);
	unsigned long now = jiffies;

	/* Do not send a write again before the old association cannot execute it. */
	if (READ_ONCE(ctrl->keeps_writes) && time_before(now + delay, ctrl->quiet_at))
		delay = ctrl->quiet_at - now;
	queue_delayed_work(ctrl->recovery_wq, &ctrl->connect_work, delay);
}

/* When I/O that waits fails, unless fast_io_fail_timeout is off. */
static unsigned long weft_ctrl_fails_at(const struct weft_rdma_ctrl *ctrl)
{
	return ctrl->lost_at + (unsigned long)ctrl->opts.fast_io_fail_timeout * HZ;
}

static bool weft_ctrl_gives_up(struct weft_rdma_ctrl *ctrl)
{
	int seconds = READ_ONCE(ctrl->opts.ctrl_loss_timeout);

	return seconds >= 0 &&
	       time_after(jiffies, ctrl->lost_at + (unsigned long)seconds * HZ);
}

/* Allocates nothing: reclaim may need I/O that waits for this function. */
static void weft_ctrl_lost(struct weft_rdma_ctrl *ctrl)
{
	weft_ctrl_err(ctrl, "not connected again within %d s (ctrl_loss_tmo): the controller is removed\n",
		      READ_ONCE(ctrl->opts.ctrl_loss_timeout));
	/* The work takes it off the list, and waits for us. */
	kref_get(&ctrl->ref);
	if (!queue_work(weft_rdma_wq, &ctrl->removal_work))
		weft_rdma_ctrl_put(ctrl);
}

void weft_rdma_recover_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(work, struct weft_rdma_ctrl, recover_work);
	bool flap = time_before(jiffies, ctrl->live_at + WEFT_RDMA_FLAP);
	unsigned long fails_at, now;
	/* Reclaim may need I/O that waits for this. */
	unsigned int noio = memalloc_noio_save();

	WRITE_ONCE(ctrl->keeps_writes, false);
	weft_rdma_ns_close_all(ctrl);
	weft_rdma_teardown(ctrl, false);
	memalloc_noio_restore(noio);
	now = jiffies;
	if (!ctrl->unscanned)
		ctrl->lost_at = now;
	ctrl->flaps = flap ? min(ctrl->flaps + 1, WEFT_RDMA_FLAPS) : 0;
	ctrl->attempts = 0;
	ctrl->target_queues = 0;
	ctrl->device_queues = 0;
	WRITE_ONCE(ctrl->fail_fast, false);
	if (!weft_rdma_set_state(ctrl, WEFT_RDMA_CONNECTING))
		return;	/* it is being removed */
	fails_at = weft_ctrl_fails_at(ctrl);
	if (ctrl->opts.fast_io_fail_timeout >= 0)
		mod_delayed_work(ctrl->wq, &ctrl->fail_fast_work,
				 time_before(now, fails_at) ? fails_at - now : 0);
	/* A target that cannot be scanned lets each attempt succeed, so no attempt gives up. */
	if (ctrl->unscanned && weft_ctrl_gives_up(ctrl))
		weft_ctrl_lost(ctrl);
	else
		weft_ctrl_connect_later(ctrl);
}

static bool weft_ctrl_is_connecting(struct weft_rdma_ctrl *ctrl)
{
	enum weft_rdma_state state = weft_rdma_state(ctrl);

	return state == WEFT_RDMA_CONNECTING || state == WEFT_RDMA_AUTHENTICATING;
}

/* fast_io_fail_timeout is over: waiting I/O fails, and new I/O fails at once. */
void weft_rdma_fail_fast_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work),
						   struct weft_rdma_ctrl, fail_fast_work);

	/* Not during an attempt, which may succeed. */
	mutex_lock(&ctrl->attempt_lock);
	/* If it was connected while this waited for the lock, and lost again, the time is new. */
	if (weft_ctrl_is_connecting(ctrl) &&
	    !time_before(jiffies, weft_ctrl_fails_at(ctrl))) {
		weft_ctrl_warn(ctrl, "not connected again within %d s (fast_io_fail_timeout): waiting I/O fails\n",
			       ctrl->opts.fast_io_fail_timeout);
		WRITE_ONCE(ctrl->fail_fast, true);
		weft_rdma_ns_resubmit_all(ctrl);
	}
	mutex_unlock(&ctrl->attempt_lock);
}

void weft_rdma_connect_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work),
						   struct weft_rdma_ctrl, connect_work);
	struct weft_why why = {};
	unsigned int noio;
	bool live;
	int ret;

	if (weft_rdma_state(ctrl) != WEFT_RDMA_CONNECTING)
		return;
	/* The work was flushed before its time. */
	if (READ_ONCE(ctrl->keeps_writes) && time_before(jiffies, ctrl->quiet_at)) {
		queue_delayed_work(ctrl->recovery_wq, &ctrl->connect_work,
				   ctrl->quiet_at - jiffies);
		return;
	}
	mutex_lock(&ctrl->attempt_lock);
	ctrl->attempts++;
	/* Reclaim may need I/O that waits for this reconnect. */
	noio = memalloc_noio_save();
	ret = weft_rdma_setup(ctrl, &why);
	/* The target may grant more queues than it then takes, also for good. */
	if (weft_rdma_is_short(ret) && ctrl->queues_made && ctrl->attempts >= WEFT_RDMA_ALL_QUEUES) {
		if (ret == WEFT_RDMA_ADAPTER_FULL)
			ctrl->device_queues = ctrl->queues_made;
		else
			ctrl->target_queues = ctrl->queues_made;
	}
	ctrl->live_at = jiffies;
	/* Before LIVE: a loss right after that queues it anew. */
	if (!ret) {
		cancel_delayed_work(&ctrl->fail_fast_work);
		WRITE_ONCE(ctrl->unscanned, true);
		/* Who sees LIVE sees it. Pairs with weft_rdma_held_too_long(). */
		smp_wmb();
	}
	live = !ret && weft_rdma_set_state(ctrl, WEFT_RDMA_LIVE);
	if (live)
		WRITE_ONCE(ctrl->fail_fast, false);
	else
		weft_rdma_teardown(ctrl, false);
	memalloc_noio_restore(noio);
	mutex_unlock(&ctrl->attempt_lock);
	if (live) {
		ctrl->reconnects++;
		weft_ctrl_info(ctrl, "connected again, attempt %u\n", ctrl->attempts);
		weft_rdma_went_live(ctrl);
		return;
	}
	if (!ret)
		return;	/* it is being removed */
	/* Where the target wants what we cannot do, the next attempt says so again. */
	if (weft_rdma_state(ctrl) == WEFT_RDMA_AUTHENTICATING)
		weft_rdma_set_state(ctrl, WEFT_RDMA_CONNECTING);
	if (weft_rdma_state(ctrl) != WEFT_RDMA_CONNECTING)
		return;
	weft_ctrl_warn(ctrl, "attempt %u to connect: %s\n", ctrl->attempts, why.text);
	if (weft_ctrl_gives_up(ctrl))
		weft_ctrl_lost(ctrl);
	else
		weft_ctrl_connect_later(ctrl);
}

/**
 * weft_rdma_went_live() - start the works of a new association
 * @ctrl: LIVE
 *
 * The disks open when the scan has identified them.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_went_live(struct weft_rdma_ctrl *ctrl)
{
	/* Who loses a connection sees the state LIVE, or is seen here. */
	smp_mb();
	if (READ_ONCE(ctrl->lost)) {
		weft_rdma_error(ctrl, WEFT_RDMA_END_CONNECTION,
				"a connection was lost while the others were made");
		return;
	}
	/* An error that the target answered while this came up has stopped it. */
	queue_delayed_work(ctrl->wq, &ctrl->keep_alive_work, 0);
	/* It asks for the first event. */
	weft_rdma_queue(ctrl, ctrl->wq, &ctrl->event_work);
	queue_work(ctrl->wq, &ctrl->scan_work);
	weft_rdma_peer_kick(ctrl);
}

void weft_rdma_keep_alive_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work),
						   struct weft_rdma_ctrl, keep_alive_work);
	struct nvme_command cmd = {};
	int ret;

	if (!test_bit(WEFT_QUEUE_LIVE, &ctrl->queues[0].flags))
		return;
	cmd.common.opcode = nvme_admin_keep_alive;
	ret = weft_rdma_command(ctrl->admin_q, &cmd, NULL, 0, NULL,
				msecs_to_jiffies(ctrl->opts.kato_ms),
				BLK_MQ_REQ_RESERVED | BLK_MQ_REQ_NOWAIT, NULL);
	if (ret) {
		weft_rdma_error(ctrl, WEFT_RDMA_END_KEEP_ALIVE,
				"the Keep Alive command failed (status %d)", ret);
		return;
	}
	queue_delayed_work(ctrl->wq, &ctrl->keep_alive_work,
			   msecs_to_jiffies(ctrl->opts.kato_ms / 2));
}
