/* SPDX-License-Identifier: GPL-2.0-only */
/* High-resolution timers; see compat.h. */
#ifndef WEFT_COMPAT_TIMER_H
#define WEFT_COMPAT_TIMER_H

#include <linux/hrtimer.h>

/* The function is an argument since 6.13. Drop when the floor passes it. */
#ifndef WEFT_HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* WEFT_COMPAT_TIMER_H */
