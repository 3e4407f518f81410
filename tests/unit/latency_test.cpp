// SPDX-License-Identifier: GPL-2.0-only
#include "latency.hpp"

#include <gtest/gtest.h>

namespace
{

using weft::latency_at;

TEST(Latency, WithoutCommandsIsNothing)
{
    EXPECT_EQ(latency_at({}, 0.99), 0);
    EXPECT_EQ(latency_at({0, 0}, 0.99), 0);
}

TEST(Latency, IsWithinItsBucket)
{
    // All in bucket 8: 131 to 262 us.
    const std::vector<std::uint64_t> one{0, 0, 0, 0, 0, 0, 0, 0, 100};
    EXPECT_NEAR(latency_at(one, 0.5), 196.6, 0.1);
    EXPECT_NEAR(latency_at(one, 1), 262.1, 0.1);
}

TEST(Latency, CountsFromTheFastest)
{
    const std::vector<std::uint64_t> two{0, 99, 0, 1}; // 1.0 to 2.0 us, and 4.1 to 8.2 us
    EXPECT_LE(latency_at(two, 0.98), 2.05);
    EXPECT_GT(latency_at(two, 0.995), 4);
}

} // namespace
