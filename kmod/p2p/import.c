// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mapping dma-bufs to addresses for a PCI device.
 *
 * DOC: behaviour of existing exporters
 *
 * Some exporters have no pin operation. Their memory may move while it is
 * mapped, and the importer has to map it again.
 *
 * One exporter assumes that the importing device is a PCI device. Therefore
 * only PCI devices are attached here.
 *
 * If the device cannot reach the memory, some exporters allow the attachment
 * but clear peer2peer. They would move the memory to the host when it is
 * mapped. This is not a direct route, so it is refused.
 */
#include "p2p.h"

#include <linux/dma-resv.h>

#define WEFT_IMPORT_FENCES	(30 * HZ)

/**
 * struct weft_import - a range of a dma-buf, for a device
 * @req: the request
 * @attach: attachment to the exporter
 * @pinned: it is pinned
 * @invalidated: the exporter has revoked the addresses at least once
 * @sgt: mapping, or NULL
 * @segments: the range in @sgt
 *
 * The reservation lock protects all fields except @req and @attach.
 */
struct weft_import {
	struct weft_import_request	req;
	struct dma_buf_attachment	*attach;
	bool				pinned;
	bool				invalidated;
	struct sg_table			*sgt;
	struct weft_segments		segments;
};

static void weft_import_invalidate(struct dma_buf_attachment *attach)
{
	struct weft_import *import = attach->importer_priv;

	import->invalidated = true;
	import->req.invalidate(import->req.owner);
}

const struct dma_buf_attach_ops weft_import_ops = {
	.allow_peer2peer	= true,
	.invalidate_mappings	= weft_import_invalidate,
};

static int weft_import_pin(struct weft_import *import, struct weft_why *why)
{
	int ret;

	if (!dma_buf_is_dynamic(import->req.dmabuf))
		return 0;
	weft_import_lock(import);
	ret = dma_buf_pin(import->attach);
	import->pinned = !ret;
	weft_import_unlock(import);
	if (ret)
		weft_refuse(why, ret, "no direct route: the exporter (%s) cannot pin the memory for %s (error %d)",
			    import->req.dmabuf->exp_name, dev_name(import->req.device), -ret);
	return ret;
}

/**
 * weft_import_attach() - ask the exporter whether a device may use its memory
 * @req: the request; the caller has checked its range
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: the import, or an ERR_PTR; -EOPNOTSUPP if there is no peer-to-peer
 * path between the two.
 */
struct weft_import *weft_import_attach(const struct weft_import_request *req,
				       struct weft_why *why)
{
	struct weft_import *import;
	int ret;

	/* An exporter may assume that the device is a PCI device. */
	if (!dev_is_pci(req->device)) {
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "no direct route: %s is not a PCI device", dev_name(req->device));
		return ERR_PTR(ret);
	}
	import = kzalloc_obj(*import, GFP_KERNEL_ACCOUNT);
	if (!import)
		return ERR_PTR(-ENOMEM);
	import->req = *req;
	import->attach = dma_buf_dynamic_attach(req->dmabuf, req->device, &weft_import_ops,
						import);
	if (IS_ERR(import->attach)) {
		ret = PTR_ERR(import->attach);
		/* Of NVIDIA's driver; not an error number for users. */
		if (ret == -ENOTSUPP)
			ret = -EOPNOTSUPP;
		weft_refuse(why, ret,
			    "no direct route: the exporter (%s) refuses to attach %s (error %d): it has no peer-to-peer path to the device, or does not support peer-to-peer",
			    req->dmabuf->exp_name, dev_name(req->device), -ret);
		goto out_free;
	}
	if (!import->attach->peer2peer) {
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "no direct route: the exporter (%s) has no peer-to-peer path to %s and would move the memory to the host",
				  req->dmabuf->exp_name, dev_name(req->device));
		goto out_detach;
	}
	ret = weft_import_pin(import, why);
	if (ret)
		goto out_detach;
	get_dma_buf(req->dmabuf);
	return import;

out_detach:
	dma_buf_detach(req->dmabuf, import->attach);
out_free:
	kfree(import);
	return ERR_PTR(ret);
}
EXPORT_SYMBOL_GPL(weft_import_attach);

/**
 * weft_import_detach() - undo weft_import_attach()
 * @import: not mapped
 *
 * Context: process context, may sleep. @invalidate is not called after this
 * returns.
 */
void weft_import_detach(struct weft_import *import)
{
	struct dma_buf *dmabuf = import->req.dmabuf;

	if (import->pinned) {
		weft_import_lock(import);
		dma_buf_unpin(import->attach);
		weft_import_unlock(import);
	}
	dma_buf_detach(dmabuf, import->attach);
	dma_buf_put(dmabuf);
	kfree(import);
}
EXPORT_SYMBOL_GPL(weft_import_detach);

/**
 * weft_import_lock() - take the exporter's reservation lock
 * @import: attached
 *
 * Context: process context, may sleep.
 */
void weft_import_lock(struct weft_import *import)
{
	dma_resv_lock(import->req.dmabuf->resv, NULL);
}
EXPORT_SYMBOL_GPL(weft_import_lock);

void weft_import_unlock(struct weft_import *import)
{
	dma_resv_unlock(import->req.dmabuf->resv);
}
EXPORT_SYMBOL_GPL(weft_import_unlock);

/**
 * weft_import_map() - make addresses for the device
 * @import: attached, not mapped
 * @why: gets the reason of a failure
 *
 * Context: process context; the reservation lock is held.
 * Return: 0; -ENODEV if the exporter has withdrawn the memory permanently; or
 * another negative errno.
 */
int weft_import_map(struct weft_import *import, struct weft_why *why)
{
	struct sg_table *sgt;
	int ret;

	/* Without pin, kernels before 7.0 keep the first mapping: the new place is unknown. */
	if (import->invalidated && weft_attach_is_cached(import->attach))
		return weft_refuse(why, -ENODEV,
				   "the exporter (%s) moved the memory; this kernel cannot map it at its new place",
				   import->req.dmabuf->exp_name);
	sgt = dma_buf_map_attachment(import->attach, import->req.direction);
	if (IS_ERR_OR_NULL(sgt)) {
		ret = sgt ? PTR_ERR(sgt) : -ENOMEM;
		return weft_refuse(why, ret,
				   "no direct route: the exporter (%s) cannot map the memory for %s (error %d)",
				   import->req.dmabuf->exp_name, dev_name(import->req.device), -ret);
	}
	import->sgt = sgt;
	/* The exporter may still be copying the bytes to their new place. */
	if (dma_resv_wait_timeout(import->req.dmabuf->resv, DMA_RESV_USAGE_KERNEL, false,
				  WEFT_IMPORT_FENCES) <= 0) {
		weft_import_unmap(import);
		return weft_refuse(why, -ETIMEDOUT,
				   "the exporter (%s) did not finish moving the memory in time",
				   import->req.dmabuf->exp_name);
	}
	ret = weft_segments_make(&import->segments, sgt, import->req.start, import->req.length,
				 import->req.dmabuf->exp_name, why);
	if (ret)
		weft_import_unmap(import);
	return ret;
}
EXPORT_SYMBOL_GPL(weft_import_map);

/**
 * weft_import_unmap() - undo weft_import_map()
 * @import: mapped or not; its addresses are not in use
 *
 * Context: process context; the reservation lock is held.
 */
void weft_import_unmap(struct weft_import *import)
{
	if (!import->sgt)
		return;
	dma_buf_unmap_attachment(import->attach, import->sgt, import->req.direction);
	import->sgt = NULL;
	weft_segments_free(&import->segments);
}
EXPORT_SYMBOL_GPL(weft_import_unmap);

/**
 * weft_import_distance() - distance from the memory to the device
 * @import: mapped, and stays mapped during the call
 *
 * Context: process context.
 * Return: smaller is nearer; for comparing imports of the same memory.
 */
int weft_import_distance(const struct weft_import *import)
{
	return weft_p2p_distance(import->segments.table[0].address,
				 to_pci_dev(import->req.device));
}
EXPORT_SYMBOL_GPL(weft_import_distance);

/**
 * weft_import_segments() - the addresses of the range
 * @import: mapped
 *
 * Context: any.
 * Return: the segments; valid until weft_import_unmap().
 */
const struct weft_segments *weft_import_segments(const struct weft_import *import)
{
	return &import->segments;
}
EXPORT_SYMBOL_GPL(weft_import_segments);
