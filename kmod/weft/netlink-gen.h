/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	uapi/weft.yaml */
/* YNL-GEN kernel header */
/* To regenerate run: uapi/generate */

#ifndef _LINUX_WEFT_GEN_H
#define _LINUX_WEFT_GEN_H

#include <net/netlink.h>
#include <net/genetlink.h>

#include <uapi/weft.h>

/* Common nested types */
extern const struct nla_policy weft_member_nl_policy[WEFT_A_MEMBER_RETRIED + 1];
extern const struct nla_policy weft_path_nl_policy[WEFT_A_PATH_USABLE + 1];

extern const struct nla_policy weft_volume_get_nl_policy[WEFT_A_VOLUME_NAME + 1];

extern const struct nla_policy weft_volume_assemble_nl_policy[WEFT_A_VOLUME_NO_IOSTATS + 1];

extern const struct nla_policy weft_volume_stop_nl_policy[WEFT_A_VOLUME_NAME + 1];

extern const struct nla_policy weft_controller_create_nl_policy[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH + 1];

extern const struct nla_policy weft_controller_delete_nl_policy[WEFT_A_CONTROLLER_NAME + 1];

extern const struct nla_policy weft_path_add_nl_policy[WEFT_A_VOLUME_MEMBER + 1];

extern const struct nla_policy weft_path_remove_nl_policy[WEFT_A_VOLUME_MEMBER + 1];

extern const struct nla_policy weft_qos_set_nl_policy[WEFT_A_QOS_BACKGROUND_WEIGHT + 1];

extern const struct nla_policy weft_qos_get_nl_policy[WEFT_A_QOS_INDEX + 1];

extern const struct nla_policy weft_controller_secrets_nl_policy[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH + 1];

/* Ops table for weft */
extern const struct genl_ops weft_nl_ops[10];

int weft_nl_volume_get_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_volume_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int weft_nl_volume_assemble_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_volume_stop_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_controller_create_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_controller_delete_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_path_add_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_path_remove_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_qos_set_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_qos_get_doit(struct sk_buff *skb, struct genl_info *info);
int weft_nl_controller_secrets_doit(struct sk_buff *skb,
				    struct genl_info *info);

enum {
	WEFT_NLGRP_EVENTS,
};

#endif /* _LINUX_WEFT_GEN_H */
