// SPDX-License-Identifier: GPL-2.0-only
/* The built-in transport: any block device, by its path. */
#include "weft.h"

struct weft_bdev_path {
	struct weft_path	path;
	struct weft_bdev	wb;
};

static void weft_bdev_gone(struct weft_bdev *wb)
{
	struct weft_bdev_path *bp = container_of(wb, struct weft_bdev_path, wb);

	void (*gone)(struct weft_path *path);

	/* The device may go before connect has returned and set this. */
	gone = smp_load_acquire(&bp->path.gone);
	if (gone)
		gone(&bp->path);
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

static struct weft_path *weft_bdev_connect(const struct weft_path_request *req,
					   struct weft_why *why)
{
	struct weft_bdev_path *bp;
	int ret;

	bp = kzalloc_obj(*bp);
	if (!bp)
		return ERR_PTR(-ENOMEM);
	bp->wb.gone = weft_bdev_gone;
	ret = weft_bdev_open(&bp->wb, req->address, req->writable);
	if (ret) {
		ret = weft_bdev_explain(req, ret, why);
		goto out_free;
	}
	bp->path.bdev = bp->wb.bdev;
	if (req->writable && bdev_read_only(bp->path.bdev)) {
		ret = weft_bdev_explain(req, -EROFS, why);
		goto out_close;
	}
	if (bdev_is_zoned(bp->path.bdev)) {
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "member %s is a zoned device, which weft does not stripe over",
				  req->address);
		goto out_close;
	}
	return &bp->path;

out_close:
	weft_bdev_close(&bp->wb);
out_free:
	kfree(bp);
	return ERR_PTR(ret);
}

static void weft_bdev_disconnect(struct weft_path *path)
{
	struct weft_bdev_path *bp = container_of(path, struct weft_bdev_path, path);

	weft_bdev_close(&bp->wb);
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
