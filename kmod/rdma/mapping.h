/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Peer memory for RDMA devices: protection domains, addresses, and persistent
 * registrations. See mapping.c.
 */
#ifndef WEFT_RDMA_MAPPING_H
#define WEFT_RDMA_MAPPING_H

#include "rdma.h"

#include <linux/percpu-refcount.h>

#include "../include/weft_p2p.h"

/**
 * struct weft_domain - a volume on an RDMA device
 * @list: in weft_domains
 * @ref: references of mappings and controllers
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
 * enum weft_mapping_state - state of a mapping
 * @WEFT_MAPPING_UNMAPPED: it has no addresses; another try may give it some
 * @WEFT_MAPPING_LOST: it has none, and the exporter has withdrawn the memory
 * @WEFT_MAPPING_MAPPED: it has addresses, but no command uses it: a persistent one
 *	is not registered yet
 * @WEFT_MAPPING_LIVE: commands may begin
 * @WEFT_MAPPING_ENDING: no command may begin, some may still use it
 */
enum weft_mapping_state {
	WEFT_MAPPING_UNMAPPED,
	WEFT_MAPPING_LOST,
	WEFT_MAPPING_MAPPED,
	WEFT_MAPPING_LIVE,
	WEFT_MAPPING_ENDING,
};

/**
 * struct weft_mapping - a peer memory in a domain
 * @list: the peer's
 * @req: the peer's
 * @domain: with a reference
 * @import: of a dma-buf: attached
 * @lock: for pinned pages, in place of a dma-buf's reservation lock
 * @sgt: of pinned pages: mapped
 * @own: of pinned pages: the table of that
 * @segments: its addresses, while it is mapped
 * @ref: references of commands; alive in the state LIVE
 * @killed: completed when no command can begin any more
 * @idle: completed when the last of these is dropped
 * @persistent: as @req has it, for each command
 * @regions: persistent registrations
 * @region_total: length of @regions
 * @region_made: how many of them are allocated
 * @region_count: how many of them are registered
 * @region_shift: log2 of the bytes from one to the next
 * @page_bytes: of their page lists: 4 KiB, or 64 KiB if its addresses allow that
 * @state: changed by weft_mapping_set_state() alone, under the lock
 * @closing: it must not be mapped again; under the lock
 * @distance: from the memory's last place to the RDMA device
 * @key_lost: bit 0: it has to be registered again
 * @remap: maps it again
 * @delays: how often that registered nothing, one time after the other
 * @free_work: frees it after all lookups under RCU have ended
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
	struct completion		killed;
	struct completion		idle;
	bool				persistent;
	struct ib_mr			**regions;
	u32				region_total;
	u32				region_made;
	u32				region_count;
	u32				region_shift;
	u32				page_bytes;
	enum weft_mapping_state		state;
	bool				closing;
	int				distance;
	unsigned long			key_lost;
	struct delayed_work		remap;
	u32				delays;
	struct rcu_work			free_work;
};

/* For peer memory, which may wait for recovery: not on recovery's workqueue. */
extern struct workqueue_struct *weft_peer_wq;
/* Its works wait for exporters: many of one memory hold up no other work. */
extern struct workqueue_struct *weft_remap_wq;

/* domain.c */
struct weft_domain *weft_domain_get(const u8 *volume, struct ib_device *ib);
void weft_domain_put(struct weft_domain *domain);
void weft_domain_leave(struct weft_rdma_ctrl *ctrl);
void weft_domains_wait_gone(struct ib_device *ib);

/* mapping.c */
struct weft_mapping *weft_mapping_make(const struct weft_peer_request *req,
				       struct weft_domain *domain, struct weft_why *why);
int weft_mapping_try(struct weft_mapping *mapping, struct weft_why *why);
void weft_mapping_kick(struct weft_mapping *mapping);
void weft_mapping_withdraw(struct weft_mapping *mapping);
void weft_mapping_end(struct weft_mapping *mapping);
void weft_mapping_register_anew(struct weft_mapping *mapping);

/**
 * weft_mapping_key() - the persistent key of a part of a mapping, if there is one
 * @mapping: held by a command
 * @at: in bytes
 * @address: set: the address of the part for the key
 * @key: set
 *
 * Inline, as weft_mapping_fits(), because it runs for every I/O.
 *
 * Context: any.
 * Return: false if the command needs its own registration.
 */
static inline bool weft_mapping_key(const struct weft_mapping *mapping, u64 at, u64 *address,
				    u32 *key)
{
	const struct ib_mr *mr;
	u8 shift;

	if (!mapping->regions)
		return false;
	/* The mask tells the compiler that the shift is in range. */
	shift = mapping->region_shift & 63;
	mr = mapping->regions[at >> shift];
	*address = mr->iova + (at & ((1ULL << shift) - 1));
	*key = mr->rkey;
	return true;
}

/**
 * weft_mapping_fits() - can a queue use a mapping?
 * @mapping: held by a command
 * @queue: connected
 *
 * Context: any.
 * Return: true if the mapping's keys are valid on that queue, or if the queue
 * can make its own keys for the mapping's addresses.
 */
static inline bool weft_mapping_fits(const struct weft_mapping *mapping,
				     const struct weft_rdma_queue *queue)
{
	return queue->mem ? mapping->domain->pd == queue->pd :
			    mapping->domain->ib == queue->ctrl->ib;
}

#endif /* WEFT_RDMA_MAPPING_H */
