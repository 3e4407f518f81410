// SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)
/* Do not edit directly, auto-generated from: */
/*	uapi/weft.yaml */
/* YNL-GEN kernel source */
/* To regenerate run: uapi/generate */

#include <net/netlink.h>
#include <net/genetlink.h>

#include "netlink-gen.h"

#include <uapi/weft.h>

/* Common nested types */
const struct nla_policy weft_member_nl_policy[WEFT_A_MEMBER_RETRIED + 1] = {
	[WEFT_A_MEMBER_INDEX] = { .type = NLA_U32, },
	[WEFT_A_MEMBER_UUID] = NLA_POLICY_EXACT_LEN(WEFT_UUID_LEN),
	[WEFT_A_MEMBER_TRANSPORT] = { .type = NLA_NUL_STRING, .len = 31, },
	[WEFT_A_MEMBER_ADDRESS] = { .type = NLA_NUL_STRING, .len = 1023, },
	[WEFT_A_MEMBER_DISK] = { .type = NLA_NUL_STRING, },
	[WEFT_A_MEMBER_MAJOR] = { .type = NLA_U32, },
	[WEFT_A_MEMBER_MINOR] = { .type = NLA_U32, },
	[WEFT_A_MEMBER_STATE] = NLA_POLICY_MAX(NLA_U32, 2),
	[WEFT_A_MEMBER_SIZE] = { .type = NLA_U64, },
	[WEFT_A_MEMBER_PATH] = NLA_POLICY_NESTED(weft_path_nl_policy),
	[WEFT_A_MEMBER_RETRIED] = { .type = NLA_U64, },
};

const struct nla_policy weft_path_nl_policy[WEFT_A_PATH_USABLE + 1] = {
	[WEFT_A_PATH_ADDRESS] = { .type = NLA_NUL_STRING, .len = 1023, },
	[WEFT_A_PATH_TRANSPORT] = { .type = NLA_NUL_STRING, .len = 31, },
	[WEFT_A_PATH_DISK] = { .type = NLA_NUL_STRING, },
	[WEFT_A_PATH_USABLE] = { .type = NLA_U32, },
};

/* WEFT_CMD_VOLUME_GET - do */
const struct nla_policy weft_volume_get_nl_policy[WEFT_A_VOLUME_NAME + 1] = {
	[WEFT_A_VOLUME_NAME] = { .type = NLA_NUL_STRING, .len = 255, },
};

/* WEFT_CMD_VOLUME_ASSEMBLE - do */
const struct nla_policy weft_volume_assemble_nl_policy[WEFT_A_VOLUME_NO_IOSTATS + 1] = {
	[WEFT_A_VOLUME_NAME] = { .type = NLA_NUL_STRING, .len = 255, },
	[WEFT_A_VOLUME_UUID] = NLA_POLICY_EXACT_LEN(WEFT_UUID_LEN),
	[WEFT_A_VOLUME_MEMBER] = NLA_POLICY_NESTED(weft_member_nl_policy),
	[WEFT_A_VOLUME_READ_ONLY] = { .type = NLA_FLAG, },
	[WEFT_A_VOLUME_TAKE_OVER] = { .type = NLA_FLAG, },
	[WEFT_A_VOLUME_HOST_NQN] = { .type = NLA_NUL_STRING, .len = 223, },
	[WEFT_A_VOLUME_NO_IOSTATS] = { .type = NLA_FLAG, },
};

/* WEFT_CMD_VOLUME_STOP - do */
const struct nla_policy weft_volume_stop_nl_policy[WEFT_A_VOLUME_NAME + 1] = {
	[WEFT_A_VOLUME_NAME] = { .type = NLA_NUL_STRING, .len = 255, },
};

/* WEFT_CMD_CONTROLLER_CREATE - do */
const struct nla_policy weft_controller_create_nl_policy[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH + 1] = {
	[WEFT_A_CONTROLLER_TRANSPORT] = { .type = NLA_NUL_STRING, .len = 31, },
	[WEFT_A_CONTROLLER_SUBNQN] = { .type = NLA_NUL_STRING, .len = 223, },
	[WEFT_A_CONTROLLER_HOST_NQN] = { .type = NLA_NUL_STRING, .len = 223, },
	[WEFT_A_CONTROLLER_HOST_ID] = NLA_POLICY_EXACT_LEN(WEFT_UUID_LEN),
	[WEFT_A_CONTROLLER_ADDRESS] = { .type = NLA_NUL_STRING, .len = 63, },
	[WEFT_A_CONTROLLER_SERVICE] = { .type = NLA_NUL_STRING, .len = 7, },
	[WEFT_A_CONTROLLER_HOST_ADDRESS] = { .type = NLA_NUL_STRING, .len = 63, },
	[WEFT_A_CONTROLLER_IO_QUEUES] = { .type = NLA_U32, },
	[WEFT_A_CONTROLLER_POLL_QUEUES] = { .type = NLA_U32, },
	[WEFT_A_CONTROLLER_QUEUE_SIZE] = { .type = NLA_U32, },
	[WEFT_A_CONTROLLER_KEEP_ALIVE] = { .type = NLA_U32, },
	[WEFT_A_CONTROLLER_RECONNECT_DELAY] = { .type = NLA_U32, },
	[WEFT_A_CONTROLLER_CTRL_LOSS_TIMEOUT] = { .type = NLA_S32, },
	[WEFT_A_CONTROLLER_FAST_IO_FAIL_TIMEOUT] = { .type = NLA_S32, },
	[WEFT_A_CONTROLLER_TOS] = NLA_POLICY_MAX(NLA_U32, 255),
	[WEFT_A_CONTROLLER_BACKGROUND_TOS] = NLA_POLICY_MAX(NLA_U32, 255),
	[WEFT_A_CONTROLLER_DHCHAP_SECRET] = NLA_POLICY_MIN_LEN(32),
	[WEFT_A_CONTROLLER_DHCHAP_SECRET_HASH] = NLA_POLICY_MAX(NLA_U32, 3),
	[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET] = NLA_POLICY_MIN_LEN(32),
	[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH] = NLA_POLICY_MAX(NLA_U32, 3),
};

/* WEFT_CMD_CONTROLLER_DELETE - do */
const struct nla_policy weft_controller_delete_nl_policy[WEFT_A_CONTROLLER_NAME + 1] = {
	[WEFT_A_CONTROLLER_TRANSPORT] = { .type = NLA_NUL_STRING, .len = 31, },
	[WEFT_A_CONTROLLER_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
};

/* WEFT_CMD_PATH_ADD - do */
const struct nla_policy weft_path_add_nl_policy[WEFT_A_VOLUME_MEMBER + 1] = {
	[WEFT_A_VOLUME_NAME] = { .type = NLA_NUL_STRING, .len = 255, },
	[WEFT_A_VOLUME_MEMBER] = NLA_POLICY_NESTED(weft_member_nl_policy),
};

/* WEFT_CMD_PATH_REMOVE - do */
const struct nla_policy weft_path_remove_nl_policy[WEFT_A_VOLUME_MEMBER + 1] = {
	[WEFT_A_VOLUME_NAME] = { .type = NLA_NUL_STRING, .len = 255, },
	[WEFT_A_VOLUME_MEMBER] = NLA_POLICY_NESTED(weft_member_nl_policy),
};

/* WEFT_CMD_QOS_SET - do */
const struct nla_policy weft_qos_set_nl_policy[WEFT_A_QOS_BACKGROUND_WEIGHT + 1] = {
	[WEFT_A_QOS_VOLUME] = { .type = NLA_NUL_STRING, .len = 255, },
	[WEFT_A_QOS_OFF] = { .type = NLA_FLAG, },
	[WEFT_A_QOS_FEED_LATENCY] = { .type = NLA_U32, },
	[WEFT_A_QOS_BACKGROUND_FLOOR] = NLA_POLICY_MAX(NLA_U32, 100),
	[WEFT_A_QOS_FEED_MAX_BYTES] = { .type = NLA_U64, },
	[WEFT_A_QOS_FEED_MAX_IOS] = { .type = NLA_U32, },
	[WEFT_A_QOS_BACKGROUND_MAX_BYTES] = { .type = NLA_U64, },
	[WEFT_A_QOS_BACKGROUND_MAX_IOS] = { .type = NLA_U32, },
	[WEFT_A_QOS_FEED_CGROUP] = { .type = NLA_NUL_STRING, .len = 4095, },
	[WEFT_A_QOS_BACKGROUND_CGROUP] = { .type = NLA_NUL_STRING, .len = 4095, },
	[WEFT_A_QOS_READS] = NLA_POLICY_MAX(NLA_U32, 1),
	[WEFT_A_QOS_WRITES] = NLA_POLICY_MAX(NLA_U32, 1),
	[WEFT_A_QOS_BACKGROUND_FROM] = { .type = NLA_U32, },
	[WEFT_A_QOS_BACKGROUND_LATENCY] = { .type = NLA_U32, },
	[WEFT_A_QOS_BACKGROUND_WEIGHT] = NLA_POLICY_RANGE(NLA_U32, 1, 100),
};

/* WEFT_CMD_QOS_GET - do */
const struct nla_policy weft_qos_get_nl_policy[WEFT_A_QOS_INDEX + 1] = {
	[WEFT_A_QOS_VOLUME] = { .type = NLA_NUL_STRING, .len = 255, },
	[WEFT_A_QOS_INDEX] = { .type = NLA_U32, },
};

/* WEFT_CMD_CONTROLLER_SECRETS - do */
const struct nla_policy weft_controller_secrets_nl_policy[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH + 1] = {
	[WEFT_A_CONTROLLER_TRANSPORT] = { .type = NLA_NUL_STRING, .len = 31, },
	[WEFT_A_CONTROLLER_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[WEFT_A_CONTROLLER_DHCHAP_SECRET] = NLA_POLICY_MIN_LEN(32),
	[WEFT_A_CONTROLLER_DHCHAP_SECRET_HASH] = NLA_POLICY_MAX(NLA_U32, 3),
	[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET] = NLA_POLICY_MIN_LEN(32),
	[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH] = NLA_POLICY_MAX(NLA_U32, 3),
};

/* Ops table for weft */
const struct genl_ops weft_nl_ops[10] = {
	{
		.cmd		= WEFT_CMD_VOLUME_GET,
		.doit		= weft_nl_volume_get_doit,
		.dumpit		= weft_nl_volume_get_dumpit,
		.policy		= weft_volume_get_nl_policy,
		.maxattr	= WEFT_A_VOLUME_NAME,
	},
	{
		.cmd		= WEFT_CMD_VOLUME_ASSEMBLE,
		.doit		= weft_nl_volume_assemble_doit,
		.policy		= weft_volume_assemble_nl_policy,
		.maxattr	= WEFT_A_VOLUME_NO_IOSTATS,
	},
	{
		.cmd		= WEFT_CMD_VOLUME_STOP,
		.doit		= weft_nl_volume_stop_doit,
		.policy		= weft_volume_stop_nl_policy,
		.maxattr	= WEFT_A_VOLUME_NAME,
	},
	{
		.cmd		= WEFT_CMD_CONTROLLER_CREATE,
		.doit		= weft_nl_controller_create_doit,
		.policy		= weft_controller_create_nl_policy,
		.maxattr	= WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH,
	},
	{
		.cmd		= WEFT_CMD_CONTROLLER_DELETE,
		.doit		= weft_nl_controller_delete_doit,
		.policy		= weft_controller_delete_nl_policy,
		.maxattr	= WEFT_A_CONTROLLER_NAME,
	},
	{
		.cmd		= WEFT_CMD_PATH_ADD,
		.doit		= weft_nl_path_add_doit,
		.policy		= weft_path_add_nl_policy,
		.maxattr	= WEFT_A_VOLUME_MEMBER,
	},
	{
		.cmd		= WEFT_CMD_PATH_REMOVE,
		.doit		= weft_nl_path_remove_doit,
		.policy		= weft_path_remove_nl_policy,
		.maxattr	= WEFT_A_VOLUME_MEMBER,
	},
	{
		.cmd		= WEFT_CMD_QOS_SET,
		.doit		= weft_nl_qos_set_doit,
		.policy		= weft_qos_set_nl_policy,
		.maxattr	= WEFT_A_QOS_BACKGROUND_WEIGHT,
	},
	{
		.cmd		= WEFT_CMD_QOS_GET,
		.doit		= weft_nl_qos_get_doit,
		.policy		= weft_qos_get_nl_policy,
		.maxattr	= WEFT_A_QOS_INDEX,
	},
	{
		.cmd		= WEFT_CMD_CONTROLLER_SECRETS,
		.doit		= weft_nl_controller_secrets_doit,
		.policy		= weft_controller_secrets_nl_policy,
		.maxattr	= WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH,
	},
};

static const struct genl_multicast_group weft_nl_mcgrps[] = {
	[WEFT_NLGRP_EVENTS] = { "events", },
};
