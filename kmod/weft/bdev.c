// SPDX-License-Identifier: GPL-2.0-only
/* The built-in transport "bdev": any block device, by its path in /dev. */
#include "weft.h"

struct weft_bdev_path {
	struct weft_path	path;
	struct weft_bdev	wb;
};

static void weft_bdev_gone(struct weft_bdev *wb)
{
	struct weft_bdev_path *bp = container_of(wb, struct weft_bdev_path, wb);

	bp->path.events->gone(&bp->path);
}

static int weft_bdev_explain(const struct weft_path_request *req, int err,
			     struct weft_why *why)
{
	switch (err) {
	case -EBUSY:
		return weft_refuse(why, err,
				   "member %s is in use: mounted, part of something else, or named twice",
				   req->address);
	case -EACCES:
	case -EROFS:
		return weft_refuse(why, -EROFS, "member %s is read-only",
				   req->address);
	case -ENOTBLK:
		return weft_refuse(why, err, "member %s is not a block device",
				   req->address);
	default:
		return weft_refuse(why, err,
				   "member %s cannot be opened (error %d)",
				   req->address, -err);
	}
}

/**
 * weft_path_open() - claim the block device of a path
 * @wb: the caller has set its gone callback
 * @req: the path
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: 0 or a negative errno; undo by weft_path_close().
 */
int weft_path_open(struct weft_bdev *wb, const struct weft_path_request *req,
		   struct weft_why *why)
{
	int ret;

	ret = req->lookup ?: weft_bdev_open_dev(wb, req->devt, req->writable);
	if (ret)
		return weft_bdev_explain(req, ret, why);
	if (req->writable && bdev_read_only(wb->bdev))
		ret = weft_bdev_explain(req, -EROFS, why);
	else if (bdev_is_zoned(wb->bdev))
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "member %s is a zoned device; weft does not support zoned devices",
				  req->address);
	if (ret)
		weft_bdev_close(wb);
	return ret;
}
EXPORT_SYMBOL_GPL(weft_path_open);

/**
 * weft_path_close() - undo weft_path_open()
 * @wb: claimed
 */
void weft_path_close(struct weft_bdev *wb)
{
	weft_bdev_close(wb);
}
EXPORT_SYMBOL_GPL(weft_path_close);

static struct weft_path *weft_bdev_connect(const struct weft_path_request *req,
					   struct weft_why *why)
{
	struct weft_bdev_path *bp;
	int ret;

	bp = kzalloc_obj(*bp);
	if (!bp)
		return ERR_PTR(-ENOMEM);
	bp->wb.gone = weft_bdev_gone;
	/* The device may be removed before this returns. */
	bp->path.events = req->events;
	bp->path.owner_data = req->owner_data;
	bp->path.usable = true;
	bp->path.node = NUMA_NO_NODE;
	ret = weft_path_open(&bp->wb, req, why);
	if (ret) {
		kfree(bp);
		return ERR_PTR(ret);
	}
	bp->path.bdev = bp->wb.bdev;
	return &bp->path;
}

static void weft_bdev_disconnect(struct weft_path *path)
{
	struct weft_bdev_path *bp = container_of(path, struct weft_bdev_path, path);

	weft_path_close(&bp->wb);
	kfree(bp);
}

static struct weft_transport_ops weft_bdev_transport = {
	.name		= "bdev",
	.owner		= THIS_MODULE,
	.connect	= weft_bdev_connect,
	.disconnect	= weft_bdev_disconnect,
};

int weft_bdev_init(void)
{
	return weft_transport_register(&weft_bdev_transport);
}

void weft_bdev_exit(void)
{
	weft_transport_unregister(&weft_bdev_transport);
}
