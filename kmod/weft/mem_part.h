/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Submission of a command by parts. Inline, because it runs for every command. See
 * mem_part.c.
 */
#ifndef WEFT_MEM_PART_H
#define WEFT_MEM_PART_H

#include "mem_io.h"
#include "multipath.h"

#include <linux/timekeeping.h>

struct weft_mem_part *weft_mem_part_another(struct weft_mem_io *io);
bool weft_mem_part_is_held(struct weft_mem_part *part);
void weft_mem_part_unsent(struct weft_mem_part *part, int error);
void weft_mem_part_done(struct weft_mem_op *op, blk_status_t status, unsigned long after);
void weft_mem_submit_rest(struct weft_mem_io *io, u32 length, u32 done);

/* Send a part. It may be gone afterwards. */
static __always_inline void weft_mem_part_send(struct weft_mem_part *part)
{
	struct weft_member *member = part->member;
	int ret = -ENOTCONN;

	/* Once it is sent, it and its volume may be gone. */
	if (likely(!weft_mem_lacks_lease(part->io)))
		ret = weft_mpath_peer(member, &part->op);
	if (unlikely(ret))
		weft_mem_part_unsent(part, ret);
}

/*
 * Send the part that starts @done bytes after the command's start. It ends at
 * the end of the file's extent, of the chunk or of the largest operation.
 * Returns its length, or 0 if there is no memory. After the last part, or after
 * 0, the submitter's count in @io->remaining is dropped, and the command may be
 * gone.
 */
static __always_inline u32 weft_mem_submit_part(struct weft_mem_io *io, u32 done)
{
	struct weft_volume *vol = io->mf->vol;
	struct weft_memory *memory = io->memory;
	struct weft_run run = weft_mem_run(io, io->offset + done);
	sector_t sector = run.at >> SECTOR_SHIFT;
	struct weft_place place = weft_map_sector(&vol->map, sector);
	u32 left = io->length - done, length;
	struct weft_mem_part *part = &io->first;
	u64 now;

	if (done) {
		part = weft_mem_part_another(io);
		if (!part)
			return 0;
	}
	/*
	 * After the allocation, which may reclaim memory, and before the rest: the call has the
	 * compiler load again what it had in registers.
	 */
	now = ktime_get_ns();
	run.length = min(run.length, (u64)weft_map_contiguous(&vol->map, sector) << SECTOR_SHIFT);
	length = min3(run.length, (u64)left, (u64)READ_ONCE(memory->piece));
	memset_startat(part, 0, late);
	part->io = io;
	part->member = vol->members[place.member];
	part->op.done = weft_mem_part_done;
	part->op.peer = memory->peer;
	part->op.write = io->op == REQ_OP_WRITE;
	part->op.background = io->background;
	part->op.near = READ_ONCE(memory->near[place.member]);
	part->op.sector = place.sector;
	part->op.at = io->at + done;
	/* 4 KiB from anywhere are in one region, see weft_region_make(). */
	if (length > SZ_4K && memory->persistent)
		length = min_t(u32, length, round_up(WEFT_PEER_RUN - part->op.at % WEFT_PEER_RUN,
						     io->mf->block));
	if (weft_qos_is_used() && io->class == WEFT_IO_CLASS_BACKGROUND)
		length = min_t(u32, length, WEFT_QOS_PIECE);
	part->op.length = length;
	if (length < left)
		atomic_inc(&io->remaining);
	if (weft_qos_is_used() && io->class != WEFT_IO_CLASS_NONE &&
	    !weft_qos_passes(part->member, io->class) && weft_mem_part_is_held(part))
		return length;
	part->sent = now;
	weft_mem_part_send(part);
	return length;
}

/**
 * weft_mem_submit_parts() - submit a command by parts
 * @io: the command; its memory has a peer
 *
 * Drops the submitter's count in @io->remaining.
 *
 * Context: process context.
 */
static __always_inline void weft_mem_submit_parts(struct weft_mem_io *io)
{
	u32 length = io->length, done = weft_mem_submit_part(io, 0);

	/* Most commands have one part. Others pay for a plug on the stack. */
	if (unlikely(done != length))
		weft_mem_submit_rest(io, length, done);
}

#endif /* WEFT_MEM_PART_H */
