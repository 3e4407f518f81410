// SPDX-License-Identifier: GPL-2.0-only
/* The stripe map with the kernel's arithmetic. */
#include <kunit/test.h>

#include "../../uapi/weft_format.h"
#include "../weft/map.h"

struct map_shape {
	u32 members;
	u64 chunk;
	u64 rows;
};

static const struct map_shape map_shapes[] = {
	{ 1, WEFT_CHUNK_MIN, 1 },
	{ 2, WEFT_CHUNK_DEFAULT, 9 },
	{ 3, 65536, 1000 },
	{ 7, 4096, 1ULL << 34 },	/* past 16 TiB */
	{ 255, 1 << 20, 1 << 24 },	/* 4 PiB */
	{ 256, WEFT_CHUNK_MAX, 5 },
};

static void map_shape_desc(const struct map_shape *shape, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u members of %llu x %llu",
		 shape->members, shape->rows, shape->chunk);
}

KUNIT_ARRAY_PARAM(map_shape, map_shapes, map_shape_desc);

static void map_is_invertible(struct kunit *test)
{
	const struct map_shape *shape = test->param_value;
	struct weft_map map;
	sector_t step, sector;

	KUNIT_ASSERT_EQ(test, 0,
			weft_map_init(&map, shape->members, shape->chunk,
				      WEFT_DATA_OFFSET, shape->chunk * shape->rows));
	step = max_t(sector_t, 1, div_u64(map.capacity, 4099));
	for (sector = 0; sector < map.capacity; sector += step) {
		struct weft_place place = weft_map_sector(&map, sector);

		KUNIT_ASSERT_LT(test, place.member, map.members);
		KUNIT_ASSERT_GE(test, place.sector, map.data_start);
		KUNIT_ASSERT_LT(test, place.sector,
				map.data_start + map.data_sectors);
		KUNIT_ASSERT_EQ(test, weft_map_volume_sector(&map, &place), sector);
	}
}

static void map_shares_sum_up(struct kunit *test)
{
	const struct map_shape *shape = test->param_value;
	sector_t start, end, sum = 0, at;
	struct weft_map map;
	u32 i;

	KUNIT_ASSERT_EQ(test, 0,
			weft_map_init(&map, shape->members, shape->chunk,
				      WEFT_DATA_OFFSET, shape->chunk * shape->rows));
	start = map.capacity / 3;
	end = map.capacity - map.capacity / 5;
	for (i = 0; i < map.members; i++) {
		sum += weft_map_member_range(&map, start, end, i, &at);
		KUNIT_EXPECT_GE(test, at, map.data_start);
	}
	KUNIT_EXPECT_EQ(test, sum, end - start);
}

static void map_refuses(struct kunit *test)
{
	struct weft_map map;

	KUNIT_EXPECT_EQ(test, -EINVAL, weft_map_init(&map, 0, 65536, 1 << 20, 65536));
	KUNIT_EXPECT_EQ(test, -EINVAL, weft_map_init(&map, 257, 65536, 1 << 20, 65536));
	KUNIT_EXPECT_EQ(test, -EINVAL, weft_map_init(&map, 2, 65537, 1 << 20, 65536));
	KUNIT_EXPECT_EQ(test, -EFBIG, weft_map_init(&map, 256, 65536, 1 << 20, 1ULL << 60));
}

static struct kunit_case map_cases[] = {
	KUNIT_CASE_PARAM(map_is_invertible, map_shape_gen_params),
	KUNIT_CASE_PARAM(map_shares_sum_up, map_shape_gen_params),
	KUNIT_CASE(map_refuses),
	{}
};

static struct kunit_suite map_suite = {
	.name		= "weft-map",
	.test_cases	= map_cases,
};

kunit_test_suite(map_suite);
