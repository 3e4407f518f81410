/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The io_uring API for commands of a character device; see compat.h. The rest
 * of the tree uses the names defined here.
 */
#ifndef WEFT_COMPAT_URING_H
#define WEFT_COMPAT_URING_H

/* Moved from linux/io_uring.h in 6.7. Drop when the floor passes it. */
#ifdef WEFT_HAVE_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

/* The payload of an SQE128: a typed macro since 6.19. Drop when the floor passes it. */
#ifdef io_uring_sqe128_cmd
#define weft_uring_payload(ioucmd, type)	io_uring_sqe128_cmd((ioucmd)->sqe, type)
#elif defined(WEFT_HAVE_URING_CMD_H)
#define weft_uring_payload(ioucmd, type)	((const type *)io_uring_sqe_cmd((ioucmd)->sqe))
#else
#define weft_uring_payload(ioucmd, type)	((const type *)(ioucmd)->cmd)
#endif

/* Drop when the floor passes 6.7. */
#ifndef io_uring_cmd_to_pdu
#define io_uring_cmd_to_pdu(cmd, type)	((type *)&(cmd)->pdu)
#endif

/*
 * Declares a function that runs in the submitter's task. Since 6.19 it gets a
 * request and a token. Drop when the floor passes it.
 */
#ifdef IO_URING_CMD_TASK_WORK_ISSUE_FLAGS
#define WEFT_URING_TW(fn)	void fn(struct io_tw_req weft_tw, io_tw_token_t weft_token)
#define weft_uring_tw_cmd()	io_uring_cmd_from_tw(weft_tw)
#define weft_uring_tw_done(cmd, ret) \
	io_uring_cmd_done(cmd, ret, IO_URING_CMD_TASK_WORK_ISSUE_FLAGS)
#else
#define WEFT_URING_TW(fn)	void fn(struct io_uring_cmd *weft_cmd, unsigned int weft_flags)
#define weft_uring_tw_cmd()	(weft_cmd)
#define weft_uring_tw_done(cmd, ret)	io_uring_cmd_done(cmd, ret, 0, weft_flags)
#endif

/* Wakes a task that waits for several completions only once: since 6.4. */
#ifdef WEFT_HAVE_URING_CMD_H
#define weft_uring_in_task(cmd, fn)	io_uring_cmd_do_in_task_lazy(cmd, fn)
#else
#define weft_uring_in_task(cmd, fn)	io_uring_cmd_complete_in_task(cmd, fn)
#endif

/*
 * Tell io_uring that a command waits, so that io_uring cancels it when the
 * submitter exits: since 6.7. The caller must not hold the ring's lock. Drop
 * when the floor passes it.
 */
#ifdef WEFT_HAVE_URING_CANCEL
#define WEFT_URING_F_CANCEL	IO_URING_F_CANCEL
#else
#define WEFT_URING_F_CANCEL	0
#endif

static inline void weft_uring_may_wait(struct io_uring_cmd *cmd)
{
#ifdef WEFT_HAVE_URING_CANCEL
	io_uring_cmd_mark_cancelable(cmd, IO_URING_F_UNLOCKED);
#endif
}

#endif /* WEFT_COMPAT_URING_H */
