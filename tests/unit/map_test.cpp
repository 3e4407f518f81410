// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>
#include <random>
#include <tuple>
#include <vector>

extern "C" {
#include "kmod/weft/map.h"
#include "uapi/weft_format.h"
}

namespace
{

constexpr u64 data_offset = WEFT_DATA_OFFSET;

weft_map make_map(u32 members, u64 chunk, u64 rows)
{
    weft_map map{};
    EXPECT_EQ(weft_map_init(&map, members, chunk, data_offset, chunk * rows), 0);
    return map;
}

TEST(MapInit, TakesTheCorners)
{
    weft_map map{};
    EXPECT_EQ(weft_map_init(&map, 1, WEFT_CHUNK_MIN, data_offset, WEFT_CHUNK_MIN), 0);
    EXPECT_EQ(map.capacity, 8u);
    EXPECT_EQ(weft_map_init(&map, WEFT_MEMBERS_MAX, WEFT_CHUNK_MAX, data_offset, WEFT_CHUNK_MAX), 0);
    EXPECT_EQ(map.capacity, 256ull * 32768);
    EXPECT_EQ(map.member_shift, 8);
    EXPECT_EQ(weft_map_init(&map, 3, 65536, data_offset, 65536), 0);
    EXPECT_EQ(map.member_shift, -1);
}

TEST(MapInit, RefusesWhatCannotBe)
{
    weft_map map{};
    EXPECT_EQ(weft_map_init(&map, 0, 65536, data_offset, 65536), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 257, 65536, data_offset, 65536), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, 2048, data_offset, 65536), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, 32 << 20, data_offset, 32 << 20), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, 65536 * 3, data_offset, 65536 * 3), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, (1ull << 32) + 4096, data_offset, 1ull << 33), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, 65536, data_offset, 0), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, 65536, data_offset, 65536 + 512), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 4, 65536, data_offset + 1, 65536), -EINVAL);
    EXPECT_EQ(weft_map_init(&map, 256, 65536, data_offset, 1ull << 56), -EFBIG);
    EXPECT_EQ(weft_map_init(&map, 2, 65536, data_offset, 1ull << 63), -EFBIG);
    EXPECT_EQ(weft_map_init(&map, 1, 65536, ~511ull, 1ull << 62), -EFBIG);
}

TEST(MapIoOpt, IsAStripeWhereThatFits32Bits)
{
    auto map = make_map(4, 128 << 10, 8);
    EXPECT_EQ(weft_map_io_opt(&map), 512u << 10);
    map = make_map(255, 16 << 20, 2);
    EXPECT_EQ(weft_map_io_opt(&map), 255u * (16 << 20));
    map = make_map(256, 16 << 20, 2);
    EXPECT_EQ(weft_map_io_opt(&map), 16u << 20);
}

class MapShapes : public testing::TestWithParam<std::tuple<u32, u64, u64>>
{
protected:
    weft_map map() const
    {
        const auto [members, chunk, rows] = GetParam();
        return make_map(members, chunk, rows);
    }
    /// Sectors around everything where something could go wrong.
    static std::vector<u64> corners(const weft_map& map)
    {
        const u64 chunk = 1ull << map.chunk_shift;
        const u64 stripe = chunk * map.members;
        std::vector<u64> found;
        for (const u64 base :
             {u64{0}, chunk, stripe, stripe * 2, map.capacity / 2, map.capacity - stripe, map.capacity})
            for (const s64 off : {-9, -8, -1, 0, 1, 7, 8})
                if (base + off < map.capacity)
                    found.push_back(base + off);
        return found;
    }
    using s64 = std::int64_t;
};

TEST_P(MapShapes, IsInvertibleAndStaysInBounds)
{
    const auto m = map();
    std::mt19937_64 random(1);
    auto sectors = corners(m);
    for (int i = 0; i < 2000; i++)
        sectors.push_back(random() % m.capacity);
    for (const auto sector : sectors) {
        const auto place = weft_map_sector(&m, sector);
        ASSERT_LT(place.member, m.members);
        ASSERT_GE(place.sector, m.data_start);
        ASSERT_LT(place.sector, m.data_start + m.data_sectors);
        ASSERT_EQ(weft_map_volume_sector(&m, &place), sector);
    }
}

/// What a queue takes in one piece of a command at `start`: it ends a longer one at a physical block.
u32 taken_whole(u32 start, u32 max, u32 physical)
{
    const auto begin = start & (physical - 1);
    const auto aligned = (begin + max) & ~(physical - 1);
    return aligned > begin ? aligned - begin : max;
}

TEST(Map, WholeCommandsAreSplitNowhere)
{
    for (u32 physical : {1u, 8u, 16u, 32u})
        for (u32 max : {1u, 7u, 8u, 9u, 31u, 64u, 100u, 2048u})
            for (u32 start = 0; start < 3 * physical; start++)
                EXPECT_LE(weft_map_whole(max, 0, physical - 1), taken_whole(start, max, physical))
                    << max << " at " << start << " with " << physical;
    EXPECT_EQ(weft_map_whole(2048, 512, 0), 0u);
    EXPECT_EQ(weft_map_whole(2048, 0, 0), 2048u);
    EXPECT_EQ(weft_map_whole(2048, 0, 7), 2041u);
}

TEST_P(MapShapes, ContiguousSectorsAreOnOneMemberAndTheNextAreNot)
{
    const auto m = map();
    for (const auto sector : corners(m)) {
        const auto run = weft_map_contiguous(&m, sector);
        ASSERT_GT(run, 0u);
        ASSERT_LE(sector + run, m.capacity);
        const auto first = weft_map_sector(&m, sector);
        const auto last = weft_map_sector(&m, sector + run - 1);
        ASSERT_EQ(first.member, last.member);
        ASSERT_EQ(first.sector + run - 1, last.sector);
        if (sector + run < m.capacity) {
            const auto next = weft_map_sector(&m, sector + run);
            ASSERT_TRUE(next.member != first.member || next.sector != first.sector + run);
        }
    }
}

TEST_P(MapShapes, SplitsCoverAnIoOnceAndCrossNothing)
{
    const auto m = map();
    std::mt19937_64 random(2);
    for (int i = 0; i < 200; i++) {
        const u64 start = random() % m.capacity;
        const u64 end = std::min<u64>(m.capacity, start + 1 + random() % 8192);
        u64 covered = 0;
        for (u64 at = start; at < end;) {
            const u64 run = std::min<u64>(weft_map_contiguous(&m, at), end - at);
            ASSERT_EQ(weft_map_sector(&m, at).member, weft_map_sector(&m, at + run - 1).member);
            covered += run;
            at += run;
        }
        ASSERT_EQ(covered, end - start);
    }
}

// A range, member by member, against what its sectors say one by one.
TEST_P(MapShapes, MemberRangesAreTheSharesOfARange)
{
    const auto m = map();
    std::mt19937_64 random(3);
    const u64 chunk = 1ull << m.chunk_shift;
    for (int i = 0; i < 60; i++) {
        const u64 start = random() % m.capacity;
        const u64 most = std::min<u64>(m.capacity - start, 3 * chunk * m.members + 17);
        const u64 end = start + random() % (most + 1);
        std::vector<u64> first(m.members, ~0ull);
        std::vector<u64> count(m.members, 0);
        for (u64 at = start; at < end;) {
            const u64 run = std::min<u64>(chunk - (at & (chunk - 1)), end - at);
            const auto place = weft_map_sector(&m, at);
            // One run: what follows on a member follows what was before.
            if (count[place.member])
                ASSERT_EQ(place.sector, first[place.member] + count[place.member]);
            else
                first[place.member] = place.sector;
            count[place.member] += run;
            at += run;
        }
        u64 total = 0;
        for (u32 member = 0; member < m.members; member++) {
            sector_t at = 0;
            const auto sectors = weft_map_member_range(&m, start, end, member, &at);
            ASSERT_EQ(sectors, count[member]);
            if (sectors)
                ASSERT_EQ(at, first[member]);
            total += sectors;
        }
        ASSERT_EQ(total, end - start);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Corners, MapShapes,
    testing::Combine(testing::Values(1u, 2u, 3u, 4u, 7u, 8u, 255u, 256u),
                     testing::Values(u64{4096}, u64{65536}, u64{128} << 10, u64{16} << 20),
                     // One row; an odd few; members of 4 TiB and more, so that volumes pass 16 TiB and 1 PiB.
                     testing::Values(u64{1}, u64{5}, (u64{4} << 40) / (16 << 20) + 1, u64{1} << 30)));

TEST(MapLarge, FindsSectorsPast16TiB)
{
    const auto map = make_map(8, 128 << 10, u64{1} << 30); // 8 * 128 TiB
    const u64 sector = (u64{16} << 40 >> 9) * 37 + 5;
    const auto place = weft_map_sector(&map, sector);
    EXPECT_EQ(place.member, (sector >> 8) % 8);
    EXPECT_EQ(place.sector, (data_offset >> 9) + ((sector >> 8) / 8 << 8) + (sector & 255));
}

} // namespace
