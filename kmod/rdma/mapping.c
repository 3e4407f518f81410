// SPDX-License-Identifier: GPL-2.0-only
/*
 * Peer memory in a protection domain: addresses for an RDMA device, kept up as
 * its exporter moves it, and registrations that last.
 *
 * DOC: domains and mappings
 *
 * A domain is a volume on an RDMA device: one protection domain, in which one
 * registration serves every controller of the volume behind that device. A
 * mapping is a peer memory in a domain, with addresses for the RDMA device while
 * it is mapped: of a dma-buf weft_p2p.ko makes them, attached to its exporter
 * for the device's PCI function.
 *
 * DOC: persistent registrations
 *
 * A mapping that is persistent has memory regions of its own, of WEFT_PEER_RUN
 * bytes and more, registered by work requests on any queue of the domain before
 * the first command: that is sent with the region's key, and none of it is
 * invalidated after. They end before the addresses do. A target that
 * invalidates one all the same has ended its association, and the memory is
 * registered anew.
 *
 * DOC: an exporter takes its memory away
 *
 * That may be at any time, and it waits. No command begins on the mapping any
 * more; those in flight get a moment to end. Where one does not, its
 * association is ended, as after a timeout: with the queue pair drained the
 * target reaches nothing, however long it is silent, and a write that it may
 * still execute is known for what it is. Then the addresses go back. A work
 * maps the memory anew where it is now; where there is none, it is lost for
 * good.
 *
 * DOC: locks
 *
 * A mapping's state is under its reservation lock. Who holds that may have to
 * wait for a recovery, which takes ctrl->mem_lock: so that is not taken under
 * it. weft_domains_lock: the domains, innermost.
 */
#include "mapping.h"

#include <linux/dma-mapping.h>
#include <linux/sched/mm.h>

/* What is in flight when an exporter takes its memory away may end by itself so long. */
#define WEFT_PEER_GRACE		HZ
#define WEFT_PEER_REGISTER	(5 * HZ)

struct workqueue_struct *weft_peer_wq;
/* Protects weft_domains. */
static DEFINE_MUTEX(weft_domains_lock);
static LIST_HEAD(weft_domains);
static DECLARE_WAIT_QUEUE_HEAD(weft_domains_gone);

static void weft_domain_free(struct kref *ref)
{
	struct weft_domain *domain = container_of(ref, struct weft_domain, ref);

	list_del(&domain->list);
	ib_dealloc_pd(domain->pd);
	kfree(domain);
	wake_up_all(&weft_domains_gone);
}

/**
 * weft_domain_put() - undo weft_domain_get()
 * @domain: the domain
 *
 * Context: process context.
 */
void weft_domain_put(struct weft_domain *domain)
{
	mutex_lock(&weft_domains_lock);
	kref_put(&domain->ref, weft_domain_free);
	mutex_unlock(&weft_domains_lock);
}

static struct weft_domain *weft_domain_make(const u8 *volume, struct ib_device *ib)
{
	struct weft_domain *domain = kzalloc_obj(*domain);

	if (!domain)
		return ERR_PTR(-ENOMEM);
	domain->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(domain->pd)) {
		struct ib_pd *pd = domain->pd;

		kfree(domain);
		return ERR_CAST(pd);
	}
	kref_init(&domain->ref);
	memcpy(domain->volume, volume, sizeof(domain->volume));
	domain->ib = ib;
	list_add_tail(&domain->list, &weft_domains);
	return domain;
}

/**
 * weft_domain_get() - a volume on an RDMA device
 * @volume: UUID
 * @ib: RDMA device, which somebody uses
 *
 * Context: process context.
 * Return: the one that is there, or a new one, with a reference; or an ERR_PTR.
 */
struct weft_domain *weft_domain_get(const u8 *volume, struct ib_device *ib)
{
	struct weft_domain *domain;

	mutex_lock(&weft_domains_lock);
	list_for_each_entry(domain, &weft_domains, list) {
		if (domain->ib != ib || memcmp(domain->volume, volume, sizeof(domain->volume)))
			continue;
		kref_get(&domain->ref);
		mutex_unlock(&weft_domains_lock);
		return domain;
	}
	domain = weft_domain_make(volume, ib);
	mutex_unlock(&weft_domains_lock);
	return domain;
}

static bool weft_domain_any(struct ib_device *ib)
{
	struct weft_domain *domain;
	bool any = false;

	mutex_lock(&weft_domains_lock);
	list_for_each_entry(domain, &weft_domains, list)
		any |= domain->ib == ib;
	mutex_unlock(&weft_domains_lock);
	return any;
}

/**
 * weft_domains_wait_gone() - wait until an RDMA device has no domain any more
 * @ib: the device, on which none is made any more
 *
 * Context: process context.
 */
void weft_domains_wait_gone(struct ib_device *ib)
{
	wait_event(weft_domains_gone, !weft_domain_any(ib));
}

/* Every association of the domain ends, and with it every command. */
static void weft_domain_fence(struct weft_domain *domain)
{
	struct weft_rdma_ctrl *ctrl;

	mutex_lock(&weft_rdma_ctrls_lock);
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list)
		if (READ_ONCE(ctrl->domain) == domain)
			weft_rdma_error(ctrl, "peer memory is taken away, and a command on it does not end");
	/* Those that were in recovery already as well: their domain may be gone. */
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list)
		flush_work(&ctrl->recover_work);
	mutex_unlock(&weft_rdma_ctrls_lock);
}

static void weft_mapping_idle(struct percpu_ref *ref)
{
	complete(&container_of(ref, struct weft_mapping, ref)->idle);
}

static void weft_mapping_lock(struct weft_mapping *mapping)
{
	if (mapping->import)
		weft_import_lock(mapping->import);
	else
		mutex_lock(&mapping->lock);
}

static void weft_mapping_unlock(struct weft_mapping *mapping)
{
	if (mapping->import)
		weft_import_unlock(mapping->import);
	else
		mutex_unlock(&mapping->lock);
}

static enum dma_data_direction weft_mapping_dir(const struct weft_mapping *mapping)
{
	return mapping->req->read_only ? DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
}

/* Memory that is mapped once is seen by both sides, or it is of no use. */
static bool weft_mapping_needs_sync(struct weft_mapping *mapping)
{
	struct ib_device *ib = mapping->domain->ib;
	struct scatterlist *sg;
	int i;

	if (ib_uses_virt_dma(ib))
		return false;
	for_each_sgtable_dma_sg(&mapping->sgt, sg, i)
		if (dma_need_sync(ib->dma_device, sg_dma_address(sg)))
			return true;
	return false;
}

static int weft_mapping_map_pages(struct weft_mapping *mapping, struct weft_why *why)
{
	const struct weft_peer_request *req = mapping->req;
	struct ib_device *ib = mapping->domain->ib;
	int ret;

	ret = sg_alloc_table_from_pages(&mapping->sgt, req->pages, req->page_count, 0,
					(size_t)req->page_count << PAGE_SHIFT, GFP_KERNEL);
	if (ret)
		return ret;
	ret = ib_dma_map_sgtable_attrs(ib, &mapping->sgt, weft_mapping_dir(mapping), 0);
	if (ret) {
		weft_refuse(why, ret, "%s cannot map the memory (error %d)",
			    dev_name(&ib->dev), -ret);
		goto out_free;
	}
	ret = weft_mapping_needs_sync(mapping) ? -EOPNOTSUPP :
	      weft_segments_make(&mapping->own, &mapping->sgt, req->start, req->length,
				 dev_name(&ib->dev), why);
	if (ret)
		goto out_unmap;
	mapping->segments = &mapping->own;
	return 0;

out_unmap:
	weft_segments_free(&mapping->own);
	ib_dma_unmap_sgtable_attrs(ib, &mapping->sgt, weft_mapping_dir(mapping), 0);
out_free:
	sg_free_table(&mapping->sgt);
	return ret;
}

/* Addresses. Context: the lock is held, as in all that follows. */
static int weft_mapping_map(struct weft_mapping *mapping, struct weft_why *why)
{
	int ret;

	if (mapping->import) {
		ret = weft_import_map(mapping->import, why);
		if (!ret)
			mapping->segments = weft_import_segments(mapping->import);
	} else {
		ret = weft_mapping_map_pages(mapping, why);
	}
	mapping->mapped = !ret;
	return ret;
}

static void weft_mapping_unmap(struct weft_mapping *mapping)
{
	mapping->mapped = false;
	mapping->segments = NULL;
	if (mapping->import) {
		weft_import_unmap(mapping->import);
		return;
	}
	weft_segments_free(&mapping->own);
	ib_dma_unmap_sgtable_attrs(mapping->domain->ib, &mapping->sgt,
				   weft_mapping_dir(mapping), 0);
	sg_free_table(&mapping->sgt);
}

/* From now on commands may begin. */
static void weft_mapping_go(struct weft_mapping *mapping)
{
	reinit_completion(&mapping->idle);
	percpu_ref_reinit(&mapping->ref);
	mapping->live = true;
}

static void weft_mapping_unregister(struct weft_mapping *mapping)
{
	u32 i;

	for (i = 0; i < mapping->region_count; i++)
		ib_dereg_mr(mapping->regions[i]);
	kvfree(mapping->regions);
	mapping->regions = NULL;
	mapping->region_count = 0;
}

/* When it returns nobody uses the addresses, and nobody can. */
static void weft_mapping_stop(struct weft_mapping *mapping)
{
	if (mapping->live) {
		mapping->live = false;
		percpu_ref_kill(&mapping->ref);
		if (!wait_for_completion_timeout(&mapping->idle, WEFT_PEER_GRACE)) {
			weft_domain_fence(mapping->domain);
			wait_for_completion(&mapping->idle);
		}
	}
	if (!mapping->mapped)
		return;
	weft_mapping_unregister(mapping);
	weft_mapping_unmap(mapping);
}

static void weft_mapping_invalidate(void *owner)
{
	struct weft_mapping *mapping = owner;

	weft_mapping_stop(mapping);
	if (!mapping->closing)
		queue_delayed_work(weft_peer_wq, &mapping->remap, 0);
}

/* See weft_mapping_regions() for the two. */
#define WEFT_REGION_PAGES_MIN	(2 + WEFT_PEER_RUN / SZ_4K)
#define WEFT_REGION_PAGES_MAX	4098

static u32 weft_region_pages(struct ib_device *ib)
{
	return min_t(u32, ib->attrs.max_fast_reg_page_list_len, WEFT_REGION_PAGES_MAX);
}

/* A work request that registers, and who waits for it. */
struct weft_registering {
	struct ib_cqe		cqe;
	struct completion	done;
	enum ib_wc_status	status;
};

static void weft_region_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct weft_registering *r = container_of(wc->wr_cqe, struct weft_registering, cqe);

	r->status = wc->status;
	complete(&r->done);
}

static int weft_region_post(struct weft_mapping *mapping, struct weft_rdma_queue *queue,
			    struct ib_mr *mr)
{
	struct weft_registering r = { .cqe.done = weft_region_done };
	struct ib_reg_wr wr = {
		.wr.opcode	= IB_WR_REG_MR,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.wr.wr_cqe	= &r.cqe,
		.mr		= mr,
		.key		= mr->rkey,
		.access		= mapping->req->read_only ? IB_ACCESS_REMOTE_READ :
				  IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
				  IB_ACCESS_REMOTE_WRITE,
	};
	int ret;

	init_completion(&r.done);
	ret = ib_post_send(queue->qp, &wr.wr, NULL);
	if (ret)
		return ret;
	/* It stands behind what was posted before, for which a target may take for ever. */
	if (!wait_for_completion_timeout(&r.done, WEFT_PEER_REGISTER)) {
		weft_rdma_error(queue->ctrl, "queue %u: a registration does not end", queue->index);
		/* Into error, and so it is flushed: recovery waits for the lock that is held here. */
		rdma_disconnect(queue->cm_id);
		wait_for_completion(&r.done);
	}
	return r.status == IB_WC_SUCCESS ? 0 : -EIO;
}

/* A region of some runs' addresses. */
static struct ib_mr *weft_region_map(struct weft_mapping *mapping, u64 at, u32 pages)
{
	/* A block may lie across the border to the next. */
	u32 length = min_t(u64, (1U << mapping->region_shift) + SZ_4K, mapping->req->length - at);
	struct scatterlist first[4];
	struct sg_table table;
	struct ib_mr *mr;
	int count, mapped;

	mr = ib_alloc_mr(mapping->domain->pd, IB_MR_TYPE_MEM_REG, pages);
	if (IS_ERR(mr))
		return mr;
	count = weft_rdma_peer_sg(mapping, at, length, &table, first, ARRAY_SIZE(first));
	if (count < 0) {
		ib_dereg_mr(mr);
		return ERR_PTR(count);
	}
	mapped = ib_map_mr_sg(mr, table.sgl, count, NULL, SZ_4K);
	sg_free_table_chained(&table, ARRAY_SIZE(first));
	if (mapped == count)
		return mr;
	ib_dereg_mr(mr);
	return ERR_PTR(mapped < 0 ? mapped : -EINVAL);
}

/* Regions for all of it, on a queue that is connected; nobody takes it down meanwhile. */
static int weft_mapping_regions(struct weft_mapping *mapping, struct weft_rdma_queue *queue)
{
	u32 pages = weft_region_pages(mapping->domain->ib), count, i;
	int ret = 0;

	mapping->region_shift = ilog2((pages - 2) * SZ_4K);
	/* A start within a page costs a page, and the border to the next region another. */
	pages = ((1U << mapping->region_shift) / SZ_4K) + 2;
	count = DIV_ROUND_UP_ULL(mapping->req->length, 1U << mapping->region_shift);
	mapping->regions = kvcalloc(count, sizeof(*mapping->regions), GFP_KERNEL);
	if (!mapping->regions)
		return -ENOMEM;
	for (i = 0; i < count && !ret; i++) {
		struct ib_mr *mr = weft_region_map(mapping, (u64)i << mapping->region_shift,
						   pages);

		if (IS_ERR(mr)) {
			ret = PTR_ERR(mr);
			break;
		}
		mapping->regions[i] = mr;
		mapping->region_count = i + 1;
		ret = weft_region_post(mapping, queue, mr);
	}
	if (ret)
		weft_mapping_unregister(mapping);
	return ret;
}

/*
 * The same on any queue of the domain. -EAGAIN where there is none now: those
 * who connect them do not wait for us, and we must not for them.
 */
static int weft_mapping_register(struct weft_mapping *mapping)
{
	unsigned int noio = memalloc_noio_save();
	struct weft_rdma_ctrl *ctrl;
	int ret = -EAGAIN;

	mutex_lock(&weft_rdma_ctrls_lock);
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list) {
		if (READ_ONCE(ctrl->domain) != mapping->domain || !mutex_trylock(&ctrl->mem_lock))
			continue;
		if (ctrl->mem_up && ctrl->domain == mapping->domain)
			ret = weft_mapping_regions(mapping, &ctrl->queues[ctrl->mem_first]);
		mutex_unlock(&ctrl->mem_lock);
		if (ret != -EAGAIN && ret != -EIO)
			break;
	}
	mutex_unlock(&weft_rdma_ctrls_lock);
	memalloc_noio_restore(noio);
	return ret == -EIO ? -EAGAIN : ret;
}

/* Pages are as far as their node; a peer's memory weft_p2p.ko knows to measure. */
static int weft_mapping_distance(const struct weft_mapping *mapping)
{
	int node;

	if (mapping->import)
		return weft_import_distance(mapping->import);
	node = ibdev_to_node(mapping->domain->ib);
	return node == NUMA_NO_NODE ? LOCAL_DISTANCE :
				      node_distance(page_to_nid(mapping->req->pages[0]), node);
}

/* As far as it comes. -EAGAIN: mapped, and not registered yet. */
static int weft_mapping_start(struct weft_mapping *mapping, struct weft_why *why)
{
	int ret = 0;

	if (!mapping->mapped) {
		ret = weft_mapping_map(mapping, why);
		if (!ret)
			WRITE_ONCE(mapping->distance, weft_mapping_distance(mapping));
	}
	if (!ret && mapping->req->persistent && !mapping->regions) {
		ret = weft_mapping_register(mapping);
		if (ret && ret != -EAGAIN)
			weft_refuse(why, ret, "the RDMA device %s cannot register the memory for good (error %d)",
				    dev_name(&mapping->domain->ib->dev), -ret);
	}
	if (!ret && !mapping->live)
		weft_mapping_go(mapping);
	return ret;
}

/**
 * weft_mapping_try() - map and register what is not yet
 * @mapping: the mapping; where that fails it is tried again by itself
 * @why: gets the reason of a failure
 *
 * Context: process context; takes the lock.
 * Return: 0; -EAGAIN where there is no queue yet to register it by, or others are
 * just at those that there are; or another negative errno.
 */
int weft_mapping_try(struct weft_mapping *mapping, struct weft_why *why)
{
	int ret = 0;

	why->text[0] = 0;
	weft_mapping_lock(mapping);
	if (test_and_clear_bit(0, &mapping->key_lost))
		weft_mapping_stop(mapping);
	if (!mapping->closing)
		ret = weft_mapping_start(mapping, why);
	/* Of all else another try may have more luck. */
	WRITE_ONCE(mapping->lost, ret == -ENODEV || ret == -EOPNOTSUPP);
	if (ret && ret != -EAGAIN)
		pr_warn_ratelimited("registered memory on %s is %s: %s\n",
				    dev_name(&mapping->domain->ib->dev),
				    mapping->lost ? "lost" : "tried again", why->text);
	if (ret && !mapping->lost && !mapping->closing)
		queue_delayed_work(weft_peer_wq, &mapping->remap,
				   ret == -EAGAIN ? HZ / 20 : HZ);
	weft_mapping_unlock(mapping);
	return ret;
}

static void weft_mapping_remap(struct work_struct *work)
{
	struct weft_why why = {};

	weft_mapping_try(container_of(to_delayed_work(work), struct weft_mapping, remap), &why);
}

/**
 * weft_mapping_kick() - look now at what is not mapped or registered yet
 * @mapping: the mapping
 *
 * Context: any; it is there until weft_mapping_end().
 */
void weft_mapping_kick(struct weft_mapping *mapping)
{
	mod_delayed_work(weft_peer_wq, &mapping->remap, 0);
}

static struct weft_import *weft_mapping_attach(struct weft_mapping *mapping, struct weft_why *why)
{
	const struct weft_peer_request *peer = mapping->req;
	struct ib_device *ib = mapping->domain->ib;
	struct weft_import_request req = {
		.dmabuf		= peer->dmabuf,
		.start		= peer->start,
		.length		= peer->length,
		.device		= ib->dma_device,
		.direction	= weft_mapping_dir(mapping),
		.invalidate	= weft_mapping_invalidate,
		.owner		= mapping,
	};
	int ret;

	if (!peer->dmabuf)
		return NULL;
	/* Such a device has no DMA engine, and what it calls its DMA device is none. */
	if (ib_uses_virt_dma(ib)) {
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "no direct route: the RDMA device %s is software and has no DMA engine",
				  dev_name(&ib->dev));
		return ERR_PTR(ret);
	}
	return weft_import_attach(&req, why);
}

/**
 * weft_mapping_make() - bring a peer memory to a domain
 * @req: the memory; it outlives this
 * @domain: where it is not yet; gets a reference
 * @why: gets the reason of a failure
 *
 * Where there is no queue yet to register it by for good, that is done later.
 *
 * Context: process context; takes reservation locks.
 * Return: the mapping, or an ERR_PTR; undo by weft_mapping_end().
 */
struct weft_mapping *weft_mapping_make(const struct weft_peer_request *req,
				       struct weft_domain *domain, struct weft_why *why)
{
	struct weft_mapping *mapping;
	int ret;

	if (req->persistent && weft_region_pages(domain->ib) < WEFT_REGION_PAGES_MIN) {
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "the RDMA device %s registers %u pages at once, too few to register memory for good",
				  dev_name(&domain->ib->dev), weft_region_pages(domain->ib));
		return ERR_PTR(ret);
	}
	mapping = kzalloc_obj(*mapping);
	if (!mapping)
		return ERR_PTR(-ENOMEM);
	mutex_init(&mapping->lock);
	init_completion(&mapping->idle);
	INIT_DELAYED_WORK(&mapping->remap, weft_mapping_remap);
	mapping->req = req;
	mapping->domain = domain;
	mapping->distance = INT_MAX - 1;
	/* The exporter may call before the attachment is known here. */
	mapping->closing = true;
	ret = percpu_ref_init(&mapping->ref, weft_mapping_idle,
			      PERCPU_REF_INIT_DEAD | PERCPU_REF_ALLOW_REINIT, GFP_KERNEL);
	if (ret)
		goto out_free;
	mapping->import = weft_mapping_attach(mapping, why);
	if (IS_ERR(mapping->import)) {
		ret = PTR_ERR(mapping->import);
		goto out_ref;
	}
	weft_mapping_lock(mapping);
	mapping->closing = false;
	ret = weft_mapping_start(mapping, why);
	/* With the first queue that is connected. */
	if (ret == -EAGAIN) {
		queue_delayed_work(weft_peer_wq, &mapping->remap, 0);
		ret = 0;
	}
	if (ret) {
		mapping->closing = true;
		weft_mapping_stop(mapping);
	}
	weft_mapping_unlock(mapping);
	if (ret)
		goto out_detach;
	kref_get(&domain->ref);
	return mapping;

out_detach:
	cancel_delayed_work_sync(&mapping->remap);
	if (mapping->import)
		weft_import_detach(mapping->import);
out_ref:
	percpu_ref_exit(&mapping->ref);
out_free:
	kfree(mapping);
	return ERR_PTR(ret);
}

/**
 * weft_mapping_end() - undo weft_mapping_make()
 * @mapping: not on a list any more, which who looks for it may still be on
 *
 * Context: process context; waits for its commands, in bounded time.
 */
void weft_mapping_end(struct weft_mapping *mapping)
{
	weft_mapping_lock(mapping);
	mapping->closing = true;
	weft_mapping_stop(mapping);
	weft_mapping_unlock(mapping);
	cancel_delayed_work_sync(&mapping->remap);
	if (mapping->import)
		weft_import_detach(mapping->import);
	/* Whoever found it on the list has seen that it is dead. */
	synchronize_rcu();
	percpu_ref_exit(&mapping->ref);
	weft_domain_put(mapping->domain);
	kfree_rcu(mapping, rcu);
}

/**
 * weft_mapping_register_anew() - its registrations are good for nothing any more
 * @mapping: a persistent one
 *
 * Context: any.
 */
void weft_mapping_register_anew(struct weft_mapping *mapping)
{
	set_bit(0, &mapping->key_lost);
	weft_mapping_kick(mapping);
}

/**
 * weft_rdma_peer_sg() - addresses of a part of a mapping
 * @mapping: held by a command
 * @at: in bytes
 * @length: in bytes; within it
 * @table: made; freed by sg_free_table_chained()
 * @first: room for its first entries
 * @first_count: of @first
 *
 * Context: any.
 * Return: how many entries, or -ENOMEM.
 */
int weft_rdma_peer_sg(struct weft_mapping *mapping, u64 at, u32 length, struct sg_table *table,
		      struct scatterlist *first, unsigned int first_count)
{
	const struct weft_segment *begin = weft_segments_find(mapping->segments, at), *s;
	u64 end = at + length;
	struct scatterlist *sg;
	int count = 1;

	for (s = begin; s->at + s->length < end; s++)
		count++;
	table->sgl = first;
	if (sg_alloc_table_chained(table, count, first, first_count))
		return -ENOMEM;
	s = begin;
	for (sg = table->sgl; sg; sg = sg_next(sg), s++) {
		u64 from = max(at, s->at);

		sg_dma_address(sg) = s->address + (from - s->at);
		sg_dma_len(sg) = min(end, s->at + s->length) - from;
	}
	return count;
}

/**
 * weft_rdma_peer_keys_lost() - a target invalidated what was not its to invalidate
 * @queue: connected
 *
 * Context: any. Where it was a queue for peer memory, all that is registered for
 * good in its domain is registered anew when the association is up again.
 */
void weft_rdma_peer_keys_lost(struct weft_rdma_queue *queue)
{
	if (queue->mem)
		set_bit(0, &queue->ctrl->domain->keys_lost);
}
