// SPDX-License-Identifier: GPL-2.0-only
/* Members: opened, read, checked; their counters. */
#include "weft.h"

static void weft_member_rw_end(struct bio *bio)
{
	complete(bio->bi_private);
}

/**
 * weft_member_rw() - read or write 4 KiB of a member's own area, and wait
 * @member: opened
 * @opf: operation and flags
 * @offset: bytes from the member's start, a multiple of 4096
 * @page: the data
 *
 * Context: process context, may sleep, allocates nothing.
 * Return: 0 or a negative errno.
 */
int weft_member_rw(struct weft_member *member, blk_opf_t opf, u64 offset,
		   struct page *page)
{
	DECLARE_COMPLETION_ONSTACK(done);
	unsigned int tries = 3;
	struct bio_vec vec;
	struct bio bio;
	int ret;

	do {
		bio_init(&bio, member->bdev, &vec, 1, opf);
		bio.bi_iter.bi_sector = offset >> SECTOR_SHIFT;
		bio.bi_end_io = weft_member_rw_end;
		bio.bi_private = &done;
		__bio_add_page(&bio, page, WEFT_SB_SIZE, 0);
		weft_route_submit(member, &bio);
		/* For a path, maybe: in pieces, so that nobody takes it for a task that hangs. */
		while (!wait_for_completion_io_timeout(&done, 20 * HZ))
			;
		reinit_completion(&done);
		ret = blk_status_to_errno(bio.bi_status);
		bio_uninit(&bio);
		/* A flush of the block layer's own making cannot be given to another path. */
	} while (ret == -ENOLINK && --tries);
	return ret;
}

static int weft_member_read_sb(struct weft_member *member, u64 offset,
			       struct page *page, struct weft_sb_info *info,
			       struct weft_why *why)
{
	int ret;

	ret = weft_member_rw(member, REQ_OP_READ | REQ_META, offset, page);
	if (ret)
		return weft_refuse(why, ret, "cannot read byte %llu (error %d)",
				   offset, -ret);
	return weft_sb_decode(page_address(page), info, why);
}

/*
 * The superblock, or its copy where the first is torn. The copy's place is
 * known from the first one only, so the device's end is what leads to it.
 */
static int weft_member_load_sb(struct weft_member *member, struct weft_why *why)
{
	u64 size = bdev_nr_bytes(member->bdev);
	struct weft_why first = {}, second = {};
	struct page *page;
	int ret;

	if (size < WEFT_DATA_OFFSET)
		return weft_refuse(why, -ENOSPC,
				   "member %s is too small: %llu bytes",
				   member->address, size);
	page = alloc_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	ret = weft_member_read_sb(member, 0, page, &member->sb, &first);
	if (ret && ret != -EOPNOTSUPP) {
		int again = weft_member_read_sb(member, weft_sb_copy_offset(size),
						page, &member->sb, &second);

		if (!again) {
			pr_warn("member %s: %s; its copy serves. 'weftctl check --repair' mends it\n",
				member->address, first.text);
			ret = 0;
		} else if (ret == -ENODATA) {
			/* Torn beyond recognition, or never written: the copy decides. */
			ret = again;
			if (again != -ENODATA)
				first = second;
		}
	}
	__free_page(page);
	if (ret)
		return weft_refuse(why, ret, "member %s: %s", member->address,
				   first.text);

	ret = weft_sb_fits(&member->sb, size,
			   bdev_logical_block_size(member->bdev), &first);
	if (ret)
		return weft_refuse(why, ret, "member %s: %s", member->address,
				   first.text);
	return 0;
}

/**
 * weft_member_gone() - no device that leads to a member is there any more
 * @member: which
 *
 * Context: process context, may sleep. Told as often as one likes.
 */
void weft_member_gone(struct weft_member *member)
{
	if (xchg(&member->gone, true))
		return;
	weft_warn(member->volume, "member %u (%s) is gone\n", member->index,
		  member->address);
	weft_volume_member_gone(member);
}

/**
 * weft_member_open() - open a member and read what it says of itself
 * @vol: for which
 * @req: how the user named it
 * @writable: for writing too
 * @why: gets the reason of a failure
 *
 * Context: process context, may sleep.
 * Return: the member, to be given back by weft_member_close(), or an ERR_PTR.
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

	if (weft_route_init(member))
		goto out_free_stats;
	path_req = (struct weft_path_request) {
		.address	= member->address,
		.writable	= writable,
		.events		= &weft_route_events,
		.owner_data	= member,
	};
	path = weft_path_connect(req->transport, &path_req, why);
	if (IS_ERR(path)) {
		ret = PTR_ERR(path);
		goto out_exit_route;
	}
	member->bdev = path->bdev;
	strscpy(member->transport, path->ops->name, sizeof(member->transport));
	member->owns_requests = path->ops->owns_requests;
	weft_route_add(member, path);
	ret = weft_member_load_sb(member, why);
	if (ret)
		goto out_disconnect;
	member->index = member->sb.member_index;
	return member;

out_disconnect:
	weft_route_take(member, paths);
	weft_path_disconnect(path);
out_exit_route:
	weft_route_exit(member);
out_free_stats:
	free_percpu(member->stats);
out_free_address:
	kfree(member->address);
out_free:
	kfree(member);
	return ERR_PTR(ret);
}

/**
 * weft_member_drop_path() - give a path back
 * @member: which had it
 * @path: nobody uses it any more
 *
 * Context: process context; waits for the I/O on it.
 */
void weft_member_drop_path(struct weft_member *member, struct weft_path *path)
{
	const char *address = path->address;

	weft_path_disconnect(path);
	/* The first path's address is the member's own, too. */
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

	weft_route_take(member, paths);
	for (i = 0; i < WEFT_PATHS_MAX; i++)
		if (paths[i])
			weft_member_drop_path(member, paths[i]);
	/* Nobody tells of paths any more. */
	weft_route_exit(member);
	free_percpu(member->stats);
	kfree(member->address);
	kfree(member);
}

/**
 * weft_member_stats() - sum a member's counters
 * @member: opened
 * @sum: set; not a snapshot, each cpu is read when its turn comes
 */
void weft_member_stats(struct weft_member *member, struct weft_stats *sum)
{
	int cpu, group;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct weft_stats *s = per_cpu_ptr(member->stats, cpu);

		for (group = 0; group < WEFT_STAT_GROUPS; group++) {
			sum->ios[group] += READ_ONCE(s->ios[group]);
			sum->sectors[group] += READ_ONCE(s->sectors[group]);
			sum->nsecs[group] += READ_ONCE(s->nsecs[group]);
		}
		sum->errors += READ_ONCE(s->errors);
	}
}
