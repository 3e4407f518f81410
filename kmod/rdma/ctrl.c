// SPDX-License-Identifier: GPL-2.0-only
/* Controllers: create, find, remove. */
#include "namespace.h"

#include <linux/idr.h>
#include <linux/inet.h>
#include <net/net_namespace.h>

static DEFINE_IDA(weft_rdma_instances);

static void weft_rdma_removal_work(struct work_struct *work);

static void weft_rdma_dev_release(struct device *dev)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);

	ida_free(&weft_rdma_instances, ctrl->instance);
	kvfree(ctrl->ana_log);
	kfree(ctrl->queues);
	kfree_sensitive(ctrl);	/* with its secrets */
}

static int weft_options_addresses(struct weft_rdma_options *opts, struct weft_why *why)
{
	if (inet_pton_with_scope(&init_net, AF_UNSPEC, opts->traddr, opts->trsvcid,
				 &opts->remote))
		return weft_refuse(why, -EINVAL,
				   "'%s' port '%s' is not an IP address and port",
				   opts->traddr, opts->trsvcid);
	if (opts->host_traddr[0] &&
	    inet_pton_with_scope(&init_net, AF_UNSPEC, opts->host_traddr, NULL,
				 &opts->local))
		return weft_refuse(why, -EINVAL, "the host address '%s' is not an IP address",
				   opts->host_traddr);
	return 0;
}

static int weft_options_copy(char *to, const char *from, size_t size,
			     const char *name, struct weft_why *why)
{
	if (strscpy(to, from ?: "", size) < 0)
		return weft_refuse(why, -EINVAL, "the %s is longer than %zu bytes", name,
				   size - 1);
	return 0;
}

static int weft_options_read(struct weft_rdma_options *opts,
			     const struct weft_controller_request *req,
			     struct weft_why *why)
{
	int ret;

	ret = weft_options_copy(opts->subnqn, req->subnqn, sizeof(opts->subnqn),
				"subsystem's NQN", why);
	if (!ret)
		ret = weft_options_copy(opts->host_nqn, req->host_nqn,
					sizeof(opts->host_nqn), "host's NQN", why);
	if (!ret)
		ret = weft_options_copy(opts->traddr, req->address, sizeof(opts->traddr),
					"target's address", why);
	if (!ret)
		ret = weft_options_copy(opts->trsvcid, req->service, sizeof(opts->trsvcid),
					"target's port", why);
	if (!ret)
		ret = weft_options_copy(opts->host_traddr, req->host_address,
					sizeof(opts->host_traddr), "host's address", why);
	if (ret)
		return ret;
	if (!opts->subnqn[0] || !opts->host_nqn[0] || !req->host_id)
		return weft_refuse(why, -EINVAL,
				   "the subsystem's NQN, the host's NQN and its id are all needed");
	memcpy(opts->host_id, req->host_id, sizeof(opts->host_id));
	opts->io_queues = min(req->io_queues ?: num_online_cpus(), num_online_cpus());
	opts->poll_queues = min(req->poll_queues, num_online_cpus());
	opts->queue_size = clamp(req->queue_size ?: 128U, 8U, (u32)WEFT_RDMA_QUEUE_MAX);
	/* Not 0: a dead target would not be detected, and writes could not be resent. */
	opts->kato_ms = clamp(req->keep_alive ?: 5U, 1U, 3600U) * 1000;
	opts->reconnect_delay = clamp(req->reconnect_delay ?: 2U, 1U, 3600U);
	opts->ctrl_loss_timeout = clamp(req->ctrl_loss_timeout, -1, WEFT_RDMA_SECONDS_MAX);
	opts->fast_io_fail_timeout = clamp(req->fast_io_fail_timeout, -1,
					   WEFT_RDMA_SECONDS_MAX);
	opts->tos = clamp(req->tos, -1, 255);
	opts->background_tos = clamp(req->background_tos, -1, 255);
	return weft_options_addresses(opts, why);
}

static int weft_secret_set(struct weft_rdma_secret *secret, const struct weft_dhchap_secret *given,
			   struct weft_why *why)
{
	if (given->len != 32 && given->len != 48 && given->len != 64)
		return weft_refuse(why, -EINVAL, "a secret has 32, 48 or 64 bytes, not %u", given->len);
	if (given->hash > NVME_AUTH_HASH_SHA512)
		return weft_refuse(why, -EINVAL, "hash %u of a secret is unknown", given->hash);
	memcpy(secret->key, given->key, given->len);
	secret->len = given->len;
	secret->hash = given->hash;
	return 0;
}

/**
 * weft_rdma_secrets_set() - set a controller's secrets
 * @ctrl: the controller
 * @secrets: those that are not given stay
 * @why: gets the reason of a failure
 *
 * They are used from the next authentication on.
 *
 * Context: process context, may sleep.
 * Return: 0, or -EINVAL; then neither is set.
 */
int weft_rdma_secrets_set(struct weft_rdma_ctrl *ctrl, const struct weft_dhchap_secrets *secrets,
			  struct weft_why *why)
{
	struct weft_rdma_secret host = {}, other = {};
	int ret = 0;
	u8 hashes;

	if (secrets->host.key)
		ret = weft_secret_set(&host, &secrets->host, why);
	if (!ret && secrets->ctrl.key)
		ret = weft_secret_set(&other, &secrets->ctrl, why);
	/* Loads modules: not while a disk may wait for a reconnect. */
	hashes = secrets->host.key ? weft_rdma_auth_hashes() : 0;
	mutex_lock(&ctrl->secret_lock);
	/* The controller can only prove itself in the course of the host's authentication. */
	if (!ret && (other.len || ctrl->ctrl_secret.len) && !host.len && !ctrl->host_secret.len)
		ret = weft_refuse(why, -EINVAL, "a secret of the controller needs a secret of this host: give both");
	if (!ret && host.len) {
		ctrl->host_secret = host;
		ctrl->auth_hashes = hashes;
	}
	if (!ret && other.len)
		ctrl->ctrl_secret = other;
	mutex_unlock(&ctrl->secret_lock);
	memzero_explicit(&host, sizeof(host));
	memzero_explicit(&other, sizeof(other));
	return ret;
}

static struct weft_rdma_ctrl *weft_rdma_ctrl_alloc(const struct weft_controller_request *req,
						   struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl;
	int ret = -ENOMEM;
	u32 i;

	ctrl = kzalloc_obj(*ctrl);
	if (!ctrl)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&ctrl->lock);
	kref_init(&ctrl->ref);
	init_rwsem(&ctrl->gone_lock);
	mutex_init(&ctrl->create_lock);
	mutex_init(&ctrl->secret_lock);
	mutex_init(&ctrl->attempt_lock);
	mutex_init(&ctrl->ns_lock);
	mutex_init(&ctrl->ana_lock);
	mutex_init(&ctrl->scan_lock);
	mutex_init(&ctrl->mem_lock);
	INIT_LIST_HEAD(&ctrl->list);
	INIT_LIST_HEAD(&ctrl->namespaces);
	INIT_WORK(&ctrl->recover_work, weft_rdma_recover_work);
	INIT_DELAYED_WORK(&ctrl->connect_work, weft_rdma_connect_work);
	INIT_DELAYED_WORK(&ctrl->fail_fast_work, weft_rdma_fail_fast_work);
	INIT_DELAYED_WORK(&ctrl->keep_alive_work, weft_rdma_keep_alive_work);
	INIT_WORK(&ctrl->removal_work, weft_rdma_removal_work);
	INIT_DELAYED_WORK(&ctrl->mem_work, weft_rdma_peer_work);
	INIT_WORK(&ctrl->scan_work, weft_rdma_scan_work);
	INIT_WORK(&ctrl->end_writes_work, weft_rdma_end_writes_work);
	INIT_DELAYED_WORK(&ctrl->again_work, weft_rdma_again_work);
	INIT_WORK(&ctrl->add_work, weft_rdma_add_work);
	INIT_DELAYED_WORK(&ctrl->ana_work, weft_rdma_ana_work);
	INIT_WORK(&ctrl->dead_work, weft_rdma_dead_work);
	INIT_WORK(&ctrl->event_work, weft_rdma_event_work);
	ret = weft_options_read(&ctrl->opts, req, why) ?:
	      weft_rdma_secrets_set(ctrl, &req->secrets, why);
	if (ret)
		goto out_free;
	ctrl->quiet_at = jiffies;
	ctrl->max_queues = 1 + weft_rdma_all_queues(&ctrl->opts);
	ctrl->queues = kcalloc(ctrl->max_queues, sizeof(*ctrl->queues), GFP_KERNEL);
	ret = -ENOMEM;
	if (!ctrl->queues)
		goto out_free;
	for (i = 0; i < ctrl->max_queues; i++) {
		mutex_init(&ctrl->queues[i].lock);
		spin_lock_init(&ctrl->queues[i].poll_lock);
		spin_lock_init(&ctrl->queues[i].connect_lock);
	}
	ctrl->instance = ida_alloc(&weft_rdma_instances, GFP_KERNEL);
	if (ctrl->instance < 0) {
		ret = ctrl->instance;
		goto out_free;
	}
	device_initialize(&ctrl->dev);
	ctrl->dev.release = weft_rdma_dev_release;
	ret = dev_set_name(&ctrl->dev, "weft-rdma%d", ctrl->instance);
	if (ret)
		goto out_put;
	return ctrl;

out_put:
	weft_rdma_ctrl_put(ctrl);
	return ERR_PTR(ret);
out_free:
	kfree(ctrl->queues);
	kfree_sensitive(ctrl);	/* with its secrets */
	return ERR_PTR(ret);
}

static int weft_rdma_ctrl_queues(struct weft_rdma_ctrl *ctrl)
{
	struct blk_mq_tag_set *set = &ctrl->admin_set;
	int ret;

	/* Unbound: setup and recovery may wait long for the target. */
	ctrl->wq = alloc_workqueue("%s", WQ_MEM_RECLAIM | WQ_UNBOUND, 0,
				   dev_name(&ctrl->dev));
	if (!ctrl->wq)
		return -ENOMEM;
	/*
	 * Without memory for workers, one thread runs all works of a queue in turn. Those of
	 * the other queue wait for commands that only the recovery ends.
	 */
	ctrl->recovery_wq = alloc_workqueue("%s-recovery", WQ_MEM_RECLAIM | WQ_UNBOUND, 0,
					    dev_name(&ctrl->dev));
	if (!ctrl->recovery_wq) {
		ret = -ENOMEM;
		goto out_wq;
	}
	set->ops = &weft_rdma_admin_ops;
	set->queue_depth = WEFT_RDMA_ADMIN_SIZE - 1;
	set->reserved_tags = WEFT_RDMA_ADMIN_RESERVED;
	set->numa_node = NUMA_NO_NODE;
	set->nr_hw_queues = 1;
	set->nr_maps = 1;
	set->timeout = WEFT_RDMA_ADMIN_TIMEOUT;
	ret = weft_rdma_set_alloc(ctrl, set, &ctrl->admin_q);
	if (ret)
		goto out_recovery_wq;
	return 0;

out_recovery_wq:
	destroy_workqueue(ctrl->recovery_wq);
out_wq:
	destroy_workqueue(ctrl->wq);
	return ret;
}

static void weft_rdma_ctrl_free_queues(struct weft_rdma_ctrl *ctrl)
{
	weft_rdma_free_sets(ctrl);
	weft_rdma_set_free(&ctrl->admin_set, ctrl->admin_q);
	destroy_workqueue(ctrl->recovery_wq);
	destroy_workqueue(ctrl->wq);
}

/* The first association, with as many I/O queues as the target and the RDMA device take. */
static int weft_rdma_ctrl_setup(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	int ret = weft_rdma_setup(ctrl, why);

	/* A stale connection, or one that was lost meanwhile. */
	if (ret == -ECONNRESET && ctrl->set_ready)
		ret = weft_rdma_setup_again(ctrl, why);
	if (weft_rdma_is_short(ret) && ctrl->queues_made)
		ret = weft_rdma_setup_fewer(ctrl, why);
	return ret;
}

/**
 * weft_rdma_ctrl_create() - connect a controller
 * @req: from the user, its strings bounded; the rest is checked here
 * @name: gets the controller's name
 * @size: of @name
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the target, for the first scan of its
 * namespaces, and for their disks.
 * Return: 0, or a negative errno with everything undone.
 */
int weft_rdma_ctrl_create(const struct weft_controller_request *req,
			  char *name, size_t size, struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl;
	int ret;

	ctrl = weft_rdma_ctrl_alloc(req, why);
	if (IS_ERR(ctrl))
		return PTR_ERR(ctrl);
	ret = weft_rdma_ctrl_queues(ctrl);
	if (ret)
		goto out_put;
	weft_rdma_set_state(ctrl, WEFT_RDMA_CONNECTING);
	ret = weft_rdma_ctrl_setup(ctrl, why);
	if (ret)
		goto out_teardown;
	ret = weft_rdma_cdev_add(ctrl);
	if (ret)
		goto out_teardown;
	/* Another command may find and remove it, but waits for create_lock. */
	kref_get(&ctrl->ref);
	mutex_lock(&ctrl->create_lock);
	mutex_lock(&weft_rdma_ctrls_lock);
	list_add_tail(&ctrl->list, &weft_rdma_ctrls);
	mutex_unlock(&weft_rdma_ctrls_lock);
	strscpy(name, dev_name(&ctrl->dev), size);
	ctrl->live_at = jiffies;
	weft_rdma_set_state(ctrl, WEFT_RDMA_LIVE);
	weft_ctrl_info(ctrl, "connected to %s at %s:%s by %s, %u I/O queues of %u\n",
		       ctrl->opts.subnqn, ctrl->opts.traddr, ctrl->opts.trsvcid,
		       ctrl->rail, ctrl->queue_count - 1, ctrl->set.queue_depth);
	weft_rdma_went_live(ctrl);
	flush_work(&ctrl->scan_work);
	mutex_unlock(&ctrl->create_lock);
	/* Not under the lock: it may wait for the I/O of a disk, which a removal ends. */
	flush_work(&ctrl->add_work);
	weft_rdma_ctrl_put(ctrl);
	return 0;

out_teardown:
	weft_rdma_set_state(ctrl, WEFT_RDMA_DELETING);
	weft_rdma_teardown(ctrl, false);
	weft_rdma_ctrl_free_queues(ctrl);
out_put:
	weft_rdma_ctrl_put(ctrl);
	return ret;
}

/**
 * weft_rdma_ctrl_remove() - remove a controller
 * @ctrl: removed from the list by the caller; drops the list's reference
 *
 * If the association is up, the disks' dirty pages are written first. Then I/O
 * on its disks fails.
 *
 * Context: process context, may sleep; not from the controller's workqueue.
 */
void weft_rdma_ctrl_remove(struct weft_rdma_ctrl *ctrl)
{
	bool live;

	mutex_lock(&ctrl->create_lock);
	mutex_unlock(&ctrl->create_lock);
	/* No recovery starts after this; a running one finishes. */
	weft_rdma_set_state(ctrl, WEFT_RDMA_DELETING);
	flush_work(&ctrl->recover_work);
	cancel_delayed_work_sync(&ctrl->connect_work);
	cancel_delayed_work_sync(&ctrl->fail_fast_work);
	/* A loss after this is seen when the next command times out. */
	live = test_bit(WEFT_QUEUE_LIVE, &ctrl->queues[0].flags) && !READ_ONCE(ctrl->lost);
	cancel_work_sync(&ctrl->scan_work);
	cancel_work_sync(&ctrl->end_writes_work);
	cancel_work_sync(&ctrl->event_work);
	cancel_delayed_work_sync(&ctrl->again_work);
	cancel_delayed_work_sync(&ctrl->ana_work);
	cancel_delayed_work_sync(&ctrl->mem_work);
	/* The cancelled scan would have opened the others: end them here. */
	weft_rdma_ns_kill_all(ctrl, live);
	weft_rdma_ns_remove_all(ctrl);
	weft_rdma_teardown(ctrl, live);
	cancel_work_sync(&ctrl->event_work);	/* the last event may have arrived meanwhile */
	weft_rdma_cdev_del(ctrl);
	weft_rdma_ctrl_free_queues(ctrl);
	weft_rdma_set_state(ctrl, WEFT_RDMA_DEAD);
	weft_ctrl_info(ctrl, "disconnected from %s\n", ctrl->opts.subnqn);
	weft_rdma_ctrl_put(ctrl);
}

/**
 * weft_rdma_removal_work() - take a controller off that was given up
 * @work: of a controller, with a reference to it
 */
static void weft_rdma_removal_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(work, struct weft_rdma_ctrl, removal_work);
	bool ours;

	mutex_lock(&weft_rdma_ctrls_lock);
	ours = !list_empty(&ctrl->list);
	list_del_init(&ctrl->list);
	mutex_unlock(&weft_rdma_ctrls_lock);
	if (ours)	/* or another thread removes it already */
		weft_rdma_ctrl_remove(ctrl);
	weft_rdma_ctrl_put(ctrl);
}

/* Under weft_rdma_ctrls_lock. */
static struct weft_rdma_ctrl *weft_ctrl_find(const char *name, struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl;

	list_for_each_entry(ctrl, &weft_rdma_ctrls, list)
		if (!strcmp(dev_name(&ctrl->dev), name))
			return ctrl;
	weft_refuse(why, -ENOENT, "no controller is called %s", name);
	return NULL;
}

/**
 * weft_rdma_ctrl_secrets() - replace the secrets of a controller
 * @name: of the controller
 * @secrets: those that are not given stay
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: 0; -ENOENT; -EINVAL.
 */
int weft_rdma_ctrl_secrets(const char *name, const struct weft_dhchap_secrets *secrets,
			   struct weft_why *why)
{
	struct weft_rdma_ctrl *ctrl;
	int ret;

	mutex_lock(&weft_rdma_ctrls_lock);
	ctrl = weft_ctrl_find(name, why);
	if (ctrl)
		kref_get(&ctrl->ref);
	mutex_unlock(&weft_rdma_ctrls_lock);
	if (!ctrl)
		return -ENOENT;
	ret = weft_rdma_secrets_set(ctrl, secrets, why);
	weft_rdma_ctrl_put(ctrl);
	return ret;
}

/**
 * weft_rdma_ctrl_delete() - remove a controller by its name
 * @name: of the controller
 * @why: gets the reason of a failure
 *
 * Return: 0; -ENOENT; -EBUSY while a disk of it is in use.
 */
int weft_rdma_ctrl_delete(const char *name, struct weft_why *why)
{
	struct weft_rdma_ctrl *found;
	int ret = 0;

	mutex_lock(&weft_rdma_ctrls_lock);
	found = weft_ctrl_find(name, why);
	if (!found)
		ret = -ENOENT;
	else if (!weft_rdma_ns_release(found))
		ret = weft_refuse(why, -EBUSY, "a disk of %s is a member of a volume", name);
	else
		list_del_init(&found->list);
	mutex_unlock(&weft_rdma_ctrls_lock);
	if (!ret)
		weft_rdma_ctrl_remove(found);
	return ret;
}
