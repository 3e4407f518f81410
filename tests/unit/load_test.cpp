// SPDX-License-Identifier: GPL-2.0-only
#include "load.hpp"

#include <gtest/gtest.h>

namespace
{

using namespace weft;

load_sample sample(bool qos, std::size_t members, int seconds)
{
    load_sample one;
    one.volume.name = "v";
    one.volume.members.resize(members);
    one.qos.on = qos;
    one.qos.members.resize(members);
    for (std::uint32_t i = 0; i < members; i++) {
        one.volume.members[i].index = one.qos.members[i].index = i;
        for (auto& status : one.qos.members[i].classes)
            status.latency.resize(32);
    }
    one.at += std::chrono::seconds(seconds);
    return one;
}

TEST(Load, CountsByClassPerSecond)
{
    const auto before = sample(true, 2, 10);
    auto after = sample(true, 2, 12);
    auto& feed = after.qos.members[1].classes[0];
    feed.ios = 200;
    feed.bytes = 200 << 12;
    feed.latency[8] = 200;
    after.qos.members[1].rate = 1 << 20;
    const auto load = load_between(before, after);
    ASSERT_EQ(load.rows.size(), 6U);
    EXPECT_FALSE(load.rows[0].member);
    EXPECT_EQ(load.rows[0].kind, "feed");
    EXPECT_EQ(load.rows[0].ios, 100);
    EXPECT_EQ(load.rows[0].bytes, 100 << 12);
    EXPECT_GT(load.rows[0].p50, 131);
    EXPECT_LT(load.rows[0].p99, 263);
    EXPECT_EQ(load.rows[1].ios, 0);
    EXPECT_EQ(load.rows[1].p99, 0);
    EXPECT_EQ(load.rows[2].ios, 0);
    EXPECT_EQ(load.rows[4].member, 1U);
    EXPECT_EQ(load.rows[4].ios, 100);
    EXPECT_EQ(load.rows[5].kind, "background");
    EXPECT_EQ(load.rows[5].rate, 1U << 20);
}

TEST(Load, WithoutQosIsByReadAndWrite)
{
    auto before = sample(false, 1, 0), after = sample(false, 1, 1);
    before.volume.members[0].reads = {10, 100, 1000};
    after.volume.members[0].reads = {30, 300, 41000};
    const auto load = load_between(before, after);
    ASSERT_EQ(load.rows.size(), 4U);
    EXPECT_EQ(load.rows[2].kind, "read");
    EXPECT_EQ(load.rows[2].ios, 20);
    EXPECT_EQ(load.rows[2].bytes, 200);
    EXPECT_EQ(load.rows[2].mean, 2);
    EXPECT_EQ(load.rows[3].ios, 0);
}

TEST(Load, OfANewAssemblyCountsFromZero)
{
    auto before = sample(false, 1, 0), after = sample(false, 1, 1);
    before.volume.members[0].writes = {1000, 1000, 1000};
    after.volume.members[0].writes = {5, 50, 500};
    EXPECT_EQ(load_between(before, after).rows[1].ios, 5);
}

TEST(Load, NamesTheSlowMember)
{
    auto before = sample(true, 4, 0), after = sample(true, 4, 1);
    for (auto& member : after.qos.members) {
        member.classes[0].ios = 100;
        member.classes[0].latency[member.index == 2 ? 12 : 8] = 100;
    }
    EXPECT_EQ(load_between(before, after).slow, std::vector<std::uint32_t>{2});
}

TEST(Outliers, AreFarAboveTheMedianOfTheOthers)
{
    EXPECT_TRUE(outliers({}).empty());
    EXPECT_TRUE(outliers({1}).empty());
    EXPECT_TRUE(outliers({0, 5}).empty());
    EXPECT_TRUE(outliers({1, 2, 3}).empty());
    EXPECT_EQ(outliers({1, 4}), std::vector<std::uint32_t>{1});
    EXPECT_EQ(outliers({1, 100, 1, 0, 100, 1}), (std::vector<std::uint32_t>{1, 4}));
}

} // namespace
