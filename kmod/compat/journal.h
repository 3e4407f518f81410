/* SPDX-License-Identifier: GPL-2.0-only */
/* The writes of a filesystem's journal, for which every fsync() waits. */
#ifndef WEFT_COMPAT_JOURNAL_H
#define WEFT_COMPAT_JOURNAL_H

#include <linux/blk_types.h>
#include <linux/sched.h>

/*
 * Before 6.8, jbd2 (ext4) did not give its writes REQ_META. They are synchronous
 * writes of a kernel thread of its own, and not of direct I/O. Drop when the floor
 * passes 6.8.
 */
#ifdef WEFT_HAVE_JOURNAL_META
#define WEFT_PF_JOURNAL		0

static inline bool weft_bio_is_journal(const struct bio *bio)
{
	return false;
}
#else
#define WEFT_PF_JOURNAL		PF_KTHREAD

static inline bool weft_bio_is_journal(const struct bio *bio)
{
	return (current->flags & (PF_KTHREAD | PF_WQ_WORKER)) == PF_KTHREAD &&
	       op_is_write(bio->bi_opf) && (bio->bi_opf & (REQ_SYNC | REQ_IDLE)) == REQ_SYNC;
}
#endif

#endif /* WEFT_COMPAT_JOURNAL_H */
