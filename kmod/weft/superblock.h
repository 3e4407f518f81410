/* SPDX-License-Identifier: GPL-2.0-only */
/* Superblocks and owner records: read, check, write. Pure, see portable.h. */
#ifndef WEFT_SUPERBLOCK_H
#define WEFT_SUPERBLOCK_H

#include "portable.h"
#include "../include/weft_why.h"

#include "../../uapi/weft_format.h"

/*
 * A superblock in host byte order; the fields are those of
 * struct weft_superblock.
 */
struct weft_sb_info {
	u8	volume_uuid[WEFT_UUID_SIZE];
	u8	member_uuid[WEFT_UUID_SIZE];
	char	name[WEFT_NAME_SIZE];
	u32	member_index;
	u32	member_count;
	u32	chunk_size;
	u32	block_size;
	u64	feature_compat;
	u64	feature_ro_compat;
	u64	feature_incompat;
	u64	data_offset;
	u64	data_size;
	u64	copy_offset;
	u64	generation;
	u64	created;
};

/*
 * An owner record in host byte order; the fields are those of
 * struct weft_owner.
 */
struct weft_owner_info {
	u8	volume_uuid[WEFT_UUID_SIZE];
	u8	instance[WEFT_UUID_SIZE];
	u32	state;
	u32	interval_ms;
	u32	outlast_ms;
	u64	generation;
	u64	sequence;
	u64	beat_time;
	char	host_nqn[WEFT_NQN_SIZE];
	u8	machine[WEFT_UUID_SIZE];
};

int weft_name_check(const char *name, struct weft_why *why);

u32 weft_sb_checksum(const struct weft_superblock *sb);
void weft_sb_encode(const struct weft_sb_info *info, struct weft_superblock *sb);
int weft_sb_decode(const struct weft_superblock *sb, struct weft_sb_info *info,
		   struct weft_why *why);
int weft_sb_is_copy(const struct weft_sb_info *info, u64 offset, struct weft_why *why);
int weft_sb_fits(const struct weft_sb_info *info, u64 device_size,
		 u32 device_block_size, struct weft_why *why);
int weft_sb_same_volume(const struct weft_sb_info *a,
			const struct weft_sb_info *b, struct weft_why *why);
u64 weft_sb_copy_offset(u64 device_size);
u64 weft_sb_data_size(u64 smallest_device, u32 chunk_size);

void weft_owner_encode(const struct weft_owner_info *info,
		       struct weft_owner *rec);
bool weft_nqn_is_text(const u8 *nqn);
int weft_owner_decode(const struct weft_owner *rec,
		      struct weft_owner_info *info, struct weft_why *why);

#endif /* WEFT_SUPERBLOCK_H */
