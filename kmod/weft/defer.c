// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bios that have to continue in process context.
 *
 * Discards and write zeroes over more than one member: each member's share is
 * one run (map.c), so such a bio becomes one bio for each member, not one for
 * each chunk. That is up to 256 bios, more than can be allocated safely within
 * submit_bio. Here each bio is sent before the next one is allocated.
 *
 * Reads and writes with REQ_NOWAIT that were split and then failed with
 * BLK_STS_AGAIN, or that cannot be split with REQ_NOWAIT (bio.c). Here they may
 * wait.
 */
#include "weft.h"

static void weft_range_fan_out(struct weft_volume *vol, struct bio *bio)
{
	sector_t start = bio->bi_iter.bi_sector;
	sector_t end = bio_end_sector(bio);
	u32 i;

	for (i = 0; i < vol->member_count; i++) {
		sector_t sector, sectors;
		struct bio *part;

		sectors = weft_map_member_range(&vol->map, start, end, i, &sector);
		if (!sectors)
			continue;
		part = bio_alloc_clone(vol->disk->part0, bio, GFP_NOIO, &vol->bios);
		if (!part) {
			bio->bi_status = BLK_STS_RESOURCE;
			break;
		}
		part->bi_iter.bi_size = sectors << SECTOR_SHIFT;
		bio_chain(part, bio);
		weft_submit_part(vol->members[i], part, sector, bio);
	}
	/* Drops our reference; the last part to complete ends the bio. */
	bio_endio(bio);
}

static void weft_deferred_work(struct work_struct *work)
{
	struct weft_volume *vol = container_of(work, struct weft_volume,
					       deferred.work);
	struct bio_list bios;
	struct bio *bio;

	spin_lock_irq(&vol->deferred.lock);
	bios = vol->deferred.bios;
	bio_list_init(&vol->deferred.bios);
	spin_unlock_irq(&vol->deferred.lock);

	while ((bio = bio_list_pop(&bios))) {
		bio->bi_opf &= ~REQ_NOWAIT;
		if (!weft_op_is_range(bio))
			submit_bio_noacct(bio);
		else if (weft_lease_is_over(&vol->lease))
			weft_owner_hold(vol, bio);	/* lease has ended */
		else
			weft_range_fan_out(vol, bio);
	}
}

/**
 * weft_defer() - continue a bio in process context, where it may wait
 * @vol: the volume
 * @bio: a discard or write zeroes is fanned out to the members; any other bio
 *	is submitted to the volume again
 *
 * Context: any.
 */
void weft_defer(struct weft_volume *vol, struct bio *bio)
{
	unsigned long irqflags;

	spin_lock_irqsave(&vol->deferred.lock, irqflags);
	bio_list_add(&vol->deferred.bios, bio);
	/* Under the lock: after it, the bio and the volume may be gone. */
	queue_work(vol->wq, &vol->deferred.work);
	spin_unlock_irqrestore(&vol->deferred.lock, irqflags);
}

/**
 * weft_deferred_init() - initialize the list and its work
 * @vol: the volume
 *
 * It needs no exit function.
 */
void weft_deferred_init(struct weft_volume *vol)
{
	spin_lock_init(&vol->deferred.lock);
	bio_list_init(&vol->deferred.bios);
	INIT_WORK(&vol->deferred.work, weft_deferred_work);
}
