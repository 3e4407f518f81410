/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	uapi/weft.yaml */
/* YNL-GEN uapi header */
/* To regenerate run: uapi/generate */

#ifndef _UAPI_LINUX_WEFT_H
#define _UAPI_LINUX_WEFT_H

#define WEFT_FAMILY_NAME	"weft"
#define WEFT_FAMILY_VERSION	1

#define WEFT_UUID_LEN	16

/**
 * enum weft_volume_state - State of a volume.
 * @WEFT_VOLUME_STATE_ASSEMBLING: members are being read, or the owner record
 *   is being claimed
 * @WEFT_VOLUME_STATE_LIVE: serves I/O
 * @WEFT_VOLUME_STATE_FAILED: a member is gone; I/O to it fails
 * @WEFT_VOLUME_STATE_STOPPING: no new opener; going away
 */
enum weft_volume_state {
	WEFT_VOLUME_STATE_ASSEMBLING,
	WEFT_VOLUME_STATE_LIVE,
	WEFT_VOLUME_STATE_FAILED,
	WEFT_VOLUME_STATE_STOPPING,
};

/**
 * enum weft_ownership - What this host knows of its own claim on a volume.
 * @WEFT_OWNERSHIP_NONE: assembled read-only, nothing claimed
 * @WEFT_OWNERSHIP_HELD: the heart beats
 * @WEFT_OWNERSHIP_SUSPENDED: no beat got through in time; writes wait
 * @WEFT_OWNERSHIP_FAILED: beats fail; writes fail until one gets through
 * @WEFT_OWNERSHIP_LOST: another host took the volume; writes fail for good
 */
enum weft_ownership {
	WEFT_OWNERSHIP_NONE,
	WEFT_OWNERSHIP_HELD,
	WEFT_OWNERSHIP_SUSPENDED,
	WEFT_OWNERSHIP_FAILED,
	WEFT_OWNERSHIP_LOST,
};

/**
 * enum weft_member_state - State of a member.
 * @WEFT_MEMBER_STATE_GONE: its block device was removed
 */
enum weft_member_state {
	WEFT_MEMBER_STATE_OK,
	WEFT_MEMBER_STATE_GONE,
};

/**
 * enum weft_event_type - What happened.
 * @WEFT_EVENT_TYPE_MEMBER_ERROR: a member failed an I/O; at most one a second
 *   for each member
 * @WEFT_EVENT_TYPE_MEMBER_GONE: a member's block device was removed
 * @WEFT_EVENT_TYPE_OWNERSHIP: the claim changed, see the attribute ownership
 */
enum weft_event_type {
	WEFT_EVENT_TYPE_ASSEMBLED,
	WEFT_EVENT_TYPE_STOPPED,
	WEFT_EVENT_TYPE_MEMBER_ERROR,
	WEFT_EVENT_TYPE_MEMBER_GONE,
	WEFT_EVENT_TYPE_OWNERSHIP,
};

enum {
	WEFT_A_MEMBER_INDEX = 1,
	WEFT_A_MEMBER_UUID,
	WEFT_A_MEMBER_TRANSPORT,
	WEFT_A_MEMBER_ADDRESS,
	WEFT_A_MEMBER_DISK,
	WEFT_A_MEMBER_MAJOR,
	WEFT_A_MEMBER_MINOR,
	WEFT_A_MEMBER_STATE,
	WEFT_A_MEMBER_SIZE,
	WEFT_A_MEMBER_PAD,

	__WEFT_A_MEMBER_MAX,
	WEFT_A_MEMBER_MAX = (__WEFT_A_MEMBER_MAX - 1)
};

enum {
	WEFT_A_VOLUME_NAME = 1,
	WEFT_A_VOLUME_UUID,
	WEFT_A_VOLUME_MEMBER,
	WEFT_A_VOLUME_STATE,
	WEFT_A_VOLUME_OWNERSHIP,
	WEFT_A_VOLUME_READ_ONLY,
	WEFT_A_VOLUME_TAKE_OVER,
	WEFT_A_VOLUME_HOST_NQN,
	WEFT_A_VOLUME_NO_IOSTATS,
	WEFT_A_VOLUME_SIZE,
	WEFT_A_VOLUME_CHUNK_SIZE,
	WEFT_A_VOLUME_BLOCK_SIZE,
	WEFT_A_VOLUME_MEMBER_COUNT,
	WEFT_A_VOLUME_GENERATION,
	WEFT_A_VOLUME_CREATED,
	WEFT_A_VOLUME_OPENERS,
	WEFT_A_VOLUME_MAJOR,
	WEFT_A_VOLUME_MINOR,
	WEFT_A_VOLUME_PAD,

	__WEFT_A_VOLUME_MAX,
	WEFT_A_VOLUME_MAX = (__WEFT_A_VOLUME_MAX - 1)
};

enum {
	WEFT_A_NOTICE_TYPE = 1,
	WEFT_A_NOTICE_VOLUME,
	WEFT_A_NOTICE_MEMBER,
	WEFT_A_NOTICE_TEXT,
	WEFT_A_NOTICE_ERRNO,
	WEFT_A_NOTICE_OWNERSHIP,

	__WEFT_A_NOTICE_MAX,
	WEFT_A_NOTICE_MAX = (__WEFT_A_NOTICE_MAX - 1)
};

enum {
	WEFT_CMD_VOLUME_GET = 1,
	WEFT_CMD_VOLUME_ASSEMBLE,
	WEFT_CMD_VOLUME_STOP,
	WEFT_CMD_REFUSED,
	WEFT_CMD_EVENT,

	__WEFT_CMD_MAX,
	WEFT_CMD_MAX = (__WEFT_CMD_MAX - 1)
};

#define WEFT_MCGRP_EVENTS	"events"

#endif /* _UAPI_LINUX_WEFT_H */
