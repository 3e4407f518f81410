// SPDX-License-Identifier: GPL-2.0-only
/*
 * Peer memory in a protection domain: its addresses for an RDMA device, which
 * change when its exporter moves it, and its persistent registrations.
 *
 * DOC: domains and mappings
 *
 * A domain is a volume on an RDMA device (domain.c). A mapping is a peer memory in
 * a domain. While it is mapped, it has addresses for the RDMA device. For a
 * dma-buf, weft_p2p.ko attaches the device's PCI function to the exporter and
 * provides the addresses.
 *
 * DOC: persistent registrations
 *
 * A persistent mapping has its own memory regions of at least WEFT_PEER_RUN
 * bytes. Work requests on any queue of the domain register them before the
 * first command. Commands use the key of the region, and do not invalidate it.
 * The regions are released before the addresses. If a target invalidates a
 * region, its association is ended, and the memory is registered again.
 *
 * DOC: an exporter takes its memory away
 *
 * The exporter may do this at any time, and waits until it is done. No new
 * command begins on the mapping, and those in flight have a moment to end. If
 * one does not end, its association is ended, as after a timeout: the target
 * cannot access memory after the queue pair is drained, and a write that it may
 * still execute is handled as such. Then the addresses are released. A work
 * maps the memory again at its new place. If the exporter has no memory, it is
 * lost permanently.
 *
 * DOC: locks
 *
 * A mapping's reservation lock protects its state. Its holder may have to wait
 * for a recovery, which takes ctrl->mem_lock. So ctrl->mem_lock must not be
 * taken inside the reservation lock. weft_rdma_ctrls_lock is taken inside it: its
 * holders do not wait for a target. weft_domains_lock protects the domains and is
 * the innermost lock.
 */
#include "mapping.h"

#include <linux/sched/mm.h>

#include "../compat/dma.h"

/* How long commands in flight may continue after an exporter revokes its memory. */
#define WEFT_PEER_GRACE		HZ
#define WEFT_PEER_REGISTER	(5 * HZ)
/* Registration is tried again after so long. The delay doubles so often. */
#define WEFT_MAPPING_AGAIN	(HZ / 20)
#define WEFT_MAPPING_DELAYS	4U
/* Limit of regions that are registered at once, see WEFT_SEND_WRS for their room. */
#define WEFT_REGION_BATCH	32U
#define WEFT_REGION_TIME	(HZ / 10)

struct workqueue_struct *weft_peer_wq;
struct workqueue_struct *weft_remap_wq;

/* End all associations of the domain, and so all commands. */
static void weft_domain_fence(struct weft_domain *domain)
{
	struct weft_rdma_ctrl *ctrl;

	mutex_lock(&weft_rdma_ctrls_lock);
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list)
		if (READ_ONCE(ctrl->domain) == domain)
			weft_rdma_error(ctrl, WEFT_RDMA_END_MEMORY,
					"peer memory was revoked, and a command on it does not end");
	mutex_unlock(&weft_rdma_ctrls_lock);
	/*
	 * Also wait for running recoveries: their domain may be released already. Those on
	 * other RDMA devices have none of its commands, and may take long.
	 */
	for (ctrl = weft_rdma_ctrl_next(NULL); ctrl; ctrl = weft_rdma_ctrl_next(ctrl))
		if (READ_ONCE(ctrl->ib) == domain->ib)
			flush_work(&ctrl->recover_work);
}

static void weft_mapping_killed(struct percpu_ref *ref)
{
	complete(&container_of(ref, struct weft_mapping, ref)->killed);
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

static bool weft_mapping_may(enum weft_mapping_state from, enum weft_mapping_state to)
{
	switch (to) {
	case WEFT_MAPPING_UNMAPPED:
		return from == WEFT_MAPPING_MAPPED || from == WEFT_MAPPING_LOST;
	case WEFT_MAPPING_LOST:
		return from == WEFT_MAPPING_UNMAPPED;
	case WEFT_MAPPING_MAPPED:
		return from == WEFT_MAPPING_UNMAPPED || from == WEFT_MAPPING_LOST ||
		       from == WEFT_MAPPING_ENDING || from == WEFT_MAPPING_LIVE;
	case WEFT_MAPPING_LIVE:
		return from == WEFT_MAPPING_MAPPED;
	case WEFT_MAPPING_ENDING:
		return from == WEFT_MAPPING_LIVE;
	}
	return false;
}

/* The one place where a mapping's state changes. The caller holds its lock, and knows that it may. */
static void weft_mapping_set_state(struct weft_mapping *mapping, enum weft_mapping_state to)
{
	WARN_ON_ONCE(!weft_mapping_may(mapping->state, to));
	WRITE_ONCE(mapping->state, to);
}

static bool weft_mapping_is_mapped(const struct weft_mapping *mapping)
{
	return mapping->state >= WEFT_MAPPING_MAPPED;
}

static enum dma_data_direction weft_mapping_dir(const struct weft_mapping *mapping)
{
	return mapping->req->read_only ? DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
}

/* What lies in bounce buffers would have to be copied for each command: it is refused. */
static int weft_mapping_check(const struct weft_segments *segments, struct ib_device *ib,
			      struct weft_why *why)
{
	u32 i;

	if (ib_uses_virt_dma(ib))
		return 0;
	for (i = 0; i < segments->count; i++)
		if (weft_dma_needs_sync(ib->dma_device, segments->table[i].address))
			return weft_refuse(why, -EOPNOTSUPP,
					   "no direct route: the RDMA device %s reaches the memory by bounce buffers alone",
					   dev_name(&ib->dev));
	return 0;
}

static int weft_mapping_map_pages(struct weft_mapping *mapping, struct weft_why *why)
{
	const struct weft_peer_request *req = mapping->req;
	struct ib_device *ib = mapping->domain->ib;
	int ret;

	ret = sg_alloc_table_from_pages(&mapping->sgt, req->pages, req->page_count, 0,
					(size_t)req->page_count << PAGE_SHIFT, GFP_KERNEL_ACCOUNT);
	if (ret)
		return ret;
	ret = ib_dma_map_sgtable_attrs(ib, &mapping->sgt, weft_mapping_dir(mapping), 0);
	if (ret) {
		weft_refuse(why, ret, "%s cannot map the memory (error %d)",
			    dev_name(&ib->dev), -ret);
		goto out_free;
	}
	ret = weft_segments_make(&mapping->own, &mapping->sgt, req->start, req->length,
				 dev_name(&ib->dev), why) ?:
	      weft_mapping_check(&mapping->own, ib, why);
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

/* Map the memory. Context: the lock is held, as in the following functions. */
static int weft_mapping_map(struct weft_mapping *mapping, struct weft_why *why)
{
	int ret;

	if (mapping->import) {
		ret = weft_import_map(mapping->import, why);
		if (ret)
			return ret;
		mapping->segments = weft_import_segments(mapping->import);
		ret = weft_mapping_check(mapping->segments, mapping->domain->ib, why);
		if (ret) {
			mapping->segments = NULL;
			weft_import_unmap(mapping->import);
		}
	} else {
		ret = weft_mapping_map_pages(mapping, why);
	}
	if (!ret)
		weft_mapping_set_state(mapping, WEFT_MAPPING_MAPPED);
	return ret;
}

static void weft_mapping_unmap(struct weft_mapping *mapping)
{
	weft_mapping_set_state(mapping, WEFT_MAPPING_UNMAPPED);
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

/* Commands may begin after this. */
static void weft_mapping_go(struct weft_mapping *mapping)
{
	reinit_completion(&mapping->killed);
	reinit_completion(&mapping->idle);
	percpu_ref_reinit(&mapping->ref);
	weft_mapping_set_state(mapping, WEFT_MAPPING_LIVE);
}

static void weft_mapping_unregister(struct weft_mapping *mapping)
{
	u32 i;

	for (i = 0; i < mapping->region_made; i++)
		ib_dereg_mr(mapping->regions[i]);
	kvfree(mapping->regions);
	mapping->regions = NULL;
	mapping->region_made = 0;
	mapping->region_count = 0;
}

static bool weft_mapping_registered(const struct weft_mapping *mapping)
{
	return mapping->regions && mapping->region_count == mapping->region_total;
}

/* No command may begin after this. */
static void weft_mapping_kill(struct weft_mapping *mapping)
{
	if (mapping->state != WEFT_MAPPING_LIVE)
		return;
	weft_mapping_set_state(mapping, WEFT_MAPPING_ENDING);
	percpu_ref_kill_and_confirm(&mapping->ref, weft_mapping_killed);
}

/* Wait for the commands after weft_mapping_kill(). */
static void weft_mapping_drain(struct weft_mapping *mapping)
{
	if (mapping->state != WEFT_MAPPING_ENDING)
		return;
	/* The grace is for commands, not for the RCU grace period before they are counted. */
	wait_for_completion(&mapping->killed);
	if (!wait_for_completion_timeout(&mapping->idle, WEFT_PEER_GRACE)) {
		weft_domain_fence(mapping->domain);
		wait_for_completion(&mapping->idle);
	}
	weft_mapping_set_state(mapping, WEFT_MAPPING_MAPPED);
}

/* Stop all use of the addresses; none is possible after it returns. */
static void weft_mapping_stop(struct weft_mapping *mapping)
{
	weft_mapping_kill(mapping);
	weft_mapping_drain(mapping);
	if (!weft_mapping_is_mapped(mapping))
		return;
	weft_mapping_unregister(mapping);
	weft_mapping_unmap(mapping);
}

static void weft_mapping_invalidate(void *owner)
{
	struct weft_mapping *mapping = owner;

	weft_mapping_stop(mapping);
	if (!mapping->closing)
		queue_delayed_work(weft_remap_wq, &mapping->remap, 0);
}

/* See weft_regions_alloc() and weft_region_make() for the two. */
#define WEFT_REGION_PAGES_MIN	(2 + WEFT_PEER_RUN / SZ_4K)
#define WEFT_REGION_PAGES_MAX	4098

static u32 weft_region_pages(struct ib_device *ib)
{
	return min_t(u32, ib->attrs.max_fast_reg_page_list_len, WEFT_REGION_PAGES_MAX);
}

/*
 * Work requests that register regions, and their waiter.
 * @pending: work requests in flight, plus one while they are posted
 */
struct weft_registering {
	struct ib_cqe		cqe;
	struct completion	done;
	atomic_t		pending;
	bool			failed;
};

static void weft_region_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct weft_registering *r = container_of(wc->wr_cqe, struct weft_registering, cqe);

	if (wc->status != IB_WC_SUCCESS)
		WRITE_ONCE(r->failed, true);
	if (atomic_dec_and_test(&r->pending))
		complete(&r->done);
}

static int weft_region_post(struct weft_mapping *mapping, struct weft_rdma_queue *queue,
			    struct ib_mr *mr, struct weft_registering *r)
{
	struct ib_reg_wr wr = {
		.wr.opcode	= IB_WR_REG_MR,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.wr.wr_cqe	= &r->cqe,
		.mr		= mr,
		.key		= mr->rkey,
		.access		= mapping->req->read_only ? IB_ACCESS_REMOTE_READ :
				  IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
				  IB_ACCESS_REMOTE_WRITE,
	};
	int ret;

	atomic_inc(&r->pending);
	ret = weft_rdma_post_send(queue, &wr.wr);
	if (ret)
		atomic_dec(&r->pending);
	return ret;
}

/* A used region cannot be registered again: free those that are not registered. */
static void weft_regions_drop(struct weft_mapping *mapping)
{
	while (mapping->region_made > mapping->region_count)
		ib_dereg_mr(mapping->regions[--mapping->region_made]);
}

/* Register the new regions, on a queue that the caller keeps connected. */
static int weft_regions_post(struct weft_mapping *mapping, struct weft_rdma_queue *queue)
{
	struct weft_registering r = {
		.cqe.done	= weft_region_done,
		.pending	= ATOMIC_INIT(1),
	};
	u32 i, end = min(mapping->region_made, mapping->region_count + max(queue->size / 2, 1));
	int ret = 0;

	init_completion(&r.done);
	for (i = mapping->region_count; i < end && !ret; i++)
		ret = weft_region_post(mapping, queue, mapping->regions[i], &r);
	/* They wait behind earlier work requests, which a target may delay without limit. */
	if (!atomic_dec_and_test(&r.pending) &&
	    !wait_for_completion_timeout(&r.done, WEFT_PEER_REGISTER)) {
		weft_rdma_error(queue->ctrl, WEFT_RDMA_END_TIMEOUT,
				"queue %u: a registration does not end", queue->id);
		/* The error state flushes them. Recovery cannot: it waits for a lock held here. */
		rdma_disconnect(queue->cm_id);
		wait_for_completion(&r.done);
	}
	if (!ret && r.failed)
		ret = -EIO;
	if (ret)
		weft_regions_drop(mapping);
	else
		mapping->region_count = end;
	return ret;
}

/* Make a region for the addresses of several runs. */
static struct ib_mr *weft_region_make(struct weft_mapping *mapping, u64 at)
{
	/* A block may lie across the border to the next. */
	u32 length = min_t(u64, (1U << mapping->region_shift) + SZ_4K, mapping->req->length - at);
	/*
	 * A start within a page costs a page, and the border to the next region another.
	 * No more than it needs: the adapter's memory for them is everybody's.
	 */
	u32 pages = min((1U << mapping->region_shift), round_up(length, mapping->page_bytes)) /
		    mapping->page_bytes + 2;
	struct scatterlist first[4];
	struct sg_table table;
	struct ib_mr *mr;
	int count, mapped;

	mr = ib_alloc_mr(mapping->domain->pd, IB_MR_TYPE_MEM_REG, pages);
	/* That of mlx5 for a full device. Here it would mean that no queue is there now. */
	if (mr == ERR_PTR(-EAGAIN))
		return ERR_PTR(-ENOMEM);
	if (IS_ERR(mr))
		return mr;
	count = weft_rdma_peer_sg(mapping, at, length, &table, first, ARRAY_SIZE(first));
	if (count < 0) {
		ib_dereg_mr(mr);
		return ERR_PTR(count);
	}
	mapped = ib_map_mr_sg(mr, table.sgl, count, NULL, mapping->page_bytes);
	sg_free_table_chained(&table, ARRAY_SIZE(first));
	if (mapped == count)
		return mr;
	ib_dereg_mr(mr);
	return ERR_PTR(mapped < 0 ? mapped : -EINVAL);
}

/* Make as many regions as are registered at once. */
static int weft_regions_make(struct weft_mapping *mapping)
{
	u32 end = min(mapping->region_total, mapping->region_count + WEFT_REGION_BATCH);

	while (mapping->region_made < end) {
		u64 at = (u64)mapping->region_made << mapping->region_shift;
		struct ib_mr *mr = weft_region_make(mapping, at);

		if (IS_ERR(mr))
			return PTR_ERR(mr);
		mapping->regions[mapping->region_made++] = mr;
	}
	return 0;
}

/* With larger pages a region is larger, so that the adapter needs fewer. */
static u32 weft_mapping_page_bytes(const struct weft_mapping *mapping)
{
	const struct weft_segments *segments = mapping->segments;
	u32 i;

	if (!weft_rdma_large_pages(mapping->domain->ib))
		return SZ_4K;
	for (i = 1; i < segments->count; i++) {
		const struct weft_segment *before = &segments->table[i - 1];

		if (!IS_ALIGNED((before->address + before->length) | segments->table[i].address,
				SZ_64K))
			return SZ_4K;
	}
	return SZ_64K;
}

static int weft_regions_alloc(struct weft_mapping *mapping)
{
	u32 pages = weft_region_pages(mapping->domain->ib);

	mapping->page_bytes = weft_mapping_page_bytes(mapping);
	mapping->region_shift = ilog2((pages - 2) * mapping->page_bytes);
	mapping->region_total = DIV_ROUND_UP_ULL(mapping->req->length, 1U << mapping->region_shift);
	mapping->regions = kvcalloc(mapping->region_total, sizeof(*mapping->regions),
				    GFP_KERNEL_ACCOUNT);
	return mapping->regions ? 0 : -ENOMEM;
}

/*
 * Find a controller of the domain whose queues for peer memory are connected.
 * Returns it with a reference and its mem_lock, which keeps them connected; or
 * NULL. It only tries the locks, because a thread that connects queues may wait
 * for this one, and the exporter waits for the caller.
 */
static struct weft_rdma_ctrl *weft_domain_ctrl(struct weft_domain *domain)
{
	struct weft_rdma_ctrl *ctrl, *found = NULL;

	if (!mutex_trylock(&weft_rdma_ctrls_lock))
		return NULL;
	list_for_each_entry(ctrl, &weft_rdma_ctrls, list) {
		if (READ_ONCE(ctrl->domain) != domain || !mutex_trylock(&ctrl->mem_lock))
			continue;
		if (ctrl->mem_up && ctrl->domain == domain) {
			kref_get(&ctrl->ref);
			found = ctrl;
			break;
		}
		mutex_unlock(&ctrl->mem_lock);
	}
	mutex_unlock(&weft_rdma_ctrls_lock);
	return found;
}

static int weft_regions_register(struct weft_mapping *mapping)
{
	struct weft_rdma_ctrl *ctrl = weft_domain_ctrl(mapping->domain);
	int ret;

	if (!ctrl)
		return -EAGAIN;
	ret = weft_regions_post(mapping, &ctrl->queues[ctrl->mem_first]);
	mutex_unlock(&ctrl->mem_lock);
	weft_rdma_ctrl_put(ctrl);
	/* Try again on the next controller, or in this one's next association. */
	return ret == -EIO ? -EAGAIN : ret;
}

/*
 * Register regions for the whole mapping, in groups: the locks that recovery
 * needs are held for one group only, and the exporter waits at most
 * WEFT_REGION_TIME. Returns -EAGAIN if there is more to do, or no queue now;
 * regions that are registered stay.
 */
static int weft_mapping_register(struct weft_mapping *mapping)
{
	unsigned long end = jiffies + WEFT_REGION_TIME;
	unsigned int noio = memalloc_noio_save();
	int ret = mapping->regions ? 0 : weft_regions_alloc(mapping);

	while (!ret && !weft_mapping_registered(mapping)) {
		ret = weft_regions_make(mapping);
		if (!ret)
			ret = weft_regions_register(mapping);
		if (!ret && time_after(jiffies, end) && !weft_mapping_registered(mapping))
			ret = -EAGAIN;
	}
	if (ret && ret != -EAGAIN)
		weft_mapping_unregister(mapping);
	memalloc_noio_restore(noio);
	return ret;
}

/* For host pages the distance of their node; for a dma-buf weft_p2p.ko knows it. */
static int weft_mapping_distance(const struct weft_mapping *mapping)
{
	int node;

	if (mapping->import)
		return weft_import_distance(mapping->import);
	node = ibdev_to_node(mapping->domain->ib);
	return node == NUMA_NO_NODE ? LOCAL_DISTANCE :
				      node_distance(page_to_nid(mapping->req->pages[0]), node);
}

/* Map and register as far as possible. -EAGAIN: mapped, but not registered yet. */
static int weft_mapping_start(struct weft_mapping *mapping, struct weft_why *why)
{
	int ret = 0;

	if (!weft_mapping_is_mapped(mapping)) {
		ret = weft_mapping_map(mapping, why);
		if (!ret)
			WRITE_ONCE(mapping->distance, weft_mapping_distance(mapping));
	}
	if (!ret && mapping->persistent && !weft_mapping_registered(mapping)) {
		ret = weft_mapping_register(mapping);
		if (ret && ret != -EAGAIN)
			weft_refuse(why, ret, "the RDMA device %s cannot register the memory for good (error %d)",
				    dev_name(&mapping->domain->ib->dev), -ret);
	}
	if (!ret && mapping->state == WEFT_MAPPING_MAPPED)
		weft_mapping_go(mapping);
	return ret;
}

/**
 * weft_mapping_try() - map and register a mapping, if it is not
 * @mapping: the mapping; after a failure its work tries again
 * @why: gets the reason of a failure
 *
 * Context: process context; takes the lock.
 * Return: 0; -EAGAIN if no queue for the registration is connected or free; or
 * another negative errno.
 */
int weft_mapping_try(struct weft_mapping *mapping, struct weft_why *why)
{
	bool lost;
	int ret = 0;

	why->text[0] = 0;
	weft_mapping_lock(mapping);
	if (test_and_clear_bit(0, &mapping->key_lost))
		weft_mapping_stop(mapping);
	if (!mapping->closing)
		ret = weft_mapping_start(mapping, why);
	/* After any other error another try may succeed. */
	lost = ret == -ENODEV || ret == -EOPNOTSUPP;
	if (lost)
		weft_mapping_stop(mapping);
	if (mapping->state == (lost ? WEFT_MAPPING_UNMAPPED : WEFT_MAPPING_LOST))
		weft_mapping_set_state(mapping, lost ? WEFT_MAPPING_LOST : WEFT_MAPPING_UNMAPPED);
	if (ret && ret != -EAGAIN)
		pr_warn_ratelimited("registered memory on %s is %s: %s\n",
				    dev_name(&mapping->domain->ib->dev),
				    lost ? "lost" : "tried again", why->text);
	if (ret && !lost && !mapping->closing)
		queue_delayed_work(weft_remap_wq, &mapping->remap,
				   ret == -EAGAIN ?
				   WEFT_MAPPING_AGAIN << READ_ONCE(mapping->delays) : HZ);
	weft_mapping_unlock(mapping);
	return ret;
}

static void weft_mapping_remap(struct work_struct *work)
{
	struct weft_mapping *mapping = container_of(to_delayed_work(work), struct weft_mapping,
						    remap);
	u32 registered = READ_ONCE(mapping->region_count), delays = READ_ONCE(mapping->delays);
	struct weft_why why = {};
	/* Reclaim may need I/O that waits for the removal of this RDMA device, which takes the lock. */
	unsigned int noio = memalloc_noio_save();

	/* A queue that is in use is free soon. One that is not connected may never be. */
	if (weft_mapping_try(mapping, &why) == -EAGAIN &&
	    READ_ONCE(mapping->region_count) == registered)
		WRITE_ONCE(mapping->delays, min(delays + 1, WEFT_MAPPING_DELAYS));
	else
		WRITE_ONCE(mapping->delays, 0);
	memalloc_noio_restore(noio);
}

/**
 * weft_mapping_kick() - have a mapping mapped and registered now
 * @mapping: the mapping
 *
 * Context: any; before weft_mapping_end().
 */
void weft_mapping_kick(struct weft_mapping *mapping)
{
	WRITE_ONCE(mapping->delays, 0);
	mod_delayed_work(weft_remap_wq, &mapping->remap, 0);
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
	/* A software device has no DMA engine: its dma_device is not a real one. */
	if (ib_uses_virt_dma(ib)) {
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "no direct route: the RDMA device %s is software and has no DMA engine",
				  dev_name(&ib->dev));
		return ERR_PTR(ret);
	}
	return weft_import_attach(&req, why);
}

/* Readers that found the mapping on the list have seen that it is dead. */
static void weft_mapping_free_work(struct work_struct *work)
{
	struct weft_mapping *mapping = container_of(to_rcu_work(work), struct weft_mapping,
						    free_work);
	struct weft_domain *domain = mapping->domain;
	/* Reclaim may need I/O whose recovery waits for the lock of the domains. */
	unsigned int noio = memalloc_noio_save();

	percpu_ref_exit(&mapping->ref);
	kfree(mapping);
	weft_domain_put(domain);
	memalloc_noio_restore(noio);
}

/**
 * weft_mapping_make() - make the mapping of a peer memory in a domain
 * @req: the memory; it has to outlive the mapping
 * @domain: the domain; takes a reference
 * @why: gets the reason of a failure
 *
 * Without a queue for persistent registration, that is done later. What it
 * allocates is charged to the caller's memory cgroup.
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
	mapping = kzalloc_obj(*mapping, GFP_KERNEL_ACCOUNT);
	if (!mapping)
		return ERR_PTR(-ENOMEM);
	mutex_init(&mapping->lock);
	init_completion(&mapping->killed);
	init_completion(&mapping->idle);
	INIT_DELAYED_WORK(&mapping->remap, weft_mapping_remap);
	INIT_RCU_WORK(&mapping->free_work, weft_mapping_free_work);
	mapping->req = req;
	mapping->persistent = req->persistent;
	mapping->domain = domain;
	mapping->distance = INT_MAX - 1;
	/* The exporter may call before the attachment is known here. */
	mapping->closing = true;
	ret = percpu_ref_init(&mapping->ref, weft_mapping_idle,
			      PERCPU_REF_INIT_DEAD | PERCPU_REF_ALLOW_REINIT,
			      GFP_KERNEL_ACCOUNT);
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
	/* It is registered with the first queue that is connected. */
	if (ret == -EAGAIN) {
		queue_delayed_work(weft_remap_wq, &mapping->remap, 0);
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
 * weft_mapping_withdraw() - take its addresses from a mapping for good
 * @mapping: commands on it may be in flight, or about to begin
 *
 * Context: process context; waits for its commands, in bounded time.
 */
void weft_mapping_withdraw(struct weft_mapping *mapping)
{
	weft_mapping_lock(mapping);
	mapping->closing = true;
	weft_mapping_stop(mapping);
	weft_mapping_unlock(mapping);
}

/**
 * weft_mapping_end() - undo weft_mapping_make()
 * @mapping: unlinked; no command on it is in flight, and none can begin; readers
 *	under RCU may still see it
 *
 * It does not wait. The mapping keeps its reference on the domain for an RCU
 * grace period.
 *
 * Context: process context; takes the lock.
 */
void weft_mapping_end(struct weft_mapping *mapping)
{
	weft_mapping_lock(mapping);
	mapping->closing = true;
	/* Nothing has to be drained: that would take an RCU grace period. */
	if (mapping->state == WEFT_MAPPING_LIVE)
		weft_mapping_set_state(mapping, WEFT_MAPPING_MAPPED);
	weft_mapping_stop(mapping);
	weft_mapping_unlock(mapping);
	cancel_delayed_work_sync(&mapping->remap);
	if (mapping->import)
		weft_import_detach(mapping->import);
	queue_rcu_work(weft_peer_wq, &mapping->free_work);
}

/**
 * weft_mapping_register_anew() - register a mapping again after its keys are lost
 * @mapping: a persistent mapping
 *
 * Context: any.
 */
void weft_mapping_register_anew(struct weft_mapping *mapping)
{
	set_bit(0, &mapping->key_lost);
	weft_mapping_kick(mapping);
}

/**
 * weft_rdma_peer_sg() - make a table of the addresses of a part of a mapping
 * @mapping: held by a command
 * @at: in bytes
 * @length: in bytes; within it
 * @table: made; freed by sg_free_table_chained()
 * @first: room for its first entries
 * @first_count: of @first
 *
 * Context: any.
 * Return: number of entries, or -ENOMEM.
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
 * weft_rdma_peer_keys_lost() - handle a target that invalidated a wrong key
 * @queue: connected
 *
 * If it is a queue for peer memory, all persistent memory of its domain is
 * registered again when the association is up again.
 *
 * Context: any.
 */
void weft_rdma_peer_keys_lost(struct weft_rdma_queue *queue)
{
	if (queue->mem)
		set_bit(0, &queue->ctrl->domain->keys_lost);
}
