// SPDX-License-Identifier: GPL-2.0-only
#include "identity.hpp"

#include <gtest/gtest.h>

namespace
{

TEST(LooksMadeUp, ARandomUuidOfATargetThatMakesThem)
{
    EXPECT_TRUE(weft::looks_made_up("uuid.550e8400-e29b-41d4-a716-446655440000", "Linux"));
    EXPECT_TRUE(weft::looks_made_up("uuid.550e8400-e29b-41d4-a716-446655440000", "SPDK bdev Controller"));
}

TEST(LooksMadeUp, NothingElse)
{
    // By its name (version 5), as 'weftctl export' makes it.
    EXPECT_FALSE(weft::looks_made_up("uuid.2ed6657d-e927-568b-95e1-2665a8aea6a2", "Linux"));
    EXPECT_FALSE(weft::looks_made_up("uuid.00000000-0000-0000-0000-0000000000d0", "Linux"));
    EXPECT_FALSE(weft::looks_made_up("uuid.550e8400-e29b-41d4-a716-446655440000", "A disk of a maker"));
    EXPECT_FALSE(weft::looks_made_up("eui.0025385b71b00d2c", "Linux"));
    EXPECT_FALSE(weft::looks_made_up("uuid.550e8400-e29b-41d4-2716-446655440000", "Linux"))
        << "of another variant";
    EXPECT_FALSE(weft::looks_made_up("uuid.", "Linux"));
    EXPECT_FALSE(weft::looks_made_up("", ""));
}

} // namespace
