// SPDX-License-Identifier: GPL-2.0-only
/* Members: open, read and check them; their counters. */
#include "weft.h"

/* Marks the bios of this file, see weft_member_rw_is(). */
void weft_member_rw_end(struct bio *bio)
{
	struct weft_member_rw *rw = bio->bi_private;

	complete(&rw->done);
}

static void weft_member_rw_init(struct weft_member_rw *rw, struct weft_member *member,
				struct bio *bio)
{
	rw->member = member;
	init_completion(&rw->done);
	bio->bi_end_io = weft_member_rw_end;
	bio->bi_private = rw;
}

static int weft_member_rw_wait(struct weft_member_rw *rw, struct bio *bio)
{
	/* In slices, to avoid the hung-task warning. */
	while (!wait_for_completion_io_timeout(&rw->done, 20 * HZ))
		;
	bio_uninit(bio);
	return blk_status_to_errno(bio->bi_status);
}

/* Read a superblock over one path, and wait. -ENOLINK when the path was lost. */
static int weft_member_read_path(struct weft_member *member, struct weft_path *path, u64 offset,
				 struct page *page)
{
	struct weft_member_rw rw;
	struct bio_vec vec;
	struct bio bio;

	bio_init(&bio, path->bdev, &vec, 1, REQ_OP_READ | REQ_META);
	bio.bi_iter.bi_sector = offset >> SECTOR_SHIFT;
	weft_member_rw_init(&rw, member, &bio);
	__bio_add_page(&bio, page, WEFT_SB_SIZE, 0);
	submit_bio(&bio);
	return weft_member_rw_wait(&rw, &bio);
}

/**
 * weft_member_rw() - read or write a member's metadata, and wait
 * @member: opened
 * @opf: operation and flags
 * @offset: bytes from the member's start, a multiple of 4096
 * @page: the data, the first of physically contiguous pages
 * @size: size of the data in bytes, a multiple of 4096
 *
 * It does not wait for a path. If its path is lost, a read is tried again, over
 * another path where there is one. A write is not, because the caller must read
 * the record again before it writes.
 *
 * Context: process context, may sleep, allocates nothing.
 * Return: 0; -ENOLINK if no path could carry it; or another negative errno.
 */
int weft_member_rw(struct weft_member *member, blk_opf_t opf, u64 offset,
		   struct page *page, u32 size)
{
	struct weft_member_rw rw;
	unsigned int tries = 3;
	struct bio_vec vec;
	struct bio bio;
	int ret;

	do {
		/* weft_mpath_submit() sets the device. */
		bio_init(&bio, NULL, &vec, 1, opf);
		bio.bi_iter.bi_sector = offset >> SECTOR_SHIFT;
		weft_member_rw_init(&rw, member, &bio);
		__bio_add_page(&bio, page, size, 0);
		weft_mpath_submit(member, &bio);
		ret = weft_member_rw_wait(&rw, &bio);
	} while (ret == -ENOLINK && !op_is_write(opf) && --tries);
	return ret;
}

/* Over one path, or without @path over any. */
static int weft_member_read_sb(struct weft_member *member, struct weft_path *path, u64 offset,
			       struct page *page, struct weft_sb_info *info,
			       struct weft_why *why)
{
	int ret;

	if (path)
		ret = weft_member_read_path(member, path, offset, page);
	else
		ret = weft_member_rw(member, REQ_OP_READ | REQ_META, offset, page,
				     WEFT_SB_SIZE);
	/* A medium error is -ENODATA, which here means "no superblock". */
	if (ret)
		return weft_refuse(why, ret == -ENODATA ? -EIO : ret,
				   "cannot read byte %llu (error %d)", offset, -ret);
	return weft_sb_decode(page_address(page), info, why);
}

/* Without the superblock, the device's size gives the place of its copy. */
static int weft_member_read_copy(struct weft_member *member, struct weft_path *path, u64 offset,
				 struct page *page, struct weft_sb_info *info,
				 struct weft_why *why)
{
	int ret;

	ret = weft_member_read_sb(member, path, offset, page, info, why);
	return ret ?: weft_sb_is_copy(info, offset, why);
}

/*
 * Read the superblock, or its copy if the superblock is damaged. If there is no
 * superblock at all, another program may use the device now and have left its
 * end unchanged. Then the user has to confirm that it is a member.
 */
static int weft_member_find_copies(struct weft_member *member, struct weft_path *path,
				   struct page *page, struct weft_sb_info *info,
				   struct weft_why *why)
{
	u64 size = bdev_nr_bytes(path ? path->bdev : member->bdev);
	struct weft_why first = {}, second = {};
	int ret, copy;

	ret = weft_member_read_sb(member, path, 0, page, info, &first);
	if (!ret)
		return 0;
	/* Valid, but for another version. Its copy is the same. */
	if (ret == -EOPNOTSUPP)
		return weft_refuse(why, ret, "%s", first.text);
	copy = weft_member_read_copy(member, path, weft_sb_copy_offset(size), page, info,
				     &second);
	if (!copy && ret == -ENODATA)
		return weft_refuse(why, -EBADMSG,
				   "no weft superblock at its start, but a copy at its end; if it is still a member, run 'weftctl check --repair DEVICE'");
	if (!copy) {
		pr_warn("member %s: %s; its copy is used. 'weftctl check --repair' fixes it\n",
			path ? path->address : member->address, first.text);
		return 0;
	}
	if (ret == -ENODATA && copy != -ENODATA)
		return weft_refuse(why, copy, "%s", second.text);
	return weft_refuse(why, ret, "%s", first.text);
}

/**
 * weft_member_find_sb() - read a superblock, or its copy if it is damaged
 * @member: the member
 * @path: read over this path, which may belong to no member yet; NULL: over any of
 *	the member's
 * @info: set on success
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: 0; -ENOLINK when the path was lost; or another negative errno.
 */
int weft_member_find_sb(struct weft_member *member, struct weft_path *path,
			struct weft_sb_info *info, struct weft_why *why)
{
	struct page *page = alloc_page(GFP_KERNEL);
	int ret;

	if (!page)
		return -ENOMEM;
	ret = weft_member_find_copies(member, path, page, info, why);
	__free_page(page);
	return ret;
}

static int weft_member_load_sb(struct weft_member *member, struct weft_why *why)
{
	u64 size = bdev_nr_bytes(member->bdev);
	struct weft_why detail = {};
	int ret;

	if (size < WEFT_DATA_OFFSET)
		return weft_refuse(why, -ENOSPC,
				   "member %s is too small: %llu bytes",
				   member->address, size);
	ret = weft_member_find_sb(member, NULL, &member->sb, &detail);
	if (!ret)
		ret = weft_sb_fits(&member->sb, size, bdev_logical_block_size(member->bdev),
				   &detail);
	if (ret)
		return weft_refuse(why, ret, "member %s: %s", member->address, detail.text);
	return 0;
}

/**
 * weft_member_sectors() - the size that a volume needs of a member's disk
 * @member: its superblock is read
 *
 * The copy of the superblock is the last that it needs; the disk may have grown
 * since.
 *
 * Return: in sectors.
 */
sector_t weft_member_sectors(const struct weft_member *member)
{
	return (member->sb.copy_offset + WEFT_SB_SIZE) >> SECTOR_SHIFT;
}

/**
 * weft_member_open() - open a member and read its superblock
 * @vol: the volume
 * @req: the member as the user named it
 * @writable: open it for writing, too
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: the member, or an ERR_PTR. Undo with weft_member_close().
 */
struct weft_member *weft_member_open(struct weft_volume *vol,
				     const struct weft_member_request *req,
				     bool writable, struct weft_why *why)
{
	struct weft_path *paths[WEFT_PATHS_MAX];
	struct weft_path_request path_req;
	struct weft_member *member;
	struct weft_path *path;
	int ret = -ENOMEM;

	member = kzalloc_obj(*member);
	if (!member)
		return ERR_PTR(-ENOMEM);
	member->volume = vol;
	member->address = kstrdup(req->address, GFP_KERNEL);
	if (!member->address)
		goto out_free;
	member->stats = alloc_percpu(struct weft_stats);
	if (!member->stats)
		goto out_free_address;

	if (weft_mpath_init(member))
		goto out_free_stats;
	path_req = (struct weft_path_request) {
		.address	= member->address,
		.devt		= req->devt,
		.lookup		= req->lookup,
		.writable	= writable,
		.events		= &weft_mpath_events,
		.owner_data	= member,
		.lease		= &vol->lease,
	};
	path = weft_path_connect(req->transport, &path_req, why);
	if (IS_ERR(path)) {
		ret = PTR_ERR(path);
		goto out_exit_mpath;
	}
	member->bdev = path->bdev;
	strscpy(member->transport, path->ops->name, sizeof(member->transport));
	member->owns_requests = path->ops->owns_requests;
	weft_mpath_add(member, path);
	ret = weft_member_load_sb(member, why);
	if (ret)
		goto out_disconnect;
	WRITE_ONCE(path->sectors, weft_member_sectors(member));
	member->index = member->sb.member_index;
	return member;

out_disconnect:
	weft_mpath_take(member, paths);
	weft_path_disconnect(path);
out_exit_mpath:
	weft_mpath_exit(member);
out_free_stats:
	free_percpu(member->stats);
out_free_address:
	kfree(member->address);
out_free:
	kfree(member);
	return ERR_PTR(ret);
}

/**
 * weft_member_drop_path() - disconnect a path
 * @member: the member that had it
 * @path: the path; weft_mpath_remove() or weft_mpath_take() has removed it
 *
 * Context: process context; waits for the I/O on it, if the transport does (rdma).
 */
void weft_member_drop_path(struct weft_member *member, struct weft_path *path)
{
	const char *address = path->address;

	weft_path_disconnect(path);
	/* The first path shares its address with the member. */
	if (address != member->address)
		kfree(address);
}

/**
 * weft_member_close() - undo weft_member_open()
 * @member: no bio is in flight on it
 */
void weft_member_close(struct weft_member *member)
{
	struct weft_path *paths[WEFT_PATHS_MAX];
	u32 i;

	weft_mpath_take(member, paths);
	for (i = 0; i < WEFT_PATHS_MAX; i++)
		if (paths[i])
			weft_member_drop_path(member, paths[i]);
	/* No path is left that could call weft_mpath_events. */
	weft_mpath_exit(member);
	free_percpu(member->stats);
	kfree(member->address);
	kfree(member);
}

/**
 * weft_member_stats() - sum a member's counters
 * @member: opened
 * @sum: set; not a snapshot, because the CPUs are read one after another
 */
void weft_member_stats(struct weft_member *member, struct weft_stats *sum)
{
	int cpu, group;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct weft_stats *s = per_cpu_ptr(member->stats, cpu);

		for (group = 0; group < WEFT_STAT_GROUPS; group++) {
			sum->group[group].ios += READ_ONCE(s->group[group].ios);
			sum->group[group].sectors += READ_ONCE(s->group[group].sectors);
			sum->group[group].nsecs += READ_ONCE(s->group[group].nsecs);
		}
		sum->errors += READ_ONCE(s->errors);
	}
}
