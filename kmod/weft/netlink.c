// SPDX-License-Identifier: GPL-2.0-only
/*
 * Control by generic netlink. uapi/weft.yaml specifies the commands,
 * netlink-gen.c is generated from it, and this file implements them.
 *
 * DOC: commands that wait
 *
 * Generic netlink receives a message under a lock that all families share. The
 * registration of another family waits for this lock, and all later messages
 * wait for the registration. Therefore a command that waits, for I/O or for
 * another host's heartbeat, is split. The receive function checks rights and
 * attributes, and looks up device paths in the caller's context. A worker then
 * runs the command and sends the acknowledgment. The caller sees the same
 * messages in both cases. If the caller closes its socket, an assembly stops
 * waiting for the heartbeat.
 */
#include "mem.h"

#include <linux/sched/mm.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "netlink.h"

/*
 * Send the reason of an error before the ack with its code. If there is no
 * memory for it, the caller gets only the code.
 */
static void weft_nl_refused(struct genl_info *info, int err, const char *volume,
			    const struct weft_why *why)
{
	struct sk_buff *skb;
	void *hdr;

	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		return;
	hdr = genlmsg_put_reply(skb, info, &weft_nl_family, 0, WEFT_CMD_REFUSED);
	if (!hdr)
		goto out_free;
	if ((volume && nla_put_string(skb, WEFT_A_NOTICE_VOLUME, volume)) ||
	    nla_put_string(skb, WEFT_A_NOTICE_TEXT, why->text) ||
	    nla_put_u32(skb, WEFT_A_NOTICE_ERRNO, -err))
		goto out_free;
	genlmsg_end(skb, hdr);
	genlmsg_reply(skb, info);
	return;

out_free:
	nlmsg_free(skb);
}

/**
 * weft_nl_result() - end a command: send the reason of an error
 * @info: the command
 * @err: 0 or the error
 * @volume: name of the volume, or NULL
 * @why: the reason; empty if the code says it all
 *
 * Return: @err.
 */
int weft_nl_result(struct genl_info *info, int err, const char *volume,
		   const struct weft_why *why)
{
	if (err && why->text[0])
		weft_nl_refused(info, err, volume, why);
	return err;
}

/**
 * struct weft_nl_job - a command that a worker runs
 * @work: runs the command
 * @list: in weft_nl_jobs
 * @skb: the message; holds the strings that @request points to
 * @info: the message's genl_info, for replies
 * @left: completed when the caller closes its socket
 * @volume: name of the volume, or NULL
 * @run: the command
 * @request: its arguments, a copy
 */
struct weft_nl_job {
	struct work_struct	work;
	struct list_head	list;
	struct sk_buff		*skb;
	struct genl_info	info;
	struct completion	left;
	const char		*volume;
	int			(*run)(struct weft_nl_job *job, struct weft_why *why);
	u8			request[] __aligned(__alignof__(u64));
};

static struct workqueue_struct *weft_nl_wq;
static DEFINE_SPINLOCK(weft_nl_jobs_lock);
static LIST_HEAD(weft_nl_jobs);

static void weft_nl_job_free(struct weft_nl_job *job)
{
	spin_lock(&weft_nl_jobs_lock);
	list_del(&job->list);
	spin_unlock(&weft_nl_jobs_lock);
	sock_put(NETLINK_CB(job->skb).sk);
	consume_skb(job->skb);
	kfree(job);
}

static void weft_nl_job_work(struct work_struct *work)
{
	struct weft_nl_job *job = container_of(work, struct weft_nl_job, work);
	struct nlmsghdr *nlh = (struct nlmsghdr *)job->info.nlhdr;
	struct weft_why why = {};
	int ret;

	ret = weft_nl_result(&job->info, job->run(job, &why), job->volume, &why);
	if (ret || nlh->nlmsg_flags & NLM_F_ACK)
		netlink_ack(job->skb, nlh, ret, NULL);
	weft_nl_job_free(job);
}

/*
 * Let a worker run a command with a copy of the @size bytes at @request.
 * Returns what the doit function has to return: -EINTR, or an error.
 */
static int weft_nl_later(struct sk_buff *skb, struct genl_info *info, const char *volume,
			 int (*run)(struct weft_nl_job *job, struct weft_why *why),
			 const void *request, size_t size)
{
	struct weft_nl_job *job;

	job = kzalloc(struct_size(job, request, size), GFP_KERNEL);
	if (!job)
		return -ENOMEM;
	INIT_WORK(&job->work, weft_nl_job_work);
	init_completion(&job->left);
	job->skb = skb_get(skb);
	/* The worker sends the ack on this socket; its owner may close it. */
	sock_hold(NETLINK_CB(skb).sk);
	job->info = *info;
	job->info.attrs = NULL;
	job->info.extack = NULL;
	job->volume = volume;
	job->run = run;
	memcpy(job->request, request, size);
	spin_lock(&weft_nl_jobs_lock);
	list_add_tail(&job->list, &weft_nl_jobs);
	spin_unlock(&weft_nl_jobs_lock);
	queue_work(weft_nl_wq, &job->work);
	/* netlink sends no ack for -EINTR; a dump that started uses it, too. */
	return -EINTR;
}

/* A socket was closed: tell its commands that the caller has left. */
static int weft_nl_notify(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct netlink_notify *notify = data;
	struct weft_nl_job *job;

	if (event != NETLINK_URELEASE || notify->protocol != NETLINK_GENERIC ||
	    notify->net != &init_net)
		return NOTIFY_DONE;
	spin_lock(&weft_nl_jobs_lock);
	list_for_each_entry(job, &weft_nl_jobs, list)
		if (job->info.snd_portid == notify->portid)
			complete_all(&job->left);
	spin_unlock(&weft_nl_jobs_lock);
	return NOTIFY_DONE;
}

static struct notifier_block weft_nl_notifier = {
	.notifier_call	= weft_nl_notify,
};

/**
 * weft_nl_may() - may the sender change volumes?
 * @skb: the message
 * @why: gets the reason
 *
 * Return: 0 or -EPERM.
 */
int weft_nl_may(struct sk_buff *skb, struct weft_why *why)
{
	if (netlink_capable(skb, CAP_SYS_ADMIN))
		return 0;
	return weft_refuse(why, -EPERM,
			   "only a process with CAP_SYS_ADMIN may change volumes");
}

static int weft_nl_put_paths(struct sk_buff *skb, const struct weft_member *member)
{
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		const struct weft_path *path = weft_member_path(member, i);
		struct nlattr *nest;

		if (!path)
			continue;
		nest = nla_nest_start(skb, WEFT_A_MEMBER_PATH);
		if (!nest ||
		    nla_put_string(skb, WEFT_A_PATH_ADDRESS, path->address) ||
		    nla_put_string(skb, WEFT_A_PATH_TRANSPORT, path->ops->name) ||
		    nla_put_string(skb, WEFT_A_PATH_DISK, path->bdev->bd_disk->disk_name) ||
		    nla_put_u32(skb, WEFT_A_PATH_USABLE,
				READ_ONCE(path->usable) && !READ_ONCE(path->standby)))
			return -EMSGSIZE;
		nla_nest_end(skb, nest);
	}
	return 0;
}

static enum weft_member_state weft_nl_member_state(const struct weft_member *member)
{
	if (READ_ONCE(member->gone))
		return WEFT_MEMBER_STATE_GONE;
	return READ_ONCE(member->mpath.stalled) ? WEFT_MEMBER_STATE_STALLED :
						  WEFT_MEMBER_STATE_OK;
}

static int weft_nl_put_member(struct sk_buff *skb, const struct weft_member *member)
{
	struct nlattr *nest = nla_nest_start(skb, WEFT_A_VOLUME_MEMBER);
	dev_t dev = member->bdev->bd_dev;

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, WEFT_A_MEMBER_INDEX, member->index) ||
	    nla_put(skb, WEFT_A_MEMBER_UUID, WEFT_UUID_SIZE, member->sb.member_uuid) ||
	    nla_put_string(skb, WEFT_A_MEMBER_TRANSPORT, member->transport) ||
	    nla_put_string(skb, WEFT_A_MEMBER_ADDRESS, member->address) ||
	    nla_put_string(skb, WEFT_A_MEMBER_DISK, member->bdev->bd_disk->disk_name) ||
	    nla_put_u32(skb, WEFT_A_MEMBER_MAJOR, MAJOR(dev)) ||
	    nla_put_u32(skb, WEFT_A_MEMBER_MINOR, MINOR(dev)) ||
	    nla_put_u32(skb, WEFT_A_MEMBER_STATE, weft_nl_member_state(member)) ||
	    nla_put_u64_64bit(skb, WEFT_A_MEMBER_SIZE, bdev_nr_bytes(member->bdev),
			      WEFT_A_MEMBER_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_MEMBER_RETRIED,
			      READ_ONCE(member->mpath.retried), WEFT_A_MEMBER_PAD) ||
	    weft_nl_put_paths(skb, member)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

static int weft_nl_put_members(struct sk_buff *skb, const struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < vol->member_count; i++)
		if (weft_nl_put_member(skb, vol->members[i]))
			return -EMSGSIZE;
	return 0;
}

/* For how long writes pass without another heartbeat, in ms. */
static u32 weft_nl_lease_left(const struct weft_volume *vol)
{
	long left = READ_ONCE(vol->lease) - jiffies;

	return left > 0 ? jiffies_to_msecs(left) : 0;
}

static int weft_nl_put_volume(struct sk_buff *skb, struct weft_volume *vol)
{
	static const int routes[] = {
		[WEFT_MEM_ROUTE_DIRECT]	= WEFT_A_VOLUME_MEM_DIRECT,
		[WEFT_MEM_ROUTE_VMAP]	= WEFT_A_VOLUME_MEM_VMAP,
		[WEFT_MEM_ROUTE_BOUNCE]	= WEFT_A_VOLUME_MEM_BOUNCE,
	};
	const struct weft_sb_info *sb;
	u64 bytes[WEFT_MEM_ROUTES];
	dev_t dev;
	int i;

	if (nla_put_string(skb, WEFT_A_VOLUME_NAME, vol->name) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_STATE, vol->state))
		return -EMSGSIZE;
	if (!weft_volume_settled(vol))
		return 0;
	sb = &vol->members[0]->sb;
	dev = disk_devt(vol->disk);
	if (nla_put(skb, WEFT_A_VOLUME_UUID, WEFT_UUID_SIZE, vol->uuid) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_OWNERSHIP, weft_owner_state(vol)) ||
	    (vol->read_only ?
	     nla_put_flag(skb, WEFT_A_VOLUME_READ_ONLY) :
	     nla_put_u32(skb, WEFT_A_VOLUME_LEASE_LEFT, weft_nl_lease_left(vol))) ||
	    nla_put_u64_64bit(skb, WEFT_A_VOLUME_SIZE,
			      (u64)vol->map.capacity << SECTOR_SHIFT,
			      WEFT_A_VOLUME_PAD) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_CHUNK_SIZE, sb->chunk_size) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_BLOCK_SIZE, sb->block_size) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_MEMBER_COUNT, vol->member_count) ||
	    nla_put_u64_64bit(skb, WEFT_A_VOLUME_GENERATION, sb->generation,
			      WEFT_A_VOLUME_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_VOLUME_CREATED, sb->created,
			      WEFT_A_VOLUME_PAD) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_OPENERS, disk_openers(vol->disk)) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_MAJOR, MAJOR(dev)) ||
	    nla_put_u32(skb, WEFT_A_VOLUME_MINOR, MINOR(dev)))
		return -EMSGSIZE;
	weft_mem_sum(vol->mem->bytes, bytes);
	for (i = 0; i < WEFT_MEM_ROUTES; i++)
		if (nla_put_u64_64bit(skb, routes[i], bytes[i], WEFT_A_VOLUME_PAD))
			return -EMSGSIZE;
	return 0;
}

/* Message size for a volume with its members; only addresses vary in length. */
static size_t weft_nl_volume_size(const struct weft_volume *vol)
{
	size_t size = 1024;
	u32 i, j;

	for (i = 0; i < vol->member_count; i++) {
		size += 256 + strlen(vol->members[i]->address);
		for (j = 0; j < WEFT_PATHS_MAX; j++) {
			const struct weft_path *path = weft_member_path(vol->members[i], j);

			if (path)
				size += 128 + strlen(path->address);
		}
	}
	return size;
}

int weft_nl_volume_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	const char *name = weft_nl_string(info->attrs[WEFT_A_VOLUME_NAME]);
	struct sk_buff *reply = NULL;
	struct weft_volume *vol;
	struct weft_why why = {};
	unsigned int noio;
	void *hdr;
	int ret;

	if (!name)
		return weft_nl_result(info,
				      weft_refuse(&why, -EINVAL,
						  "the volume's name is missing"),
				      NULL, &why);
	noio = memalloc_noio_save();
	mutex_lock(&weft_volumes_lock);
	vol = weft_volume_find(name);
	if (!vol) {
		ret = weft_refuse(&why, -ENOENT, "no volume is called %s", name);
		goto out_unlock;
	}
	ret = -ENOMEM;
	reply = genlmsg_new(weft_volume_settled(vol) ? weft_nl_volume_size(vol) :
			    NLMSG_GOODSIZE, GFP_KERNEL);
	if (!reply)
		goto out_unlock;
	ret = -EMSGSIZE;
	hdr = genlmsg_put_reply(reply, info, &weft_nl_family, 0,
				WEFT_CMD_VOLUME_GET);
	if (!hdr || weft_nl_put_volume(reply, vol) ||
	    (weft_volume_settled(vol) && weft_nl_put_members(reply, vol)))
		goto out_unlock;
	genlmsg_end(reply, hdr);
	mutex_unlock(&weft_volumes_lock);
	memalloc_noio_restore(noio);
	return genlmsg_reply(reply, info);

out_unlock:
	mutex_unlock(&weft_volumes_lock);
	memalloc_noio_restore(noio);
	nlmsg_free(reply);
	return weft_nl_result(info, ret, name, &why);
}

int weft_nl_volume_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct weft_volume *vol;
	void *hdr;

	mutex_lock(&weft_volumes_lock);
	/* In the order of their numbers. One may be stopped between two parts of the dump. */
	list_for_each_entry(vol, &weft_volumes, list) {
		if (vol->number <= (unsigned long)cb->args[0])
			continue;
		hdr = genlmsg_put(skb, NETLINK_CB(cb->skb).portid,
				  cb->nlh->nlmsg_seq, &weft_nl_family,
				  NLM_F_MULTI, WEFT_CMD_VOLUME_GET);
		if (!hdr)
			break;
		if (weft_nl_put_volume(skb, vol)) {
			genlmsg_cancel(skb, hdr);
			break;
		}
		genlmsg_end(skb, hdr);
		cb->args[0] = vol->number;
	}
	mutex_unlock(&weft_volumes_lock);
	return skb->len;
}

/* Parse transport (default "bdev") and address (default "") of a path. */
static int weft_nl_parse_reach(struct nlattr *attr, struct genl_info *info,
			       struct nlattr **tb, const char **transport,
			       const char **address)
{
	int ret;

	ret = nla_parse_nested(tb, WEFT_A_MEMBER_MAX, attr, weft_member_nl_policy,
			       info->extack);
	if (ret)
		return ret;
	*transport = weft_nl_string(tb[WEFT_A_MEMBER_TRANSPORT]) ?: "bdev";
	*address = weft_nl_string(tb[WEFT_A_MEMBER_ADDRESS]) ?: "";
	return 0;
}

static int weft_nl_parse_member(struct nlattr *attr, struct genl_info *info,
				struct weft_member_request *req,
				struct weft_why *why)
{
	struct nlattr *tb[WEFT_A_MEMBER_MAX + 1];
	int ret;

	ret = weft_nl_parse_reach(attr, info, tb, &req->transport, &req->address);
	if (!ret && !req->address[0])
		ret = weft_refuse(why, -EINVAL, "a member has no address");
	if (!ret)
		req->lookup = lookup_bdev(req->address, &req->devt);
	return ret;
}

static u32 weft_nl_count_members(struct genl_info *info)
{
	struct nlattr *attr;
	u32 count = 0;
	int rem;

	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, rem)
		if (nla_type(attr) == WEFT_A_VOLUME_MEMBER)
			count++;
	return count;
}

static int weft_nl_parse_members(struct genl_info *info,
				 struct weft_assemble_request *req,
				 struct weft_why *why)
{
	struct nlattr *attr;
	u32 i = 0;
	int rem, ret;

	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, rem) {
		if (nla_type(attr) != WEFT_A_VOLUME_MEMBER)
			continue;
		ret = weft_nl_parse_member(attr, info, &req->members[i++], why);
		if (ret)
			return ret;
	}
	return 0;
}

static int weft_nl_assemble(struct weft_nl_job *job, struct weft_why *why)
{
	struct weft_assemble_request *req = (void *)job->request;

	req->left = &job->left;
	return weft_volume_assemble(req, why);
}

int weft_nl_volume_assemble_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	struct weft_assemble_request *req;
	struct weft_why why = {};
	const char *name;
	u32 count;
	int ret;

	name = weft_nl_string(attrs[WEFT_A_VOLUME_NAME]);
	ret = weft_nl_may(skb, &why);
	if (ret)
		return weft_nl_result(info, ret, name, &why);
	count = weft_nl_count_members(info);
	if (!name)
		ret = weft_refuse(&why, -EINVAL, "the volume's name is missing");
	else if (!count)
		ret = weft_refuse(&why, -EINVAL, "volume %s: no members given", name);
	else if (count > WEFT_MEMBERS_MAX)
		ret = weft_refuse(&why, -E2BIG,
				  "volume %s: %u members given, at most %d are possible",
				  name, count, WEFT_MEMBERS_MAX);
	if (ret)
		return weft_nl_result(info, ret, name, &why);

	req = kzalloc(struct_size(req, members, count), GFP_KERNEL);
	if (!req)
		return -ENOMEM;
	req->name = name;
	req->uuid = attrs[WEFT_A_VOLUME_UUID] ? nla_data(attrs[WEFT_A_VOLUME_UUID]) : NULL;
	req->host_nqn = weft_nl_string(attrs[WEFT_A_VOLUME_HOST_NQN]);
	req->read_only = nla_get_flag(attrs[WEFT_A_VOLUME_READ_ONLY]);
	req->take_over = nla_get_flag(attrs[WEFT_A_VOLUME_TAKE_OVER]);
	req->iostats = !nla_get_flag(attrs[WEFT_A_VOLUME_NO_IOSTATS]);
	req->count = count;
	ret = weft_nl_parse_members(info, req, &why);
	if (ret)
		ret = weft_nl_result(info, ret, name, &why);
	else
		ret = weft_nl_later(skb, info, name, weft_nl_assemble, req,
				    struct_size(req, members, count));
	kfree(req);
	return ret;
}

static int weft_nl_stop(struct weft_nl_job *job, struct weft_why *why)
{
	return weft_volume_stop(job->volume, why);
}

int weft_nl_volume_stop_doit(struct sk_buff *skb, struct genl_info *info)
{
	const char *name = weft_nl_string(info->attrs[WEFT_A_VOLUME_NAME]);
	struct weft_why why = {};
	int ret;

	ret = weft_nl_may(skb, &why);
	if (!ret && !name)
		ret = weft_refuse(&why, -EINVAL, "the volume's name is missing");
	if (!ret)
		return weft_nl_later(skb, info, name, weft_nl_stop, NULL, 0);
	return weft_nl_result(info, ret, name, &why);
}

static u32 weft_nl_u32(struct nlattr *attr)
{
	return attr ? nla_get_u32(attr) : 0;
}

static int weft_nl_s32(struct nlattr *attr, int otherwise)
{
	return attr ? nla_get_s32(attr) : otherwise;
}

static int weft_nl_reply_name(struct genl_info *info, const char *name)
{
	struct sk_buff *reply;
	void *hdr;

	reply = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	hdr = genlmsg_put_reply(reply, info, &weft_nl_family, 0,
				WEFT_CMD_CONTROLLER_CREATE);
	if (!hdr || nla_put_string(reply, WEFT_A_CONTROLLER_NAME, name)) {
		nlmsg_free(reply);
		return -EMSGSIZE;
	}
	genlmsg_end(reply, hdr);
	return genlmsg_reply(reply, info);
}

/**
 * struct weft_nl_controller - arguments of controller-create
 * @transport: name of the transport
 * @req: the controller
 */
struct weft_nl_controller {
	const char			*transport;
	struct weft_controller_request	req;
};

/* Other code copies and frees the message, and does not know that it has secrets. */
static void weft_nl_forget(const struct weft_dhchap_secrets *secrets)
{
	if (secrets->host.key)
		memzero_explicit((void *)secrets->host.key, secrets->host.len);
	if (secrets->ctrl.key)
		memzero_explicit((void *)secrets->ctrl.key, secrets->ctrl.len);
}

static int weft_nl_controller_create(struct weft_nl_job *job, struct weft_why *why)
{
	const struct weft_nl_controller *controller = (void *)job->request;
	char name[64];
	int ret;

	ret = weft_controller_create(controller->transport, &controller->req, name,
				     sizeof(name), why);
	weft_nl_forget(&controller->req.secrets);
	if (ret)
		return ret;
	/* The caller has left, and would not disconnect it. */
	if (completion_done(&job->left)) {
		weft_controller_delete(controller->transport, name, why);
		return -ECANCELED;
	}
	return weft_nl_reply_name(&job->info, name);
}

static struct weft_dhchap_secret weft_nl_secret(const struct nlattr *key, struct nlattr *hash)
{
	return (struct weft_dhchap_secret) {
		.key	= key ? nla_data(key) : NULL,
		.len	= key ? nla_len(key) : 0,
		.hash	= weft_nl_u32(hash),
	};
}

static struct weft_dhchap_secrets weft_nl_secrets(struct nlattr **attrs)
{
	return (struct weft_dhchap_secrets) {
		.host = weft_nl_secret(attrs[WEFT_A_CONTROLLER_DHCHAP_SECRET],
				       attrs[WEFT_A_CONTROLLER_DHCHAP_SECRET_HASH]),
		.ctrl = weft_nl_secret(attrs[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET],
				       attrs[WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH]),
	};
}

int weft_nl_controller_create_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	struct weft_nl_controller controller = {
		.transport	= weft_nl_string(attrs[WEFT_A_CONTROLLER_TRANSPORT]),
		.req.subnqn	= weft_nl_string(attrs[WEFT_A_CONTROLLER_SUBNQN]),
		.req.host_nqn	= weft_nl_string(attrs[WEFT_A_CONTROLLER_HOST_NQN]),
		.req.address	= weft_nl_string(attrs[WEFT_A_CONTROLLER_ADDRESS]),
		.req.service	= weft_nl_string(attrs[WEFT_A_CONTROLLER_SERVICE]),
		.req.host_address = weft_nl_string(attrs[WEFT_A_CONTROLLER_HOST_ADDRESS]),
		.req.io_queues	= weft_nl_u32(attrs[WEFT_A_CONTROLLER_IO_QUEUES]),
		.req.poll_queues = weft_nl_u32(attrs[WEFT_A_CONTROLLER_POLL_QUEUES]),
		.req.queue_size	= weft_nl_u32(attrs[WEFT_A_CONTROLLER_QUEUE_SIZE]),
		.req.keep_alive	= weft_nl_u32(attrs[WEFT_A_CONTROLLER_KEEP_ALIVE]),
		.req.reconnect_delay = weft_nl_u32(attrs[WEFT_A_CONTROLLER_RECONNECT_DELAY]),
		.req.ctrl_loss_timeout =
			weft_nl_s32(attrs[WEFT_A_CONTROLLER_CTRL_LOSS_TIMEOUT],
				    WEFT_NO_PATH_TIMEOUT),
		.req.fast_io_fail_timeout =
			weft_nl_s32(attrs[WEFT_A_CONTROLLER_FAST_IO_FAIL_TIMEOUT], -1),
		.req.tos	= weft_nl_s32(attrs[WEFT_A_CONTROLLER_TOS], -1),
		.req.background_tos = weft_nl_s32(attrs[WEFT_A_CONTROLLER_BACKGROUND_TOS], -1),
		.req.secrets	= weft_nl_secrets(attrs),
	};
	struct weft_why why = {};
	int ret;

	if (attrs[WEFT_A_CONTROLLER_HOST_ID])
		controller.req.host_id = nla_data(attrs[WEFT_A_CONTROLLER_HOST_ID]);
	ret = weft_nl_may(skb, &why);
	if (!ret && (!controller.transport || !controller.req.address || !controller.req.service))
		ret = weft_refuse(&why, -EINVAL,
				  "the transport, the target's address and its port are needed");
	if (ret) {
		weft_nl_forget(&controller.req.secrets);
		return weft_nl_result(info, ret, NULL, &why);
	}
	return weft_nl_later(skb, info, NULL, weft_nl_controller_create, &controller,
			     sizeof(controller));
}

/**
 * struct weft_nl_controller_name - which controller, and what it gets
 * @transport: name of the transport
 * @name: name of the controller
 * @secrets: for controller-secrets
 */
struct weft_nl_controller_name {
	const char			*transport;
	const char			*name;
	struct weft_dhchap_secrets	secrets;
};

/* Parse the name of a controller that is there. */
static int weft_nl_name_controller(struct sk_buff *skb, struct genl_info *info,
				   struct weft_nl_controller_name *controller, struct weft_why *why)
{
	int ret = weft_nl_may(skb, why);

	controller->transport = weft_nl_string(info->attrs[WEFT_A_CONTROLLER_TRANSPORT]);
	controller->name = weft_nl_string(info->attrs[WEFT_A_CONTROLLER_NAME]);
	if (!ret && (!controller->transport || !controller->name))
		ret = weft_refuse(why, -EINVAL,
				  "the transport and the controller's name are needed");
	return ret;
}

static int weft_nl_controller_secrets(struct weft_nl_job *job, struct weft_why *why)
{
	const struct weft_nl_controller_name *controller = (void *)job->request;
	int ret;

	ret = weft_controller_secrets(controller->transport, controller->name,
				      &controller->secrets, why);
	weft_nl_forget(&controller->secrets);
	return ret;
}

int weft_nl_controller_secrets_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct weft_nl_controller_name controller = { .secrets = weft_nl_secrets(info->attrs) };
	struct weft_why why = {};
	int ret;

	ret = weft_nl_name_controller(skb, info, &controller, &why);
	if (ret) {
		weft_nl_forget(&controller.secrets);
		return weft_nl_result(info, ret, NULL, &why);
	}
	return weft_nl_later(skb, info, NULL, weft_nl_controller_secrets, &controller,
			     sizeof(controller));
}

static int weft_nl_controller_delete(struct weft_nl_job *job, struct weft_why *why)
{
	const struct weft_nl_controller_name *controller = (void *)job->request;

	return weft_controller_delete(controller->transport, controller->name, why);
}

int weft_nl_controller_delete_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct weft_nl_controller_name controller = {};
	struct weft_why why = {};
	int ret;

	ret = weft_nl_name_controller(skb, info, &controller, &why);
	if (ret)
		return weft_nl_result(info, ret, NULL, &why);
	return weft_nl_later(skb, info, NULL, weft_nl_controller_delete, &controller,
			     sizeof(controller));
}

/* Parse the arguments of path-add and path-remove. */
static int weft_nl_path_request(struct sk_buff *skb, struct genl_info *info,
				struct weft_path_change *change, struct weft_why *why)
{
	struct nlattr *tb[WEFT_A_MEMBER_MAX + 1];
	int ret;

	ret = weft_nl_may(skb, why);
	if (ret)
		return ret;
	change->volume = weft_nl_string(info->attrs[WEFT_A_VOLUME_NAME]);
	if (!change->volume)
		return weft_refuse(why, -EINVAL, "the volume's name is missing");
	if (!info->attrs[WEFT_A_VOLUME_MEMBER])
		return weft_refuse(why, -EINVAL, "volume %s: the path is missing",
				   change->volume);
	ret = weft_nl_parse_reach(info->attrs[WEFT_A_VOLUME_MEMBER], info, tb,
				  &change->transport, &change->address);
	if (ret)
		return ret;
	if (!tb[WEFT_A_MEMBER_INDEX])
		return weft_refuse(why, -EINVAL, "volume %s: the member's index is missing",
				   change->volume);
	change->member = nla_get_u32(tb[WEFT_A_MEMBER_INDEX]);
	if (!change->address[0])
		return weft_refuse(why, -EINVAL, "volume %s: the path has no address",
				   change->volume);
	change->lookup = lookup_bdev(change->address, &change->devt);
	return 0;
}

static int weft_nl_path_change(struct sk_buff *skb, struct genl_info *info,
			       int (*run)(struct weft_nl_job *job, struct weft_why *why))
{
	struct weft_path_change change = {};
	struct weft_why why = {};
	int ret;

	ret = weft_nl_path_request(skb, info, &change, &why);
	if (!ret)
		return weft_nl_later(skb, info, change.volume, run, &change, sizeof(change));
	return weft_nl_result(info, ret, change.volume, &why);
}

static int weft_nl_path_add(struct weft_nl_job *job, struct weft_why *why)
{
	return weft_volume_path_add((void *)job->request, why);
}

int weft_nl_path_add_doit(struct sk_buff *skb, struct genl_info *info)
{
	return weft_nl_path_change(skb, info, weft_nl_path_add);
}

static int weft_nl_path_remove(struct weft_nl_job *job, struct weft_why *why)
{
	return weft_volume_path_remove((void *)job->request, why);
}

int weft_nl_path_remove_doit(struct sk_buff *skb, struct genl_info *info)
{
	return weft_nl_path_change(skb, info, weft_nl_path_remove);
}

int weft_netlink_init(void)
{
	int ret;

	weft_nl_wq = alloc_workqueue("weft-netlink", WQ_UNBOUND, 0);
	if (!weft_nl_wq)
		return -ENOMEM;
	ret = netlink_register_notifier(&weft_nl_notifier);
	if (ret)
		goto out_wq;
	ret = genl_register_family(&weft_nl_family);
	if (ret)
		goto out_notifier;
	return 0;

out_notifier:
	netlink_unregister_notifier(&weft_nl_notifier);
out_wq:
	destroy_workqueue(weft_nl_wq);
	return ret;
}

void weft_netlink_exit(void)
{
	genl_unregister_family(&weft_nl_family);
	/* Waits for the remaining commands; none of them can make a volume. */
	destroy_workqueue(weft_nl_wq);
	netlink_unregister_notifier(&weft_nl_notifier);
}
