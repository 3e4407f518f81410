// SPDX-License-Identifier: GPL-2.0-only
/*
 * References of commands on memories and targets, and of memories and targets on
 * their volume; and the counters of moved bytes.
 */
#include "mem.h"
#include "qos.h"

/**
 * weft_mem_use() - keep a file's volume from being stopped
 * @mf: the file
 *
 * Context: process context.
 * Return: 0, or -ENXIO when the volume was stopped; undo by weft_mem_unuse().
 */
int weft_mem_use(struct weft_mem_file *mf)
{
	struct weft_mem_node *node = mf->node;
	int ret = -ENXIO;

	mutex_lock(&node->lock);
	if (!node->closed) {
		node->users++;
		ret = 0;
	}
	mutex_unlock(&node->lock);
	return ret;
}

/**
 * weft_mem_unuse() - undo weft_mem_use()
 * @mf: the file
 */
void weft_mem_unuse(struct weft_mem_file *mf)
{
	mutex_lock(&mf->node->lock);
	mf->node->users--;
	mutex_unlock(&mf->node->lock);
}

/**
 * weft_mem_kick() - look at the held parts of a file's commands again
 * @mf: the file; its node's lock is held
 */
void weft_mem_kick(struct weft_mem_file *mf)
{
	if (!mf->node->closed)
		mod_delayed_work(weft_mem_wq, &mf->node->held_work, 0);
}

/**
 * weft_mem_drop_held() - end held commands whose process exits
 * @mf: their file; it has commands, as a sweep costs all users of the volume
 *
 * Context: process context; takes the node's lock.
 */
void weft_mem_drop_held(struct weft_mem_file *mf)
{
	struct weft_mem_node *node = mf->node;

	if (!weft_qos_is_used())
		return;
	/* The last command of the file may have ended since, and its volume may be gone. */
	mutex_lock(&node->lock);
	if (!node->closed)
		weft_qos_sweep(node->vol);
	mutex_unlock(&node->lock);
}

/*
 * While killed tasks wait for commands, held parts wait at most a minute. Those that
 * QoS holds on what the tasks wait for end at once.
 */
static void weft_mem_killed(struct weft_mem_file *mf, bool waits)
{
	mutex_lock(&mf->node->lock);
	if (waits && !mf->killed++)
		WRITE_ONCE(mf->killed_at, jiffies | 1);
	if (!waits && !--mf->killed)
		WRITE_ONCE(mf->killed_at, 0);
	weft_mem_kick(mf);
	if (waits && !mf->node->closed)
		weft_qos_sweep(mf->node->vol);
	mutex_unlock(&mf->node->lock);
}

static void weft_mem_ref_gone(struct percpu_ref *count)
{
	complete(&container_of(count, struct weft_mem_ref, count)->gone);
}

/**
 * weft_mem_ref_init() - initialize the reference count of a memory or target
 * @ref: the reference count
 *
 * Return: 0 or -ENOMEM; undo by weft_mem_ref_end().
 */
int weft_mem_ref_init(struct weft_mem_ref *ref)
{
	init_completion(&ref->gone);
	return percpu_ref_init(&ref->count, weft_mem_ref_gone, 0, GFP_KERNEL_ACCOUNT);
}

/**
 * weft_mem_ref_end() - wait until no command has a reference
 * @ref: its id is removed, or it never had one; the caller frees it after an RCU
 *	grace period
 * @mf: the file whose commands use it
 *
 * Context: process context; waits for its commands. Once the task is killed,
 * commands that are held fail after a minute, and those that QoS holds at once.
 */
void weft_mem_ref_end(struct weft_mem_ref *ref, struct weft_mem_file *mf)
{
	/*
	 * Most often the file has no commands, and so @ref has no references: it need
	 * not be killed, which takes an RCU grace period. Pairs with the full barrier
	 * of atomic_inc_return() in weft_mem_uring_cmd(): a command that is not counted
	 * here does not find the id.
	 */
	smp_mb();
	if (!atomic_read_acquire(&mf->in_flight))
		goto out_exit;
	percpu_ref_kill(&ref->count);
	if (wait_for_completion_killable(&ref->gone)) {
		weft_mem_killed(mf, true);
		wait_for_completion(&ref->gone);
		weft_mem_killed(mf, false);
	}
out_exit:
	percpu_ref_exit(&ref->count);
}

/**
 * weft_mem_sum() - sum the byte counters of all CPUs
 * @bytes: the counters, per CPU
 * @sum: set; an array of WEFT_MEM_ROUTES
 */
void weft_mem_sum(struct weft_mem_bytes __percpu *bytes, u64 *sum)
{
	int cpu, i;

	memset(sum, 0, WEFT_MEM_ROUTES * sizeof(*sum));
	for_each_possible_cpu(cpu)
		for (i = 0; i < WEFT_MEM_ROUTES; i++)
			sum[i] += READ_ONCE(per_cpu_ptr(bytes, cpu)->route[i]);
}

/**
 * weft_mem_registry_init() - initialize a registry
 * @registry: of a file; free it by xa_destroy() of @all
 */
void weft_mem_registry_init(struct weft_mem_registry *registry)
{
	xa_init_flags(&registry->all, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	memset(registry->first, 0, sizeof(registry->first));
}

/**
 * weft_mem_registry_add() - give a memory or a target an id
 * @registry: the file's
 * @ref: of the memory or target; another thread may remove it when this returns
 * @id: set
 * @max: greatest id
 *
 * Context: process context, may sleep.
 * Return: 0, or -EBUSY if all ids are in use, or -ENOMEM.
 */
int weft_mem_registry_add(struct weft_mem_registry *registry, struct weft_mem_ref *ref, u32 *id,
			  u32 max)
{
	int ret;

	xa_lock(&registry->all);
	ret = __xa_alloc(&registry->all, id, ref, XA_LIMIT(1, max), GFP_KERNEL);
	if (!ret && *id < WEFT_MEM_FIRST_IDS) {
		/* The lookup reads what @ref is part of; its address dependency orders that. */
		smp_store_release(&registry->first[*id], ref);
	}
	xa_unlock(&registry->all);
	return ret;
}

/**
 * weft_mem_registry_remove() - take an id back
 * @registry: the file's
 * @id: the id
 *
 * Lookups under RCU may still find the object of the id until a grace period is over.
 *
 * Context: process context.
 * Return: the memory or target that had it, or NULL.
 */
void *weft_mem_registry_remove(struct weft_mem_registry *registry, u32 id)
{
	void *ref;

	xa_lock(&registry->all);
	ref = __xa_erase(&registry->all, id);
	if (id < WEFT_MEM_FIRST_IDS)
		WRITE_ONCE(registry->first[id], NULL);
	xa_unlock(&registry->all);
	return ref;
}
