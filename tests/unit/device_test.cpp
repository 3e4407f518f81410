// SPDX-License-Identifier: GPL-2.0-only
/// Disks and partitions, by a folder that looks as sysfs does.
#include "folder_test.hpp"

#include <device.hpp>
#include <identity.hpp>

#include <fstream>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace weft
{

namespace
{

namespace fs = std::filesystem;

class DeviceTest : public FolderTest
{
protected:
    DeviceTest() { fs::create_directories(numbers()); }

    [[nodiscard]] fs::path numbers() const { return folder_ / "dev/block"; }

    /// An attribute of a disk ("sda") or a partition ("sda/sda1").
    void write(const std::string& name, const std::string& attribute, const std::string& text) const
    {
        const auto file = folder_ / "devices" / name / attribute;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text << '\n';
    }

    dev_t add(const std::string& name, unsigned int minor) const
    {
        const auto number = "8:" + std::to_string(minor);
        write(name, "dev", number);
        if (name.find('/') != name.npos) {
            write(name, "partition", std::to_string(minor));
            write(name, "start", std::to_string(2048 * minor));
        }
        fs::create_directory_symlink(fs::path("../../devices") / name, numbers() / number);
        return makedev(8, minor);
    }
};

TEST_F(DeviceTest, ADiskOverlapsItsPartitions)
{
    const auto disk = add("sda", 0);
    const auto first = add("sda/sda1", 1);
    const auto second = add("sda/sda2", 2);
    const auto other = add("sdb", 16);
    EXPECT_EQ(whole_of(first, numbers()), disk);
    EXPECT_EQ(whole_of(disk, numbers()), std::nullopt);
    EXPECT_EQ(whole_of(makedev(8, 99), numbers()), std::nullopt);
    for (const auto part : {first, second}) {
        EXPECT_TRUE(overlaps(disk, part, numbers()));
        EXPECT_TRUE(overlaps(part, disk, numbers()));
        EXPECT_TRUE(overlaps(part, part, numbers()));
        EXPECT_FALSE(overlaps(part, other, numbers()));
    }
    EXPECT_FALSE(overlaps(first, second, numbers()));
    EXPECT_FALSE(overlaps(disk, other, numbers()));
    EXPECT_TRUE(overlaps(other, other, numbers()));
}

using texts = std::vector<std::string>;

TEST_F(DeviceTest, ADiskHasTheIdentifiersThatItsDriverTells)
{
    const auto disk = add("sda", 0);
    EXPECT_EQ(identities_of(disk, numbers()), texts());
    write("sda", "serial", "");
    EXPECT_EQ(identities_of(disk, numbers()), texts());
    write("sda", "device/wwid", "naa.5000c500a1b2c3d4");
    EXPECT_EQ(identities_of(disk, numbers()), texts{"device/wwid naa.5000c500a1b2c3d4"});
    // It was made of other disks: what counts is what it is now.
    write("sda", "dm/uuid", "LVM-1");
    EXPECT_EQ(identities_of(disk, numbers()), (texts{"dm/uuid LVM-1", "device/wwid naa.5000c500a1b2c3d4"}));
    EXPECT_EQ(identities_of(makedev(8, 99), numbers()), texts());
}

TEST_F(DeviceTest, APartitionIsKnownByItsPlaceOnTheDisk)
{
    const auto disk = add("sda", 0);
    const auto first = add("sda/sda1", 1);
    const auto second = add("sda/sda2", 2);
    EXPECT_EQ(identities_of(first, numbers()), texts());
    write("sda", "wwid", "eui.0025388b710116a1");
    EXPECT_EQ(identities_of(disk, numbers()), texts{"wwid eui.0025388b710116a1"});
    EXPECT_EQ(identities_of(first, numbers()), texts{"wwid eui.0025388b710116a1, sector 2048"});
    EXPECT_EQ(identities_of(second, numbers()), texts{"wwid eui.0025388b710116a1, sector 4096"});
}

TEST_F(DeviceTest, WhatTellsNothingIsNoIdentifier)
{
    const auto disk = add("sda", 0);
    write("sda", "md/uuid", "00000000-0000-0000-0000-000000000000");
    write("sda", "wwid", "uuid.550e8400-e29b-41d4-a716-446655440000");
    EXPECT_EQ(identities_of(disk, numbers()), texts{"wwid uuid.550e8400-e29b-41d4-a716-446655440000"});
    // A target that makes one up at each start.
    write("sda", "device/model", "Linux");
    EXPECT_EQ(identities_of(disk, numbers()), texts());
    // What is saved is text.
    write("sda", "serial", "A\xff\x01 9");
    EXPECT_EQ(identities_of(disk, numbers()), texts{"serial A?? 9"});
}

} // namespace

} // namespace weft
