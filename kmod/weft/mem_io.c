// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands: from io_uring to bios of the volume, and back.
 *
 * A command names a target and a memory by id. Where the memory has pages, or
 * its bytes are copied by pages, those go to the volume as bios of its own
 * block device: chunks, paths and what becomes of lost ones are that one's.
 * The command completes once, in its submitter's task, when its last bio has.
 */
#include "mem.h"

#include "../compat/uring.h"

/**
 * struct weft_mem_io - a command in flight
 * @cmd: io_uring's
 * @mf: the file; the command keeps it
 * @target: with a reference
 * @memory: with a reference, or NULL for a flush
 * @pages: host pages that carry its bytes, where they are copied
 * @page_count: of @pages
 * @remaining: bios, and one for who submits
 * @status: first error
 * @op: the bios'
 * @at: within the memory
 * @length: in bytes
 */
struct weft_mem_io {
	struct io_uring_cmd		*cmd;
	struct weft_mem_file		*mf;
	struct weft_mem_target_ref	*target;
	struct weft_memory		*memory;
	struct page			**pages;
	u32				page_count;
	atomic_t			remaining;
	blk_status_t			status;
	enum req_op			op;
	u64				at;
	u32				length;
};

static struct kmem_cache *weft_mem_io_cache;
static struct bio_set weft_mem_bios;

static void weft_mem_io_free(struct weft_mem_io *io)
{
	u32 i;

	for (i = 0; i < io->page_count; i++)
		__free_page(io->pages[i]);
	kvfree(io->pages);
	if (io->memory)
		weft_mem_put(&io->memory->ref);
	if (io->target)
		weft_mem_put(&io->target->ref);
	atomic_dec(&io->mf->in_flight);
	kmem_cache_free(weft_mem_io_cache, io);
}

static int weft_mem_io_result(struct weft_mem_io *io)
{
	enum weft_mem_route route;

	if (io->status)
		return blk_status_to_errno(io->status);
	if (!io->memory)
		return 0;
	route = io->memory->route;
	if (io->pages && io->op == REQ_OP_READ)
		weft_memory_copy(io->memory, io->at, io->pages, io->length, false);
	this_cpu_add(io->memory->bytes->route[route], io->length);
	this_cpu_add(io->mf->node->bytes->route[route], io->length);
	return io->length;
}

static WEFT_URING_TW(weft_mem_io_done)
{
	struct io_uring_cmd *cmd = weft_uring_tw_cmd();
	struct weft_mem_io *io = *io_uring_cmd_to_pdu(cmd, struct weft_mem_io *);
	int ret = weft_mem_io_result(io);

	/* All of it is back when the submitter hears of it. */
	weft_mem_io_free(io);
	weft_uring_tw_done(cmd, ret);
}

static void weft_mem_io_put(struct weft_mem_io *io)
{
	if (atomic_dec_and_test(&io->remaining))
		weft_uring_in_task(io->cmd, weft_mem_io_done);
}

static void weft_mem_end_bio(struct bio *bio)
{
	struct weft_mem_io *io = bio->bi_private;

	/* One of several errors. */
	if (unlikely(bio->bi_status))
		WRITE_ONCE(io->status, bio->bi_status);
	bio_put(bio);
	weft_mem_io_put(io);
}

static struct bio *weft_mem_bio(struct weft_mem_io *io, sector_t sector, u32 vecs, blk_opf_t opf)
{
	struct bio *bio = bio_alloc_bioset(io->mf->vol->disk->part0, vecs, io->op | opf,
					   GFP_KERNEL, &weft_mem_bios);

	bio->bi_iter.bi_sector = sector;
	bio->bi_private = io;
	bio->bi_end_io = weft_mem_end_bio;
	atomic_inc(&io->remaining);
	return bio;
}

/* Fill a bio with pages from a place on. Returns how many bytes, whole blocks. */
static u32 weft_mem_fill(struct bio *bio, struct page **pages, u64 from, u32 length)
{
	u32 block = queue_logical_block_size(bdev_get_queue(bio->bi_bdev)) - 1, filled = 0;

	while (filled < length) {
		u64 at = from + filled;
		u32 n = min_t(u32, length - filled, PAGE_SIZE - offset_in_page(at));

		if (bio_add_page(bio, pages[at >> PAGE_SHIFT], n, offset_in_page(at)) != n)
			break;
		filled += n;
	}
	/* Where the first page is used from its middle on, the last may end within a block. */
	filled &= ~block;
	bio->bi_iter.bi_size = filled;
	return filled;
}

static void weft_mem_submit(struct weft_mem_io *io, u64 offset)
{
	blk_opf_t opf = io->op == REQ_OP_WRITE ? REQ_SYNC | REQ_IDLE : REQ_SYNC;
	struct page **pages = io->pages ?: io->memory->pages;
	u64 from = io->pages ? 0 : io->memory->first + io->at;
	struct blk_plug plug;
	u32 done = 0;

	blk_start_plug(&plug);
	while (done < io->length) {
		u32 left = io->length - done;
		u64 at = from + done;
		u32 vecs = min_t(u32, DIV_ROUND_UP(offset_in_page(at) + left, PAGE_SIZE),
				 BIO_MAX_VECS);
		struct bio *bio = weft_mem_bio(io, (offset + done) >> SECTOR_SHIFT, vecs, opf);

		done += weft_mem_fill(bio, pages, at, left);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
}

/* Host pages for bytes that are copied; what is written is there before it is sent. */
static int weft_mem_bounce(struct weft_mem_io *io)
{
	u32 count = DIV_ROUND_UP(io->length, PAGE_SIZE);

	io->pages = kvcalloc(count, sizeof(*io->pages), GFP_KERNEL);
	if (!io->pages)
		return -ENOMEM;
	for (; io->page_count < count; io->page_count++) {
		io->pages[io->page_count] = alloc_page(GFP_KERNEL);
		if (!io->pages[io->page_count])
			return -ENOMEM;
	}
	if (io->op == REQ_OP_WRITE)
		weft_memory_copy(io->memory, io->at, io->pages, io->length, true);
	return 0;
}

static struct weft_mem_target_ref *weft_target_get(struct weft_mem_file *mf, u32 id)
{
	struct weft_mem_target_ref *target;

	rcu_read_lock();
	target = xa_load(&mf->targets, id);
	if (target && !weft_mem_get(&target->ref))
		target = NULL;
	rcu_read_unlock();
	return target;
}

static struct weft_memory *weft_memory_get(struct weft_mem_file *mf, u32 id)
{
	struct weft_memory *memory;

	rcu_read_lock();
	memory = xa_load(&mf->memories, id);
	if (memory && !weft_mem_get(&memory->ref))
		memory = NULL;
	rcu_read_unlock();
	return memory;
}

/* From the user, each field read once. */
static void weft_mem_read_cmd(struct io_uring_cmd *cmd, struct weft_mem_cmd *to)
{
	const struct weft_mem_cmd *from = weft_uring_payload(cmd, struct weft_mem_cmd);

	to->target = READ_ONCE(from->target);
	to->memory = READ_ONCE(from->memory);
	to->offset = READ_ONCE(from->offset);
	to->memory_offset = READ_ONCE(from->memory_offset);
	to->length = READ_ONCE(from->length);
	to->flags = READ_ONCE(from->flags);
}

/* What of a command does not depend on what is registered. */
static int weft_mem_check(struct weft_mem_file *mf, u32 op, const struct weft_mem_cmd *c)
{
	u32 block = queue_logical_block_size(mf->vol->disk->queue) - 1;

	if (c->flags)
		return -EINVAL;
	switch (op) {
	case WEFT_MEM_CMD_FLUSH:
		return c->memory || c->length || c->offset || c->memory_offset ? -EINVAL : 0;
	case WEFT_MEM_CMD_READ:
	case WEFT_MEM_CMD_WRITE:
		if (!c->length || c->length > WEFT_MEM_CMD_BYTES_MAX || c->length & block ||
		    c->offset & block ||
		    c->memory_offset & queue_dma_alignment(mf->vol->disk->queue))
			return -EINVAL;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int weft_mem_bind(struct weft_mem_io *io, const struct weft_mem_cmd *c)
{
	u32 access = io->op == REQ_OP_READ ? WEFT_MEM_MAY_READ : WEFT_MEM_MAY_WRITE;
	struct weft_mem_target_ref *target;

	target = weft_target_get(io->mf, c->target);
	if (!target)
		return -ENOENT;
	io->target = target;
	if (!(target->access & access))
		return -EACCES;
	if (c->offset > target->size || c->length > target->size - c->offset)
		return -ERANGE;
	if (!c->length)
		return 0;
	io->memory = weft_memory_get(io->mf, c->memory);
	if (!io->memory)
		return -ENOENT;
	if (io->op == REQ_OP_READ && io->memory->read_only)
		return -EACCES;
	if (c->memory_offset > io->memory->length ||
	    c->length > io->memory->length - c->memory_offset)
		return -ERANGE;
	io->at = c->memory_offset;
	io->length = c->length;
	return 0;
}

static struct weft_mem_io *weft_mem_io_alloc(struct weft_mem_file *mf, struct io_uring_cmd *cmd)
{
	struct weft_mem_io *io;

	if (atomic_inc_return(&mf->in_flight) > WEFT_MEM_COMMANDS_MAX) {
		atomic_dec(&mf->in_flight);
		return ERR_PTR(-EBUSY);
	}
	io = kmem_cache_zalloc(weft_mem_io_cache, GFP_KERNEL);
	if (!io) {
		atomic_dec(&mf->in_flight);
		return ERR_PTR(-ENOMEM);
	}
	io->cmd = cmd;
	io->mf = mf;
	atomic_set(&io->remaining, 1);
	return io;
}

/**
 * weft_mem_uring_cmd() - IORING_OP_URING_CMD on a file of /dev/weft/NAME.mem
 * @cmd: the command
 * @issue_flags: io_uring's
 *
 * Context: the submitter's task, or a worker of it; may wait for requests.
 * Return: -EIOCBQUEUED, or why it was not begun: -EINVAL for a field that is
 * out of range or not aligned, -ENOENT for an id that nobody has, -ERANGE
 * beyond a target's or a memory's end, -EACCES, -EBUSY for too many at once.
 */
int weft_mem_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct weft_mem_file *mf = cmd->file->private_data;
	struct weft_mem_io *io;
	struct weft_mem_cmd c;
	int ret;

	if (!(issue_flags & IO_URING_F_SQE128))
		return -EINVAL;
	weft_mem_read_cmd(cmd, &c);
	ret = weft_mem_check(mf, cmd->cmd_op, &c);
	if (ret)
		return ret;
	io = weft_mem_io_alloc(mf, cmd);
	if (IS_ERR(io))
		return PTR_ERR(io);
	io->op = cmd->cmd_op == WEFT_MEM_CMD_READ ? REQ_OP_READ : REQ_OP_WRITE;
	ret = weft_mem_bind(io, &c);
	if (!ret && io->memory && !io->memory->pages)
		ret = weft_mem_bounce(io);
	if (ret) {
		weft_mem_io_free(io);
		return ret;
	}
	*io_uring_cmd_to_pdu(cmd, struct weft_mem_io *) = io;
	if (io->memory)
		weft_mem_submit(io, c.offset);
	else
		submit_bio(weft_mem_bio(io, 0, 0, REQ_PREFLUSH | REQ_SYNC));
	weft_mem_io_put(io);
	return -EIOCBQUEUED;
}

int weft_mem_io_init(void)
{
	int ret;

	weft_mem_io_cache = KMEM_CACHE(weft_mem_io, SLAB_HWCACHE_ALIGN);
	if (!weft_mem_io_cache)
		return -ENOMEM;
	ret = bioset_init(&weft_mem_bios, BIO_POOL_SIZE, 0, BIOSET_NEED_BVECS);
	if (ret)
		kmem_cache_destroy(weft_mem_io_cache);
	return ret;
}

void weft_mem_io_exit(void)
{
	bioset_exit(&weft_mem_bios);
	kmem_cache_destroy(weft_mem_io_cache);
}
