// SPDX-License-Identifier: GPL-2.0-only
/// Tests that have a folder of their own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

namespace weft
{

class FolderTest : public testing::Test
{
protected:
    FolderTest()
    {
        char name[] = "/tmp/weft-unit-XXXXXX";
        folder_ = ::mkdtemp(name);
    }
    ~FolderTest() override { std::filesystem::remove_all(folder_); }

    std::filesystem::path folder_;
};

} // namespace weft
