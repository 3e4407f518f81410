/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of DH-HMAC-CHAP (NVMe base 2.1, 8.3.5): encoding and checking. This code
 * does not sleep, allocate or compute hashes.
 */
#ifndef WEFT_RDMA_CHAP_H
#define WEFT_RDMA_CHAP_H

#include <linux/nvme.h>
#include <linux/types.h>

struct weft_why;

/* Of the longest hash, of a public value of the largest group, and of a message with them. */
#define WEFT_CHAP_HASH_MAX	64
#define WEFT_CHAP_DH_MAX	1024
#define WEFT_CHAP_MESSAGE_MAX	2048

/* The groups of AUTH_Negotiate are behind so many hashes. The kernel's header lacks it on 6.1. */
#define WEFT_CHAP_HASH_IDS	30

/**
 * struct weft_chap_challenge - a DH-HMAC-CHAP_Challenge, checked
 * @hash: NVME_AUTH_HASH_*
 * @hash_len: bytes of its hashes, and of @value
 * @group: NVME_AUTH_DHGROUP_*
 * @dh_len: bytes of @dh; 0 without a group
 * @seq: sequence number
 * @value: the challenge; in the message
 * @dh: the controller's public value; in the message
 */
struct weft_chap_challenge {
	u8		hash;
	u8		hash_len;
	u8		group;
	u16		dh_len;
	u32		seq;
	const u8	*value;
	const u8	*dh;
};

/**
 * struct weft_chap_reply - what a DH-HMAC-CHAP_Reply has
 * @response: of the host, as long as the challenge
 * @challenge: of the host, likewise; NULL if the controller need not answer one
 * @seq: sequence number of @challenge, not 0
 * @dh: the host's public value, as long as the controller's; NULL without a group
 */
struct weft_chap_reply {
	const u8	*response;
	const u8	*challenge;
	u32		seq;
	const u8	*dh;
};

u8 weft_chap_hash_len(u8 hash);
const char *weft_chap_hash_name(u8 hash);
int weft_chap_dh_len(u8 group);
const char *weft_chap_group_name(u8 group);

u32 weft_chap_negotiate(void *message, u16 id, u8 hashes, bool groups);
int weft_chap_check_challenge(const void *message, u16 id, u8 hashes, bool groups,
			      struct weft_chap_challenge *challenge, struct weft_why *why);
u32 weft_chap_reply(void *message, u16 id, const struct weft_chap_challenge *challenge,
		    const struct weft_chap_reply *reply);
int weft_chap_check_success1(const void *message, u16 id, u8 hash_len, const u8 **response,
			     struct weft_why *why);
u32 weft_chap_success2(void *message, u16 id);
u32 weft_chap_failure2(void *message, u16 id);

#endif /* WEFT_RDMA_CHAP_H */
