/* SPDX-License-Identifier: GPL-2.0-only */
/* What the implementations of netlink commands share. */
#ifndef WEFT_NETLINK_H
#define WEFT_NETLINK_H

#include <net/genetlink.h>

#include "netlink-gen.h"
#include "weft.h"

int weft_nl_result(struct genl_info *info, int err, const char *volume,
		   const struct weft_why *why);
int weft_nl_may(struct sk_buff *skb, struct weft_why *why);

static inline const char *weft_nl_string(struct nlattr *attr)
{
	return attr ? nla_data(attr) : NULL;	/* NUL checked by the policy */
}

/* While a volume is assembled or stopped, only its name and state are valid. */
static inline bool weft_volume_settled(const struct weft_volume *vol)
{
	return vol->state == WEFT_VOLUME_STATE_LIVE || vol->state == WEFT_VOLUME_STATE_FAILED;
}

#endif /* WEFT_NETLINK_H */
