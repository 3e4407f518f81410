/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * Memory of PCI devices, for whoever may have it.
 *
 * /dev/weft/bar-ADDRESS: a PCI device's memory as dma-bufs.
 *
 * For a device without a driver of its own that exports its memory: it is bound
 * to weft_p2p by driver_override, and whoever may open the device file gets
 * ranges of its largest prefetchable BAR as dma-bufs. Nothing keeps two of them
 * from overlapping: whose range is whose is the business of who uses the device.
 */
#ifndef _UAPI_LINUX_WEFT_P2P_H
#define _UAPI_LINUX_WEFT_P2P_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Room for a sentence, with its final zero. */
#define WEFT_BAR_WHY_SIZE	512

/**
 * struct weft_bar_export - a range as a dma-buf
 * @start: in: in bytes, whole pages
 * @length: in: in bytes, whole pages
 * @fd: out: the dma-buf; it can be mapped, and written where the device file can
 * @pad: 0
 * @why: out: the sentence, where it is refused
 */
struct weft_bar_export {
	__u64	start;
	__u64	length;
	__s32	fd;
	__u32	pad;
	char	why[WEFT_BAR_WHY_SIZE];
};

/* Bytes of the BAR that dma-bufs can have: all but weft_p2p's pages_mib at its end. */
#define WEFT_BAR_IOC_SIZE	_IOR('w', 0x50, __u64)
#define WEFT_BAR_IOC_EXPORT	_IOWR('w', 0x51, struct weft_bar_export)

/*
 * /dev/weft-p2p, root's alone: which devices reach which others' memory.
 */

/* Room for a PCI device's address, "0000:03:00.0", with its final zero. */
#define WEFT_P2P_NAME_SIZE	32

/**
 * struct weft_p2p_route - may a device read and write another's memory?
 * @memory: in: PCI address of the one whose memory it is
 * @device: in: PCI address of the other
 * @why: out: the sentence, where it may not (EOPNOTSUPP), or one is not there (ENODEV)
 *
 * It is what weft_p2p asks before it gives out a BAR. The driver of another
 * device, that exports its memory itself, may know better or ask for more.
 */
struct weft_p2p_route {
	char	memory[WEFT_P2P_NAME_SIZE];
	char	device[WEFT_P2P_NAME_SIZE];
	char	why[WEFT_BAR_WHY_SIZE];
};

#define WEFT_P2P_IOC_ROUTE	_IOWR('w', 0x52, struct weft_p2p_route)

#endif /* _UAPI_LINUX_WEFT_P2P_H */
