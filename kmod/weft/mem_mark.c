// SPDX-License-Identifier: GPL-2.0-only
/*
 * Telling io_uring that a command waits, so that io_uring cancels it when its
 * submitter exits.
 *
 * DOC: whose lock it is
 *
 * Marking a command takes the lock of its ring. The ring's owner can hold that
 * lock for as long as it likes: in reclaim, or while it reads its own memory, which
 * a filesystem of its own serves. So no work that serves others takes it. Each
 * file has a work that marks its commands, and a command that ends first is not
 * marked any more: it never waits for its own mark, unless that is being made.
 */
#include "mem.h"

#include "../compat/uring.h"

static struct workqueue_struct *weft_mem_mark_wq;

static struct weft_mem_mark *weft_mem_mark_next(struct weft_mem_file *mf)
{
	struct weft_mem_mark *mark;

	spin_lock_irq(&mf->marks_lock);
	mark = list_first_entry_or_null(&mf->marks, struct weft_mem_mark, list);
	if (mark) {
		list_del(&mark->list);
		mark->state = WEFT_MEM_MARK_RUNS;
	}
	spin_unlock_irq(&mf->marks_lock);
	return mark;
}

static void weft_mem_mark_work(struct work_struct *work)
{
	struct weft_mem_file *mf = container_of(work, struct weft_mem_file, mark_work);
	struct weft_mem_mark *mark;
	bool ended;

	while ((mark = weft_mem_mark_next(mf))) {
		weft_uring_may_wait(mark->cmd);
		spin_lock_irq(&mf->marks_lock);
		ended = mark->state == WEFT_MEM_MARK_ENDED;
		mark->state = WEFT_MEM_MARK_MADE;
		spin_unlock_irq(&mf->marks_lock);
		/* From here on, without that, the command may be gone. */
		if (ended)
			mark->done(mark);
	}
}

/**
 * weft_mem_mark_init() - initialize the marks of a file
 * @mf: the file
 *
 * Undo by weft_mem_mark_exit().
 */
void weft_mem_mark_init(struct weft_mem_file *mf)
{
	spin_lock_init(&mf->marks_lock);
	INIT_LIST_HEAD(&mf->marks);
	INIT_WORK(&mf->mark_work, weft_mem_mark_work);
}

/**
 * weft_mem_mark_exit() - undo weft_mem_mark_init()
 * @mf: the file; all its commands have ended
 *
 * Context: process context; does not wait for a ring's lock.
 */
void weft_mem_mark_exit(struct weft_mem_file *mf)
{
	cancel_work_sync(&mf->mark_work);
}

/**
 * weft_mem_mark() - mark a command soon
 * @mf: its file
 * @mark: of the command
 * @cmd: the command
 * @done: called where the command ended while its mark was made
 *
 * Only the first call has an effect.
 *
 * Context: any.
 */
void weft_mem_mark(struct weft_mem_file *mf, struct weft_mem_mark *mark, struct io_uring_cmd *cmd,
		   void (*done)(struct weft_mem_mark *mark))
{
	unsigned long flags;

	if (READ_ONCE(mark->state) != WEFT_MEM_MARK_NONE)
		return;
	spin_lock_irqsave(&mf->marks_lock, flags);
	/* Parts of one command can be held in several places. */
	if (mark->state == WEFT_MEM_MARK_NONE) {
		mark->cmd = cmd;
		mark->done = done;
		WRITE_ONCE(mark->state, WEFT_MEM_MARK_QUEUED);
		list_add_tail(&mark->list, &mf->marks);
		queue_work(weft_mem_mark_wq, &mf->mark_work);
	}
	spin_unlock_irqrestore(&mf->marks_lock, flags);
}

/**
 * weft_mem_mark_end() - a command that may be marked has ended
 * @mf: its file
 * @mark: of the command
 *
 * Context: any.
 * Return: true if the caller goes on; false if @done is called later.
 */
bool weft_mem_mark_end(struct weft_mem_file *mf, struct weft_mem_mark *mark)
{
	unsigned long flags;
	bool ours = true;

	spin_lock_irqsave(&mf->marks_lock, flags);
	if (mark->state == WEFT_MEM_MARK_QUEUED) {
		list_del(&mark->list);
	} else if (mark->state == WEFT_MEM_MARK_RUNS) {
		mark->state = WEFT_MEM_MARK_ENDED;
		ours = false;
	}
	spin_unlock_irqrestore(&mf->marks_lock, flags);
	return ours;
}

int weft_mem_mark_module_init(void)
{
	weft_mem_mark_wq = alloc_workqueue("weft-mem-mark", WQ_UNBOUND, WQ_MAX_ACTIVE);
	return weft_mem_mark_wq ? 0 : -ENOMEM;
}

void weft_mem_mark_module_exit(void)
{
	destroy_workqueue(weft_mem_mark_wq);
}
