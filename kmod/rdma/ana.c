// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asymmetric namespace access (ANA, NVMe base 2.1, 8.1.1): which namespaces the
 * target can reach by this controller, and how well.
 *
 * DOC: states
 *
 * Each namespace is of a group, and the log page has the state of each group. In
 * the states optimized and non-optimized the path carries I/O; a volume takes a
 * non-optimized path only if the member has no optimized one. In the states
 * inaccessible and change the path is down, so I/O goes to other paths or waits
 * in the volume. A change takes at most ANATT; if it takes longer, the association
 * is ended. After persistent loss, the disk is dead.
 *
 * DOC: when the log page is read
 *
 * Before the disks of a new association open, after the target's event (which
 * may also mean that a namespace is of another group), after a command was refused
 * with an ANA status, and again and again while a namespace is not accessible: an
 * event may be lost.
 *
 * DOC: answers that contradict the log page
 *
 * A target may refuse commands by their ANA status while its log page says that
 * the namespace is accessible: the log page is behind. The path is down until the
 * log page was read again, half a second later. If the target does so for longer
 * than ANATT, or the log page cannot be read, the namespace is handled as one whose
 * commands are refused without ANA: see weft_rdma_doubt_work().
 */
#include "namespace.h"

#include <linux/sched/mm.h>

/* The log page is read again after that, while a namespace is in transition, ... */
#define WEFT_ANA_SOON		(HZ / 2)
/* ... and while one is inaccessible. */
#define WEFT_ANA_LATER		(5 * HZ)

/**
 * weft_rdma_ana_text() - the name of an ANA state, for messages and sysfs
 * @state: enum nvme_ana_state, or 0 without ANA
 *
 * Return: words, as those of the stock host.
 */
const char *weft_rdma_ana_text(u8 state)
{
	switch (state) {
	case 0:
	case NVME_ANA_OPTIMIZED:
		return "optimized";
	case NVME_ANA_NONOPTIMIZED:
		return "non-optimized";
	case NVME_ANA_INACCESSIBLE:
		return "inaccessible";
	case NVME_ANA_PERSISTENT_LOSS:
		return "persistent-loss";
	case NVME_ANA_CHANGE:
		return "change";
	default:
		return "?";
	}
}

/**
 * weft_rdma_ana_lost() - find a disk that is lost by its ANA state
 * @ctrl: its ns_lock is not held
 *
 * Context: process context.
 * Return: a namespace that the end of the next scan will end, unless it is of
 * another group by then; NULL if there is none.
 */
struct weft_rdma_ns *weft_rdma_ana_lost(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns, *found = NULL;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state == WEFT_NS_READY && ns->ana == NVME_ANA_PERSISTENT_LOSS)
			found = ns;
	mutex_unlock(&ctrl->ns_lock);
	return found;
}

/**
 * weft_rdma_ana_look_up() - take a namespace's state from the log page last read
 * @ns: identified and on the controller's list; its ns_lock is held
 *
 * A group that the log page does not have counts as accessible: the answers to
 * commands tell more. Volumes are told by weft_rdma_ana_tell_all().
 */
void weft_rdma_ana_look_up(struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;
	int state = 0;

	lockdep_assert_held(&ctrl->ns_lock);
	if (ctrl->ana_log)
		state = weft_info_ana(ctrl->ana_log, ctrl->ana_bytes, ns->info.ana_group);
	state = max(state, 0);
	if (state == ns->ana)
		return;
	/* A new namespace in the usual state is no news. */
	if (ns->ana || (state && state != NVME_ANA_OPTIMIZED))
		weft_ctrl_info(ctrl, "namespace %u: ANA state %s, before %s\n", ns->nsid,
			       weft_rdma_ana_text(state), weft_rdma_ana_text(ns->ana));
	ns->ana_since = jiffies;
	WRITE_ONCE(ns->ana, state);
}

static unsigned long weft_ana_limit(const struct weft_rdma_ctrl *ctrl)
{
	return msecs_to_jiffies(ctrl->info.ana_ms);
}

/*
 * A refusal since the log page was last looked at, which says that the namespace is
 * accessible. Returns true if that has been so for too long.
 */
static bool weft_ana_contradicts(struct weft_rdma_ns *ns)
{
	unsigned long limit = weft_ana_limit(ns->ctrl);

	if (!ns->ana_odd || time_after(jiffies, ns->ana_odd_at + limit)) {
		ns->ana_odd = true;
		ns->ana_odd_since = jiffies;
	}
	ns->ana_odd_at = jiffies;
	return time_after(jiffies, ns->ana_odd_since + limit);
}

/* A change that began before this association counts from its beginning. */
static bool weft_ana_change_is_late(const struct weft_rdma_ns *ns)
{
	const struct weft_rdma_ctrl *ctrl = ns->ctrl;
	unsigned long since = time_after(ctrl->live_at, ns->ana_since) ? ctrl->live_at :
									 ns->ana_since;

	return time_after(jiffies, since + weft_ana_limit(ctrl));
}

/*
 * Tell the volume of a namespace what its state is. Returns the delay after which
 * to read the log page again, in jiffies; 0 if that is not necessary.
 */
static unsigned long weft_ana_tell(struct weft_rdma_ns *ns)
{
	struct weft_rdma_ctrl *ctrl = ns->ctrl;
	bool refused = xchg(&ns->ana_refused, false);
	char reason[64];

	lockdep_assert_held(&ctrl->ns_lock);
	if (ns->state != WEFT_NS_READY)
		return 0;	/* the scan tells */
	if (weft_rdma_ana_ok(ns)) {
		if (!refused) {
			weft_rdma_path_up(ns);
			return 0;
		}
		/* weft_rdma_ana_refused_work() took it down. */
		if (!weft_ana_contradicts(ns))
			return WEFT_ANA_SOON;
		queue_work(ctrl->wq, &ns->doubt_work);
		return 0;
	}
	scnprintf(reason, sizeof(reason), "its ANA state is %s", weft_rdma_ana_text(ns->ana));
	weft_rdma_path_down(ns, reason);
	if (ns->ana != NVME_ANA_CHANGE)
		return WEFT_ANA_LATER;
	if (weft_ana_change_is_late(ns))
		weft_rdma_error(ctrl, WEFT_RDMA_END_ANA,
				"namespace %u is in the ANA state change for longer than %u ms",
				ns->nsid, ctrl->info.ana_ms);
	return WEFT_ANA_SOON;
}

/**
 * weft_rdma_ana_tell_all() - tell volumes which paths carry I/O, and how well
 * @ctrl: live; its ns_lock is held
 *
 * Context: process context, may sleep.
 * Return: the delay after which to read the log page again, in jiffies; 0 if that
 * is not necessary.
 */
unsigned long weft_rdma_ana_tell_all(struct weft_rdma_ctrl *ctrl)
{
	unsigned long again = 0;
	struct weft_rdma_ns *ns;

	lockdep_assert_held(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list)
		again = min_not_zero(again, weft_ana_tell(ns));
	return again;
}

static int weft_ana_fetch(struct weft_rdma_ctrl *ctrl, void *log, u32 bytes)
{
	struct nvme_command cmd;

	weft_capsule_log_page(&cmd, NVME_LOG_ANA, bytes);
	cmd.get_log_page.lsp = NVME_ANA_LOG_RGO;
	return weft_rdma_command(ctrl->admin_q, &cmd, log, bytes, NULL, WEFT_RDMA_ADMIN_TIMEOUT,
				 0, NULL);
}

/* A new log page, or NULL if there is none. Returns as weft_rdma_ana_tell_all(). */
static unsigned long weft_ana_take(struct weft_rdma_ctrl *ctrl, void *log, u32 bytes)
{
	struct weft_rdma_ns *ns;
	unsigned long again;

	mutex_lock(&ctrl->ns_lock);
	swap(ctrl->ana_log, log);
	ctrl->ana_bytes = bytes;
	list_for_each_entry(ns, &ctrl->namespaces, list)
		if (ns->state != WEFT_NS_DEAD)
			weft_rdma_ana_look_up(ns);
	again = weft_rdma_ana_tell_all(ctrl);
	mutex_unlock(&ctrl->ns_lock);
	kvfree(log);
	return again;
}

/* It cannot be read: refusals are not explained by it, and the last one counts. */
static void weft_ana_unread(struct weft_rdma_ctrl *ctrl)
{
	struct weft_rdma_ns *ns;

	mutex_lock(&ctrl->ns_lock);
	list_for_each_entry(ns, &ctrl->namespaces, list) {
		if (ns->state != WEFT_NS_READY)
			continue;
		if (xchg(&ns->ana_refused, false))
			queue_work(ctrl->wq, &ns->doubt_work);
		else
			weft_ana_tell(ns);
	}
	mutex_unlock(&ctrl->ns_lock);
}

/**
 * weft_rdma_ana_read() - read the log page, and tell the volumes what changed
 * @ctrl: live
 *
 * If the log page cannot be read, the states stay as they are.
 *
 * Context: process context, may sleep; under memalloc_noio_save(). Neither the
 * controller's ns_lock nor its scan_lock is held.
 */
void weft_rdma_ana_read(struct weft_rdma_ctrl *ctrl)
{
	u32 bytes = ctrl->info.ana_bytes;
	unsigned long again = WEFT_ANA_LATER;
	int ret = -ENOMEM;
	void *log;

	if (!ctrl->info.ana) {
		/* An association before this one may have had it. */
		weft_ana_take(ctrl, NULL, 0);
		return;
	}
	log = kvzalloc(bytes, GFP_KERNEL);
	/* A page that was read before another one must not replace it. */
	mutex_lock(&ctrl->ana_lock);
	if (log)
		ret = weft_ana_fetch(ctrl, log, bytes);
	if (!ret)
		again = weft_ana_take(ctrl, log, bytes);
	mutex_unlock(&ctrl->ana_lock);
	if (ret) {
		weft_ctrl_warn(ctrl, "the ANA log page cannot be read (status %d)\n", ret);
		kvfree(log);
		weft_ana_unread(ctrl);
	}
	if (again)
		weft_rdma_ana_kick(ctrl, again);
}

/**
 * weft_rdma_ana_work() - read the log page
 * @work: a controller's ana_work
 */
void weft_rdma_ana_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work), struct weft_rdma_ctrl,
						   ana_work);
	/* Reclaim may need I/O that waits for this. */
	unsigned int noio = memalloc_noio_save();

	if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE)
		weft_rdma_ana_read(ctrl);
	if (weft_rdma_ana_lost(ctrl))
		weft_rdma_rescan(ctrl);
	memalloc_noio_restore(noio);
}

/**
 * weft_rdma_ana_refused_work() - take a path down that the target refuses
 * @work: of a namespace
 *
 * At once, and not after the log page has come: meanwhile a volume would send the
 * command to the same path again and again.
 */
void weft_rdma_ana_refused_work(struct work_struct *work)
{
	struct weft_rdma_ns *ns = container_of(work, struct weft_rdma_ns, refused_work);

	mutex_lock(&ns->ctrl->ns_lock);
	if (ns->state == WEFT_NS_READY)
		weft_rdma_path_down(ns, "the target refuses commands by its ANA state");
	mutex_unlock(&ns->ctrl->ns_lock);
	weft_rdma_ana_kick(ns->ctrl, 0);
}
