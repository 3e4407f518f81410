// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shadows over the ranges of writes that a target may still execute.
 *
 * DOC: shadows
 *
 * When the path of a write is lost, the target may have received the write, and
 * may execute it until the time that the transport gives. If the same write is
 * sent again meanwhile, that does no harm: the late execution writes the same
 * bytes to the same place. Harm is done where a newer write to these bytes was
 * acknowledged before. So the write is sent again at once, and a shadow stays
 * over its range until that time. Other writes, discards and write zeroes that
 * overlap the shadow wait for its end. Reads pass.
 *
 * Nothing else waits. A member without shadows pays nothing: see
 * weft_mpath_update().
 *
 * These functions know ranges and times. Their callers have the lock, the
 * writes and the memory.
 */
#include "shadow.h"

#include <linux/interval_tree_generic.h>
#include <linux/jiffies.h>

#define WEFT_SHADOW_FIRST(shadow)	((shadow)->first)
#define WEFT_SHADOW_LAST(shadow)	((shadow)->last)

INTERVAL_TREE_DEFINE(struct weft_shadow, node, sector_t, subtree_last, WEFT_SHADOW_FIRST,
		     WEFT_SHADOW_LAST, static, weft_shadow_tree)

/**
 * weft_shadows_init() - initialize the shadows of a member
 * @shadows: the shadows; they need no exit function while there are none
 */
void weft_shadows_init(struct weft_shadows *shadows)
{
	shadows->tree = RB_ROOT_CACHED;
	memset(&shadows->whole, 0, sizeof(shadows->whole));
	RB_CLEAR_NODE(&shadows->whole.node);
	shadows->whole.last = ~(sector_t)0;
}

/**
 * weft_shadow_cast() - begin a shadow, or make it longer
 * @shadows: those of the member
 * @shadow: its range and owner are set; its node is empty, or it is in @shadows
 * @until: its end, in jiffies; an end that is already later stays
 */
void weft_shadow_cast(struct weft_shadows *shadows, struct weft_shadow *shadow,
		      unsigned long until)
{
	if (!RB_EMPTY_NODE(&shadow->node)) {
		if (time_after(until, shadow->until))
			shadow->until = until;
		return;
	}
	if (!weft_shadows_any(shadows) || time_before(until, shadows->end))
		shadows->end = until;
	shadow->until = until;
	weft_shadow_tree_insert(shadow, &shadows->tree);
}

/**
 * weft_shadow_of() - the shadow that a write owns
 * @shadows: those of the member
 * @first: the write's first sector
 * @sectors: number of its sectors, at least 1
 * @owner: the write
 *
 * Return: the shadow; NULL if there is none.
 */
struct weft_shadow *weft_shadow_of(struct weft_shadows *shadows, sector_t first,
				   sector_t sectors, const void *owner)
{
	sector_t last = first + sectors - 1;
	struct weft_shadow *shadow = weft_shadow_tree_iter_first(&shadows->tree, first, last);

	while (shadow && shadow->owner != owner)
		shadow = weft_shadow_tree_iter_next(shadow, first, last);
	return shadow;
}

/**
 * weft_shadow_stops() - does a write have to wait?
 * @shadows: those of the member
 * @first: the write's first sector
 * @sectors: number of its sectors; a write without sectors never waits
 * @owner: the write; its own shadow does not stop it
 *
 * Return: true if it overlaps the shadow of another write.
 */
bool weft_shadow_stops(struct weft_shadows *shadows, sector_t first, sector_t sectors,
		       const void *owner)
{
	sector_t last = first + sectors - 1;
	struct weft_shadow *shadow;

	if (!sectors)
		return false;
	shadow = weft_shadow_tree_iter_first(&shadows->tree, first, last);
	while (shadow && shadow->owner == owner)
		shadow = weft_shadow_tree_iter_next(shadow, first, last);
	return shadow;
}

/**
 * weft_shadows_take_over() - end the shadows whose time is over
 * @shadows: those of the member
 * @now: in jiffies
 * @over: gets them; they are not in @shadows any more
 */
void weft_shadows_take_over(struct weft_shadows *shadows, unsigned long now,
			    struct list_head *over)
{
	struct rb_node *node = rb_first_cached(&shadows->tree);
	unsigned long end = now + MAX_JIFFY_OFFSET;

	if (!node || time_before(now, shadows->end))
		return;
	while (node) {
		struct weft_shadow *shadow = rb_entry(node, struct weft_shadow, node);

		node = rb_next(node);
		if (time_before(now, shadow->until)) {
			if (time_before(shadow->until, end))
				end = shadow->until;
			continue;
		}
		weft_shadow_tree_remove(shadow, &shadows->tree);
		RB_CLEAR_NODE(&shadow->node);
		list_add_tail(&shadow->over, over);
	}
	shadows->end = end;
}
