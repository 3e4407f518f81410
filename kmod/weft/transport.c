// SPDX-License-Identifier: GPL-2.0-only
/* The transports, by name; and what those of a member's paths do and know. */
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

/**
 * weft_mpath_write_cache() - does a member have a volatile write cache?
 * @member: the member
 *
 * Context: any.
 * Return: true if the disk of one of its paths says so; this may change while the
 * member is in use.
 */
bool weft_mpath_write_cache(struct weft_member *member)
{
	int srcu = srcu_read_lock(&member->volume->path_srcu);
	bool cache = bdev_write_cache(READ_ONCE(member->bdev));
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX && !cache; i++) {
		struct weft_path *path = weft_member_path(member, i);

		cache = path && bdev_write_cache(path->bdev);
	}
	srcu_read_unlock(&member->volume->path_srcu, srcu);
	return cache;
}

/**
 * weft_mpath_end_writes() - end the connections that have writes of the volume in flight
 * @member: the member of a volume whose lease is over
 *
 * Context: process context; does not wait for the targets. Transports whose errors are
 * final end none.
 */
void weft_mpath_end_writes(struct weft_member *member)
{
	int srcu = srcu_read_lock(&member->volume->path_srcu);
	struct weft_path *path;
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		path = weft_member_path(member, i);
		if (path && path->ops->end_writes)
			path->ops->end_writes(path);
	}
	/* A path that has left its slot was set here before. */
	smp_rmb();
	path = READ_ONCE(member->mpath.leaving);
	if (path && path->ops->end_writes)
		path->ops->end_writes(path);
	srcu_read_unlock(&member->volume->path_srcu, srcu);
}

/**
 * weft_mpath_outlast_ms() - how long targets may execute a write to a member
 * @member: the member
 *
 * Context: process context, may sleep.
 * Return: milliseconds since its connection or its host was lost; 0 if the transports of
 * the paths do not know.
 */
u32 weft_mpath_outlast_ms(struct weft_member *member)
{
	int srcu = srcu_read_lock(&member->volume->path_srcu);
	u32 i, most = 0;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_member_path(member, i);

		if (path && path->ops->outlast_ms)
			most = max(most, path->ops->outlast_ms(path));
	}
	srcu_read_unlock(&member->volume->path_srcu, srcu);
	return min_t(u32, most, WEFT_OUTLAST_MAX_MS);
}

/**
 * weft_mpath_mem() - what a member's paths can do with memory that has no pages
 * @member: the member
 *
 * Context: process context.
 * Return: the least that any of its paths can do.
 */
enum weft_path_mem weft_mpath_mem(struct weft_member *member)
{
	enum weft_path_mem mem = WEFT_PATH_MEM_DEVICE;
	int srcu = srcu_read_lock(&member->volume->path_srcu);
	bool any = false;
	u32 i;

	for (i = 0; i < WEFT_PATHS_MAX; i++) {
		struct weft_path *path = weft_member_path(member, i);

		if (!path)
			continue;
		any = true;
		mem = min(mem, path->mem);
	}
	srcu_read_unlock(&member->volume->path_srcu, srcu);
	return any ? mem : WEFT_PATH_MEM_NONE;
}
