// SPDX-License-Identifier: GPL-2.0-only
/*
 * Authentication by DH-HMAC-CHAP (NVMe base 2.1, 8.3.5), on each queue, after its
 * Connect.
 *
 * DOC: who proves what
 *
 * A target asks for authentication in its answer to Connect. This host proves that it
 * knows its secret. If it was given the controller's secret, too, the controller has to
 * prove that it knows that one, and a target that does not ask for authentication is
 * refused: anybody could answer in its place. The messages prove who is there when a
 * queue is connected. The data of RDMA are not encrypted, and not protected from
 * anybody who can change packets later.
 *
 * Secrets are never in messages. They are overwritten when the controller is freed.
 */
#include "chap.h"
#include "dh.h"
#include "rdma.h"

#include <crypto/hash.h>
#include <linux/random.h>

/**
 * struct weft_auth - an authentication under way
 * @queue: on which
 * @id: of the transaction
 * @challenge: the controller's, with @value and @dh in @message until that is used again
 * @own: this host's challenge
 * @seq: its sequence number
 * @replied: the controller may have this host's response, and has not accepted it
 * @session: hash of the group's secret
 * @message: WEFT_CHAP_MESSAGE_MAX bytes, which lie in one page
 * @dh: this host's public value, and behind it the secret of the group
 */
struct weft_auth {
	struct weft_rdma_queue		*queue;
	u16				id;
	struct weft_chap_challenge	challenge;
	u8				own[WEFT_CHAP_HASH_MAX];
	u32				seq;
	bool				replied;
	u8				session[WEFT_CHAP_HASH_MAX];
	u8				*message;
	u8				*dh;
};

/* Without the kernel's "dh", no group is offered. */
#define WEFT_AUTH_GROUPS	IS_ENABLED(CONFIG_CRYPTO_DH)

/* Bytes to be hashed. */
struct weft_bytes {
	const void	*data;
	size_t		len;
};

/* The hash of some bytes one after another, or with a key their HMAC. */
static int weft_hash(u8 hash, const struct weft_bytes *key, const struct weft_bytes *bytes,
		     u32 count, u8 *out)
{
	struct crypto_shash *tfm;
	char name[16];
	int ret;
	u32 i;

	snprintf(name, sizeof(name), key ? "hmac(%s)" : "%s", weft_chap_hash_name(hash));
	tfm = crypto_alloc_shash(name, 0, 0);
	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	ret = key ? crypto_shash_setkey(tfm, key->data, key->len) : 0;
	if (!ret) {
		SHASH_DESC_ON_STACK(desc, tfm);

		desc->tfm = tfm;
		ret = crypto_shash_init(desc);
		for (i = 0; i < count && !ret; i++)
			ret = crypto_shash_update(desc, bytes[i].data, bytes[i].len);
		if (!ret)
			ret = crypto_shash_final(desc, out);
		shash_desc_zero(desc);
	}
	crypto_free_shash(tfm);
	return ret;
}

/* A target that does not accept a secret may end the connection before its answer has arrived. */
static int weft_auth_refuse_lost(const struct weft_auth *auth, struct weft_why *why)
{
	return auth->replied ?
	       weft_refuse(why, -EACCES,
			   "the target ended the connection when this host answered its challenge: it does not accept this host's secret, or it was lost") :
	       weft_refuse(why, -ECONNRESET,
			   "the target ended the connection during the authentication");
}

/**
 * weft_rdma_auth_hashes() - find out which hashes this kernel has, and load their modules
 *
 * Context: process context; waits for modprobe.
 * Return: bit NVME_AUTH_HASH_* for each.
 */
u8 weft_rdma_auth_hashes(void)
{
	u8 hash, found = 0;
	char name[16];

	for (hash = NVME_AUTH_HASH_SHA256; hash <= NVME_AUTH_HASH_SHA512; hash++) {
		snprintf(name, sizeof(name), "hmac(%s)", weft_chap_hash_name(hash));
		if (crypto_has_shash(name, 0, 0) &&
		    crypto_has_shash(weft_chap_hash_name(hash), 0, 0))
			found |= BIT(hash);
	}
	return found;
}

static int weft_auth_transfer(struct weft_auth *auth, bool send, u32 len, struct weft_why *why)
{
	struct weft_rdma_queue *queue = auth->queue;
	struct nvme_command cmd;
	int ret;

	weft_capsule_auth(&cmd, send, len);
	ret = weft_rdma_command(queue->index ? queue->ctrl->connect_q : queue->ctrl->admin_q, &cmd,
				auth->message, len, NULL, WEFT_RDMA_SETUP_TIMEOUT,
				BLK_MQ_REQ_RESERVED, queue);
	if (weft_rdma_connection_ended(queue, ret))
		return weft_auth_refuse_lost(auth, why);
	return weft_rdma_refuse_status(why, ret, send ? "Authentication Send" :
							"Authentication Receive");
}

static int weft_auth_send(struct weft_auth *auth, u32 len, struct weft_why *why)
{
	return weft_auth_transfer(auth, true, len, why);
}

static int weft_auth_receive(struct weft_auth *auth, struct weft_why *why)
{
	/* How much the target sends is in the message alone. */
	memset(auth->message, 0, WEFT_CHAP_MESSAGE_MAX);
	return weft_auth_transfer(auth, false, WEFT_CHAP_MESSAGE_MAX, why);
}

/* The secret that both sides of the group share, and the challenge augmented with it. */
static int weft_auth_join_group(struct weft_auth *auth, struct weft_why *why)
{
	struct weft_chap_challenge *challenge = &auth->challenge;
	struct weft_bytes shared = { .len = challenge->dh_len };
	int ret;

	if (!WEFT_AUTH_GROUPS || !challenge->group)
		return 0;
	auth->dh = kzalloc(2 * challenge->dh_len, GFP_KERNEL);
	if (!auth->dh)
		return weft_refuse(why, -ENOMEM, "no memory to authenticate");
	shared.data = auth->dh + challenge->dh_len;
	ret = weft_dh_exchange(challenge->group, challenge->dh, auth->dh,
			       auth->dh + challenge->dh_len);
	if (ret == -EDOM)
		return weft_refuse(why, -EPROTO, "the target's value is not one of the group %s",
				   weft_chap_group_name(challenge->group));
	if (!ret)
		ret = weft_hash(challenge->hash, NULL, &shared, 1, auth->session);
	return ret;
}

/* A challenge as it is answered: augmented, if there is a group. */
static int weft_auth_augment(const struct weft_auth *auth, const u8 *value, u8 *out)
{
	u8 len = auth->challenge.hash_len;
	struct weft_bytes key = { auth->session, len }, bytes = { value, len };

	if (auth->challenge.group)
		return weft_hash(auth->challenge.hash, &key, &bytes, 1, out);
	memcpy(out, value, len);
	return 0;
}

/*
 * A secret is used as it is, or, where its representation names a hash, as the HMAC of
 * its owner's name.
 */
static int weft_auth_transform(const struct weft_rdma_secret *secret, const char *nqn,
			       u8 *out, struct weft_bytes *key)
{
	static const char text[] = "NVMe-over-Fabrics";
	struct weft_bytes with = { secret->key, secret->len };
	struct weft_bytes bytes[] = { { nqn, strlen(nqn) }, { text, sizeof(text) - 1 } };

	*key = with;
	if (!secret->hash)
		return 0;
	*key = (struct weft_bytes) { out, weft_chap_hash_len(secret->hash) };
	return weft_hash(secret->hash, &with, bytes, ARRAY_SIZE(bytes), out);
}

/*
 * The response to a challenge (8.3.5.5.4 and 8.3.5.5.5): @role is "HostHost" or
 * "Controller", @own the NQN of the one who answers, @other that of the one who asked.
 */
static int weft_auth_respond(const struct weft_auth *auth, const struct weft_rdma_secret *secret,
			     const u8 *value, u32 seq, const char *role, const char *own,
			     const char *other, u8 *response)
{
	u8 augmented[WEFT_CHAP_HASH_MAX], transformed[WEFT_CHAP_HASH_MAX], numbers[7];
	struct weft_bytes key, bytes[] = {
		{ augmented, auth->challenge.hash_len },
		{ numbers, sizeof(numbers) },
		{ role, strlen(role) },
		{ own, strlen(own) + 1 },	/* its NUL separates the names */
		{ other, strlen(other) },
	};
	int ret;

	put_unaligned_le32(seq, numbers);
	put_unaligned_le16(auth->id, numbers + 4);
	numbers[6] = 0;		/* no secure channel */
	ret = weft_auth_augment(auth, value, augmented);
	if (!ret)
		ret = weft_auth_transform(secret, own, transformed, &key);
	if (!ret)
		ret = weft_hash(auth->challenge.hash, &key, bytes, ARRAY_SIZE(bytes), response);
	memzero_explicit(transformed, sizeof(transformed));
	return ret;
}

/* The controller has to have answered this host's challenge. */
static int weft_auth_check_ctrl(struct weft_auth *auth, const u8 *response, struct weft_why *why)
{
	const struct weft_rdma_ctrl *ctrl = auth->queue->ctrl;
	u8 wanted[WEFT_CHAP_HASH_MAX];
	int ret = 0, err;
	bool right;
	u32 len;

	if (response)
		ret = weft_auth_respond(auth, &ctrl->used_ctrl, auth->own, auth->seq, "Controller",
					ctrl->opts.subnqn, ctrl->opts.host_nqn, wanted);
	if (ret)
		return ret;
	right = response && !crypto_memneq(response, wanted, auth->challenge.hash_len);
	memset(auth->message, 0, WEFT_CHAP_MESSAGE_MAX);
	len = right ? weft_chap_success2(auth->message, auth->id) :
		      weft_chap_failure2(auth->message, auth->id);
	if (!right)
		ret = weft_refuse(why, -EACCES,
				  "the target has not proven that it knows the controller's secret");
	/* It is told so in both cases. */
	err = weft_auth_send(auth, len, why);
	return ret ?: err;
}

static int weft_auth_exchange(struct weft_auth *auth, struct weft_why *why)
{
	const struct weft_rdma_ctrl *ctrl = auth->queue->ctrl;
	struct weft_chap_challenge *challenge = &auth->challenge;
	u8 response[WEFT_CHAP_HASH_MAX];
	struct weft_chap_reply reply = { .response = response };
	const u8 *answer;
	int ret;

	if (!ctrl->used_hashes)
		return weft_refuse(why, -EOPNOTSUPP, "this kernel has none of the hashes");
	ret = weft_auth_send(auth, weft_chap_negotiate(auth->message, auth->id, ctrl->used_hashes,
						       WEFT_AUTH_GROUPS), why);
	if (!ret)
		ret = weft_auth_receive(auth, why);
	if (!ret)
		ret = weft_chap_check_challenge(auth->message, auth->id, ctrl->used_hashes,
						WEFT_AUTH_GROUPS, challenge, why);
	if (!ret)
		ret = weft_auth_join_group(auth, why);
	if (!ret)
		ret = weft_auth_respond(auth, &ctrl->used_host, challenge->value, challenge->seq,
					"HostHost", ctrl->opts.host_nqn, ctrl->opts.subnqn,
					response);
	if (ret)
		return ret;
	get_random_bytes(auth->own, challenge->hash_len);
	/* Not 0, which has a meaning of its own. */
	auth->seq = get_random_u32() | 1;
	reply.seq = auth->seq;
	reply.challenge = ctrl->used_ctrl.len ? auth->own : NULL;
	reply.dh = challenge->group ? auth->dh : NULL;
	memset(auth->message, 0, WEFT_CHAP_MESSAGE_MAX);
	auth->replied = true;
	ret = weft_auth_send(auth, weft_chap_reply(auth->message, auth->id, challenge, &reply), why);
	if (!ret)
		ret = weft_auth_receive(auth, why);
	if (!ret)
		ret = weft_chap_check_success1(auth->message, auth->id, challenge->hash_len, &answer,
					       why);
	if (!ret)
		auth->replied = false;
	if (!ret && ctrl->used_ctrl.len)
		ret = weft_auth_check_ctrl(auth, answer, why);
	return ret;
}

/**
 * weft_rdma_authenticate() - authenticate on a queue, if the target or this host wants that
 * @queue: its Connect has succeeded; no other queue of the controller authenticates now
 * @wanted: of the result of Connect
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the target, limited by timeouts.
 * Return: 0; -EACCES if a secret is missing or wrong; or another negative errno.
 */
int weft_rdma_authenticate(struct weft_rdma_queue *queue, u32 wanted, struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl = queue->ctrl;
	struct weft_auth *auth;
	int ret;

	if (wanted & WEFT_CONNECT_ASCR)
		return weft_refuse(why, -EOPNOTSUPP,
				   "the target wants a secure channel, which RDMA does not have");
	if (!queue->index) {
		/* A target may take the host's secret as it was when the association began. */
		mutex_lock(&ctrl->secret_lock);
		ctrl->used_host = ctrl->host_secret;
		ctrl->used_ctrl = ctrl->ctrl_secret;
		ctrl->used_hashes = ctrl->auth_hashes;
		mutex_unlock(&ctrl->secret_lock);
		ctrl->auth = (struct weft_rdma_auth) {};
	}
	if (!(wanted & WEFT_CONNECT_ATR)) {
		/* It may ask on the admin queue alone, as the kernel's target does. */
		return queue->index || !ctrl->used_ctrl.len ? 0 :
		       weft_refuse(why, -EACCES,
				   "the target does not ask for authentication, so it does not prove that it knows the controller's secret");
	}
	if (!ctrl->used_host.len)
		return weft_refuse(why, -EACCES,
				   "the target wants this host to authenticate, and no secret is given");
	auth = kzalloc_obj(*auth);
	if (!auth)
		return weft_refuse(why, -ENOMEM, "no memory to authenticate");
	auth->queue = queue;
	auth->id = ctrl->auth_id++;
	auth->message = kzalloc(WEFT_CHAP_MESSAGE_MAX, GFP_KERNEL);
	if (!auth->message) {
		ret = weft_refuse(why, -ENOMEM, "no memory to authenticate");
		goto out;
	}
	if (!queue->index)
		weft_rdma_set_state(ctrl, WEFT_RDMA_AUTHENTICATING);
	ret = weft_auth_exchange(auth, why);
	if (ret) {
		weft_refuse(why, ret, "the authentication failed (error %d)", -ret);
	} else if (!queue->index) {
		ctrl->auth = (struct weft_rdma_auth) {
			.hash = auth->challenge.hash,
			.group = auth->challenge.group,
			.mutual = ctrl->used_ctrl.len,
		};
		weft_rdma_set_state(ctrl, WEFT_RDMA_CONNECTING);
	}
out:
	kfree_sensitive(auth->dh);
	kfree_sensitive(auth->message);
	kfree_sensitive(auth);
	return ret;
}
