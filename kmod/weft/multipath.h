/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice of a path. Inline, because it runs for every I/O. See multipath.c.
 */
#ifndef WEFT_MPATH_H
#define WEFT_MPATH_H

#include "weft.h"

unsigned long weft_mpath_choose(struct weft_member *member, unsigned long usable);
int weft_mpath_peer_others(struct weft_member *member, struct weft_mem_op *op,
			   const struct weft_path *first);

/**
 * weft_mpath_pick() - choose a path
 * @member: the member
 * @usable: bitmap of the paths to choose from
 *
 * Context: any, under SRCU, which keeps the path.
 * Return: a path; NULL if there is none.
 */
static inline struct weft_path *weft_mpath_pick(struct weft_member *member, unsigned long usable)
{
	if (usable & (usable - 1))
		usable = weft_mpath_choose(member, usable);
	return usable ? READ_ONCE(member->mpath.path[__ffs(usable)]) : NULL;
}

/**
 * weft_mpath_peer() - send an operation on peer memory over a usable path
 * @member: the member
 * @op: the operation; its sector is relative to the member
 *
 * Context: process context, may sleep.
 * Return: as ->peer_submit(); -EBUSY if it has to wait for another write, whose
 * path was lost (resend.c).
 */
static inline int weft_mpath_peer(struct weft_member *member, struct weft_mem_op *op)
{
	struct srcu_struct *paths = &member->volume->path_srcu;
	struct weft_path *path;
	unsigned long best;
	int srcu, ret = -ENOTCONN;

	if (unlikely(op->write && weft_shadows_any(&member->mpath.shadows)) &&
	    weft_resend_op_stops(member, op))
		return -EBUSY;
	srcu = srcu_read_lock(paths);
	path = READ_ONCE(member->mpath.only);
	if (!path) {
		best = READ_ONCE(member->mpath.best);
		path = weft_mpath_pick(member, best & op->near ?: best);
	}
	if (likely(path && path->ops->peer_submit))
		ret = path->ops->peer_submit(path, op);
	if (unlikely(ret == -ENOTCONN))
		ret = weft_mpath_peer_others(member, op, path);
	srcu_read_unlock(paths, srcu);
	return ret;
}

#endif /* WEFT_MPATH_H */
