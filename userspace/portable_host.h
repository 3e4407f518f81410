/* SPDX-License-Identifier: GPL-2.0-only */
/* The host's part of kmod/weft/portable.h: maps the kernel names that the pure files use to a C library. */
#ifndef WEFT_PORTABLE_HOST_H
#define WEFT_PORTABLE_HOST_H

#include <endian.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <linux/types.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef uint64_t sector_t;

#define SECTOR_SHIFT		9
#define SECTOR_SIZE		(1 << SECTOR_SHIFT)
#ifndef __printf
#define __printf(a, b)		__attribute__((format(printf, a, b)))
#endif

#define le16_to_cpu		le16toh
#define le32_to_cpu		le32toh
#define le64_to_cpu		le64toh
#define cpu_to_le16		htole16
#define cpu_to_le32		htole32
#define cpu_to_le64		htole64
#define scnprintf		snprintf
#ifndef __cplusplus
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define clamp(value, low, high)	min(max(value, low), high)
#endif
#define U64_MAX			UINT64_MAX
#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, value)	((x) = (value))
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)
#define check_add_overflow(a, b, d)	__builtin_add_overflow(a, b, d)

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

static inline int ilog2(u64 n)
{
	return 63 - __builtin_clzll(n);
}

static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u32 crc32c(u32 crc, const void *p, size_t len)
{
	/* ISA-L's parameter is not const, but it does not write to the buffer. */
	return crc32_iscsi((unsigned char *)p, (int)len, crc);
}

#endif /* WEFT_PORTABLE_HOST_H */
