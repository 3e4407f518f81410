/* SPDX-License-Identifier: GPL-2.0-only */
/* The check of a file before it is read; see compat.h. */
#ifndef WEFT_COMPAT_FILE_H
#define WEFT_COMPAT_FILE_H

#include <linux/fs.h>

/*
 * May the caller read this open file now? rw_verify_area() is exported since
 * 6.8. On older kernels the check at open has to suffice. Drop when the floor
 * passes it.
 */
static inline int weft_verify_read(struct file *file, const loff_t *from, size_t length)
{
#ifdef WEFT_HAVE_RW_VERIFY_AREA
	return rw_verify_area(READ, file, from, length);
#else
	return 0;
#endif
}

#endif /* WEFT_COMPAT_FILE_H */
