// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memories: registration with a file of /dev/weft/NAME.mem, and the choice of
 * the route by which their bytes are moved.
 *
 * DOC: routes
 *
 * The caller's own pages are pinned and go to the members as they are. A
 * dma-buf may have no pages; only its exporter knows. It has three routes:
 *
 * direct: RDMA devices move the bytes. All members have to be reached by RDMA
 * hardware, and the exporter has to give each device the memory's addresses.
 * The transport does this I/O.
 *
 * vmap: software RDMA devices move the bytes with the CPU, in the pages behind
 * the exporter's CPU mapping. All members have to be reached by such devices.
 *
 * bounce: the CPU copies the bytes through host pages. This works for all
 * members.
 *
 * vmap and bounce use the CPU, which registration of device memory is meant to
 * avoid. They are opt-in by flags. Otherwise the registration is refused with
 * the reason.
 */
#include "mem.h"

#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/vmalloc.h>

/* Charge pinned pages to the user, as io_uring and RDMA do. */
static int weft_memory_charge(struct weft_memory *mem, struct weft_why *why)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = get_uid(current_user());
	unsigned long now;

	now = atomic_long_add_return(mem->page_count, &user->locked_vm);
	if (now > limit && !capable(CAP_IPC_LOCK)) {
		atomic_long_sub(mem->page_count, &user->locked_vm);
		free_uid(user);
		return weft_refuse(why, -ENOMEM,
				   "the memory exceeds the user's limit of locked memory by %lu pages (RLIMIT_MEMLOCK, %lu KiB)",
				   now - limit, limit << (PAGE_SHIFT - 10));
	}
	mem->user = user;
	return 0;
}

static void weft_memory_uncharge(struct weft_memory *mem)
{
	if (!mem->user)
		return;
	atomic_long_sub(mem->page_count, &mem->user->locked_vm);
	free_uid(mem->user);
}

/* Bios must start at the alignment that the members need. */
static int weft_memory_aligned(const struct weft_memory *mem, const struct weft_volume *vol,
			       struct weft_why *why)
{
	u32 alignment = queue_dma_alignment(vol->disk->queue) + 1;

	if (mem->first & (alignment - 1))
		return weft_refuse(why, -EINVAL,
				   "the memory begins at %llu; it must begin at a multiple of %u bytes for the members of %s",
				   mem->first, alignment, vol->name);
	return 0;
}

/* Pages that are pinned at once: interrupts are off meanwhile. */
#define WEFT_MEMORY_PIN_PAGES	16384UL

static int weft_memory_pin(struct weft_memory *mem, u64 start, struct weft_why *why)
{
	unsigned int flags = FOLL_LONGTERM | (mem->read_only ? WEFT_FOLL_READ : FOLL_WRITE);
	unsigned long done = 0;
	int ret;

	mem->first = offset_in_page(start);
	mem->page_count = PAGE_ALIGN(mem->first + mem->length) >> PAGE_SHIFT;
	ret = weft_memory_charge(mem, why);
	if (ret)
		return ret;
	mem->pages = kvcalloc(mem->page_count, sizeof(*mem->pages),
			      GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mem->pages)
		return -ENOMEM;
	while (done < mem->page_count) {
		unsigned long left = min(mem->page_count - done, WEFT_MEMORY_PIN_PAGES);

		cond_resched();
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		ret = pin_user_pages_fast((start & PAGE_MASK) + (done << PAGE_SHIFT), left, flags,
					  mem->pages + done);
		if (ret <= 0)
			break;
		done += ret;
	}
	if (done == mem->page_count)
		return 0;
	unpin_user_pages(mem->pages, done);
	kvfree(mem->pages);
	mem->pages = NULL;
	return weft_refuse(why, ret ?: -EFAULT,
			   "the page at 0x%llx cannot be pinned%s", (start & PAGE_MASK) + ((u64)done << PAGE_SHIFT),
			   mem->read_only ? "" : " for writing");
}

/*
 * The page of ordinary memory at an address of an exporter's CPU mapping, or NULL.
 * Some exporters map a BAR and do not say that it is I/O memory.
 */
static struct page *weft_memory_page(const void *at)
{
	struct page *page;

	if (!is_vmalloc_addr(at))
		return virt_addr_valid(at) ? virt_to_page(at) : NULL;
	page = vmalloc_to_page(at);
	return page && pfn_valid(page_to_pfn(page)) && !is_zone_device_page(page) ? page : NULL;
}

/* Find the pages behind the exporter's CPU mapping. */
static int weft_memory_find_pages(struct weft_memory *mem, struct weft_why *why)
{
	u64 first = offset_in_page(mem->first);
	u8 *at = mem->map.vaddr;
	unsigned long i;

	if (mem->map.is_iomem)
		return weft_refuse(why, -EOPNOTSUPP,
				   "the dma-buf is memory of a device, and software RDMA cannot reach it: allow bounce");
	at += mem->first & PAGE_MASK;
	mem->page_count = PAGE_ALIGN(first + mem->length) >> PAGE_SHIFT;
	mem->pages = kvcalloc(mem->page_count, sizeof(*mem->pages),
			      GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mem->pages)
		return -ENOMEM;
	for (i = 0; i < mem->page_count; i++, at += PAGE_SIZE) {
		struct page *page = weft_memory_page(at);

		if (!page) {
			kvfree(mem->pages);
			mem->pages = NULL;
			return weft_refuse(why, -EOPNOTSUPP,
					   "the dma-buf has no pages (it may be memory of a device), and software RDMA needs pages: allow bounce");
		}
		mem->pages[i] = page;
	}
	mem->first = first;
	return 0;
}

/* Name the first member that prevents the direct route. */
static int weft_memory_refuse(struct weft_volume *vol, u32 flags, struct weft_why *why)
{
	u32 i;

	for (i = 0; i < vol->member_count; i++) {
		struct weft_member *member = vol->members[i];

		switch (weft_mpath_mem(member)) {
		case WEFT_PATH_MEM_NONE:
			return weft_refuse(why, -EOPNOTSUPP,
					   "no direct route: member %u of %s (%s) is a block device, and block devices take no dma-buf; allow bounce, or connect it by rdma://",
					   i, vol->name, member->address);
		case WEFT_PATH_MEM_SOFTWARE:
			if (flags & WEFT_MEM_ALLOW_VMAP)
				break;
			return weft_refuse(why, -EOPNOTSUPP,
					   "no direct route: the RDMA device of member %u of %s (%s) is software and has no DMA engine; allow vmap or bounce",
					   i, vol->name, member->address);
		case WEFT_PATH_MEM_DEVICE:
			break;
		}
	}
	return 0;
}

/* The least that any member can do with memory that has no pages. */
static enum weft_path_mem weft_memory_mem(struct weft_volume *vol)
{
	enum weft_path_mem mem = WEFT_PATH_MEM_DEVICE;
	u32 i;

	for (i = 0; i < vol->member_count; i++)
		mem = min(mem, weft_mpath_mem(vol->members[i]));
	return mem;
}

/* vmap needs software RDMA devices for all members. */
static bool weft_memory_may_vmap(struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < vol->member_count; i++)
		if (weft_mpath_mem(vol->members[i]) != WEFT_PATH_MEM_SOFTWARE)
			return false;
	return true;
}

static int weft_memory_map(struct weft_memory *mem, struct weft_why *why)
{
	int ret;

	if (!weft_vmap_pins(mem->dmabuf))
		return weft_refuse(why, -EOPNOTSUPP,
				   "no route: on this kernel, the exporter (%s) may move memory that the CPU has mapped; the program can use the staged route",
				   mem->dmabuf->exp_name);
	/*
	 * Lasts until weft_memory_free(): each command may access it by CPU. Before the
	 * mapping, because it may move the memory to where the CPU reaches it.
	 */
	ret = dma_buf_begin_cpu_access(mem->dmabuf, DMA_BIDIRECTIONAL);
	if (ret)
		return ret;
	ret = dma_buf_vmap_unlocked(mem->dmabuf, &mem->map);
	if (!ret)
		return 0;
	dma_buf_end_cpu_access(mem->dmabuf, DMA_BIDIRECTIONAL);
	return weft_refuse(why, ret,
			   "no route: the exporter of the dma-buf (%s) cannot map it for the CPU (error %d)",
			   mem->dmabuf->exp_name, -ret);
}

static int weft_memory_import(struct weft_memory *mem, struct weft_volume *vol,
			      const struct weft_mem_register *req, struct weft_why *why)
{
	int ret;

	mem->dmabuf = dma_buf_get(req->fd);
	if (IS_ERR(mem->dmabuf)) {
		ret = PTR_ERR(mem->dmabuf);
		mem->dmabuf = NULL;
		return weft_refuse(why, ret, "descriptor %d is not a dma-buf", req->fd);
	}
	if (!mem->read_only && !(mem->dmabuf->file->f_mode & FMODE_WRITE))
		return weft_refuse(why, -EACCES,
				   "descriptor %d is a read-only dma-buf, and the registration needs write access",
				   req->fd);
	if (req->start > mem->dmabuf->size || req->length > mem->dmabuf->size - req->start)
		return weft_refuse(why, -EINVAL,
				   "the range ends at %llu, the dma-buf at %zu",
				   req->start + req->length, mem->dmabuf->size);
	mem->first = req->start;
	if (weft_memory_mem(vol) == WEFT_PATH_MEM_DEVICE) {
		ret = weft_peers_add(mem, vol, why);
		/* A persistent registration must not bounce. A signal is not a reason to. */
		if (!ret || ret == -EINTR || ret == -ERESTARTSYS || mem->persistent ||
		    !(req->flags & WEFT_MEM_ALLOW_BOUNCE))
			return ret;
		why->text[0] = 0;
	}
	if (req->flags & WEFT_MEM_ALLOW_VMAP && weft_memory_may_vmap(vol))
		mem->route = WEFT_MEM_ROUTE_VMAP;
	else if (req->flags & WEFT_MEM_ALLOW_BOUNCE && !mem->persistent)
		mem->route = WEFT_MEM_ROUTE_BOUNCE;
	else
		return weft_memory_refuse(vol, req->flags, why) ?:
		       weft_refuse(why, -EOPNOTSUPP, "no direct route");
	ret = weft_memory_map(mem, why);
	if (ret || mem->route == WEFT_MEM_ROUTE_BOUNCE)
		return ret;
	ret = weft_memory_find_pages(mem, why);
	/* The CPU mapping suffices for copies. */
	if (ret == -EOPNOTSUPP && req->flags & WEFT_MEM_ALLOW_BOUNCE && !mem->persistent) {
		mem->route = WEFT_MEM_ROUTE_BOUNCE;
		why->text[0] = 0;
		ret = 0;
	}
	return ret;
}

/* Use I/O by the transport if all members can, and bios otherwise. */
static int weft_memory_pages(struct weft_memory *mem, struct weft_volume *vol,
			     struct weft_why *why)
{
	int ret;

	if (weft_memory_mem(vol) != WEFT_PATH_MEM_NONE)
		ret = weft_peers_add(mem, vol, why);
	else
		ret = weft_refuse(why, -EOPNOTSUPP,
				  "a member of %s is a block device, and memory cannot be registered for good with a block device",
				  vol->name);
	/* A persistent registration has no fallback to bios. */
	if (!ret || ret == -EINTR || mem->persistent)
		return ret;
	why->text[0] = 0;
	return weft_memory_aligned(mem, vol, why);
}

/* Undo a registration, also an incomplete one, and release the volume. */
static void weft_memory_free(struct weft_memory *mem, struct weft_mem_file *mf)
{
	weft_peers_remove(mem, mf->vol);
	if (mem->pages && !mem->dmabuf)
		unpin_user_pages_dirty_lock(mem->pages, mem->page_count, !mem->read_only);
	kvfree(mem->pages);
	weft_memory_uncharge(mem);
	if (!iosys_map_is_null(&mem->map)) {
		dma_buf_vunmap_unlocked(mem->dmabuf, &mem->map);
		dma_buf_end_cpu_access(mem->dmabuf, DMA_BIDIRECTIONAL);
	}
	if (mem->dmabuf)
		dma_buf_put(mem->dmabuf);
	free_percpu(mem->bytes);
	kfree(mem->near);
	kfree_rcu(mem, rcu);
	weft_mem_unuse(mf);
}

static int weft_memory_check(const struct weft_mem_register *req, struct weft_why *why)
{
	if (req->kind > WEFT_MEM_KIND_DMABUF)
		return weft_refuse(why, -EINVAL, "memory of kind %u is unknown", req->kind);
	if (req->flags & ~WEFT_MEM_FLAGS || req->pad)
		return weft_refuse(why, -EINVAL,
				   "the flags 0x%x have an unknown bit, or the reserved field is not 0",
				   req->flags);
	if (!req->length || req->length > S64_MAX || req->start > S64_MAX - req->length)
		return weft_refuse(why, -EINVAL, "%llu bytes from byte %llu are not a valid range of memory",
				   req->length, req->start);
	if (req->kind == WEFT_MEM_KIND_PAGES && req->fd != -1)
		return weft_refuse(why, -EINVAL,
				   "memory of the calling process takes no descriptor; fd must be -1");
	return 0;
}

/**
 * weft_memory_register() - register a memory, for use by commands
 * @mf: the file
 * @req: from the user; gets id and route
 * @why: gets the reason of a failure
 *
 * Context: process context, the user's.
 * Return: 0 or a negative errno.
 */
int weft_memory_register(struct weft_mem_file *mf, struct weft_mem_register *req,
			 struct weft_why *why)
{
	struct weft_memory *mem;
	int ret;

	req->id = 0;
	ret = weft_memory_check(req, why);
	if (ret)
		return ret;
	/* Require a target first: pinned memory is a shared cost. */
	if (xa_empty(&mf->targets.all))
		return weft_refuse(why, -EACCES,
				   "this file has no target yet: add a target, then register memory");
	ret = weft_mem_use(mf);
	if (ret)
		return ret;
	mem = kzalloc_obj(*mem, GFP_KERNEL_ACCOUNT);
	if (!mem) {
		weft_mem_unuse(mf);
		return -ENOMEM;
	}
	ret = -ENOMEM;
	mem->bytes = alloc_percpu_gfp(struct weft_mem_bytes, GFP_KERNEL_ACCOUNT);
	if (!mem->bytes)
		goto out_free;
	mem->length = req->length;
	mem->read_only = req->flags & WEFT_MEM_READ_ONLY;
	mem->persistent = req->flags & WEFT_MEM_PERSISTENT;
	if (req->kind == WEFT_MEM_KIND_PAGES)
		ret = weft_memory_pin(mem, req->start, why);
	else
		ret = weft_memory_import(mem, mf->vol, req, why);
	if (!ret && mem->pages)
		ret = weft_memory_pages(mem, mf->vol, why);
	if (ret)
		goto out_free;
	ret = weft_mem_ref_init(&mem->ref);
	if (ret)
		goto out_free;
	mem->moved = &mem->bytes->route[mem->route];
	mem->moved_all = &mf->node->bytes->route[mem->route];
	/* After it has an id, another thread may unregister it. */
	req->route = mem->route;
	ret = weft_mem_registry_add(&mf->memories, &mem->ref, &req->id, WEFT_MEM_MEMORIES_MAX);
	if (ret) {
		weft_refuse(why, ret, "a file has at most %u memories", WEFT_MEM_MEMORIES_MAX);
		goto out_ref;
	}
	return 0;

out_ref:
	req->id = 0;
	weft_mem_ref_end(&mem->ref, mf);
out_free:
	weft_memory_free(mem, mf);
	return ret;
}

/**
 * weft_memory_unregister() - unregister a memory
 * @mf: the file
 * @id: of the memory
 *
 * Context: process context; waits for its commands.
 * Return: 0 or -ENOENT.
 */
int weft_memory_unregister(struct weft_mem_file *mf, u32 id)
{
	struct weft_memory *mem = weft_mem_registry_remove(&mf->memories, id);

	if (!mem)
		return -ENOENT;
	weft_mem_ref_end(&mem->ref, mf);
	weft_memory_free(mem, mf);
	return 0;
}

/**
 * weft_memory_unregister_all() - unregister all memories of a file
 * @mf: the file, on which no command is in flight
 */
void weft_memory_unregister_all(struct weft_mem_file *mf)
{
	struct weft_memory *mem;
	unsigned long id;

	xa_for_each(&mf->memories.all, id, mem)
		weft_memory_unregister(mf, id);
	xa_destroy(&mf->memories.all);
}

int weft_memory_info(struct weft_mem_file *mf, struct weft_mem_info *info)
{
	struct weft_memory *mem;
	int ret = -ENOENT;

	/* Unregistering takes this lock first, so the memory stays. */
	xa_lock(&mf->memories.all);
	mem = xa_load(&mf->memories.all, info->id);
	if (mem) {
		info->route = mem->route;
		info->length = mem->length;
		weft_mem_sum(mem->bytes, info->bytes);
		ret = 0;
	}
	xa_unlock(&mf->memories.all);
	return ret;
}

/**
 * weft_memory_copy() - copy between a memory and host pages
 * @mem: the memory; it has a CPU mapping
 * @at: offset in it; the caller has checked the range
 * @pages: host pages, used from the start of the first
 * @length: bytes to copy
 * @from_memory: true to copy from @mem to @pages, false for the reverse
 *
 * Context: process context.
 */
void weft_memory_copy(struct weft_memory *mem, u64 at, struct page **pages, u32 length,
		      bool from_memory)
{
	size_t offset = mem->first + at;

	while (length) {
		u32 n = min_t(u32, length, PAGE_SIZE);
		void *page = page_address(*pages++);

		if (from_memory)
			iosys_map_memcpy_from(page, &mem->map, offset, n);
		else
			iosys_map_memcpy_to(&mem->map, offset, page, n);
		offset += n;
		length -= n;
		cond_resched();
	}
}
