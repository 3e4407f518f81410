// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a controller: the one place that changes it, what begins a recovery
 * or a scan, and the list of controllers.
 *
 * Everything here can be called from below: by handlers of completions, by
 * timeouts, and by the removal of a device. Works do what follows (recovery.c,
 * scan.c, ana.c).
 */
#include "rdma.h"

/*
 * Protects weft_rdma_ctrls. Not held while a thread waits for a target: the holder of an
 * exporter's reservation lock takes it (mapping.c).
 */
DEFINE_MUTEX(weft_rdma_ctrls_lock);
LIST_HEAD(weft_rdma_ctrls);

static bool weft_rdma_may(enum weft_rdma_state from, enum weft_rdma_state to)
{
	switch (to) {
	case WEFT_RDMA_NEW:
		return false;
	case WEFT_RDMA_CONNECTING:
		return from == WEFT_RDMA_NEW || from == WEFT_RDMA_RECOVERING ||
		       from == WEFT_RDMA_AUTHENTICATING;
	case WEFT_RDMA_AUTHENTICATING:
		return from == WEFT_RDMA_CONNECTING;
	case WEFT_RDMA_LIVE:
		return from == WEFT_RDMA_CONNECTING ||
		       from == WEFT_RDMA_AUTHENTICATING;
	case WEFT_RDMA_RECOVERING:
		return from == WEFT_RDMA_LIVE;
	case WEFT_RDMA_DELETING:
		return from != WEFT_RDMA_DELETING && from != WEFT_RDMA_DEAD;
	case WEFT_RDMA_DEAD:
		return from == WEFT_RDMA_DELETING;
	}
	return false;
}

/**
 * weft_rdma_state_text() - the name of a state, for sysfs and messages
 * @state: the state
 *
 * Return: a word; the stock host's word if it has the same state.
 */
const char *weft_rdma_state_text(enum weft_rdma_state state)
{
	switch (state) {
	case WEFT_RDMA_NEW:
		return "new";
	case WEFT_RDMA_CONNECTING:
		return "connecting";
	case WEFT_RDMA_AUTHENTICATING:
		return "authenticating";
	case WEFT_RDMA_LIVE:
		return "live";
	case WEFT_RDMA_RECOVERING:
		return "resetting";
	case WEFT_RDMA_DELETING:
		return "deleting";
	case WEFT_RDMA_DEAD:
		return "dead";
	}
	return "?";
}

/**
 * weft_rdma_set_state_locked() - the one place where a controller's state changes
 * @ctrl: the controller
 * @to: wanted
 *
 * Context: any; its lock is held, with interrupts off.
 * Return: whether it changed.
 */
static bool weft_rdma_set_state_locked(struct weft_rdma_ctrl *ctrl, enum weft_rdma_state to)
{
	lockdep_assert_held(&ctrl->lock);
	if (!weft_rdma_may(ctrl->state, to))
		return false;
	WRITE_ONCE(ctrl->state, to);
	return true;
}

/**
 * weft_rdma_set_state() - the same, taking the lock
 * @ctrl: the controller
 * @to: wanted
 *
 * Context: any.
 * Return: whether it changed.
 */
bool weft_rdma_set_state(struct weft_rdma_ctrl *ctrl, enum weft_rdma_state to)
{
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&ctrl->lock, flags);
	ok = weft_rdma_set_state_locked(ctrl, to);
	spin_unlock_irqrestore(&ctrl->lock, flags);
	return ok;
}

enum weft_rdma_state weft_rdma_state(struct weft_rdma_ctrl *ctrl)
{
	return READ_ONCE(ctrl->state);
}

static void weft_rdma_ctrl_free(struct kref *ref)
{
	struct weft_rdma_ctrl *ctrl = container_of(ref, struct weft_rdma_ctrl, ref);

	/* The device's own reference goes last; its release frees. */
	put_device(&ctrl->dev);
}

/**
 * weft_rdma_ctrl_put() - drop a reference
 * @ctrl: the controller; the caller must not use it after this
 *
 * Context: any.
 */
void weft_rdma_ctrl_put(struct weft_rdma_ctrl *ctrl)
{
	kref_put(&ctrl->ref, weft_rdma_ctrl_free);
}

/**
 * weft_rdma_ctrl_next() - go through the controllers, to wait for each
 * @ctrl: the last one, whose reference is dropped; NULL to begin
 *
 * weft_rdma_ctrls_lock is not held meanwhile. One that is added or removed then may be
 * left out.
 *
 * Context: process context, may sleep.
 * Return: the one with the next number, with a reference; or NULL.
 */
struct weft_rdma_ctrl *weft_rdma_ctrl_next(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ctrl *other, *next = NULL;

	mutex_lock(&weft_rdma_ctrls_lock);
	list_for_each_entry(other, &weft_rdma_ctrls, list)
		if ((!ctrl || other->instance > ctrl->instance) &&
		    (!next || other->instance < next->instance))
			next = other;
	if (next)
		kref_get(&next->ref);
	mutex_unlock(&weft_rdma_ctrls_lock);
	if (ctrl)
		weft_rdma_ctrl_put(ctrl);
	return next;
}

/**
 * weft_rdma_end_text() - the name of a reason, for sysfs
 * @end: the reason
 *
 * Return: a word.
 */
const char *weft_rdma_end_text(enum weft_rdma_end end)
{
	switch (end) {
	case WEFT_RDMA_END_TIMEOUT:
		return "timeout";
	case WEFT_RDMA_END_KEEP_ALIVE:
		return "keep-alive";
	case WEFT_RDMA_END_QUEUE_PAIR:
		return "queue-pair";
	case WEFT_RDMA_END_CONNECTION:
		return "connection";
	case WEFT_RDMA_END_DEVICE:
		return "device";
	case WEFT_RDMA_END_PROTOCOL:
		return "protocol";
	case WEFT_RDMA_END_SCAN:
		return "scan";
	case WEFT_RDMA_END_MEMORY:
		return "memory";
	case WEFT_RDMA_END_ANA:
		return "ana";
	case WEFT_RDMA_END_RESET:
		return "reset";
	case WEFT_RDMA_ENDS:
		break;
	}
	return "?";
}

/**
 * weft_rdma_error() - end an association after an error
 * @ctrl: the controller
 * @end: the reason, to be counted
 * @fmt: the reason, for messages
 *
 * Context: any.
 * Return: whether it did; false if the controller is not live.
 */
bool weft_rdma_error(struct weft_rdma_ctrl *ctrl, enum weft_rdma_end end, const char *fmt, ...)
{
	char reason[sizeof(ctrl->reason)];
	unsigned long flags;
	bool first;
	va_list args;

	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return false;
	va_start(args, fmt);
	vscnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	/* Who removes the controller sets its own state, and finds the work queued or never. */
	spin_lock_irqsave(&ctrl->lock, flags);
	first = weft_rdma_set_state_locked(ctrl, WEFT_RDMA_RECOVERING);
	if (first) {
		memcpy(ctrl->reason, reason, sizeof(reason));
		ctrl->errors++;
		ctrl->ends[end]++;
		WRITE_ONCE(ctrl->end, end);
		queue_work(ctrl->recovery_wq, &ctrl->recover_work);
	}
	spin_unlock_irqrestore(&ctrl->lock, flags);
	if (first)
		weft_ctrl_warn(ctrl, "%s; recovering\n", reason);
	return first;
}

/**
 * weft_rdma_reset() - end an association, and connect again, for a user
 * @ctrl: the controller
 *
 * The target is not asked to shut down: it may confirm that while it executes
 * writes. They are handled as after an error, so that none is executed late.
 *
 * Context: any; does not wait.
 * Return: 0, or -ENOTCONN if the controller is not live.
 */
int weft_rdma_reset(struct weft_rdma_ctrl *ctrl)
{
	return weft_rdma_error(ctrl, WEFT_RDMA_END_RESET, "a user reset the controller") ? 0 : -ENOTCONN;
}

/* Start a delayed work of a live controller. What is due earlier stays. */
static void weft_rdma_bring_forward(struct weft_rdma_ctrl *ctrl, struct delayed_work *work,
				    unsigned long delay)
{
	unsigned long flags;

	/* The removal of the controller sets its state, then cancels the work. */
	spin_lock_irqsave(&ctrl->lock, flags);
	if (ctrl->state == WEFT_RDMA_LIVE &&
	    (!delayed_work_pending(work) ||
	     /* Without its timer it is due, and the timer's time is an old one. */
	     (timer_pending(&work->timer) &&
	      time_before(jiffies + delay, work->timer.expires))))
		mod_delayed_work(ctrl->wq, work, delay);
	spin_unlock_irqrestore(&ctrl->lock, flags);
}

/**
 * weft_rdma_scan_later() - scan namespaces in the state UNKNOWN again
 * @ctrl: the controller; if it is not live, nothing happens
 * @delay: in jiffies; what is due earlier stays
 *
 * Context: any.
 */
void weft_rdma_scan_later(struct weft_rdma_ctrl *ctrl, unsigned long delay)
{
	weft_rdma_bring_forward(ctrl, &ctrl->again_work, delay);
}

/**
 * weft_rdma_scan_owe() - read the whole list of namespaces again
 * @ctrl: the controller; if it is not live, nothing happens
 * @delay: in jiffies
 *
 * Context: any.
 */
void weft_rdma_scan_owe(struct weft_rdma_ctrl *ctrl, unsigned long delay)
{
	WRITE_ONCE(ctrl->scan_owed, true);
	weft_rdma_scan_later(ctrl, delay);
}

/**
 * weft_rdma_queue() - start a work of a live controller
 * @ctrl: the controller
 * @wq: where it runs
 * @work: of the controller, whose removal cancels it
 *
 * Context: any.
 * Return: false, with nothing done, if the controller is not live.
 */
bool weft_rdma_queue(struct weft_rdma_ctrl *ctrl, struct workqueue_struct *wq,
		     struct work_struct *work)
{
	unsigned long flags;
	bool live;

	/* The removal of the controller sets its state, then cancels the work. */
	spin_lock_irqsave(&ctrl->lock, flags);
	live = ctrl->state == WEFT_RDMA_LIVE;
	if (live)
		queue_work(wq, work);
	spin_unlock_irqrestore(&ctrl->lock, flags);
	return live;
}

/**
 * weft_rdma_rescan() - scan the target's namespaces, for a user
 * @ctrl: the controller
 *
 * Context: any; does not wait.
 * Return: 0, or -ENOTCONN if the controller is not live.
 */
int weft_rdma_rescan(struct weft_rdma_ctrl *ctrl)
{
	return weft_rdma_queue(ctrl, ctrl->wq, &ctrl->scan_work) ? 0 : -ENOTCONN;
}

/**
 * weft_rdma_ana_kick() - read the log page
 * @ctrl: the controller; if it is not live, nothing happens
 * @delay: in jiffies; what is due earlier stays
 *
 * Context: any.
 */
void weft_rdma_ana_kick(struct weft_rdma_ctrl *ctrl, unsigned long delay)
{
	weft_rdma_bring_forward(ctrl, &ctrl->ana_work, delay);
}
