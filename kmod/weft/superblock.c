// SPDX-License-Identifier: GPL-2.0-only
/*
 * Superblocks and owner records: encoding, decoding and checks.
 *
 * Data from a device is not trusted: the checksum and then every field are
 * checked before any of it is used.
 */
#include "superblock.h"

#include "map.h"

/**
 * weft_refuse() - store the sentence that explains an error
 * @why: gets the sentence, unless it already has one: the function that detects
 *	the error knows most about it
 * @err: negative errno
 * @fmt: printf format, one sentence without a full stop
 *
 * Return: @err.
 */
int weft_refuse(struct weft_why *why, int err, const char *fmt, ...)
{
	va_list args;

	if (!why->text[0]) {
		va_start(args, fmt);
		vsnprintf(why->text, sizeof(why->text), fmt, args);
		va_end(args);
	}
	return err;
}

static bool weft_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/**
 * weft_name_check() - is this a valid name for a volume?
 * @name: NUL terminated
 * @why: gets the reason
 *
 * The name becomes the name of a file in /dev/weft, and a part of NAME.mem, so
 * it must not contain slashes or dots.
 *
 * Return: 0, -EINVAL or -ENAMETOOLONG.
 */
int weft_name_check(const char *name, struct weft_why *why)
{
	size_t len = strlen(name);
	size_t i;

	if (!len)
		return weft_refuse(why, -EINVAL, "the volume's name is empty");
	if (len > WEFT_NAME_MAX)
		return weft_refuse(why, -ENAMETOOLONG,
				   "the volume's name has %zu characters, at most %d are possible",
				   len, WEFT_NAME_MAX);
	for (i = 0; i < len; i++)
		if (!weft_name_char(name[i]))
			return weft_refuse(why, -EINVAL,
					   "the volume's name has a character other than letters, digits, '-' and '_' at place %zu",
					   i + 1);
	if (name[0] == '-')
		return weft_refuse(why, -EINVAL,
				   "the volume's name starts with '-'");
	return 0;
}

/* CRC32C of a block, with zero in place of its checksum field. */
static u32 weft_block_checksum(const void *block, size_t size, size_t field)
{
	const u8 *bytes = block;
	const u8 zero[4] = { 0 };
	u32 crc;

	crc = crc32c(~0U, bytes, field);
	crc = crc32c(crc, zero, sizeof(zero));
	return ~crc32c(crc, bytes + field + sizeof(zero),
		       size - field - sizeof(zero));
}

/**
 * weft_sb_checksum() - compute the checksum of a superblock
 * @sb: the block
 *
 * Return: CRC32C in host byte order.
 */
u32 weft_sb_checksum(const struct weft_superblock *sb)
{
	return weft_block_checksum(sb, sizeof(*sb),
				   offsetof(struct weft_superblock, checksum));
}

/**
 * weft_sb_encode() - encode a superblock
 * @info: the values
 * @sb: all bytes are set, with the checksum
 */
void weft_sb_encode(const struct weft_sb_info *info, struct weft_superblock *sb)
{
	memset(sb, 0, sizeof(*sb));
	memcpy(sb->magic, WEFT_SB_MAGIC, sizeof(sb->magic));
	sb->version_major = cpu_to_le16(WEFT_SB_MAJOR);
	sb->version_minor = cpu_to_le16(WEFT_SB_MINOR);
	sb->feature_compat = cpu_to_le64(info->feature_compat);
	sb->feature_ro_compat = cpu_to_le64(info->feature_ro_compat);
	sb->feature_incompat = cpu_to_le64(info->feature_incompat);
	memcpy(sb->volume_uuid, info->volume_uuid, WEFT_UUID_SIZE);
	memcpy(sb->volume_name, info->name, strlen(info->name));
	memcpy(sb->member_uuid, info->member_uuid, WEFT_UUID_SIZE);
	sb->member_index = cpu_to_le16(info->member_index);
	sb->member_count = cpu_to_le16(info->member_count);
	sb->chunk_size = cpu_to_le32(info->chunk_size);
	sb->block_size = cpu_to_le32(info->block_size);
	sb->data_offset = cpu_to_le64(info->data_offset);
	sb->data_size = cpu_to_le64(info->data_size);
	sb->copy_offset = cpu_to_le64(info->copy_offset);
	sb->generation = cpu_to_le64(info->generation);
	sb->created = cpu_to_le64(info->created);
	sb->checksum = cpu_to_le32(weft_sb_checksum(sb));
}

/* Check the fields, after the checksum. */
static int weft_sb_check_fields(const struct weft_sb_info *info,
				struct weft_why *why)
{
	struct weft_map map;
	int ret;

	if (info->feature_incompat & ~WEFT_FEATURE_INCOMPAT_KNOWN)
		return weft_refuse(why, -EOPNOTSUPP,
				   "the volume uses features this version does not know (incompatible bits 0x%llx)",
				   (unsigned long long)(info->feature_incompat &
							~WEFT_FEATURE_INCOMPAT_KNOWN));
	ret = weft_name_check(info->name, why);
	if (ret)
		return ret;
	if (!info->member_count || info->member_count > WEFT_MEMBERS_MAX)
		return weft_refuse(why, -EINVAL,
				   "the superblock says %u members, 1 to %d are possible",
				   info->member_count, WEFT_MEMBERS_MAX);
	if (info->member_index >= info->member_count)
		return weft_refuse(why, -EINVAL,
				   "the superblock says member %u of %u",
				   info->member_index, info->member_count);
	if (info->block_size != 512 && info->block_size != 4096)
		return weft_refuse(why, -EINVAL,
				   "the superblock says blocks of %u bytes, 512 and 4096 are possible",
				   info->block_size);
	if (info->data_offset % WEFT_SB_SIZE ||
	    info->data_offset < WEFT_CLAIM_OFFSET + WEFT_SB_SIZE)
		return weft_refuse(why, -EINVAL,
				   "the superblock says data from byte %llu on, which is not possible",
				   (unsigned long long)info->data_offset);
	if (weft_map_init(&map, info->member_count, info->chunk_size,
			  info->data_offset, info->data_size))
		return weft_refuse(why, -EINVAL,
				   "the superblock says %llu bytes on each of %u members in chunks of %u bytes, which is not possible",
				   (unsigned long long)info->data_size,
				   info->member_count, info->chunk_size);
	if (info->copy_offset % WEFT_SB_SIZE || info->copy_offset >> 63 ||
	    info->copy_offset < info->data_offset + info->data_size)
		return weft_refuse(why, -EINVAL,
				   "the superblock says that its copy is at byte %llu, which is within the data",
				   (unsigned long long)info->copy_offset);
	return 0;
}

/**
 * weft_sb_decode() - decode and check a superblock
 * @sb: 4096 bytes from a device
 * @info: filled on success
 * @why: gets the reason otherwise
 *
 * Return: 0; -ENODATA if there is no weft superblock; -EBADMSG for a wrong
 * checksum; -EOPNOTSUPP for an unknown version or feature; -EINVAL or
 * -ENAMETOOLONG for an invalid field.
 */
int weft_sb_decode(const struct weft_superblock *sb, struct weft_sb_info *info,
		   struct weft_why *why)
{
	unsigned int major = le16_to_cpu(sb->version_major);

	if (memcmp(sb->magic, WEFT_SB_MAGIC, sizeof(sb->magic)))
		return weft_refuse(why, -ENODATA, "no weft superblock");
	if (le32_to_cpu(sb->checksum) != weft_sb_checksum(sb))
		return weft_refuse(why, -EBADMSG,
				   "the superblock's checksum is wrong");
	if (major != WEFT_SB_MAJOR)
		return weft_refuse(why, -EOPNOTSUPP,
				   "the superblock has format version %u; this weft supports version %u",
				   major, WEFT_SB_MAJOR);
	if (sb->volume_name[WEFT_NAME_SIZE - 1])
		return weft_refuse(why, -EINVAL,
				   "the volume's name in the superblock has no end");

	memset(info, 0, sizeof(*info));
	memcpy(info->volume_uuid, sb->volume_uuid, WEFT_UUID_SIZE);
	memcpy(info->member_uuid, sb->member_uuid, WEFT_UUID_SIZE);
	/* Ignore the bytes after the name's end. */
	memcpy(info->name, sb->volume_name,
	       strlen((const char *)sb->volume_name));
	info->member_index = le16_to_cpu(sb->member_index);
	info->member_count = le16_to_cpu(sb->member_count);
	info->chunk_size = le32_to_cpu(sb->chunk_size);
	info->block_size = le32_to_cpu(sb->block_size);
	info->feature_compat = le64_to_cpu(sb->feature_compat);
	info->feature_ro_compat = le64_to_cpu(sb->feature_ro_compat);
	info->feature_incompat = le64_to_cpu(sb->feature_incompat);
	info->data_offset = le64_to_cpu(sb->data_offset);
	info->data_size = le64_to_cpu(sb->data_size);
	info->copy_offset = le64_to_cpu(sb->copy_offset);
	info->generation = le64_to_cpu(sb->generation);
	info->created = le64_to_cpu(sb->created);
	return weft_sb_check_fields(info, why);
}

/**
 * weft_sb_is_copy() - does a copy of a superblock belong to the place it is at?
 * @info: checked by weft_sb_decode()
 * @offset: where it was found, in bytes from the device's start
 * @why: gets the reason
 *
 * If the last partition ends where the device ends, the partition's copy is at
 * the end of the whole device.
 *
 * Return: 0; -ENODATA if it belongs to another device.
 */
int weft_sb_is_copy(const struct weft_sb_info *info, u64 offset, struct weft_why *why)
{
	if (info->copy_offset != offset)
		return weft_refuse(why, -ENODATA,
				   "the copy of a superblock at byte %llu belongs at byte %llu, so it is of another device",
				   (unsigned long long)offset,
				   (unsigned long long)info->copy_offset);
	return 0;
}

/**
 * weft_sb_fits() - does a superblock fit the device it was read from?
 * @info: checked by weft_sb_decode()
 * @device_size: in bytes
 * @device_block_size: the device's logical block size, in bytes
 * @why: gets the reason
 *
 * Return: 0; -ENOSPC if the device is too small; -EINVAL if its block size
 * differs.
 */
int weft_sb_fits(const struct weft_sb_info *info, u64 device_size,
		 u32 device_block_size, struct weft_why *why)
{
	if (device_block_size != info->block_size)
		return weft_refuse(why, -EINVAL,
				   "it has blocks of %u bytes, the volume was made with %u",
				   device_block_size, info->block_size);
	if (info->copy_offset > device_size ||
	    device_size - info->copy_offset < WEFT_SB_SIZE)
		return weft_refuse(why, -ENOSPC,
				   "it is too small: %llu bytes where the superblock says at least %llu",
				   (unsigned long long)device_size,
				   (unsigned long long)info->copy_offset +
				   WEFT_SB_SIZE);
	return 0;
}

/**
 * weft_sb_same_volume() - do two members belong together?
 * @a: the first member's superblock
 * @b: another member's superblock
 * @why: gets the reason
 *
 * Return: 0; -EXDEV for another volume; -ESTALE for another generation; -EINVAL
 * if their other fields about the volume differ.
 */
int weft_sb_same_volume(const struct weft_sb_info *a,
			const struct weft_sb_info *b, struct weft_why *why)
{
	if (memcmp(a->volume_uuid, b->volume_uuid, WEFT_UUID_SIZE))
		return weft_refuse(why, -EXDEV,
				   "it belongs to another volume (%s)", b->name);
	if (a->generation != b->generation)
		return weft_refuse(why, -ESTALE,
				   "its superblock is of generation %llu, the volume's of %llu",
				   (unsigned long long)b->generation,
				   (unsigned long long)a->generation);
	if (strcmp(a->name, b->name))
		return weft_refuse(why, -EINVAL,
				   "it calls the volume %s, others call it %s",
				   b->name, a->name);
	if (a->member_count != b->member_count ||
	    a->chunk_size != b->chunk_size || a->block_size != b->block_size ||
	    a->data_offset != b->data_offset || a->data_size != b->data_size ||
	    a->feature_ro_compat != b->feature_ro_compat ||
	    a->feature_incompat != b->feature_incompat ||
	    a->feature_compat != b->feature_compat)
		return weft_refuse(why, -EINVAL,
				   "its superblock disagrees with the others on the volume's geometry");
	return 0;
}

/**
 * weft_sb_copy_offset() - the place of the superblock's copy
 * @device_size: in bytes
 *
 * Return: start of the last full 4 KiB in bytes; 0 if the device is smaller.
 */
u64 weft_sb_copy_offset(u64 device_size)
{
	u64 blocks = device_size / WEFT_SB_SIZE;

	return blocks ? (blocks - 1) * WEFT_SB_SIZE : 0;
}

/**
 * weft_sb_data_size() - the data size of each member of a new volume
 * @smallest_device: size of the smallest member, in bytes
 * @chunk_size: in bytes, a power of two
 *
 * Return: whole chunks, in bytes; 0 if no chunk fits.
 */
u64 weft_sb_data_size(u64 smallest_device, u32 chunk_size)
{
	u64 copy = weft_sb_copy_offset(smallest_device);

	if (copy <= WEFT_DATA_OFFSET)
		return 0;
	return (copy - WEFT_DATA_OFFSET) & ~((u64)chunk_size - 1);
}

static u32 weft_owner_checksum(const struct weft_owner *rec)
{
	return weft_block_checksum(rec, sizeof(*rec),
				   offsetof(struct weft_owner, checksum));
}

/**
 * weft_owner_encode() - encode an owner record
 * @info: the values
 * @rec: all bytes are set, with the checksum
 */
void weft_owner_encode(const struct weft_owner_info *info,
		       struct weft_owner *rec)
{
	memset(rec, 0, sizeof(*rec));
	memcpy(rec->magic, WEFT_OWNER_MAGIC, sizeof(rec->magic));
	rec->state = cpu_to_le32(info->state);
	memcpy(rec->volume_uuid, info->volume_uuid, WEFT_UUID_SIZE);
	memcpy(rec->instance, info->instance, WEFT_UUID_SIZE);
	rec->generation = cpu_to_le64(info->generation);
	rec->sequence = cpu_to_le64(info->sequence);
	rec->beat_time = cpu_to_le64(info->beat_time);
	rec->interval_ms = cpu_to_le32(info->interval_ms);
	rec->outlast_ms = cpu_to_le32(info->outlast_ms);
	memcpy(rec->host_nqn, info->host_nqn, strlen(info->host_nqn));
	memcpy(rec->machine, info->machine, WEFT_UUID_SIZE);
	rec->checksum = cpu_to_le32(weft_owner_checksum(rec));
}

/**
 * weft_nqn_is_text() - may a host's NQN be part of a sentence?
 * @nqn: WEFT_NQN_SIZE bytes
 *
 * UTF-8 has commands of a terminal below 0x20, from 0x7f to 0x9f, and as single bytes.
 *
 * Return: false if it has one, or no end.
 */
bool weft_nqn_is_text(const u8 *nqn)
{
	size_t i;

	for (i = 0; i < WEFT_NQN_SIZE && nqn[i]; i++)
		if (nqn[i] < 0x20 || nqn[i] == 0x7f || (nqn[i] == 0xc2 && nqn[i + 1] < 0xa0))
			return false;
	return i < WEFT_NQN_SIZE;
}

/**
 * weft_owner_decode() - decode and check an owner record
 * @rec: 512 bytes from a device
 * @info: filled on success
 * @why: gets the reason otherwise
 *
 * Return: 0; -ENODATA if all bytes are zero (no record was written yet);
 * -EBADMSG for anything else that is not a valid record.
 */
int weft_owner_decode(const struct weft_owner *rec,
		      struct weft_owner_info *info, struct weft_why *why)
{
	const u8 *bytes = (const u8 *)rec;
	size_t i;

	for (i = 0; i < sizeof(*rec) && !bytes[i]; i++)
		;
	if (i == sizeof(*rec))
		return weft_refuse(why, -ENODATA, "no owner record");
	if (memcmp(rec->magic, WEFT_OWNER_MAGIC, sizeof(rec->magic)) ||
	    le32_to_cpu(rec->checksum) != weft_owner_checksum(rec) ||
	    !weft_nqn_is_text(rec->host_nqn))
		return weft_refuse(why, -EBADMSG,
				   "the owner record is damaged");

	memset(info, 0, sizeof(*info));
	memcpy(info->volume_uuid, rec->volume_uuid, WEFT_UUID_SIZE);
	memcpy(info->instance, rec->instance, WEFT_UUID_SIZE);
	info->state = le32_to_cpu(rec->state);
	info->generation = le64_to_cpu(rec->generation);
	info->sequence = le64_to_cpu(rec->sequence);
	info->beat_time = le64_to_cpu(rec->beat_time);
	info->interval_ms = le32_to_cpu(rec->interval_ms);
	info->outlast_ms = le32_to_cpu(rec->outlast_ms);
	memcpy(info->host_nqn, rec->host_nqn, WEFT_NQN_SIZE);
	memcpy(info->machine, rec->machine, WEFT_UUID_SIZE);
	if (info->state > WEFT_OWNER_HELD ||
	    info->interval_ms < WEFT_HEARTBEAT_MIN_MS ||
	    info->interval_ms > WEFT_HEARTBEAT_MAX_MS ||
	    info->outlast_ms > WEFT_OUTLAST_MAX_MS)
		return weft_refuse(why, -EBADMSG,
				   "the owner record has impossible values");
	return 0;
}
