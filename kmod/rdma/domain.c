// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains: a volume on an RDMA device. A domain has one protection domain, in which
 * one registration serves all controllers of the volume on that device.
 */
#include "mapping.h"

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
 * weft_domain_get() - find or make the domain of a volume on an RDMA device
 * @volume: UUID
 * @ib: the RDMA device; it is in use
 *
 * Context: process context.
 * Return: the domain, with a reference; or an ERR_PTR.
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
 * weft_domains_wait_gone() - wait until an RDMA device has no domains
 * @ib: the device; no new domain can be made on it
 *
 * Context: process context.
 */
void weft_domains_wait_gone(struct ib_device *ib)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	/* Not wait_event(): the condition takes a mutex. */
	add_wait_queue(&weft_domains_gone, &wait);
	while (weft_domain_any(ib))
		wait_woken(&wait, TASK_UNINTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
	remove_wait_queue(&weft_domains_gone, &wait);
}

/**
 * weft_domain_leave() - drop a controller's reference on its domain
 * @ctrl: its mem_lock is held
 */
void weft_domain_leave(struct weft_rdma_ctrl *ctrl)
{
	struct weft_domain *domain = ctrl->domain;

	lockdep_assert_held(&ctrl->mem_lock);
	if (!domain)
		return;
	WRITE_ONCE(ctrl->domain, NULL);
	weft_domain_put(domain);
}
