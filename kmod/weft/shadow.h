/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shadows: the ranges of writes that a target may still execute late. See
 * shadow.c.
 */
#ifndef WEFT_SHADOW_H
#define WEFT_SHADOW_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

/**
 * struct weft_shadow - the range of a write whose path was lost
 * @node: in the member's tree; empty after the end of the shadow
 * @first: first sector on the member
 * @last: last sector on the member
 * @subtree_last: highest @last in the subtree
 * @until: from then on the target cannot execute the write, in jiffies
 * @owner: the write, a bio or an operation, until it ends: it may be sent again
 *	meanwhile. NULL after that, and for a shadow that stops all writes
 * @over: for weft_shadows_take_over()
 */
struct weft_shadow {
	struct rb_node	node;
	sector_t	first;
	sector_t	last;
	sector_t	subtree_last;
	unsigned long	until;
	const void	*owner;
	struct list_head over;
};

/**
 * struct weft_shadows - the shadows of a member; its user has a lock
 * @tree: by range
 * @end: no shadow ends before, in jiffies; of no use while there is none
 * @whole: stops all writes, where there was no memory for a shadow
 */
struct weft_shadows {
	struct rb_root_cached	tree;
	unsigned long		end;
	struct weft_shadow	whole;
};

/* Any context, also without the lock: true for a caller that knows of a shadow. */
static inline bool weft_shadows_any(const struct weft_shadows *shadows)
{
	return READ_ONCE(shadows->tree.rb_root.rb_node);
}

void weft_shadows_init(struct weft_shadows *shadows);
void weft_shadow_cast(struct weft_shadows *shadows, struct weft_shadow *shadow,
		      unsigned long until);
struct weft_shadow *weft_shadow_of(struct weft_shadows *shadows, sector_t first,
				   sector_t sectors, const void *owner);
bool weft_shadow_stops(struct weft_shadows *shadows, sector_t first, sector_t sectors,
		       const void *owner);
void weft_shadows_take_over(struct weft_shadows *shadows, unsigned long now,
			    struct list_head *over);

#endif /* WEFT_SHADOW_H */
