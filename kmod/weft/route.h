/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice of a path. Inline, because it runs for every I/O. See route.c.
 */
#ifndef WEFT_ROUTE_H
#define WEFT_ROUTE_H

#include "weft.h"

unsigned long weft_route_choose(struct weft_member *member, unsigned long usable);
int weft_route_peer_others(struct weft_member *member, struct weft_mem_op *op,
			   const struct weft_path *first);

/**
 * weft_route_pick() - choose a path
 * @member: the member
 * @usable: bitmap of the paths to choose from
 *
 * Context: any, under SRCU, which keeps the path.
 * Return: a path; NULL if there is none.
 */
static inline struct weft_path *weft_route_pick(struct weft_member *member, unsigned long usable)
{
	if (usable & (usable - 1))
		usable = weft_route_choose(member, usable);
	return usable ? READ_ONCE(member->paths.path[__ffs(usable)]) : NULL;
}

/**
 * weft_route_peer() - send an operation on peer memory over a usable path
 * @member: the member
 * @op: the operation; its sector is relative to the member
 *
 * Context: process context, may sleep.
 * Return: as ->peer_submit(); -EBUSY if it has to wait for another write, whose
 * path was lost (resend.c).
 */
static inline int weft_route_peer(struct weft_member *member, struct weft_mem_op *op)
{
	struct srcu_struct *routes = &member->volume->route_srcu;
	struct weft_path *path;
	unsigned long best;
	int srcu, ret = -ENOTCONN;

	if (unlikely(op->write && weft_shadows_any(&member->paths.shadows)) &&
	    weft_resend_op_stops(member, op))
		return -EBUSY;
	srcu = srcu_read_lock(routes);
	best = READ_ONCE(member->paths.best);
	path = weft_route_pick(member, best & op->near ?: best);
	if (likely(path && path->ops->peer_submit))
		ret = path->ops->peer_submit(path, op);
	if (unlikely(ret == -ENOTCONN))
		ret = weft_route_peer_others(member, op, path);
	srcu_read_unlock(routes, srcu);
	return ret;
}

#endif /* WEFT_ROUTE_H */
