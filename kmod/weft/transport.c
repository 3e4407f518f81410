// SPDX-License-Identifier: GPL-2.0-only
/* The transports, by name. */
#include "weft.h"

static DEFINE_MUTEX(weft_transports_lock);
static LIST_HEAD(weft_transports);

static struct weft_transport_ops *weft_transport_find(const char *name)
{
	struct weft_transport_ops *ops;

	lockdep_assert_held(&weft_transports_lock);
	list_for_each_entry(ops, &weft_transports, list)
		if (!strcmp(ops->name, name))
			return ops;
	return NULL;
}

/**
 * weft_transport_register() - offer a transport
 * @ops: stays with weft.ko until weft_transport_unregister()
 *
 * Context: process context.
 * Return: 0; -EEXIST when the name is taken.
 */
int weft_transport_register(struct weft_transport_ops *ops)
{
	int ret = 0;

	mutex_lock(&weft_transports_lock);
	if (weft_transport_find(ops->name))
		ret = -EEXIST;
	else
		list_add_tail(&ops->list, &weft_transports);
	mutex_unlock(&weft_transports_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(weft_transport_register);

/**
 * weft_transport_unregister() - take a transport back
 * @ops: registered before; no path of it exists, since paths hold its module
 *
 * Context: process context.
 */
void weft_transport_unregister(struct weft_transport_ops *ops)
{
	mutex_lock(&weft_transports_lock);
	list_del(&ops->list);
	mutex_unlock(&weft_transports_lock);
}
EXPORT_SYMBOL_GPL(weft_transport_unregister);

static struct weft_transport_ops *weft_transport_get(const char *name)
{
	struct weft_transport_ops *ops;

	mutex_lock(&weft_transports_lock);
	ops = weft_transport_find(name);
	if (ops && !try_module_get(ops->owner))
		ops = NULL;
	mutex_unlock(&weft_transports_lock);
	return ops;
}

/**
 * weft_path_connect() - make a path by the name of its transport
 * @transport: name; its module is loaded when it is not there
 * @req: the path
 * @why: gets the reason of a failure
 *
 * Return: the path or an ERR_PTR.
 */
struct weft_path *weft_path_connect(const char *transport,
				    const struct weft_path_request *req,
				    struct weft_why *why)
{
	struct weft_transport_ops *ops = weft_transport_get(transport);
	struct weft_path *path;

	if (!ops) {
		request_module("weft-transport-%s", transport);
		ops = weft_transport_get(transport);
	}
	if (!ops)
		return ERR_PTR(weft_refuse(why, -EPROTONOSUPPORT,
					   "member %s: no transport is called '%s'",
					   req->address, transport));
	path = ops->connect(req, why);
	if (IS_ERR(path)) {
		module_put(ops->owner);
		return path;
	}
	path->ops = ops;
	path->address = req->address;
	path->writable = req->writable;
	path->owner_data = req->owner_data;
	/* The device may go at any time: who sees @gone sees the rest. */
	smp_store_release(&path->gone, req->gone);
	return path;
}

/**
 * weft_path_disconnect() - undo weft_path_connect()
 * @path: no bio is in flight on it
 */
void weft_path_disconnect(struct weft_path *path)
{
	const struct weft_transport_ops *ops = path->ops;

	ops->disconnect(path);
	module_put(ops->owner);
}
