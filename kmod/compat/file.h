/* SPDX-License-Identifier: GPL-2.0-only */
/* What is asked of a file before it is read. */
#ifndef WEFT_COMPAT_FILE_H
#define WEFT_COMPAT_FILE_H

#include <linux/fs.h>

/*
 * May who holds an open file read it now? Exported since 6.8; before, what was
 * asked when it was opened has to do. Drop when the floor passes that.
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
