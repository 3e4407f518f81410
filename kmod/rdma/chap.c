// SPDX-License-Identifier: GPL-2.0-only
/* Messages of DH-HMAC-CHAP (NVMe base 2.1, 8.3.5). What a target sent is checked here. */
#include "chap.h"

#include "../include/weft_why.h"

#include <linux/errno.h>
#include <linux/string.h>

/**
 * weft_chap_hash_len() - length of a hash
 * @hash: NVME_AUTH_HASH_*
 *
 * Return: in bytes; 0 if it is unknown.
 */
u8 weft_chap_hash_len(u8 hash)
{
	switch (hash) {
	case NVME_AUTH_HASH_SHA256:
		return 32;
	case NVME_AUTH_HASH_SHA384:
		return 48;
	case NVME_AUTH_HASH_SHA512:
		return 64;
	}
	return 0;
}

/**
 * weft_chap_hash_name() - name of a hash for the kernel's crypto API
 * @hash: NVME_AUTH_HASH_*
 *
 * Return: the name; "none" if it is unknown.
 */
const char *weft_chap_hash_name(u8 hash)
{
	switch (hash) {
	case NVME_AUTH_HASH_SHA256:
		return "sha256";
	case NVME_AUTH_HASH_SHA384:
		return "sha384";
	case NVME_AUTH_HASH_SHA512:
		return "sha512";
	}
	return "none";
}

/**
 * weft_chap_dh_len() - length of the public values of a group
 * @group: NVME_AUTH_DHGROUP_*
 *
 * Return: in bytes, 0 without a group; -EINVAL if it is unknown.
 */
int weft_chap_dh_len(u8 group)
{
	switch (group) {
	case NVME_AUTH_DHGROUP_NULL:
		return 0;
	case NVME_AUTH_DHGROUP_2048:
		return 256;
	case NVME_AUTH_DHGROUP_3072:
		return 384;
	case NVME_AUTH_DHGROUP_4096:
		return 512;
	case NVME_AUTH_DHGROUP_6144:
		return 768;
	case NVME_AUTH_DHGROUP_8192:
		return 1024;
	}
	return -EINVAL;
}

/**
 * weft_chap_group_name() - name of a group, for messages
 * @group: NVME_AUTH_DHGROUP_*
 *
 * Return: as in RFC 7919; "null" without a group.
 */
const char *weft_chap_group_name(u8 group)
{
	switch (group) {
	case NVME_AUTH_DHGROUP_2048:
		return "ffdhe2048";
	case NVME_AUTH_DHGROUP_3072:
		return "ffdhe3072";
	case NVME_AUTH_DHGROUP_4096:
		return "ffdhe4096";
	case NVME_AUTH_DHGROUP_6144:
		return "ffdhe6144";
	case NVME_AUTH_DHGROUP_8192:
		return "ffdhe8192";
	}
	return "null";
}

/**
 * weft_chap_negotiate() - AUTH_Negotiate: offer hashes and groups
 * @message: zeroed, WEFT_CHAP_MESSAGE_MAX bytes
 * @id: of the transaction
 * @hashes: bit NVME_AUTH_HASH_* of each
 * @groups: offer all groups, too
 *
 * Return: its length.
 */
u32 weft_chap_negotiate(void *message, u16 id, u8 hashes, bool groups)
{
	static const u8 dh[] = {
		NVME_AUTH_DHGROUP_NULL, NVME_AUTH_DHGROUP_2048, NVME_AUTH_DHGROUP_3072,
		NVME_AUTH_DHGROUP_4096, NVME_AUTH_DHGROUP_6144, NVME_AUTH_DHGROUP_8192,
	};
	struct nvmf_auth_dhchap_negotiate_data *data = message;
	struct nvmf_auth_dhchap_protocol_descriptor *offer = &data->auth_protocol[0].dhchap;
	u8 hash;

	data->auth_type = NVME_AUTH_COMMON_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_NEGOTIATE;
	data->t_id = cpu_to_le16(id);
	data->napd = 1;
	offer->authid = NVME_AUTH_DHCHAP_AUTH_ID;
	for (hash = NVME_AUTH_HASH_SHA256; hash <= NVME_AUTH_HASH_SHA512; hash++)
		if (hashes & BIT(hash))
			offer->idlist[offer->halen++] = hash;
	offer->dhlen = groups ? ARRAY_SIZE(dh) : 1;
	memcpy(offer->idlist + WEFT_CHAP_HASH_IDS, dh, offer->dhlen);
	return sizeof(*data) + sizeof(data->auth_protocol[0]);
}

static const char *weft_chap_failure_text(u8 reason)
{
	switch (reason) {
	case NVME_AUTH_DHCHAP_FAILURE_FAILED:
		return "it does not accept this host's secret, or lacks one of its own that this host asks for";
	case NVME_AUTH_DHCHAP_FAILURE_NOT_USABLE:
		return "it cannot use DH-HMAC-CHAP";
	case NVME_AUTH_DHCHAP_FAILURE_CONCAT_MISMATCH:
		return "it wants a secure channel";
	case NVME_AUTH_DHCHAP_FAILURE_HASH_UNUSABLE:
		return "it cannot use any of the hashes";
	case NVME_AUTH_DHCHAP_FAILURE_DHGROUP_UNUSABLE:
		return "it cannot use any of the Diffie-Hellman groups";
	}
	return "a message was wrong";
}

/* Is it the message that is due, or the target's refusal? */
static int weft_chap_check(const void *message, u16 id, u8 wanted, struct weft_why *why)
{
	const struct nvmf_auth_dhchap_failure_data *data = message;

	if (data->auth_type == NVME_AUTH_COMMON_MESSAGES &&
	    data->auth_id == NVME_AUTH_DHCHAP_MESSAGE_FAILURE1)
		return weft_refuse(why, -EACCES, "the target refuses the authentication: %s (reason %u)",
				   weft_chap_failure_text(data->rescode_exp), data->rescode_exp);
	if (data->auth_type != NVME_AUTH_DHCHAP_MESSAGES || data->auth_id != wanted)
		return weft_refuse(why, -EPROTO,
				   "the target answers with authentication message 0x%02x%02x, not 0x%02x%02x",
				   data->auth_type, data->auth_id, NVME_AUTH_DHCHAP_MESSAGES, wanted);
	if (le16_to_cpu(data->t_id) != id)
		return weft_refuse(why, -EPROTO,
				   "the target answers authentication transaction %u, not %u",
				   le16_to_cpu(data->t_id), id);
	return 0;
}

/**
 * weft_chap_check_challenge() - check a DH-HMAC-CHAP_Challenge
 * @message: WEFT_CHAP_MESSAGE_MAX bytes, zero behind those that the target sent
 * @id: of the transaction
 * @hashes: that were offered, as for weft_chap_negotiate()
 * @groups: groups were offered, too
 * @challenge: set
 * @why: gets the reason of a failure
 *
 * Return: 0; -EACCES if the target refuses; -EPROTO for anything else that it may not send.
 */
int weft_chap_check_challenge(const void *message, u16 id, u8 hashes, bool groups,
			      struct weft_chap_challenge *challenge, struct weft_why *why)
{
	const struct nvmf_auth_dhchap_challenge_data *data = message;
	int ret, dh_len;

	ret = weft_chap_check(message, id, NVME_AUTH_DHCHAP_MESSAGE_CHALLENGE, why);
	if (ret)
		return ret;
	challenge->hash_len = weft_chap_hash_len(data->hashid);
	if (!challenge->hash_len || data->hl != challenge->hash_len ||
	    !(hashes & BIT(data->hashid)))
		return weft_refuse(why, -EPROTO,
				   "the target chose hash %u of %u bytes, which was not offered",
				   data->hashid, data->hl);
	dh_len = groups || !data->dhgid ? weft_chap_dh_len(data->dhgid) : -EINVAL;
	if (dh_len < 0)
		return weft_refuse(why, -EPROTO,
				   "the target chose Diffie-Hellman group %u, which was not offered",
				   data->dhgid);
	if (le16_to_cpu(data->dhvlen) != dh_len)
		return weft_refuse(why, -EPROTO,
				   "the target's value for %s has %u bytes, not %d",
				   weft_chap_group_name(data->dhgid), le16_to_cpu(data->dhvlen),
				   dh_len);
	challenge->hash = data->hashid;
	challenge->group = data->dhgid;
	challenge->dh_len = dh_len;
	challenge->seq = le32_to_cpu(data->seqnum);
	challenge->value = data->cval;
	challenge->dh = data->cval + data->hl;
	return 0;
}

/**
 * weft_chap_reply() - DH-HMAC-CHAP_Reply
 * @message: zeroed, WEFT_CHAP_MESSAGE_MAX bytes
 * @id: of the transaction
 * @challenge: that it answers
 * @reply: what it has
 *
 * Return: its length.
 */
u32 weft_chap_reply(void *message, u16 id, const struct weft_chap_challenge *challenge,
		    const struct weft_chap_reply *reply)
{
	struct nvmf_auth_dhchap_reply_data *data = message;
	u8 len = challenge->hash_len;

	data->auth_type = NVME_AUTH_DHCHAP_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_REPLY;
	data->t_id = cpu_to_le16(id);
	data->hl = len;
	data->seqnum = cpu_to_le32(reply->seq);
	memcpy(data->rval, reply->response, len);
	/* The place of the challenge is there in any case. */
	if (reply->challenge) {
		data->cvalid = 1;
		memcpy(data->rval + len, reply->challenge, len);
	}
	if (reply->dh) {
		data->dhvlen = cpu_to_le16(challenge->dh_len);
		memcpy(data->rval + 2 * len, reply->dh, challenge->dh_len);
	}
	return sizeof(*data) + 2 * len + (reply->dh ? challenge->dh_len : 0);
}

/**
 * weft_chap_check_success1() - check a DH-HMAC-CHAP_Success1
 * @message: WEFT_CHAP_MESSAGE_MAX bytes, zero behind those that the target sent
 * @id: of the transaction
 * @hash_len: of the hash that was chosen
 * @response: set: the controller's, in the message; NULL if it has none
 * @why: gets the reason of a failure
 *
 * Return: as weft_chap_check_challenge().
 */
int weft_chap_check_success1(const void *message, u16 id, u8 hash_len, const u8 **response,
			     struct weft_why *why)
{
	const struct nvmf_auth_dhchap_success1_data *data = message;
	int ret;

	ret = weft_chap_check(message, id, NVME_AUTH_DHCHAP_MESSAGE_SUCCESS1, why);
	if (ret)
		return ret;
	*response = NULL;
	if (!(data->rvalid & NVME_AUTH_DHCHAP_RESPONSE_VALID))
		return 0;
	if (data->hl != hash_len)
		return weft_refuse(why, -EPROTO, "the target's response has %u bytes, not %u",
				   data->hl, hash_len);
	*response = data->rval;
	return 0;
}

/**
 * weft_chap_success2() - DH-HMAC-CHAP_Success2: the controller's response is right
 * @message: zeroed, WEFT_CHAP_MESSAGE_MAX bytes
 * @id: of the transaction
 *
 * Return: its length.
 */
u32 weft_chap_success2(void *message, u16 id)
{
	struct nvmf_auth_dhchap_success2_data *data = message;

	data->auth_type = NVME_AUTH_DHCHAP_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_SUCCESS2;
	data->t_id = cpu_to_le16(id);
	return sizeof(*data);
}

/**
 * weft_chap_failure2() - AUTH_Failure2: the controller has not proven who it is
 * @message: zeroed, WEFT_CHAP_MESSAGE_MAX bytes
 * @id: of the transaction
 *
 * Return: its length.
 */
u32 weft_chap_failure2(void *message, u16 id)
{
	struct nvmf_auth_dhchap_failure_data *data = message;

	data->auth_type = NVME_AUTH_COMMON_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_FAILURE2;
	data->t_id = cpu_to_le16(id);
	data->rescode = NVME_AUTH_DHCHAP_FAILURE_REASON_FAILED;
	data->rescode_exp = NVME_AUTH_DHCHAP_FAILURE_FAILED;
	return sizeof(*data);
}
