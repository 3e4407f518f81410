/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a transport offers weft.ko: ways to reach members.
 *
 * A transport turns an address into a path, and a path is a gendisk: the
 * volume layer sends bios to it and knows nothing of what lies behind. A
 * module that offers one carries MODULE_ALIAS("weft-transport-NAME") so that
 * it is loaded when a volume names it.
 */
#ifndef WEFT_TRANSPORT_H
#define WEFT_TRANSPORT_H

#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/module.h>

struct weft_transport_ops;
struct weft_why;

/**
 * struct weft_path - one way to reach a member
 * @ops: the transport it belongs to
 * @bdev: where its bios go; valid from connect to disconnect
 * @address: what it was made of; owned by the caller of connect
 * @writable: whether writes are allowed
 * @gone: told once, in process context, when the device goes away for good;
 *	may sleep, must not disconnect
 * @owner_data: the caller's
 *
 * Embedded as the first thing in the transport's own structure.
 */
struct weft_path {
	const struct weft_transport_ops	*ops;
	struct block_device		*bdev;
	const char			*address;
	bool				writable;
	void				(*gone)(struct weft_path *path);
	void				*owner_data;
};

/**
 * struct weft_path_request - what a path is asked to be
 * @address: in the transport's own words; lives as long as the path
 * @writable: for writing too
 * @gone: see struct weft_path
 * @owner_data: see struct weft_path
 */
struct weft_path_request {
	const char	*address;
	bool		writable;
	void		(*gone)(struct weft_path *path);
	void		*owner_data;
};

/**
 * struct weft_transport_ops - a transport
 * @name: by which volumes ask for it
 * @owner: the module, held while a path of it exists
 * @connect: make a path; process context, may sleep. Returns an ERR_PTR and
 *	leaves a sentence in the struct weft_why otherwise
 * @disconnect: undo; process context, may sleep. No bio is in flight any more
 * @list: private to weft.ko
 */
struct weft_transport_ops {
	const char		*name;
	struct module		*owner;
	struct weft_path	*(*connect)(const struct weft_path_request *req,
					    struct weft_why *why);
	void			(*disconnect)(struct weft_path *path);
	struct list_head	list;
};

int weft_transport_register(struct weft_transport_ops *ops);
void weft_transport_unregister(struct weft_transport_ops *ops);

#endif /* WEFT_TRANSPORT_H */
