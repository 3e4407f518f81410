/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * Memory of PCI devices.
 *
 * /dev/weft/bar-ADDRESS: a PCI device's memory as dma-bufs.
 *
 * This is for a device whose own driver does not export its memory. Bind it to
 * weft_p2p by driver_override. A process that can open the device file can
 * export ranges of the largest prefetchable BAR as dma-bufs. Ranges may
 * overlap: the users of the device have to agree on them.
 */
#ifndef _UAPI_LINUX_WEFT_P2P_H
#define _UAPI_LINUX_WEFT_P2P_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Size of the buffer for a sentence, with its final zero. */
#define WEFT_BAR_WHY_SIZE	512

/**
 * struct weft_bar_export - argument of WEFT_BAR_IOC_EXPORT
 * @start: in: in bytes, whole pages
 * @length: in: in bytes, whole pages
 * @fd: out: descriptor of the dma-buf. It can be mapped, and be written if the
 *	device file is open for writing
 * @pad: 0
 * @why: out: the reason of an error
 */
struct weft_bar_export {
	__u64	start;
	__u64	length;
	__s32	fd;
	__u32	pad;
	char	why[WEFT_BAR_WHY_SIZE];
};

/* Bytes of the BAR for dma-bufs: all except weft_p2p's pages_mib at its end. */
#define WEFT_BAR_IOC_SIZE	_IOR('w', 0x50, __u64)
#define WEFT_BAR_IOC_EXPORT	_IOWR('w', 0x51, struct weft_bar_export)

/*
 * /dev/weft-p2p, for root only: which devices can access other devices' memory.
 */

/* Size of a PCI address, such as "0000:03:00.0", with its final zero. */
#define WEFT_P2P_NAME_SIZE	32

/**
 * struct weft_p2p_route - argument of WEFT_P2P_IOC_ROUTE
 * @memory: in: PCI address of the device that has the memory
 * @device: in: PCI address of the device that would access it
 * @why: out: the reason if it cannot access it (EOPNOTSUPP), or if one of the
 *	devices does not exist (ENODEV)
 *
 * weft_p2p makes the same check when a device attaches to a dma-buf of a BAR. A
 * driver that exports its device's memory itself may decide otherwise.
 */
struct weft_p2p_route {
	char	memory[WEFT_P2P_NAME_SIZE];
	char	device[WEFT_P2P_NAME_SIZE];
	char	why[WEFT_BAR_WHY_SIZE];
};

#define WEFT_P2P_IOC_ROUTE	_IOWR('w', 0x52, struct weft_p2p_route)

#endif /* _UAPI_LINUX_WEFT_P2P_H */
