// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections, as the kernel's iWARP connection manager asks for them, between
 * adapters of this machine: a listener is found by its address, and what would
 * be messages are calls of event handlers.
 */
#include "softhca.h"

/* A connect that the other side never answers. */
#define SOFTHCA_CM_TIMEOUT	(10 * HZ)

enum softhca_cep_state {
	SOFTHCA_LISTENING,
	SOFTHCA_ASKING,		/* active, not answered */
	SOFTHCA_ASKED,		/* passive, not answered */
	SOFTHCA_CONNECTED,
	SOFTHCA_CLOSED,
};

/**
 * struct softhca_cep - an end of a connection, or a listener
 * @list: listeners, or passive ones that are not answered
 * @state: under softhca_cm_lock, as all here
 * @refs: its owner's, its peer's, its timer's
 * @cm_id: the connection manager's, with a reference; NULL when it is done with
 * @qp: with a reference, or NULL
 * @peer: other end, with a reference, while both are there
 * @timeout: of an active one
 */
struct softhca_cep {
	struct list_head	list;
	enum softhca_cep_state	state;
	refcount_t		refs;
	struct iw_cm_id		*cm_id;
	struct softhca_qp	*qp;
	struct softhca_cep	*peer;
	struct delayed_work	timeout;
};

static DEFINE_MUTEX(softhca_cm_lock);
static LIST_HEAD(softhca_listeners);
/* The connection manager drops what asks a listener that is being destroyed, and answers nothing. */
static LIST_HEAD(softhca_unanswered);

static void softhca_cep_put(struct softhca_cep *cep)
{
	if (refcount_dec_and_test(&cep->refs))
		kfree(cep);
}

static void softhca_cm_timeout(struct work_struct *work);

/* Nobody waits any more; the timer's reference, where it does not run now. */
static void softhca_cm_stop_timer(struct softhca_cep *cep)
{
	if (cancel_delayed_work(&cep->timeout))
		softhca_cep_put(cep);
}

static struct softhca_cep *softhca_cep_new(enum softhca_cep_state state, struct iw_cm_id *cm_id)
{
	struct softhca_cep *cep = kzalloc_obj(*cep);

	if (!cep)
		return NULL;
	refcount_set(&cep->refs, 1);
	cep->state = state;
	INIT_LIST_HEAD(&cep->list);
	INIT_DELAYED_WORK(&cep->timeout, softhca_cm_timeout);
	if (cm_id) {
		cm_id->add_ref(cm_id);
		cep->cm_id = cm_id;
		cm_id->provider_data = cep;
	}
	return cep;
}

static int softhca_cm_tell(struct softhca_cep *cep, enum iw_cm_event_type type, int status,
			   const void *data, u8 len)
{
	struct iw_cm_event event = {
		.event			= type,
		.status			= status,
		.local_addr		= cep->cm_id->local_addr,
		.remote_addr		= cep->cm_id->remote_addr,
		.private_data		= (void *)data,
		.private_data_len	= len,
		.provider_data		= cep,
		.ird			= 128,
		.ord			= 128,
	};

	return cep->cm_id->event_handler(cep->cm_id, &event);
}

/* The connection manager's id is done with. */
static void softhca_cm_leave(struct softhca_cep *cep)
{
	struct iw_cm_id *cm_id = cep->cm_id;

	cep->state = SOFTHCA_CLOSED;
	if (!cm_id)
		return;
	cep->cm_id = NULL;
	cm_id->rem_ref(cm_id);
}

static void softhca_cm_take_qp(struct softhca_cep *cep, struct softhca_qp *qp)
{
	refcount_inc(&qp->refs);
	cep->qp = qp;
	qp->cep = cep;
	refcount_inc(&cep->refs);
}

static void softhca_cm_drop_qp(struct softhca_cep *cep)
{
	struct softhca_qp *qp = cep->qp;

	if (!qp)
		return;
	cep->qp = NULL;
	qp->cep = NULL;
	softhca_cep_put(cep);
	softhca_qp_put(qp);
}

/* Both ends forget each other. */
static void softhca_cm_part(struct softhca_cep *cep)
{
	struct softhca_cep *peer = cep->peer;

	if (!peer)
		return;
	cep->peer = NULL;
	peer->peer = NULL;
	softhca_cep_put(peer);
	softhca_cep_put(cep);
}

/* An active end hears that it comes to nothing. */
static void softhca_cm_refuse(struct softhca_cep *cep, int status, const void *data, u8 len)
{
	softhca_cm_tell(cep, IW_CM_EVENT_CONNECT_REPLY, status, data, len);
	softhca_cm_drop_qp(cep);
	softhca_cm_leave(cep);
	softhca_cm_stop_timer(cep);
	softhca_cep_put(cep);
}

static void softhca_cm_timeout(struct work_struct *work)
{
	struct softhca_cep *cep = container_of(to_delayed_work(work), struct softhca_cep, timeout);

	mutex_lock(&softhca_cm_lock);
	if (cep->state == SOFTHCA_ASKING) {
		softhca_cm_part(cep);
		softhca_cm_refuse(cep, -ETIMEDOUT, NULL, 0);
	}
	mutex_unlock(&softhca_cm_lock);
	softhca_cep_put(cep);
}

static bool softhca_cm_matches(const struct sockaddr_storage *listen,
			       const struct sockaddr_storage *to)
{
	const struct sockaddr_in *a = (const void *)listen, *b = (const void *)to;

	return a->sin_family == AF_INET && b->sin_family == AF_INET &&
	       a->sin_port == b->sin_port &&
	       (!a->sin_addr.s_addr || a->sin_addr.s_addr == b->sin_addr.s_addr);
}

static int softhca_cm_ask(struct softhca_cep *cep, const struct iw_cm_conn_param *param)
{
	struct softhca_cep *listener, *passive;
	struct iw_cm_event event = {
		.event			= IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr		= cep->cm_id->remote_addr,
		.remote_addr		= cep->cm_id->local_addr,
		.private_data		= (void *)param->private_data,
		.private_data_len	= param->private_data_len,
		.ird			= 128,
		.ord			= 128,
	};
	int ret;

	list_for_each_entry(listener, &softhca_listeners, list)
		if (softhca_cm_matches(&listener->cm_id->local_addr, &event.local_addr))
			goto found;
	return -ECONNREFUSED;
found:
	passive = softhca_cep_new(SOFTHCA_ASKED, NULL);
	if (!passive)
		return -ENOMEM;
	passive->peer = cep;
	refcount_inc(&cep->refs);
	cep->peer = passive;
	refcount_inc(&passive->refs);
	event.provider_data = passive;
	list_add_tail(&passive->list, &softhca_unanswered);
	ret = listener->cm_id->event_handler(listener->cm_id, &event);
	if (ret) {
		list_del_init(&passive->list);
		softhca_cm_part(passive);
		softhca_cep_put(passive);
	}
	return ret;
}

static int softhca_iw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct softhca_dev *dev = to_dev(cm_id->device);
	struct softhca_cep *cep;
	struct softhca_qp *qp;
	int ret;

	qp = xa_load(&dev->qps, param->qpn);
	if (!qp)
		return -EINVAL;
	mutex_lock(&softhca_cm_lock);
	cep = softhca_cep_new(SOFTHCA_ASKING, cm_id);
	if (!cep) {
		mutex_unlock(&softhca_cm_lock);
		return -ENOMEM;
	}
	softhca_cm_take_qp(cep, qp);
	refcount_inc(&cep->refs);
	queue_delayed_work(softhca_wq, &cep->timeout, SOFTHCA_CM_TIMEOUT);
	ret = softhca_cm_ask(cep, param);
	if (ret)
		softhca_cm_refuse(cep, ret, NULL, 0);
	mutex_unlock(&softhca_cm_lock);
	return 0;
}

/* Both queue pairs become one connection, unless one has broken meanwhile. */
static bool softhca_cm_join(struct softhca_qp *a, struct softhca_qp *b)
{
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&softhca_fabric, flags);
	ok = a != b && a->state == IB_QPS_INIT && b->state == IB_QPS_INIT;
	if (ok) {
		a->peer = b;
		b->peer = a;
		a->state = IB_QPS_RTS;
		b->state = IB_QPS_RTS;
	}
	spin_unlock_irqrestore(&softhca_fabric, flags);
	return ok;
}

static int softhca_iw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct softhca_dev *dev = to_dev(cm_id->device);
	struct softhca_cep *cep = cm_id->provider_data, *active;
	struct softhca_qp *qp = xa_load(&dev->qps, param->qpn);
	int ret = -ECONNRESET;

	mutex_lock(&softhca_cm_lock);
	list_del_init(&cep->list);
	active = cep->peer;
	if (!qp) {
		ret = -EINVAL;
		goto out_put;
	}
	if (!active || !softhca_cm_join(qp, active->qp))
		goto out_put;
	cm_id->add_ref(cm_id);
	cep->cm_id = cm_id;
	softhca_cm_take_qp(cep, qp);
	cep->state = SOFTHCA_CONNECTED;
	active->state = SOFTHCA_CONNECTED;
	softhca_cm_stop_timer(active);
	softhca_cm_tell(cep, IW_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	softhca_cm_tell(active, IW_CM_EVENT_CONNECT_REPLY, 0, param->private_data,
			param->private_data_len);
	softhca_cm_part(cep);
	mutex_unlock(&softhca_cm_lock);
	return 0;

out_put:
	softhca_cm_part(cep);
	if (active && active->state == SOFTHCA_ASKING)
		softhca_cm_refuse(active, -ECONNRESET, NULL, 0);
	mutex_unlock(&softhca_cm_lock);
	softhca_cep_put(cep);
	return ret;
}

static int softhca_iw_reject(struct iw_cm_id *cm_id, const void *data, u8 len)
{
	struct softhca_cep *cep = cm_id->provider_data, *active;

	mutex_lock(&softhca_cm_lock);
	list_del_init(&cep->list);
	active = cep->peer;
	softhca_cm_part(cep);
	if (active)
		softhca_cm_refuse(active, -ECONNREFUSED, data, len);
	mutex_unlock(&softhca_cm_lock);
	softhca_cep_put(cep);
	return 0;
}

static int softhca_iw_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct softhca_cep *cep = softhca_cep_new(SOFTHCA_LISTENING, cm_id);

	if (!cep)
		return -ENOMEM;
	mutex_lock(&softhca_cm_lock);
	list_add_tail(&cep->list, &softhca_listeners);
	mutex_unlock(&softhca_cm_lock);
	return 0;
}

static int softhca_iw_destroy_listen(struct iw_cm_id *cm_id)
{
	struct softhca_cep *cep = cm_id->provider_data;

	mutex_lock(&softhca_cm_lock);
	list_del(&cep->list);
	softhca_cm_leave(cep);
	mutex_unlock(&softhca_cm_lock);
	softhca_cep_put(cep);
	return 0;
}

/**
 * softhca_cm_closed() - a queue pair went into error
 * @qp: the queue pair
 *
 * Context: process context, may sleep.
 */
void softhca_cm_closed(struct softhca_qp *qp)
{
	struct softhca_cep *cep;

	mutex_lock(&softhca_cm_lock);
	cep = qp->cep;
	/* One that still asks hears of it when the other side answers, or never does. */
	if (cep && cep->state == SOFTHCA_CONNECTED) {
		softhca_cm_tell(cep, IW_CM_EVENT_CLOSE, 0, NULL, 0);
		softhca_cm_drop_qp(cep);
		softhca_cm_leave(cep);
		softhca_cep_put(cep);
	}
	mutex_unlock(&softhca_cm_lock);
}

/**
 * softhca_cm_exit() - free what was never answered
 *
 * Context: no adapter is left.
 */
void softhca_cm_exit(void)
{
	struct softhca_cep *cep, *next;

	list_for_each_entry_safe(cep, next, &softhca_unanswered, list) {
		list_del(&cep->list);
		softhca_cm_part(cep);
		softhca_cep_put(cep);
	}
}

const struct ib_device_ops softhca_cm = {
	.iw_connect		= softhca_iw_connect,
	.iw_accept		= softhca_iw_accept,
	.iw_reject		= softhca_iw_reject,
	.iw_create_listen	= softhca_iw_create_listen,
	.iw_destroy_listen	= softhca_iw_destroy_listen,
};
