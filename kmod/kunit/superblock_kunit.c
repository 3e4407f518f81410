// SPDX-License-Identifier: GPL-2.0-only
/* Superblocks with the kernel's crc32c, byte order helpers and printf. */
#include <kunit/test.h>

#include "../weft/superblock.h"

static void superblock_sample(struct weft_sb_info *info)
{
	memset(info, 0, sizeof(*info));
	memset(info->volume_uuid, 0x11, sizeof(info->volume_uuid));
	memset(info->member_uuid, 0x22, sizeof(info->member_uuid));
	strscpy(info->name, "kunit", sizeof(info->name));
	info->member_index = 255;
	info->member_count = 256;
	info->chunk_size = WEFT_CHUNK_DEFAULT;
	info->block_size = 4096;
	info->data_offset = WEFT_DATA_OFFSET;
	info->data_size = (u64)WEFT_CHUNK_DEFAULT << 20;
	info->copy_offset = info->data_offset + info->data_size;
	info->generation = 1;
}

static void superblock_reads_back(struct kunit *test)
{
	struct weft_superblock *sb = kunit_kzalloc(test, sizeof(*sb), GFP_KERNEL);
	struct weft_sb_info *info = kunit_kzalloc(test, 2 * sizeof(*info), GFP_KERNEL);
	struct weft_why *why = kunit_kzalloc(test, sizeof(*why), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sb);
	KUNIT_ASSERT_NOT_NULL(test, info);
	KUNIT_ASSERT_NOT_NULL(test, why);
	superblock_sample(&info[0]);
	weft_sb_encode(&info[0], sb);
	KUNIT_EXPECT_EQ(test, 0, weft_sb_decode(sb, &info[1], why));
	KUNIT_EXPECT_MEMEQ(test, &info[0], &info[1], sizeof(*info));

	sb->checksum = cpu_to_le32(le32_to_cpu(sb->checksum) ^ 1);
	KUNIT_EXPECT_EQ(test, -EBADMSG, weft_sb_decode(sb, &info[1], why));
	KUNIT_EXPECT_STREQ(test, why->text, "the superblock's checksum is wrong");
}

static void superblock_crc_is_crc32c(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ~crc32c(~0U, "123456789", 9), 0xe3069283U);
}

static struct kunit_case superblock_cases[] = {
	KUNIT_CASE(superblock_reads_back),
	KUNIT_CASE(superblock_crc_is_crc32c),
	{}
};

static struct kunit_suite superblock_suite = {
	.name		= "weft-superblock",
	.test_cases	= superblock_cases,
};

kunit_test_suite(superblock_suite);
