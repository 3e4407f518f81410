// SPDX-License-Identifier: GPL-2.0-only
/* Diffie-Hellman in the groups of RFC 7919, by the kernel's "dh". */
#include "dh.h"

#include "chap.h"
#include "ffdhe.h"

#include <crypto/dh.h>
#include <crypto/kpp.h>
#include <linux/err.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>

/* Twice the strength of the largest group at least, as RFC 7919, 5.2 wants. */
#define WEFT_DH_SECRET	64

/* 1 < @value < @prime - 1: the others have a shared secret that anybody knows. */
static bool weft_dh_value_is_good(const u8 *value, u8 *prime, u32 len)
{
	bool below;
	u32 i;

	for (i = 0; i < len - 1 && !value[i]; i++)
		;
	if (i == len - 1 && value[i] < 2)
		return false;
	prime[len - 1] -= 1;	/* it is odd */
	below = memcmp(value, prime, len) < 0;
	prime[len - 1] += 1;
	return below;
}

static int weft_dh_set_secret(struct crypto_kpp *tfm, const u8 *prime, u32 len)
{
	u8 two = 2, *packed, secret[WEFT_DH_SECRET];
	struct dh dh = {
		.key		= secret,
		.key_size	= sizeof(secret),
		.p		= prime,
		.p_size		= len,
		.g		= &two,
		.g_size		= 1,
	};
	int ret = -ENOMEM;
	u32 size;

	get_random_bytes(secret, sizeof(secret));
	size = crypto_dh_key_len(&dh);
	packed = kmalloc(size, GFP_KERNEL);
	if (packed)
		ret = crypto_dh_encode_key(packed, size, &dh);
	if (!ret)
		ret = crypto_kpp_set_secret(tfm, packed, size);
	memzero_explicit(secret, sizeof(secret));
	kfree_sensitive(packed);
	return ret;
}

/* One power in the group: of its generator, or of the other side's value. */
static int weft_dh_power(struct crypto_kpp *tfm, const u8 *base, u8 *power, u32 len)
{
	struct kpp_request *req;
	struct scatterlist in, out;
	DECLARE_CRYPTO_WAIT(wait);
	int ret;

	req = kpp_request_alloc(tfm, GFP_KERNEL);
	if (!req)
		return -ENOMEM;
	sg_init_one(&out, power, len);
	kpp_request_set_output(req, &out, len);
	if (base) {
		sg_init_one(&in, base, len);
		kpp_request_set_input(req, &in, len);
	} else {
		kpp_request_set_input(req, NULL, 0);
	}
	kpp_request_set_callback(req, CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done, &wait);
	ret = crypto_wait_req(base ? crypto_kpp_compute_shared_secret(req) :
				     crypto_kpp_generate_public_key(req), &wait);
	kpp_request_free(req);
	return ret;
}

/**
 * weft_dh_exchange() - make a public value, and the secret that both sides share
 * @group: NVME_AUTH_DHGROUP_*, not NULL
 * @theirs: the other side's public value
 * @ours: set: the public value for the other side
 * @shared: set: the shared secret
 *
 * All of them are in kmalloc()'s memory and have weft_chap_dh_len() bytes, the highest
 * first.
 *
 * Context: process context, may sleep.
 * Return: 0; -EDOM for a public value that is not one of the group; or another
 * negative errno.
 */
int weft_dh_exchange(u8 group, const u8 *theirs, u8 *ours, u8 *shared)
{
	u32 len = weft_chap_dh_len(group);
	struct crypto_kpp *tfm;
	int ret = -EDOM;
	u8 *prime;

	prime = kmalloc(len, GFP_KERNEL);
	if (!prime)
		return -ENOMEM;
	weft_ffdhe_prime(group, prime);
	if (!weft_dh_value_is_good(theirs, prime, len))
		goto out_free;
	/* Not an accelerator, which need not take groups of this size. */
	tfm = crypto_alloc_kpp("dh-generic", 0, 0);
	ret = PTR_ERR_OR_ZERO(tfm);
	if (ret)
		goto out_free;
	ret = weft_dh_set_secret(tfm, prime, len);
	if (!ret)
		ret = weft_dh_power(tfm, NULL, ours, len);
	if (!ret)
		ret = weft_dh_power(tfm, theirs, shared, len);
	crypto_free_kpp(tfm);
out_free:
	kfree(prime);
	return ret;
}
