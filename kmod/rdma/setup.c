// SPDX-License-Identifier: GPL-2.0-only
/*
 * Set an association up and tear it down: admin queue, Connect, properties,
 * Identify, number of queues, I/O queues.
 */
#include "mapping.h"
#include "namespace.h"

#include <linux/delay.h>

static unsigned int weft_io_timeout = 30;

static int weft_io_timeout_set(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, 3600);
}

static const struct kernel_param_ops weft_io_timeout_ops = {
	.set	= weft_io_timeout_set,
	.get	= param_get_uint,
};

module_param_cb(io_timeout, &weft_io_timeout_ops, &weft_io_timeout, 0644);
MODULE_PARM_DESC(io_timeout,
		 "seconds until an I/O command is aborted, and as long again until the association is; for controllers connected from now on (default 30)");

static int weft_refuse_lost(const struct weft_rdma_queue *queue, struct weft_why *why)
{
	return weft_refuse(why, -ECONNRESET, "queue %u: the target ended the connection", queue->id);
}

/* Say why a command of a queue's setup failed. @status as of weft_rdma_command(). */
static int weft_refuse_command(const struct weft_rdma_queue *queue, int status, const char *what,
			       struct weft_why *why)
{
	if (weft_rdma_connection_ended(queue, status))
		return weft_refuse_lost(queue, why);
	return weft_rdma_refuse_status(why, status, what);
}

/* The same for a property of the controller. */
static int weft_refuse_property(const struct weft_rdma_ctrl *ctrl, int error, const char *what,
				struct weft_why *why)
{
	return error == -ECONNRESET ? weft_refuse_lost(&ctrl->queues[0], why) :
				      weft_refuse(why, error, "%s", what);
}

static int weft_fabrics_connect(struct weft_rdma_queue *queue, struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl = queue->ctrl;
	struct nvmf_connect_data *data;
	union nvme_result result = {};
	struct nvme_command cmd;
	int ret;

	data = kzalloc_obj(*data);
	if (!data)
		return weft_refuse(why, -ENOMEM, "no memory to connect queue %u", queue->id);
	memcpy(&data->hostid, ctrl->opts.host_id, sizeof(data->hostid));
	data->cntlid = cpu_to_le16(queue->index ? ctrl->info.cntlid : 0xffff);
	strscpy(data->subsysnqn, ctrl->opts.subnqn, sizeof(data->subsysnqn));
	strscpy(data->hostnqn, ctrl->opts.host_nqn, sizeof(data->hostnqn));
	weft_capsule_connect(&cmd, queue->id, queue->size, ctrl->opts.kato_ms);
	ret = weft_rdma_command(queue->index ? ctrl->connect_q : ctrl->admin_q, &cmd,
				data, sizeof(*data), &result, WEFT_RDMA_SETUP_TIMEOUT,
				BLK_MQ_REQ_RESERVED | BLK_MQ_REQ_NOWAIT, queue);
	kfree(data);
	if (ret)
		return weft_refuse_command(queue, ret, "Connect", why);
	if (!queue->index)
		ctrl->info.cntlid = le32_to_cpu(result.u32) & 0xffff;
	return weft_rdma_authenticate(queue, le32_to_cpu(result.u32), why);
}

static int weft_ctrl_wait_ready(struct weft_rdma_ctrl *ctrl, u32 mask, u32 wanted,
				u32 timeout_ms, struct weft_why *why)
{
	unsigned long end = jiffies + msecs_to_jiffies(timeout_ms);
	/* That is a part of the deletion; all else is over when it begins, also if it began before. */
	bool shutdown = mask == NVME_CSTS_SHST_MASK;
	u64 csts = 0;
	int ret;

	for (;;) {
		if (!shutdown && weft_rdma_state(ctrl) >= WEFT_RDMA_DELETING)
			return weft_refuse(why, -ENOTCONN, "the controller is being deleted");
		ret = weft_rdma_property_read(ctrl, NVME_REG_CSTS, false, &csts);
		/* Its removal may wait for this. The CM ends the connection then, too. */
		if (!weft_rdma_ib_usable(ctrl->ib))
			return weft_refuse(why, -ENODEV, "the RDMA device %s is being removed",
					   dev_name(&ctrl->ib->dev));
		if (ret)
			return weft_refuse_property(ctrl, ret,
						    "the controller's status cannot be read", why);
		if (csts & NVME_CSTS_CFS)
			return weft_refuse(why, -EIO, "the controller has failed (CSTS 0x%llx)", csts);
		if ((csts & mask) == wanted)
			return 0;
		if (time_after(jiffies, end))
			return weft_refuse(why, -ETIMEDOUT,
					   "the controller was not ready after %u ms (CSTS 0x%llx)",
					   timeout_ms, csts);
		msleep(20);
	}
}

static int weft_ctrl_enable(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 cc = NVME_CC_CSS_NVM | NVME_CC_AMS_RR | NVME_CC_SHN_NONE |
		 NVME_CC_IOSQES | NVME_CC_IOCQES | NVME_CC_ENABLE;
	int ret;

	ret = weft_rdma_property_read(ctrl, NVME_REG_CAP, true, &ctrl->cap);
	if (ret)
		return weft_refuse_property(ctrl, ret,
					    "the controller's capabilities cannot be read", why);
	if (NVME_CAP_MPSMIN(ctrl->cap) > PAGE_SHIFT - 12)
		return weft_refuse(why, -EPROTO, "its smallest page (CAP.MPSMIN) is larger than this host's page");
	ret = weft_rdma_property_write(ctrl, NVME_REG_CC, cc);
	if (ret)
		return weft_refuse_property(ctrl, ret, "the controller cannot be enabled", why);
	return weft_ctrl_wait_ready(ctrl, NVME_CSTS_RDY, NVME_CSTS_RDY,
				    max_t(u32, NVME_CAP_TIMEOUT(ctrl->cap), 1) * 500, why);
}

/* Limits of single commands. A target without them refuses the command. */
static int weft_ctrl_identify_nvm(struct weft_rdma_ctrl *ctrl, u32 page_bytes,
				  struct weft_ctrl_info *info, struct weft_why *why)
{
	struct nvme_id_ctrl_nvm *id;
	int ret;

	if (info->version < NVME_VS(1, 2, 0))
		return 0;
	id = kzalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!id)
		return weft_refuse(why, -ENOMEM, "no memory to identify the controller");
	ret = weft_rdma_identify(ctrl, NVME_ID_CNS_CS_CTRL, 0, id, &ctrl->queues[0]);
	if (!ret)
		weft_info_nvm(id, page_bytes, info);
	else if (ret < 0 || ret & WEFT_STATUS_HOST)
		ret = weft_refuse_command(&ctrl->queues[0], ret,
					  "Identify Controller (NVM command set)", why);
	else
		ret = 0;
	kfree(id);
	return ret;
}

static int weft_ctrl_identify(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 page_bytes = SZ_4K << NVME_CAP_MPSMIN(ctrl->cap);
	struct weft_ctrl_info info;
	struct nvme_id_ctrl *id;
	int ret;

	id = kzalloc_obj(*id);
	if (!id)
		return weft_refuse(why, -ENOMEM, "no memory to identify the controller");
	ret = weft_rdma_identify(ctrl, NVME_ID_CNS_CTRL, 0, id, &ctrl->queues[0]);
	if (ret)
		ret = weft_refuse_command(&ctrl->queues[0], ret, "Identify Controller", why);
	else
		ret = weft_info_controller(id, ctrl->cap, page_bytes, &info, why);
	/* A disk takes a page at least. */
	if (!ret && info.max_bytes < PAGE_SIZE)
		ret = weft_refuse(why, -EPROTO,
				  "it takes %u bytes with a command, and this kernel needs %lu",
				  info.max_bytes, PAGE_SIZE);
	if (!ret && info.cntlid != ctrl->info.cntlid)
		ret = weft_refuse(why, -EPROTO,
				  "it identifies itself as controller %u, but it connected as controller %u",
				  info.cntlid, ctrl->info.cntlid);
	if (!ret)
		ret = weft_ctrl_identify_nvm(ctrl, page_bytes, &info, why);
	if (!ret)
		ctrl->info = info;
	kfree(id);
	return ret;
}

static int weft_ctrl_set_features(struct weft_rdma_ctrl *ctrl, u8 fid, u32 value,
				  u32 *result)
{
	union nvme_result got = {};
	struct nvme_command cmd = {};
	int ret;

	cmd.features.opcode = nvme_admin_set_features;
	cmd.features.fid = cpu_to_le32(fid);
	cmd.features.dword11 = cpu_to_le32(value);
	ret = weft_rdma_command(ctrl->admin_q, &cmd, NULL, 0, &got,
				WEFT_RDMA_SETUP_TIMEOUT, 0, &ctrl->queues[0]);
	if (!ret && result)
		*result = le32_to_cpu(got.u32);
	return ret;
}

/*
 * A target may use a longer keep-alive timeout than the host asked for. It
 * detects the loss of the host only after that, and executes writes until then.
 */
static void weft_ctrl_read_keep_alive(struct weft_rdma_ctrl *ctrl)
{
	union nvme_result result = {};
	struct nvme_command cmd = {};

	cmd.features.opcode = nvme_admin_get_features;
	cmd.features.fid = cpu_to_le32(NVME_FEAT_KATO);
	ctrl->target_kato_ms = ctrl->opts.kato_ms;
	if (weft_rdma_command(ctrl->admin_q, &cmd, NULL, 0, &result, WEFT_RDMA_SETUP_TIMEOUT, 0,
			      &ctrl->queues[0]))
		return;	/* the feature is optional */
	ctrl->target_kato_ms = clamp(le32_to_cpu(result.u32), ctrl->opts.kato_ms,
				     max(ctrl->opts.kato_ms, WEFT_RDMA_TARGET_KATO_MAX));
	if (ctrl->target_kato_ms != ctrl->opts.kato_ms)
		weft_ctrl_info(ctrl, "the target uses a keep-alive timeout of %u ms, not %u: after a lost connection, writes wait longer\n",
			       ctrl->target_kato_ms, ctrl->opts.kato_ms);
}

/*
 * What is left serves peer memory first: without a queue it is copied. Then
 * background I/O, which otherwise shares the other queues.
 */
static void weft_ctrl_share_queues(struct weft_rdma_ctrl *ctrl, u32 io, u32 left)
{
	u32 background = ctrl->opts.background_tos >= 0 ? io : 0;

	ctrl->mem_count = left >= io ? io : 0;
	left -= ctrl->mem_count;
	ctrl->background_count = left >= background ? background : 0;
	ctrl->background_ids = ctrl->background_count;
	left -= ctrl->background_count;
	if (ctrl->background_count && left >= background)
		ctrl->mem_count += background;
	else if (background)
		weft_ctrl_info(ctrl, "the target grants too few queues: background I/O%s shares those of feed I/O\n",
			       ctrl->background_count ? " on registered memory" : "");
}

/*
 * The number of I/O queues: the requested or the granted number; poll queues are
 * last. Behind them are those for background I/O, and then those for peer memory.
 */
static int weft_ctrl_count_queues(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 io = ctrl->opts.io_queues, poll = ctrl->opts.poll_queues;
	u32 wanted = io + poll, ask = weft_rdma_all_queues(&ctrl->opts) - 1, granted, left, result = 0;
	int ret;

	/*
	 * 0's based, submission queues below, completion queues above. Those for
	 * peer memory are connected when there is some, but requested now or never.
	 */
	ret = weft_ctrl_set_features(ctrl, NVME_FEAT_NUM_QUEUES, ask | ask << 16, &result);
	if (ret)
		return weft_refuse_command(&ctrl->queues[0], ret,
					   "Set Features (Number of Queues)", why);
	granted = min(result & 0xffff, result >> 16) + 1;
	/* A full RDMA device may have room later: queues for memory are tried again then. */
	left = granted;
	if (ctrl->set_ready) {
		io = ctrl->poll_from - 1;
		poll = ctrl->queue_count - ctrl->poll_from;
		wanted = io + poll;
		left = min_not_zero(granted, ctrl->target_queues);
		granted = min_not_zero(left, ctrl->device_queues);
	}
	weft_ctrl_share_queues(ctrl, io, left > wanted ? left - wanted : 0);
	if (granted < wanted) {
		poll = min(poll, granted - 1);
		weft_ctrl_info(ctrl, "%s %u I/O queues of %u\n",
			       left > granted ? "the RDMA device had room for" :
						"the target grants",
			       granted, wanted);
		/* Those for background I/O would take the room of another controller's. */
		if (left > granted) {
			ctrl->background_count = 0;
			ctrl->mem_count = min(ctrl->mem_count, io);
		}
	}
	ctrl->io_up = min(io, granted - poll);
	ctrl->poll_up = poll;
	if (ctrl->set_ready)
		return 0;
	ctrl->poll_from = ctrl->io_up + 1;
	ctrl->queue_count = ctrl->io_up + poll + 1;
	ctrl->background_first = ctrl->queue_count;
	/* With room for those for background I/O, which a later association may have. */
	ctrl->mem_first = ctrl->background_first +
			  (ctrl->opts.background_tos >= 0 ? ctrl->io_up : 0);
	return 0;
}

/* Say why a queue was stopped in the course of the setup. */
static int weft_refuse_late(const struct weft_rdma_queue *queue, struct weft_why *why)
{
	if (READ_ONCE(queue->cm_status))
		return weft_refuse_lost(queue, why);
	return weft_refuse(why, -ETIMEDOUT, "queue %u: the target answered too late", queue->id);
}

/* A command of the setup that timed out has stopped the queue, even if it was answered after all. */
static int weft_queue_set_live(struct weft_rdma_queue *queue, struct weft_why *why)
{
	bool connected, ended;

	/* Under the lock of weft_rdma_queue_stop(), which may be running in the timeout handler. */
	mutex_lock(&queue->lock);
	connected = test_bit(WEFT_QUEUE_CONNECTED, &queue->flags);
	if (connected) {
		set_bit(WEFT_QUEUE_LIVE, &queue->flags);
		/* Pairs with the CM's handler: from here on, it ends the association. */
		smp_mb__after_atomic();
	}
	ended = READ_ONCE(queue->cm_status);
	if (ended)
		clear_bit(WEFT_QUEUE_LIVE, &queue->flags);
	mutex_unlock(&queue->lock);
	return connected && !ended ? 0 : weft_refuse_late(queue, why);
}

static int weft_queue_start_admin(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	struct weft_rdma_queue *admin = &ctrl->queues[0];
	int ret;

	admin->ctrl = ctrl;
	admin->index = 0;
	admin->size = WEFT_RDMA_ADMIN_SIZE;
	admin->inline_bytes = 0;
	WRITE_ONCE(ctrl->lost, false);
	ret = weft_rdma_queue_start(admin, why);
	if (!ret)
		ret = weft_rdma_queue_wait(admin, why);
	if (ret)
		return ret;
	snprintf(ctrl->rail, sizeof(ctrl->rail), "%s/%u", dev_name(&ctrl->ib->dev),
		 admin->cm_id->port_num);
	ret = weft_fabrics_connect(admin, why);
	if (!ret)
		ret = weft_ctrl_enable(ctrl, why);
	if (!ret)
		ret = weft_ctrl_identify(ctrl, why);
	if (!ret)
		weft_ctrl_read_keep_alive(ctrl);
	if (!ret)
		ret = weft_queue_set_live(admin, why);
	/* Connecting all queues may take longer than the keep-alive timeout. */
	if (!ret)
		queue_delayed_work(ctrl->wq, &ctrl->keep_alive_work,
				   msecs_to_jiffies(ctrl->opts.kato_ms / 2));
	return ret;
}

/* The queue for the background I/O of a queue, or NULL. */
static struct weft_rdma_queue *weft_queue_background(struct weft_rdma_ctrl *ctrl, u32 index)
{
	u32 io = ctrl->poll_from - 1;

	if (index <= min(io, ctrl->background_count))
		return &ctrl->queues[ctrl->background_first + index - 1];
	if (index >= ctrl->mem_first && index < ctrl->mem_first + io && ctrl->mem_count > io)
		return &ctrl->queues[index + io];
	return NULL;
}

/*
 * The id by which the target knows a queue. A target takes no id beyond the number
 * of queues that it granted. So ids have no gaps, as indices have where it grants
 * fewer queues than before.
 */
static u16 weft_queue_id(const struct weft_rdma_ctrl *ctrl, u32 index)
{
	u32 up = ctrl->io_up + ctrl->poll_up;

	if (index < ctrl->poll_from)
		return index;
	if (index < ctrl->queue_count)
		return ctrl->io_up + 1 + index - ctrl->poll_from;
	if (index < ctrl->mem_first)
		return up + 1 + index - ctrl->background_first;
	return up + ctrl->background_ids + 1 + index - ctrl->mem_first;
}

static int weft_queue_start_io(struct weft_rdma_ctrl *ctrl, u32 index,
			       struct weft_why *why)
{
	struct weft_rdma_queue *queue = &ctrl->queues[index];

	queue->ctrl = ctrl;
	queue->index = index;
	queue->id = weft_queue_id(ctrl, index);
	/* Read while queues for peer memory are connected again. */
	WRITE_ONCE(queue->background, weft_queue_background(ctrl, index));
	queue->size = min(ctrl->set.queue_depth + 1, ctrl->info.max_queue_size);
	queue->inline_bytes = ctrl->info.inline_bytes;
	queue->mem = index >= ctrl->mem_first;
	queue->for_background = queue->mem ? index >= ctrl->mem_first + ctrl->poll_from - 1 :
				index >= ctrl->background_first;
	queue->poll = index >= ctrl->poll_from && index < ctrl->queue_count;
	queue->scarce = queue->size <= ctrl->set.queue_depth ||
			(!queue->mem && ctrl->io_up + ctrl->poll_up < ctrl->queue_count - 1);
	bitmap_zero(queue->claimed, WEFT_RDMA_QUEUE_MAX);
	return weft_rdma_queue_start(queue, why);
}

/*
 * A timeout handler that began before the answer came may stop a queue that is live
 * by now. Wait for it, and look.
 */
static int weft_queues_check_live(struct weft_rdma_ctrl *ctrl, struct request_queue *q,
				  u32 first, u32 count, struct weft_why *why)
{
	u32 i;

	flush_work(&q->timeout_work);
	for (i = first; i < first + count; i++)
		if (!test_bit(WEFT_QUEUE_LIVE, &ctrl->queues[i].flags))
			return weft_refuse_late(&ctrl->queues[i], why);
	return 0;
}

static int weft_queue_finish_io(struct weft_rdma_queue *queue, struct weft_why *why)
{
	int ret;

	ret = weft_rdma_queue_wait(queue, why);
	if (!ret)
		ret = weft_fabrics_connect(queue, why);
	if (!ret)
		ret = weft_queue_set_live(queue, why);
	return ret;
}

/* A target may take seconds for each queue. */
static bool weft_queues_are_wanted(struct weft_rdma_ctrl *ctrl, u32 first)
{
	enum weft_rdma_state state = weft_rdma_state(ctrl);

	if (READ_ONCE(ctrl->lost))
		return false;
	/* The end of the association waits for the queues that are added to it. */
	return (ctrl->queues[first].mem ? state == WEFT_RDMA_LIVE : state < WEFT_RDMA_DELETING) &&
	       weft_rdma_ib_usable(ctrl->ib);
}

/* After weft_queues_are_wanted(). */
static int weft_refuse_unwanted(const struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	if (READ_ONCE(ctrl->lost))
		return weft_refuse(why, -ECONNRESET,
				   "a connection was lost while the others were made");
	return weft_refuse(why, -ENOTCONN,
			   "the association or its RDMA device is being removed");
}

/**
 * weft_rdma_start_queues() - connect some I/O queues
 * @ctrl: its admin queue is connected
 * @first: index
 * @count: how many
 * @made: set: how many were connected, in their order
 * @why: gets the reason of a failure
 *
 * Requests several connections at a time, so that the target has the next one
 * when it has finished one, and limits them, so that it does not drop any.
 *
 * Context: process context; waits for the target, limited by timeouts.
 * Return: 0 or a negative errno. The queues are undone as in all cases.
 */
int weft_rdma_start_queues(struct weft_rdma_ctrl *ctrl, u32 first, u32 count, u32 *made,
			   struct weft_why *why)
{
	u32 end = first + count, asked = first, i;
	int ret = 0, err;

	for (i = first; i < end; i++) {
		for (; asked < min(end, i + WEFT_RDMA_CONNECTS) &&
		     weft_queues_are_wanted(ctrl, first); asked++) {
			ret = weft_queue_start_io(ctrl, asked, why);
			if (ret)
				end = asked;	/* those before it may still come */
		}
		/* After them: weft_rdma_teardown() breaks those that it sees. */
		if (!weft_queues_are_wanted(ctrl, first)) {
			ret = weft_refuse_unwanted(ctrl, why);
			break;
		}
		if (i == end)
			break;
		err = weft_queue_finish_io(&ctrl->queues[i], why);
		if (err) {
			ret = err;
			break;
		}
	}
	*made = i - first;
	return ret ?: weft_queues_check_live(ctrl, ctrl->connect_q, first, count, why);
}

static int weft_ctrl_alloc_set(struct weft_rdma_ctrl *ctrl)
{
	u32 size = min3(ctrl->opts.queue_size, ctrl->info.max_queue_size,
			(u32)WEFT_RDMA_QUEUE_MAX);
	struct blk_mq_tag_set *set = &ctrl->set;
	int ret;

	memset(set, 0, sizeof(*set));
	set->ops = &weft_rdma_io_ops;
	/* One less than the entries: a full queue would look like an empty one. */
	set->queue_depth = min(size, (u32)ctrl->ib->attrs.max_qp_wr / 4) - 1;
	set->reserved_tags = 1;
	set->numa_node = ctrl->node;
	set->nr_hw_queues = ctrl->queue_count - 1;
	set->timeout = READ_ONCE(weft_io_timeout) * HZ;
	set->nr_maps = ctrl->queue_count > ctrl->poll_from ? HCTX_MAX_TYPES : 1;
	/* A scheduler may hold background I/O, which has the priority IDLE, for as long as others come. */
	set->flags = WEFT_MQ_F_DEFAULT | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	ret = weft_rdma_set_alloc(ctrl, set, &ctrl->connect_q);
	ctrl->set_ready = !ret;
	return ret;
}

/**
 * weft_rdma_free_sets() - free the tag sets that the first weft_rdma_setup() made
 * @ctrl: torn down, without namespaces
 */
void weft_rdma_free_sets(struct weft_rdma_ctrl *ctrl)
{
	bool ready;

	/* A path's close looks through the tags under this lock. */
	mutex_lock(&ctrl->mem_lock);
	ready = ctrl->set_ready;
	ctrl->set_ready = false;
	mutex_unlock(&ctrl->mem_lock);
	if (ready)
		weft_rdma_set_free(&ctrl->set, ctrl->connect_q);
}

/*
 * A target may grant more queues than it then takes, and the RDMA device may have
 * fewer queue pairs. Background I/O then shares those of feed I/O. No request of
 * the disks is sent meanwhile.
 */
static int weft_background_start(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 first = ctrl->background_first, count = ctrl->background_count, made = 0, i;
	int ret;

	ret = weft_rdma_start_queues(ctrl, first, count, &made, why);
	if (!ret || !weft_queues_are_wanted(ctrl, first))
		return ret;
	/*
	 * Without a path to the target, the association begins anew; without memory, only a
	 * reconnect does. But a fabric may let nothing of this type of service through for as
	 * long as it likes.
	 */
	if ((ret == -ETIMEDOUT || ret == -EHOSTUNREACH || (ret == -ENOMEM && ctrl->attempts)) &&
	    ctrl->attempts < WEFT_RDMA_ALL_QUEUES)
		return ret;
	weft_ctrl_warn(ctrl, "%u queues for background I/O of %u can be connected, so it shares those of feed I/O: %s\n",
		       made, count, why->text);
	why->text[0] = 0;	/* said; another failure has a reason of its own */
	for (i = 1; i <= ctrl->io_up; i++)
		WRITE_ONCE(ctrl->queues[i].background, NULL);
	for (i = first; i < first + count; i++)
		if (ctrl->queues[i].cm_id)
			weft_rdma_queue_stop(&ctrl->queues[i]);
	/* The timeout handler of a Connect may still use its slot. */
	flush_work(&ctrl->connect_q->timeout_work);
	for (i = first; i < first + count; i++)
		weft_rdma_queue_free(&ctrl->queues[i]);
	ctrl->background_count = 0;
	return 0;
}

/**
 * weft_rdma_setup() - set an association up
 * @ctrl: CONNECTING, with nothing connected; its disks are closed
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the target, limited by timeouts.
 * Return: 0 or a negative errno. Undo with weft_rdma_teardown(), also after an
 * error.
 */
int weft_rdma_setup(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 polls = 0, events = 0, i;
	int ret;

	ctrl->queues_made = 0;
	ret = weft_queue_start_admin(ctrl, why);
	/* A heartbeat may read it at any time. */
	if (!ret)
		WRITE_ONCE(ctrl->quiet_ms, WEFT_RDMA_QUIET_MARGIN_MS +
			   weft_info_quiet_ms(&ctrl->info, ctrl->target_kato_ms));
	if (!ret)
		ret = weft_ctrl_count_queues(ctrl, why);
	if (!ret && !ctrl->set_ready) {
		ret = weft_ctrl_alloc_set(ctrl);
		if (ret)
			weft_refuse(why, ret, "no memory for %u queues (error %d)",
				    ctrl->queue_count - 1, -ret);
	}
	if (ret)
		return ret;
	weft_rdma_ns_fit(ctrl);
	ret = weft_rdma_start_queues(ctrl, 1, ctrl->io_up, &ctrl->queues_made, why);
	if (!ret && ctrl->poll_up) {
		ret = weft_rdma_start_queues(ctrl, ctrl->poll_from, ctrl->poll_up, &polls, why);
		ctrl->queues_made += polls;
	}
	if (!ret && ctrl->background_count)
		ret = weft_background_start(ctrl, why);
	if (ret)
		return ret;
	/* Last, so that no queue lacks a registration because of them. */
	for (i = 1; i <= ctrl->io_up; i++)
		weft_rdma_bounce_start(&ctrl->queues[i]);
	if (ctrl->info.ns_events)
		events |= NVME_AEN_CFG_NS_ATTR;
	if (ctrl->info.ana_events)
		events |= NVME_AEN_CFG_ANA_CHANGE;
	if (events)
		weft_ctrl_set_features(ctrl, NVME_FEAT_ASYNC_EVENT, events, NULL);
	return weft_queues_check_live(ctrl, ctrl->admin_q, 0, 1, why);
}

/**
 * weft_rdma_setup_again() - repeat the first weft_rdma_setup()
 * @ctrl: no disk is made
 * @why: has the reason, gets that of a failure
 *
 * Context: as weft_rdma_setup().
 * Return: as weft_rdma_setup().
 */
int weft_rdma_setup_again(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	why->text[0] = 0;
	weft_rdma_teardown(ctrl, false);
	weft_rdma_free_sets(ctrl);
	return weft_rdma_setup(ctrl, why);
}

/**
 * weft_rdma_setup_fewer() - repeat the first weft_rdma_setup() with fewer queues
 * @ctrl: one of its I/O queues could not be connected after others; no disk is made
 * @why: has the reason, gets that of a failure
 *
 * A target may grant more queues than it then takes, and other controllers may have most
 * of the RDMA device's queue pairs and memory registrations.
 *
 * Context: as weft_rdma_setup().
 * Return: as weft_rdma_setup().
 */
int weft_rdma_setup_fewer(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	u32 made = ctrl->queues_made;

	weft_ctrl_warn(ctrl, "%u I/O queues of %u can be connected: %s\n", made,
		       ctrl->queue_count - 1, why->text);
	ctrl->opts.poll_queues = min(ctrl->opts.poll_queues, made - 1);
	ctrl->opts.io_queues = made - ctrl->opts.poll_queues;
	return weft_rdma_setup_again(ctrl, why);
}

/* Returns true if the target has confirmed that all commands have ended. */
static bool weft_ctrl_shutdown(struct weft_rdma_ctrl *ctrl)
{
	u32 cc = NVME_CC_CSS_NVM | NVME_CC_IOSQES | NVME_CC_IOCQES |
		 NVME_CC_ENABLE | NVME_CC_SHN_NORMAL;
	struct weft_why why = {};

	if (weft_rdma_property_write(ctrl, NVME_REG_CC, cc))
		return false;
	if (!weft_ctrl_wait_ready(ctrl, NVME_CSTS_SHST_MASK, NVME_CSTS_SHST_CMPLT,
				  ctrl->info.shutdown_ms, &why))
		return true;
	weft_ctrl_warn(ctrl, "the controller did not shut down: %s\n", why.text);
	return false;
}

/* Wait until no timeout handler is running. */
static void weft_ctrl_sync_timeouts(struct weft_rdma_ctrl *ctrl)
{
	if (ctrl->set_ready) {
		blk_sync_queue(ctrl->connect_q);
		weft_rdma_ns_sync(ctrl);
	}
	blk_sync_queue(ctrl->admin_q);
}

/*
 * Soft-iWARP sends data by reference to its pages, and does not wait for its socket: TCP
 * still delivers it after the drain. The target would execute a write with what its pages
 * have by then, so they stay the write's until the target has ended the association.
 */
static void weft_ctrl_keep_sent_pages(struct weft_rdma_ctrl *ctrl)
{
	long left;

	if (!ctrl->set_ready || !ctrl->queues[0].cm_id ||
	    !weft_queue_soft_iwarp(&ctrl->queues[0]) || !weft_rdma_cancel_reads(&ctrl->set))
		return;
	while ((left = ctrl->quiet_at - jiffies) > 0)
		schedule_timeout_idle(min(left, (long)HZ));
}

/**
 * weft_rdma_teardown() - tear an association down
 * @ctrl: its disks are closed or dead; any part of it may be connected
 * @shutdown: shut the controller down first, because it still answers
 *
 * When this returns, no command of it can access this host's memory, every
 * request that was sent has ended, and nothing of the RDMA device is held.
 *
 * Context: process context, may sleep.
 */
void weft_rdma_teardown(struct weft_rdma_ctrl *ctrl, bool shutdown)
{
	bool ended = shutdown && weft_ctrl_shutdown(ctrl);
	u32 i;

	/* Before the wait for the lock, which takes long if the target does not answer. */
	for (i = 0; i < ctrl->max_queues; i++)
		weft_rdma_queue_break(&ctrl->queues[i]);
	/* Wait for a thread that connects queues for peer memory; no other starts. */
	mutex_lock(&ctrl->mem_lock);
	WRITE_ONCE(ctrl->mem_ready, false);
	WRITE_ONCE(ctrl->mem_up, false);
	/* A handler that starts after the wait below must not end a request, too. */
	WRITE_ONCE(ctrl->ending, true);
	if (ctrl->set_ready)
		blk_mq_quiesce_queue(ctrl->connect_q);
	blk_mq_quiesce_queue(ctrl->admin_q);

	/* All queue pairs before any request: a key is valid on all of them. */
	for (i = ctrl->max_queues; i-- > 0;)
		if (ctrl->queues[i].cm_id)
			weft_rdma_queue_stop(&ctrl->queues[i]);
	/* From here on nothing keeps the association alive. Set before requests look at it. */
	if (weft_rdma_state(ctrl) >= WEFT_RDMA_RECOVERING && !ended)
		ctrl->quiet_at = jiffies + msecs_to_jiffies(ctrl->quiet_ms);

	/* Wait for handlers of the requests that are ended next. */
	weft_ctrl_sync_timeouts(ctrl);
	if (weft_rdma_state(ctrl) >= WEFT_RDMA_RECOVERING && !ended)
		weft_ctrl_keep_sent_pages(ctrl);
	if (ctrl->set_ready)
		weft_rdma_cancel_all(&ctrl->set);
	weft_rdma_cancel_all(&ctrl->admin_set);
	/* And for handlers that ran meanwhile: their data is freed next. */
	weft_ctrl_sync_timeouts(ctrl);

	/* Refuse requests that wait to be sent, so that no caller waits for them. */
	if (ctrl->set_ready)
		blk_mq_unquiesce_queue(ctrl->connect_q);
	blk_mq_unquiesce_queue(ctrl->admin_q);
	cancel_delayed_work_sync(&ctrl->keep_alive_work);

	/* The admin queue last: the device goes with it. */
	for (i = ctrl->max_queues; i-- > 1;)
		weft_rdma_queue_free(&ctrl->queues[i]);
	weft_domain_leave(ctrl);
	weft_rdma_queue_free(&ctrl->queues[0]);
	WRITE_ONCE(ctrl->ending, false);
	mutex_unlock(&ctrl->mem_lock);
}
