// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O on registered memory, a peer's or pinned pages: on queue pairs of its own,
 * with a registration for each command, or one for all.
 *
 * DOC: domains, mappings, queues
 *
 * A domain is a volume on an RDMA device: one protection domain, in which one
 * registration serves every controller of the volume behind that device. A
 * mapping is a peer memory in a domain, with addresses for the RDMA device while
 * it is mapped: of a dma-buf weft_p2p.ko makes them, attached to its exporter
 * for the device's PCI function. A controller whose
 * paths have peer memory connects, beside each I/O queue that is not polled, a
 * queue for peer memory in its domain; a command on peer memory is a request of
 * the same tag set, so that timeouts, cancelling and draining are one machinery.
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
 * weft_peers_lock: peers and the lists of mappings; reservation locks are taken
 * under it. A mapping's state is under its reservation lock. Who holds that may
 * have to wait for a recovery, which takes ctrl->mem_lock (a controller's queues
 * for peer memory, and its domain): so neither of the two is taken under that.
 * weft_domains_lock: the domains, innermost.
 */
#include "rdma.h"

#include <linux/dma-mapping.h>
#include <linux/percpu-refcount.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>

#include "../include/weft_p2p.h"

/* What is in flight when an exporter takes its memory away may end by itself so long. */
#define WEFT_PEER_GRACE		HZ
/* Queues that could not be connected are tried again after this. */
#define WEFT_PEER_RETRY		(10 * HZ)
#define WEFT_PEER_REGISTER	(5 * HZ)

/**
 * struct weft_domain - a volume on an RDMA device
 * @list: in weft_domains
 * @ref: of mappings and controllers
 * @volume: UUID
 * @ib: RDMA device
 * @pd: protection domain
 * @keys_lost: bit 0: a target invalidated a key that it should not have
 */
struct weft_domain {
	struct list_head	list;
	struct kref		ref;
	u8			volume[16];
	struct ib_device	*ib;
	struct ib_pd		*pd;
	unsigned long		keys_lost;
};

/**
 * struct weft_peer - peer memory that a volume's paths do I/O on
 * @list: in weft_peers
 * @volume: UUID
 * @req: what it is
 * @mappings: one a domain; read under RCU
 */
struct weft_peer {
	struct list_head		list;
	u8				volume[16];
	struct weft_peer_request	req;
	struct list_head		mappings;
};

/**
 * struct weft_mapping - a peer memory in a domain
 * @list: in the peer's
 * @req: the peer's
 * @domain: with a reference
 * @import: of a dma-buf: attached
 * @lock: of pinned pages: what the reservation lock is for a dma-buf
 * @sgt: of pinned pages: mapped
 * @own: of pinned pages: the table of that
 * @segments: where it lies, while it is mapped
 * @ref: of commands; alive while it is mapped, and registered if that is once
 * @idle: the last of these is back
 * @regions: registrations, where they are persistent
 * @region_count: of @regions
 * @region_bytes: from one to the next
 * @mapped: there are addresses; under the lock, as all that follows
 * @live: @ref is
 * @lost: there will be no addresses any more
 * @closing: it is not to be mapped again
 * @distance: from the memory to the RDMA device, where it was mapped last
 * @key_lost: bit 0: it is to be registered anew
 * @remap: maps it anew
 * @rcu: who looks for it
 */
struct weft_mapping {
	struct list_head		list;
	const struct weft_peer_request	*req;
	struct weft_domain		*domain;
	struct weft_import		*import;
	struct mutex			lock;	/* see above */
	struct sg_table			sgt;
	struct weft_segments		own;
	const struct weft_segments	*segments;
	struct percpu_ref		ref;
	struct completion		idle;
	struct ib_mr			**regions;
	u32				region_count;
	u32				region_bytes;
	bool				mapped;
	bool				live;
	bool				lost;
	bool				closing;
	int				distance;
	unsigned long			key_lost;
	struct delayed_work		remap;
	struct rcu_head			rcu;
};

/* Protects weft_peers, and the lists of mappings. */
static DEFINE_MUTEX(weft_peers_lock);
static LIST_HEAD(weft_peers);
/* Protects weft_domains. */
static DEFINE_MUTEX(weft_domains_lock);
static LIST_HEAD(weft_domains);
static DECLARE_WAIT_QUEUE_HEAD(weft_domains_gone);
static struct workqueue_struct *weft_peer_wq;

static void weft_domain_free(struct kref *ref)
{
	struct weft_domain *domain = container_of(ref, struct weft_domain, ref);

	list_del(&domain->list);
	ib_dealloc_pd(domain->pd);
	kfree(domain);
	wake_up_all(&weft_domains_gone);
}

static void weft_domain_put(struct weft_domain *domain)
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

/* With a reference, or an ERR_PTR. */
static struct weft_domain *weft_domain_get(const u8 *volume, struct ib_device *ib)
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
 * weft_rdma_peer_pd() - what the keys of a controller's queues for peer memory are good for
 * @ctrl: its mem_lock is held, and such queues are being made
 *
 * Return: the protection domain.
 */
struct ib_pd *weft_rdma_peer_pd(struct weft_rdma_ctrl *ctrl)
{
	lockdep_assert_held(&ctrl->mem_lock);
	return ctrl->domain->pd;
}

/**
 * weft_rdma_peer_put_domain() - a controller's queues for peer memory are gone
 * @ctrl: its mem_lock is held
 */
void weft_rdma_peer_put_domain(struct weft_rdma_ctrl *ctrl)
{
	struct weft_domain *domain = ctrl->domain;

	lockdep_assert_held(&ctrl->mem_lock);
	if (!domain)
		return;
	WRITE_ONCE(ctrl->domain, NULL);
	weft_domain_put(domain);
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

/* A start within a page costs a page, and the border to the next region another. */
#define WEFT_REGION_PAGES_MIN	(2 + WEFT_PEER_RUN / SZ_4K)
#define WEFT_REGION_PAGES_MAX	4097

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
	u32 length = min_t(u64, mapping->region_bytes + SZ_4K, mapping->req->length - at);
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

	mapping->region_bytes = round_down((pages - 2) * SZ_4K, WEFT_PEER_RUN);
	count = DIV_ROUND_UP_ULL(mapping->req->length, mapping->region_bytes);
	mapping->regions = kvcalloc(count, sizeof(*mapping->regions), GFP_KERNEL);
	if (!mapping->regions)
		return -ENOMEM;
	for (i = 0; i < count && !ret; i++) {
		struct ib_mr *mr = weft_region_map(mapping, (u64)i * mapping->region_bytes, pages);

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

/* As far as it comes. -EAGAIN: mapped, and not registered yet. */
static int weft_mapping_start(struct weft_mapping *mapping, struct weft_why *why)
{
	int ret = 0;

	if (!mapping->mapped)
		ret = weft_mapping_map(mapping, why);
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

static void weft_mapping_remap(struct work_struct *work)
{
	struct weft_mapping *mapping = container_of(to_delayed_work(work), struct weft_mapping,
						    remap);
	struct weft_why why = {};
	int ret = 0;

	weft_mapping_lock(mapping);
	if (test_and_clear_bit(0, &mapping->key_lost))
		weft_mapping_stop(mapping);
	if (!mapping->closing)
		ret = weft_mapping_start(mapping, &why);
	if (mapping->mapped)
		WRITE_ONCE(mapping->distance, weft_mapping_distance(mapping));
	/* Of all else another try may have more luck. */
	WRITE_ONCE(mapping->lost, ret == -ENODEV || ret == -EOPNOTSUPP);
	if (ret && ret != -EAGAIN)
		pr_warn_ratelimited("registered memory on %s is %s: %s\n",
				    dev_name(&mapping->domain->ib->dev),
				    mapping->lost ? "lost" : "tried again", why.text);
	if (ret && !mapping->lost && !mapping->closing)
		queue_delayed_work(weft_peer_wq, &mapping->remap,
				   ret == -EAGAIN ? HZ / 20 : HZ);
	weft_mapping_unlock(mapping);
}

static struct weft_mapping *weft_mapping_find(struct weft_peer *peer, struct weft_domain *domain)
{
	struct weft_mapping *mapping;

	lockdep_assert_held(&weft_peers_lock);
	list_for_each_entry(mapping, &peer->mappings, list)
		if (mapping->domain == domain)
			return mapping;
	return NULL;
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

/* A peer memory in a domain, where it is not yet. */
static int weft_mapping_make(struct weft_peer *peer, struct weft_domain *domain,
			     struct weft_why *why)
{
	struct weft_mapping *mapping;
	int ret;

	if (peer->req.persistent && weft_region_pages(domain->ib) < WEFT_REGION_PAGES_MIN)
		return weft_refuse(why, -EOPNOTSUPP,
				   "the RDMA device %s registers %u pages at once, too few to register memory for good",
				   dev_name(&domain->ib->dev), weft_region_pages(domain->ib));
	mapping = kzalloc_obj(*mapping);
	if (!mapping)
		return -ENOMEM;
	mutex_init(&mapping->lock);
	init_completion(&mapping->idle);
	INIT_DELAYED_WORK(&mapping->remap, weft_mapping_remap);
	mapping->req = &peer->req;
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
	} else if (mapping->mapped) {
		mapping->distance = weft_mapping_distance(mapping);
	}
	weft_mapping_unlock(mapping);
	if (ret)
		goto out_detach;
	kref_get(&domain->ref);
	list_add_tail_rcu(&mapping->list, &peer->mappings);
	return 0;

out_detach:
	cancel_delayed_work_sync(&mapping->remap);
	if (mapping->import)
		weft_import_detach(mapping->import);
out_ref:
	percpu_ref_exit(&mapping->ref);
out_free:
	kfree(mapping);
	return ret;
}

/* Undo weft_mapping_make(). */
static void weft_mapping_end(struct weft_mapping *mapping)
{
	lockdep_assert_held(&weft_peers_lock);
	list_del_rcu(&mapping->list);
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

/*
 * All peer memories of a domain's volume, in it. What hinders one is no reason
 * for the others to wait: the error is that of @wanted.
 */
static int weft_peers_map(struct weft_domain *domain, struct weft_peer *wanted,
			  struct weft_why *why)
{
	bool keys_lost = test_and_clear_bit(0, &domain->keys_lost);
	struct weft_peer *peer;
	int ret = 0, err;

	mutex_lock(&weft_peers_lock);
	/* Or weft_rdma_peer_device_gone() has been here. */
	if (!weft_rdma_ib_usable(domain->ib)) {
		mutex_unlock(&weft_peers_lock);
		return weft_refuse(why, -ENODEV, "the RDMA device %s is being removed",
				   dev_name(&domain->ib->dev));
	}
	list_for_each_entry(peer, &weft_peers, list) {
		struct weft_mapping *mapping;
		struct weft_why other = {};

		if (memcmp(peer->volume, domain->volume, sizeof(peer->volume)))
			continue;
		mapping = weft_mapping_find(peer, domain);
		if (mapping && keys_lost && peer->req.persistent) {
			set_bit(0, &mapping->key_lost);
			queue_delayed_work(weft_peer_wq, &mapping->remap, 0);
		}
		err = mapping ? 0 : weft_mapping_make(peer, domain, peer == wanted ? why : &other);
		if (peer == wanted)
			ret = err;
		else if (err)
			pr_warn_ratelimited("registered memory on %s: %s\n",
					    dev_name(&domain->ib->dev), other.text);
	}
	mutex_unlock(&weft_peers_lock);
	return ret;
}

static void weft_peer_queues_free(struct weft_rdma_ctrl *ctrl)
{
	u32 i;

	lockdep_assert_held(&ctrl->mem_lock);
	WRITE_ONCE(ctrl->mem_up, false);
	for (i = 0; i < ctrl->mem_count; i++)
		clear_bit(WEFT_QUEUE_LIVE, &ctrl->queues[ctrl->mem_first + i].flags);
	/* Those who saw it and are posting. */
	synchronize_rcu();
	for (i = 0; i < ctrl->mem_count; i++) {
		struct weft_rdma_queue *queue = &ctrl->queues[ctrl->mem_first + i];

		if (!queue->cm_id)
			continue;
		weft_rdma_queue_stop(queue);
		weft_rdma_forget_keys(queue);
	}
	weft_rdma_cancel_peers(&ctrl->set);
	for (i = 0; i < ctrl->mem_count; i++)
		weft_rdma_queue_free(&ctrl->queues[ctrl->mem_first + i]);
}

/* The controller's domain, with a reference for the caller; or an ERR_PTR. */
static struct weft_domain *weft_peer_domain(struct weft_rdma_ctrl *ctrl, struct weft_why *why)
{
	struct weft_domain *domain;
	int ret;

	lockdep_assert_held(&ctrl->mem_lock);
	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE || !ctrl->pd || !ctrl->mem_users) {
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", dev_name(&ctrl->dev));
		return ERR_PTR(ret);
	}
	if (!ctrl->mem_count) {
		ret = weft_refuse(why, -ENOSPC,
				  "no direct route: the target of %s grants no queues beyond those of block I/O",
				  dev_name(&ctrl->dev));
		return ERR_PTR(ret);
	}
	if (!ctrl->domain) {
		domain = weft_domain_get(ctrl->mem_volume, ctrl->ib);
		if (IS_ERR(domain)) {
			weft_refuse(why, PTR_ERR(domain),
				    "the RDMA device %s gives no protection domain",
				    dev_name(&ctrl->ib->dev));
			return domain;
		}
		WRITE_ONCE(ctrl->domain, domain);
	}
	kref_get(&ctrl->domain->ref);
	return ctrl->domain;
}

/* A controller comes to where it can do I/O on the peer memories of its volume. */
static int weft_peer_up(struct weft_rdma_ctrl *ctrl, struct weft_peer *wanted,
			struct weft_why *why)
{
	struct weft_domain *domain;
	unsigned int noio;
	u32 made = 0;
	int ret;

	/* To free memory may take I/O on this very controller, and its recovery mem_lock. */
	noio = memalloc_noio_save();
	mutex_lock(&ctrl->mem_lock);
	domain = weft_peer_domain(ctrl, why);
	mutex_unlock(&ctrl->mem_lock);
	if (IS_ERR(domain)) {
		ret = PTR_ERR(domain);
		goto out_noio;
	}
	/* Not under mem_lock: see above. */
	ret = weft_peers_map(domain, wanted, why);
	mutex_lock(&ctrl->mem_lock);
	if (!ret && (ctrl->domain != domain || weft_rdma_state(ctrl) != WEFT_RDMA_LIVE ||
		     !ctrl->mem_users))
		ret = weft_refuse(why, -ENOTCONN, "%s is not connected now", dev_name(&ctrl->dev));
	if (!ret && !ctrl->mem_up) {
		ret = weft_rdma_start_queues(ctrl, ctrl->mem_first, ctrl->mem_count, &made, why);
		if (ret)
			weft_peer_queues_free(ctrl);
		else
			WRITE_ONCE(ctrl->mem_up, true);
	}
	mutex_unlock(&ctrl->mem_lock);
	weft_domain_put(domain);
out_noio:
	memalloc_noio_restore(noio);
	return ret;
}

/**
 * weft_rdma_peer_work() - peer memory after an association came up, or when it could not be had before
 * @work: of a controller
 */
void weft_rdma_peer_work(struct work_struct *work)
{
	struct weft_rdma_ctrl *ctrl = container_of(to_delayed_work(work), struct weft_rdma_ctrl,
						   mem_work);
	struct weft_why why = {};
	int ret = 0;

	if (!READ_ONCE(ctrl->mem_users))
		return;
	if (weft_rdma_state(ctrl) == WEFT_RDMA_LIVE)
		ret = weft_peer_up(ctrl, NULL, &why);
	if (!ret)
		weft_rdma_paths_peers(ctrl);
	if (!ret || weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return;
	weft_ctrl_warn(ctrl, "queues for peer memory: %s\n", why.text);
	queue_delayed_work(weft_peer_wq, &ctrl->mem_work, WEFT_PEER_RETRY);
}

/**
 * weft_rdma_peer_kick() - an association came up
 * @ctrl: whose
 *
 * Not on the controller's own workqueue: this waits for exporters, and they for
 * recovery, which is there.
 */
void weft_rdma_peer_kick(struct weft_rdma_ctrl *ctrl)
{
	queue_delayed_work(weft_peer_wq, &ctrl->mem_work, 0);
}

/**
 * weft_rdma_peer_add() - peer memory is there
 * @req: which
 *
 * Context: process context.
 * Return: it, or an ERR_PTR; undo by weft_rdma_peer_remove().
 */
struct weft_peer *weft_rdma_peer_add(const struct weft_peer_request *req)
{
	struct weft_peer *peer = kzalloc_obj(*peer);

	if (!peer)
		return ERR_PTR(-ENOMEM);
	memcpy(peer->volume, req->volume, sizeof(peer->volume));
	peer->req = *req;
	INIT_LIST_HEAD(&peer->mappings);
	mutex_lock(&weft_peers_lock);
	list_add_tail(&peer->list, &weft_peers);
	mutex_unlock(&weft_peers_lock);
	return peer;
}

/**
 * weft_rdma_peer_prepare() - a path is to do I/O on peer memory
 * @peer: the memory
 * @path: of its volume
 * @why: gets the reason of a failure
 *
 * Context: process context; waits for the target.
 * Return: 0 or a negative errno.
 */
int weft_rdma_peer_prepare(struct weft_peer *peer, struct weft_path *path, struct weft_why *why)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;
	int ret = 0;

	mutex_lock(&ctrl->mem_lock);
	if (ctrl->mem_users && memcmp(ctrl->mem_volume, peer->volume, sizeof(peer->volume)))
		ret = weft_refuse(why, -EBUSY,
				  "no direct route: another volume, on the same controller (%s), has peer memory",
				  dev_name(&ctrl->dev));
	if (!ret && !rp->has_peers) {
		rp->has_peers = true;
		memcpy(ctrl->mem_volume, peer->volume, sizeof(ctrl->mem_volume));
		WRITE_ONCE(ctrl->mem_users, ctrl->mem_users + 1);
	}
	mutex_unlock(&ctrl->mem_lock);
	if (ret)
		return ret;
	ret = weft_peer_up(ctrl, peer, why);
	/* Others may do without this path; it comes when it can. */
	if (ret)
		queue_delayed_work(weft_peer_wq, &ctrl->mem_work, WEFT_PEER_RETRY);
	return ret;
}

/**
 * weft_rdma_peer_distance() - from peer memory to the RDMA device a path leaves by
 * @peer: the memory
 * @path: prepared
 *
 * Context: process context.
 * Return: the smaller the nearer; INT_MAX where it is not connected now.
 */
int weft_rdma_peer_distance(struct weft_peer *peer, struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_mapping *mapping;
	int distance = INT_MAX;

	mutex_lock(&weft_peers_lock);
	mapping = weft_mapping_find(peer, READ_ONCE(rp->ns->ctrl->domain));
	if (mapping)
		distance = READ_ONCE(mapping->distance);
	mutex_unlock(&weft_peers_lock);
	return distance;
}

/**
 * weft_rdma_peer_leave() - a path has no peer memory any more
 * @path: of which no command on such is in flight
 *
 * Context: process context.
 */
void weft_rdma_peer_leave(struct weft_path *path)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;

	mutex_lock(&ctrl->mem_lock);
	if (rp->has_peers) {
		rp->has_peers = false;
		WRITE_ONCE(ctrl->mem_users, ctrl->mem_users - 1);
		if (!ctrl->mem_users) {
			weft_peer_queues_free(ctrl);
			weft_rdma_peer_put_domain(ctrl);
		}
	}
	mutex_unlock(&ctrl->mem_lock);
}

/**
 * weft_rdma_peer_remove() - undo weft_rdma_peer_add()
 * @peer: no command on it is in flight
 *
 * Context: process context.
 */
void weft_rdma_peer_remove(struct weft_peer *peer)
{
	struct weft_mapping *mapping, *next;

	mutex_lock(&weft_peers_lock);
	list_del(&peer->list);
	list_for_each_entry_safe(mapping, next, &peer->mappings, list)
		weft_mapping_end(mapping);
	mutex_unlock(&weft_peers_lock);
	kfree(peer);
}

/**
 * weft_rdma_peer_device_gone() - an RDMA device is being removed
 * @ib: the device; no association uses it any more
 *
 * Context: process context.
 */
void weft_rdma_peer_device_gone(struct ib_device *ib)
{
	struct weft_mapping *mapping, *next;
	struct weft_peer *peer;

	mutex_lock(&weft_peers_lock);
	list_for_each_entry(peer, &weft_peers, list)
		list_for_each_entry_safe(mapping, next, &peer->mappings, list)
			if (mapping->domain->ib == ib)
				weft_mapping_end(mapping);
	mutex_unlock(&weft_peers_lock);
	/* Who was about to map another has seen that it may not. */
	wait_event(weft_domains_gone, !weft_domain_any(ib));
}

/**
 * weft_rdma_peer_lost() - did the exporter take the memory away for good?
 * @peer: the memory
 *
 * Context: any.
 * Return: whether it did so on each device that had it.
 */
bool weft_rdma_peer_lost(struct weft_peer *peer)
{
	struct weft_mapping *mapping;
	bool any = false, lost = true;

	rcu_read_lock();
	list_for_each_entry_rcu(mapping, &peer->mappings, list) {
		any = true;
		lost &= READ_ONCE(mapping->lost);
	}
	rcu_read_unlock();
	return any && lost;
}

/* The memory as this controller reaches it, with a reference; or an ERR_PTR. */
static struct weft_mapping *weft_mapping_get(struct weft_peer *peer, struct weft_rdma_ctrl *ctrl)
{
	struct weft_domain *domain = READ_ONCE(ctrl->domain);
	struct weft_mapping *mapping;

	rcu_read_lock();
	list_for_each_entry_rcu(mapping, &peer->mappings, list) {
		if (mapping->domain == domain && percpu_ref_tryget_live(&mapping->ref)) {
			rcu_read_unlock();
			return mapping;
		}
	}
	rcu_read_unlock();
	return ERR_PTR(weft_rdma_peer_lost(peer) ? -EFAULT : -ENOTCONN);
}

static WEFT_END_IO(weft_peer_end_io, rq)
{
	struct weft_rdma_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct weft_rdma_ctrl *ctrl = pdu->queue->ctrl;
	struct weft_mem_op *op = rq->end_io_data;
	unsigned long after = jiffies;

	/* It may have been sent, now or before. */
	if (error == BLK_STS_TRANSPORT && op->write && (pdu->status || pdu->retries))
		after = READ_ONCE(ctrl->quiet_at);
	percpu_ref_put(&pdu->mapping->ref);
	op->done(op, error, after);
	return RQ_END_IO_FREE;
}

/**
 * weft_rdma_peer_submit() - a command on peer memory
 * @path: by which
 * @op: what; checked against the path's limits and the memory's length
 *
 * Context: process context; waits for a tag.
 * Return: 0, and @op->done is called; -ENOTCONN where it cannot be now; -EFAULT
 * where the memory is lost.
 */
int weft_rdma_peer_submit(struct weft_path *path, struct weft_mem_op *op)
{
	struct weft_rdma_path *rp = container_of(path, struct weft_rdma_path, path);
	struct weft_rdma_ctrl *ctrl = rp->ns->ctrl;
	struct weft_mapping *mapping;
	struct weft_rdma_pdu *pdu;
	struct request *rq;

	if (op->length > path->mem_bytes)
		return -ENOTCONN;
	/* It may be long until there is a tag: only what is found after that counts. */
	rq = blk_mq_alloc_request(rp->ns->disk->queue,
				  op->write ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN, 0);
	if (IS_ERR(rq))
		return -ENOTCONN;
	mapping = READ_ONCE(ctrl->mem_up) ? weft_mapping_get(op->peer, ctrl) : ERR_PTR(-ENOTCONN);
	if (IS_ERR(mapping)) {
		blk_mq_free_request(rq);
		return PTR_ERR(mapping);
	}
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->mem = true;
	pdu->mapping = mapping;
	pdu->retries = 0;
	pdu->status = 0;
	rq->end_io = weft_peer_end_io;
	rq->end_io_data = op;
	blk_execute_rq_nowait(rq, false);
	return 0;
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
 * weft_rdma_peer_key() - a key for a part of a mapping, where there is one for all commands
 * @mapping: held by a command
 * @at: in bytes
 * @address: set: what the key knows the part by
 * @key: set
 *
 * Context: any.
 * Return: false where a command needs a registration of its own.
 */
bool weft_rdma_peer_key(const struct weft_mapping *mapping, u64 at, u64 *address, u32 *key)
{
	const struct ib_mr *mr;
	u32 index;

	if (!mapping->regions)
		return false;
	index = at / mapping->region_bytes;
	mr = mapping->regions[index];
	*address = mr->iova + (at - (u64)index * mapping->region_bytes);
	*key = mr->rkey;
	return true;
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

/**
 * weft_rdma_peer_fits() - does a queue reach a mapping?
 * @mapping: held by a command
 * @queue: connected
 *
 * Return: whether its keys are good on that queue.
 */
bool weft_rdma_peer_fits(const struct weft_mapping *mapping, const struct weft_rdma_queue *queue)
{
	return mapping->domain->pd == queue->pd;
}

int weft_rdma_peer_init(void)
{
	weft_peer_wq = alloc_workqueue("weft-peer", WQ_UNBOUND, 0);
	return weft_peer_wq ? 0 : -ENOMEM;
}

void weft_rdma_peer_exit(void)
{
	destroy_workqueue(weft_peer_wq);
}
