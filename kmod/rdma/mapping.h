/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Peer memory as RDMA devices know it: protection domains, addresses, and
 * registrations that last. See mapping.c.
 */
#ifndef WEFT_RDMA_MAPPING_H
#define WEFT_RDMA_MAPPING_H

#include "rdma.h"

#include <linux/percpu-refcount.h>

#include "../include/weft_p2p.h"

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
 * struct weft_mapping - a peer memory in a domain
 * @list: the peer's
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
 * @region_shift: log2 of the bytes from one to the next
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
	u32				region_shift;
	bool				mapped;
	bool				live;
	bool				lost;
	bool				closing;
	int				distance;
	unsigned long			key_lost;
	struct delayed_work		remap;
	struct rcu_head			rcu;
};

/* Peer memory and exporters may wait for recovery: not on its queue. */
extern struct workqueue_struct *weft_peer_wq;

struct weft_domain *weft_domain_get(const u8 *volume, struct ib_device *ib);
void weft_domain_put(struct weft_domain *domain);
void weft_domains_wait_gone(struct ib_device *ib);

struct weft_mapping *weft_mapping_make(const struct weft_peer_request *req,
				       struct weft_domain *domain, struct weft_why *why);
int weft_mapping_try(struct weft_mapping *mapping, struct weft_why *why);
void weft_mapping_kick(struct weft_mapping *mapping);
void weft_mapping_end(struct weft_mapping *mapping);
void weft_mapping_register_anew(struct weft_mapping *mapping);

/**
 * weft_mapping_key() - a key for a part of a mapping, where there is one for all commands
 * @mapping: held by a command
 * @at: in bytes
 * @address: set: what the key knows the part by
 * @key: set
 *
 * Inline, as weft_mapping_fits(), because it runs for every I/O.
 *
 * Context: any.
 * Return: false where a command needs a registration of its own.
 */
static inline bool weft_mapping_key(const struct weft_mapping *mapping, u64 at, u64 *address,
				    u32 *key)
{
	const struct ib_mr *mr;

	if (!mapping->regions)
		return false;
	mr = mapping->regions[at >> mapping->region_shift];
	*address = mr->iova + (at & ((1ULL << mapping->region_shift) - 1));
	*key = mr->rkey;
	return true;
}

/**
 * weft_mapping_fits() - does a queue reach a mapping?
 * @mapping: held by a command
 * @queue: connected
 *
 * Context: any.
 * Return: whether its keys are good on that queue.
 */
static inline bool weft_mapping_fits(const struct weft_mapping *mapping,
				     const struct weft_rdma_queue *queue)
{
	return mapping->domain->pd == queue->pd;
}

#endif /* WEFT_RDMA_MAPPING_H */
