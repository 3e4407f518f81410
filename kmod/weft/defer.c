// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bios of a volume that continue in process context. There, they may sleep for a tag
 * of a member. Each has a work of its own, so that bios to other members go on.
 */
#include "weft.h"

struct weft_deferred_bio {
	struct work_struct	work;
	struct weft_volume	*vol;
	struct bio		*bio;
};

static void weft_deferred_bio_work(struct work_struct *work)
{
	struct weft_deferred_bio *one = container_of(work, struct weft_deferred_bio, work);

	one->vol->deferred.go_on(one->vol, one->bio);
	/*
	 * Not before: a new work at the same address would wait for this one, as if it
	 * were the same.
	 */
	kfree(one);
}

static void weft_deferred_work(struct work_struct *work)
{
	struct weft_volume *vol = container_of(work, struct weft_volume, deferred.work);
	struct bio_list bios;
	struct bio *bio;

	spin_lock_irq(&vol->deferred.lock);
	bios = vol->deferred.bios;
	bio_list_init(&vol->deferred.bios);
	spin_unlock_irq(&vol->deferred.lock);
	while ((bio = bio_list_pop(&bios)))
		vol->deferred.go_on(vol, bio);
}

/**
 * weft_defer() - continue a bio in process context
 * @vol: the volume
 * @bio: given to the function of weft_deferred_init()
 *
 * Context: any.
 */
void weft_defer(struct weft_volume *vol, struct bio *bio)
{
	struct weft_deferred_bio *one = kmalloc_obj(*one, GFP_ATOMIC | __GFP_NOWARN);
	unsigned long flags;

	if (one) {
		INIT_WORK(&one->work, weft_deferred_bio_work);
		one->vol = vol;
		one->bio = bio;
		queue_work(vol->split_wq, &one->work);
		return;
	}
	spin_lock_irqsave(&vol->deferred.lock, flags);
	bio_list_add(&vol->deferred.bios, bio);
	/* Under the lock: after it, the bio and the volume may be gone. */
	queue_work(vol->split_wq, &vol->deferred.work);
	spin_unlock_irqrestore(&vol->deferred.lock, flags);
}

/**
 * weft_deferred_init() - prepare a volume for weft_defer()
 * @vol: the volume
 * @go_on: continues a bio; may sleep
 *
 * It needs no exit function.
 */
void weft_deferred_init(struct weft_volume *vol,
			void (*go_on)(struct weft_volume *vol, struct bio *bio))
{
	spin_lock_init(&vol->deferred.lock);
	bio_list_init(&vol->deferred.bios);
	INIT_WORK(&vol->deferred.work, weft_deferred_work);
	vol->deferred.go_on = go_on;
}
