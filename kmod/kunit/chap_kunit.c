// SPDX-License-Identifier: GPL-2.0-only
/* Tests of the messages of DH-HMAC-CHAP, and of the groups' primes. */
#include "../rdma/chap.h"
#include "../rdma/ffdhe.h"
#include "../include/weft_why.h"

#include <crypto/sha2.h>
#include <kunit/test.h>
#include <linux/random.h>

#define ID	0x1234
#define HASHES	(BIT(NVME_AUTH_HASH_SHA256) | BIT(NVME_AUTH_HASH_SHA384) | BIT(NVME_AUTH_HASH_SHA512))

static void *message_new(struct kunit *test)
{
	void *message = kunit_kzalloc(test, WEFT_CHAP_MESSAGE_MAX, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, message);
	return message;
}

static struct nvmf_auth_dhchap_challenge_data *challenge_new(struct kunit *test)
{
	struct nvmf_auth_dhchap_challenge_data *data = message_new(test);

	data->auth_type = NVME_AUTH_DHCHAP_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_CHALLENGE;
	data->t_id = cpu_to_le16(ID);
	data->hashid = NVME_AUTH_HASH_SHA384;
	data->hl = 48;
	data->dhgid = NVME_AUTH_DHGROUP_8192;
	data->dhvlen = cpu_to_le16(1024);
	data->seqnum = cpu_to_le32(7);
	return data;
}

static int challenge_check(const void *message, bool groups, struct weft_why *why)
{
	struct weft_chap_challenge challenge;

	why->text[0] = 0;
	return weft_chap_check_challenge(message, ID, HASHES, groups, &challenge, why);
}

static void chap_negotiate(struct kunit *test)
{
	struct nvmf_auth_dhchap_negotiate_data *data = message_new(test);
	const struct nvmf_auth_dhchap_protocol_descriptor *offer = &data->auth_protocol[0].dhchap;

	KUNIT_EXPECT_EQ(test, weft_chap_negotiate(data, ID, HASHES, true), 72);
	KUNIT_EXPECT_EQ(test, data->napd, 1);
	KUNIT_EXPECT_EQ(test, offer->halen, 3);
	KUNIT_EXPECT_EQ(test, offer->dhlen, 6);
	KUNIT_EXPECT_EQ(test, offer->idlist[30 + 5], NVME_AUTH_DHGROUP_8192);
	memset(data, 0, WEFT_CHAP_MESSAGE_MAX);
	weft_chap_negotiate(data, ID, BIT(NVME_AUTH_HASH_SHA512), false);
	KUNIT_EXPECT_EQ(test, offer->dhlen, 1);
	KUNIT_EXPECT_EQ(test, offer->halen, 1);
	KUNIT_EXPECT_EQ(test, offer->idlist[0], NVME_AUTH_HASH_SHA512);
}

static void chap_challenge(struct kunit *test)
{
	struct nvmf_auth_dhchap_challenge_data *data = challenge_new(test);
	struct weft_chap_challenge challenge;
	struct weft_why why = {};

	KUNIT_ASSERT_EQ(test, weft_chap_check_challenge(data, ID, HASHES, true, &challenge, &why), 0);
	KUNIT_EXPECT_EQ(test, challenge.hash_len, 48);
	KUNIT_EXPECT_EQ(test, challenge.dh_len, 1024);
	KUNIT_EXPECT_EQ(test, challenge.seq, 7);
	KUNIT_EXPECT_PTR_EQ(test, challenge.dh, &data->cval[48]);
	/* A group that was not offered. */
	KUNIT_EXPECT_EQ(test, challenge_check(data, false, &why), -EPROTO);
	data->dhgid = NVME_AUTH_DHGROUP_NULL;
	KUNIT_EXPECT_EQ(test, challenge_check(data, false, &why), -EPROTO);	/* has a value */
	data->dhvlen = 0;
	KUNIT_EXPECT_EQ(test, challenge_check(data, false, &why), 0);
	data->dhgid = 6;
	KUNIT_EXPECT_EQ(test, challenge_check(data, true, &why), -EPROTO);
	data->dhgid = NVME_AUTH_DHGROUP_NULL;
	data->hl = 64;
	KUNIT_EXPECT_EQ(test, challenge_check(data, true, &why), -EPROTO);
	data->hl = 48;
	data->hashid = 4;
	KUNIT_EXPECT_EQ(test, challenge_check(data, true, &why), -EPROTO);
	data->hashid = NVME_AUTH_HASH_SHA384;
	data->t_id = 0;
	KUNIT_EXPECT_EQ(test, challenge_check(data, true, &why), -EPROTO);
	data->t_id = cpu_to_le16(ID);
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_SUCCESS1;
	KUNIT_EXPECT_EQ(test, challenge_check(data, true, &why), -EPROTO);
	data->auth_type = NVME_AUTH_COMMON_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_FAILURE1;
	KUNIT_EXPECT_EQ(test, challenge_check(data, true, &why), -EACCES);
}

static struct nvmf_auth_dhchap_success1_data *success1_new(struct kunit *test)
{
	struct nvmf_auth_dhchap_success1_data *data = message_new(test);

	data->auth_type = NVME_AUTH_DHCHAP_MESSAGES;
	data->auth_id = NVME_AUTH_DHCHAP_MESSAGE_SUCCESS1;
	data->t_id = cpu_to_le16(ID);
	return data;
}

static void chap_success1(struct kunit *test)
{
	struct nvmf_auth_dhchap_success1_data *data = success1_new(test);
	struct weft_why why = {};
	const u8 *response;

	KUNIT_EXPECT_EQ(test, weft_chap_check_success1(data, ID, 32, &response, &why), 0);
	KUNIT_EXPECT_NULL(test, response);
	data->rvalid = 1;
	KUNIT_EXPECT_EQ(test, weft_chap_check_success1(data, ID, 32, &response, &why), -EPROTO);
	data->hl = 32;
	KUNIT_EXPECT_EQ(test, weft_chap_check_success1(data, ID, 32, &response, &why), 0);
	KUNIT_EXPECT_PTR_EQ(test, response, &data->rval[0]);
}

/* A message that a target may send, with one to four of its first @size bytes changed. */
static void mutate(void *message, const void *good, u32 size)
{
	u32 left = 1 + get_random_u32() % 4;

	memcpy(message, good, size);
	while (left--)
		((u8 *)message)[get_random_u32() % size] = get_random_u32();
}

/* No message makes the check read beyond it, or accept what was not offered. */
static void chap_mutated_challenge(struct kunit *test)
{
	struct nvmf_auth_dhchap_challenge_data *good = challenge_new(test);
	struct nvmf_auth_dhchap_challenge_data *data = message_new(test);
	struct weft_chap_challenge challenge;
	struct weft_why why;
	u32 i, accepted = 0;

	for (i = 0; i < 1000000; i++) {
		mutate(data, good, sizeof(*data));
		why.text[0] = 0;
		if (weft_chap_check_challenge(data, ID, HASHES, true, &challenge, &why)) {
			if (!why.text[0])
				KUNIT_FAIL(test, "refused without a reason");
			continue;
		}
		accepted++;
		if (challenge.hash_len != weft_chap_hash_len(challenge.hash) ||
		    challenge.dh_len != weft_chap_dh_len(challenge.group) ||
		    sizeof(*data) + challenge.hash_len + challenge.dh_len > WEFT_CHAP_MESSAGE_MAX)
			KUNIT_FAIL(test, "hash %u of %u bytes, group %u of %u bytes",
				   challenge.hash, challenge.hash_len, challenge.group,
				   challenge.dh_len);
	}
	KUNIT_EXPECT_GT(test, accepted, 0);
	KUNIT_EXPECT_LT(test, accepted, 1000000);
}

static void chap_mutated_success1(struct kunit *test)
{
	struct nvmf_auth_dhchap_success1_data *good = success1_new(test);
	struct nvmf_auth_dhchap_success1_data *data = message_new(test);
	const u8 *response;
	struct weft_why why;
	u32 i, proven = 0;

	good->rvalid = NVME_AUTH_DHCHAP_RESPONSE_VALID;
	good->hl = 64;
	for (i = 0; i < 1000000; i++) {
		mutate(data, good, sizeof(*data));
		why.text[0] = 0;
		if (weft_chap_check_success1(data, ID, 64, &response, &why)) {
			if (!why.text[0])
				KUNIT_FAIL(test, "refused without a reason");
			continue;
		}
		if (!response)
			continue;
		proven++;
		if (data->hl != 64 || response != data->rval)
			KUNIT_FAIL(test, "a response of %u bytes", data->hl);
	}
	KUNIT_EXPECT_GT(test, proven, 0);
	KUNIT_EXPECT_LT(test, proven, 1000000);
}

/* Those of RFC 7919, appendix A, by their SHA-256. */
static void ffdhe_primes(struct kunit *test)
{
	static const u8 sums[][4] = {
		{ 0x9c, 0xd3, 0xb7, 0xf3 }, { 0x0e, 0xaf, 0x67, 0xdb }, { 0x46, 0x48, 0x41, 0x42 },
		{ 0x22, 0x7a, 0xc9, 0x06 }, { 0x77, 0x0b, 0x14, 0xef },
	};
	u8 *prime, sum[SHA256_DIGEST_SIZE];
	u8 group;

	prime = kunit_kzalloc(test, WEFT_CHAP_DH_MAX, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, prime);
	for (group = NVME_AUTH_DHGROUP_2048; group <= NVME_AUTH_DHGROUP_8192; group++) {
		weft_ffdhe_prime(group, prime);
		sha256(prime, weft_chap_dh_len(group), sum);
		KUNIT_EXPECT_MEMEQ(test, sum, sums[group - 1], 4);
	}
}

static struct kunit_case chap_cases[] = {
	KUNIT_CASE(chap_negotiate),
	KUNIT_CASE(chap_challenge),
	KUNIT_CASE(chap_success1),
	KUNIT_CASE_SLOW(chap_mutated_challenge),
	KUNIT_CASE_SLOW(chap_mutated_success1),
	KUNIT_CASE(ffdhe_primes),
	{}
};

static struct kunit_suite chap_suite = {
	.name		= "weft-chap",
	.test_cases	= chap_cases,
};

kunit_test_suite(chap_suite);
