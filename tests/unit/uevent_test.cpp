// SPDX-License-Identifier: GPL-2.0-only
#include "uevent.hpp"

#include <gtest/gtest.h>

namespace
{

using weft::parse_uevent;
using namespace std::literals;

TEST(Uevent, HasItsValuesByName)
{
    const auto event =
        parse_uevent("change@/devices/virtual/nvme-fabrics/ctl/nvme0\0ACTION=change\0DEVNAME=nvme0\0"
                     "NVME_AEN=0x70f002\0EMPTY=\0TWO=a=b\0"sv);
    EXPECT_EQ(event.size(), 5U);
    EXPECT_EQ(event.at("DEVNAME"), "nvme0");
    EXPECT_EQ(event.at("NVME_AEN"), "0x70f002");
    EXPECT_EQ(event.at("EMPTY"), "");
    EXPECT_EQ(event.at("TWO"), "a=b");
}

TEST(Uevent, WithoutAnEndOrAValueIsTaken)
{
    EXPECT_TRUE(parse_uevent("").empty());
    EXPECT_TRUE(parse_uevent("\0\0"sv).empty());
    EXPECT_TRUE(parse_uevent("change@/devices").empty());
    EXPECT_EQ(parse_uevent("A=1\0A=2\0B=3"sv).at("B"), "3");
}

} // namespace
