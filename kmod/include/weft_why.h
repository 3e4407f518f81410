/* SPDX-License-Identifier: GPL-2.0-only */
/* The sentence that explains an error code to a user. Pure, see portable.h. */
#ifndef WEFT_WHY_H
#define WEFT_WHY_H

#include "../weft/portable.h"

/* Size of the buffer for the sentence, in bytes. */
#define WEFT_WHY_SIZE		512

/**
 * struct weft_why - the sentence that explains an error code
 * @text: empty, or one sentence without a full stop
 */
struct weft_why {
	char	text[WEFT_WHY_SIZE];
};

int __printf(3, 4) weft_refuse(struct weft_why *why, int err,
			       const char *fmt, ...);

#endif /* WEFT_WHY_H */
