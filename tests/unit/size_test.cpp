// SPDX-License-Identifier: GPL-2.0-only
#include "size.hpp"

#include <gtest/gtest.h>

namespace
{

TEST(ParseSize, ReadsWhatPeopleWrite)
{
    EXPECT_EQ(weft::parse_size("4096").value(), 4096u);
    EXPECT_EQ(weft::parse_size("512B").value(), 512u);
    EXPECT_EQ(weft::parse_size("128K").value(), 128u << 10);
    EXPECT_EQ(weft::parse_size("128k").value(), 128u << 10);
    EXPECT_EQ(weft::parse_size("128KiB").value(), 128u << 10);
    EXPECT_EQ(weft::parse_size("1MiB").value(), 1u << 20);
    EXPECT_EQ(weft::parse_size("2Ti").value(), std::uint64_t{2} << 40);
    EXPECT_EQ(weft::parse_size("15E").value(), std::uint64_t{15} << 60);
}

TEST(ParseSize, RefusesTheRest)
{
    for (const auto* text : {"", "K", "-1", "+1", "1.5M", "128 K", "128KB", "1MB", "128Kib", "0x10", "1KK",
                             "99999999999999999999", "16E", "64Q"})
        EXPECT_FALSE(weft::parse_size(text).has_value()) << text;
}

TEST(FormatSize, IsExactWhereItCan)
{
    EXPECT_EQ(weft::format_size(0), "0 B");
    EXPECT_EQ(weft::format_size(512), "512 B");
    EXPECT_EQ(weft::format_size(128 << 10), "128 KiB");
    EXPECT_EQ(weft::format_size(std::uint64_t{3} << 39), "1.5 TiB");
}

TEST(Rates, AreSizesWithOrWithoutASecond)
{
    EXPECT_EQ(weft::parse_rate("2G/s").value(), 2ull << 30);
    EXPECT_EQ(weft::parse_rate("100M").value(), 100ull << 20);
    EXPECT_FALSE(weft::parse_rate("/s"));
    EXPECT_FALSE(weft::parse_rate("1G/min"));
}

TEST(Times, HaveAUnit)
{
    EXPECT_EQ(weft::parse_microseconds("500us").value(), 500u);
    EXPECT_EQ(weft::parse_microseconds("2ms").value(), 2000u);
    EXPECT_EQ(weft::parse_microseconds("1s").value(), 1000000u);
    for (const auto* wrong : {"", "us", "500", "5m", "-1us", "4295s", "99999999999999999999us"})
        EXPECT_FALSE(weft::parse_microseconds(wrong)) << wrong;
}

} // namespace
