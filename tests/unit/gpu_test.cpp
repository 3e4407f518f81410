// SPDX-License-Identifier: GPL-2.0-only
/// With the stand-in for NVML.
#include "gpu.hpp"

#include <gtest/gtest.h>

namespace
{

TEST(Gpus, OneThatIsLostIsLeftOut)
{
    static_cast<void>(weft::gpus()); // before its driver is loaded
    const auto all = weft::gpus();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].index, 0U);
    EXPECT_EQ(all[0].uuid, "GPU-0");
    EXPECT_EQ(all[0].model, "stand-in");
    EXPECT_EQ(all[0].utilization, 0.37);
    EXPECT_EQ(all[1].index, 2U);
    EXPECT_EQ(all[1].model, "stand-in, MIG");
    EXPECT_FALSE(all[1].utilization) << "a GPU that MIG divides has no utilization";
}

} // namespace
