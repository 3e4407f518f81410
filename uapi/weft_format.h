/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * On-media format of a weft volume.
 *
 * Every member of a volume has, in bytes from its start:
 *
 *	0			struct weft_superblock
 *	WEFT_OWNER_OFFSET	struct weft_owner (only on member 0)
 *	WEFT_CLAIM_OFFSET	struct weft_owner, as the owner wrote it when it
 *				claimed the volume (only on member 0)
 *	data_offset		the member's share of the data
 *	copy_offset		a copy of the superblock, in the last full 4 KiB
 *				of the member
 *
 * All integers are little-endian. Offsets and sizes are bytes.
 */
#ifndef _UAPI_WEFT_FORMAT_H
#define _UAPI_WEFT_FORMAT_H

#include <linux/types.h>

#define WEFT_SB_MAGIC		"weft\x1a\x53\x42\n"	/* 8 bytes, no NUL */
#define WEFT_SB_SIZE		4096
#define WEFT_SB_MAJOR		1
#define WEFT_SB_MINOR		0

#define WEFT_UUID_SIZE		16
#define WEFT_NAME_SIZE		32	/* field size, NUL padded */
#define WEFT_NAME_MAX		26	/* with "weft!" and NUL, 32 in a disk name */
#define WEFT_MEMBERS_MAX	256
#define WEFT_CHUNK_MIN		4096
#define WEFT_CHUNK_MAX		(16 << 20)
#define WEFT_CHUNK_DEFAULT	(128 << 10)
#define WEFT_DATA_OFFSET	0x100000

/*
 * Feature bits, in three sets. A kernel ignores an unknown bit in
 * feature_compat, assembles the volume only read-only with one in
 * feature_ro_compat, and refuses it with one in feature_incompat. No bit is
 * defined yet.
 */
#define WEFT_FEATURE_COMPAT_KNOWN	0ULL
#define WEFT_FEATURE_RO_COMPAT_KNOWN	0ULL
#define WEFT_FEATURE_INCOMPAT_KNOWN	0ULL

/**
 * struct weft_superblock - describes a member and its volume
 * @magic: WEFT_SB_MAGIC
 * @checksum: CRC32C (RFC 3720) of the 4096 bytes with this field zero
 * @version_major: readers refuse any other version than their own
 * @version_minor: informative
 * @feature_compat: see above
 * @feature_ro_compat: see above
 * @feature_incompat: see above
 * @volume_uuid: the same on all members (RFC 4122 byte order)
 * @volume_name: the same on all members; letters, digits, '-' and '_'
 * @member_uuid: different on each member
 * @member_index: place in the stripe, from 0
 * @member_count: members of the volume, 1 to WEFT_MEMBERS_MAX
 * @chunk_size: power of two, WEFT_CHUNK_MIN to WEFT_CHUNK_MAX
 * @block_size: logical block size of every member, 512 or 4096
 * @reserved0: zero
 * @data_offset: start of the data, a multiple of 4096
 * @data_size: size of the data on each member, a multiple of @chunk_size
 * @copy_offset: place of the copy of this block, a multiple of 4096
 * @generation: 1; a version that writes the superblocks anew will count
 * @created: seconds since 1970-01-01 UTC
 * @reserved: zero
 */
struct weft_superblock {
	__u8	magic[8];
	__le32	checksum;
	__le16	version_major;
	__le16	version_minor;
	__le64	feature_compat;
	__le64	feature_ro_compat;
	__le64	feature_incompat;
	__u8	volume_uuid[WEFT_UUID_SIZE];
	__u8	volume_name[WEFT_NAME_SIZE];
	__u8	member_uuid[WEFT_UUID_SIZE];
	__le16	member_index;
	__le16	member_count;
	__le32	chunk_size;
	__le32	block_size;
	__le32	reserved0;
	__le64	data_offset;
	__le64	data_size;
	__le64	copy_offset;
	__le64	generation;
	__le64	created;
	__u8	reserved[3936];
};

#define WEFT_OWNER_MAGIC	"weft\x1a\x4f\x57\n"	/* 8 bytes, no NUL */
#define WEFT_OWNER_OFFSET	4096
#define WEFT_CLAIM_OFFSET	8192
#define WEFT_OWNER_SIZE		512	/* one sector, which a device writes atomically */
#define WEFT_NQN_SIZE		224	/* NVMe base specification 2.0, 4.5: 223 and NUL */

/* Limits of the heartbeat interval, in milliseconds. */
#define WEFT_HEARTBEAT_MIN_MS	100
#define WEFT_HEARTBEAT_MAX_MS	60000
/*
 * An owner holds its writes after WEFT_LEASE_BEATS intervals without a
 * successful heartbeat. Another host considers the heartbeat stopped after it
 * has seen none for WEFT_LEASE_BEATS + WEFT_OBSERVE_MARGIN intervals. By then the
 * owner ends connections that have writes in flight, and the other host waits for
 * @outlast_ms of the record, too.
 */
#define WEFT_LEASE_BEATS	8
#define WEFT_OBSERVE_MARGIN	2
/* Three keep-alive timeouts of the longest that a host may set, an hour, and what its target adds. */
#define WEFT_OUTLAST_MAX_MS	(6 * 3600 * 1000)

enum weft_owner_state {
	WEFT_OWNER_FREE		= 0,	/* released, or never owned */
	WEFT_OWNER_HELD		= 1,
};

/**
 * struct weft_owner - which host has the volume assembled read-write
 * @magic: WEFT_OWNER_MAGIC
 * @checksum: CRC32C of the 512 bytes with this field zero
 * @state: enum weft_owner_state
 * @volume_uuid: UUID of the volume
 * @instance: random, new at each assembly
 * @generation: counts assemblies
 * @sequence: counts the writes of the record
 * @beat_time: the owner's clock at the heartbeat, seconds since 1970 UTC; for
 *	messages
 * @interval_ms: time between heartbeats, WEFT_HEARTBEAT_MIN_MS to _MAX_MS
 * @outlast_ms: for how long a target may still execute a write of this owner after
 *	their connection was lost, at most WEFT_OUTLAST_MAX_MS; 0 if no transport says it
 * @host_nqn: the owner's NVMe host NQN, NUL padded
 * @machine: the system UUID of the owner's SMBIOS; zero if it has none
 * @reserved: zero
 */
struct weft_owner {
	__u8	magic[8];
	__le32	checksum;
	__le32	state;
	__u8	volume_uuid[WEFT_UUID_SIZE];
	__u8	instance[WEFT_UUID_SIZE];
	__le64	generation;
	__le64	sequence;
	__le64	beat_time;
	__le32	interval_ms;
	__le32	outlast_ms;
	__u8	host_nqn[WEFT_NQN_SIZE];
	__u8	machine[WEFT_UUID_SIZE];
	__u8	reserved[192];
};

#endif /* _UAPI_WEFT_FORMAT_H */
