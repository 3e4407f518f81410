// SPDX-License-Identifier: GPL-2.0-only
/* The transports, by name. */
#include "weft.h"

/* Here, because superblock.c is also compiled for the host. */
EXPORT_SYMBOL_GPL(weft_refuse);

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
 * weft_transport_register() - register a transport
 * @ops: must stay valid until weft_transport_unregister()
 *
 * Context: process context.
 * Return: 0; -EEXIST if the name is in use.
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
 * weft_transport_unregister() - unregister a transport
 * @ops: registered; it has no paths, because each path holds its module
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

static struct weft_transport_ops *weft_transport_look(const char *name)
{
	struct weft_transport_ops *ops;

	mutex_lock(&weft_transports_lock);
	ops = weft_transport_find(name);
	if (ops && !try_module_get(ops->owner))
		ops = NULL;
	mutex_unlock(&weft_transports_lock);
	return ops;
}

/* Load the transport's module if needed, and hold it until module_put(). */
static struct weft_transport_ops *weft_transport_get(const char *name)
{
	struct weft_transport_ops *ops = weft_transport_look(name);

	if (!ops) {
		request_module("weft-transport-%s", name);
		ops = weft_transport_look(name);
	}
	return ops;
}

/**
 * weft_path_connect() - connect a path
 * @transport: name of the transport; its module is loaded if needed
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

static struct weft_transport_ops *weft_controller_transport(const char *transport,
							    struct weft_why *why)
{
	struct weft_transport_ops *ops = weft_transport_get(transport);

	if (ops && !ops->controller_create) {
		module_put(ops->owner);
		ops = NULL;
	}
	if (!ops)
		weft_refuse(why, -EPROTONOSUPPORT,
			    "transport '%s' is unknown or does not connect controllers; is its module installed?",
			    transport);
	return ops;
}

/**
 * weft_controller_create() - have a transport connect a controller
 * @transport: its name
 * @req: the controller
 * @name: gets the controller's name
 * @size: of @name
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the target.
 * Return: 0 or a negative errno.
 */
int weft_controller_create(const char *transport,
			   const struct weft_controller_request *req,
			   char *name, size_t size, struct weft_why *why)
{
	struct weft_transport_ops *ops = weft_controller_transport(transport, why);
	int ret;

	if (!ops)
		return -EPROTONOSUPPORT;
	ret = ops->controller_create(req, name, size, why);
	module_put(ops->owner);
	return ret;
}

/**
 * weft_controller_secrets() - have a transport replace the secrets of a controller
 * @transport: its name
 * @name: of the controller
 * @secrets: those that are not given stay
 * @why: gets the reason of a failure
 *
 * Return: 0 or a negative errno.
 */
int weft_controller_secrets(const char *transport, const char *name,
			    const struct weft_dhchap_secrets *secrets, struct weft_why *why)
{
	struct weft_transport_ops *ops = weft_controller_transport(transport, why);
	int ret;

	if (!ops)
		return -EPROTONOSUPPORT;
	ret = ops->controller_secrets(name, secrets, why);
	module_put(ops->owner);
	return ret;
}

/**
 * weft_controller_delete() - have a transport delete a controller
 * @transport: its name
 * @name: of the controller
 * @why: gets the reason of a failure
 *
 * Return: 0 or a negative errno.
 */
int weft_controller_delete(const char *transport, const char *name,
			   struct weft_why *why)
{
	struct weft_transport_ops *ops = weft_controller_transport(transport, why);
	int ret;

	if (!ops)
		return -EPROTONOSUPPORT;
	ret = ops->controller_delete(name, why);
	module_put(ops->owner);
	return ret;
}
