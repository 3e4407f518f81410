// SPDX-License-Identifier: GPL-2.0-only
/* Events to the listeners of the netlink family; netlink.c has its commands. */
#include "weft.h"

#include <net/genetlink.h>
#include <net/net_namespace.h>

#include "netlink-gen.h"

static const struct genl_multicast_group weft_nl_groups[] = {
	[WEFT_NLGRP_EVENTS] = { .name = "events" },
};

/* Its handlers are in netlink.c, which registers it. */
struct genl_family weft_nl_family __ro_after_init = {
	.name		= WEFT_FAMILY_NAME,
	.version	= WEFT_FAMILY_VERSION,
	/* Block devices have no namespaces: only the initial one is served. */
	.netnsok	= false,
	/* weft_volumes_lock serializes the commands that need it. */
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= weft_nl_ops,
	.n_ops		= ARRAY_SIZE(weft_nl_ops),
	.mcgrps		= weft_nl_groups,
	.n_mcgrps	= ARRAY_SIZE(weft_nl_groups),
};

/**
 * weft_event() - send an event to all listeners
 * @vol: the volume
 * @type: what happened
 * @member: the member, or NULL
 * @err: positive errno, or 0
 * @text: one sentence for the user
 *
 * Best effort: events are lost without memory, or when a listener is too slow.
 *
 * Context: process context; does not wait for memory.
 */
void weft_event(struct weft_volume *vol, enum weft_event_type type,
		const struct weft_member *member, int err, const char *text)
{
	/* Reclaim may wait for the volume's writes, and these for the caller: a heartbeat. */
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct sk_buff *skb;
	void *hdr;

	skb = genlmsg_new(NLMSG_GOODSIZE, gfp);
	if (!skb)
		return;
	hdr = genlmsg_put(skb, 0, 0, &weft_nl_family, 0, WEFT_CMD_EVENT);
	if (!hdr)
		goto out_free;
	if (nla_put_u32(skb, WEFT_A_NOTICE_TYPE, type) ||
	    nla_put_string(skb, WEFT_A_NOTICE_VOLUME, vol->name) ||
	    (member && nla_put_u32(skb, WEFT_A_NOTICE_MEMBER, member->index)) ||
	    nla_put_string(skb, WEFT_A_NOTICE_TEXT, text) ||
	    (err && nla_put_u32(skb, WEFT_A_NOTICE_ERRNO, err)) ||
	    nla_put_u32(skb, WEFT_A_NOTICE_OWNERSHIP, weft_owner_state(vol)))
		goto out_free;
	genlmsg_end(skb, hdr);
	genlmsg_multicast_netns(&weft_nl_family, &init_net, skb, 0,
				WEFT_NLGRP_EVENTS, gfp);
	return;

out_free:
	nlmsg_free(skb);
}
