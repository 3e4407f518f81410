// SPDX-License-Identifier: GPL-2.0-only
/// Files that weftctl writes, and those by which commands see each other.
#include "folder_test.hpp"

#include <archive.hpp>
#include <awaited.hpp>
#include <sysfile.hpp>

#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace weft
{

namespace
{

namespace fs = std::filesystem;

using FilesTest = FolderTest;

TEST_F(FilesTest, AFileIsReplaced)
{
    const auto path = folder_ / "new/file";
    ASSERT_TRUE(replace_file(path, "one\n", 0640));
    ASSERT_TRUE(replace_file(path, "two\n", 0600));
    EXPECT_EQ(read_text(path), "two");
    struct stat known = {};
    ASSERT_EQ(::stat(path.c_str(), &known), 0);
    EXPECT_EQ(known.st_mode & 0777U, 0600U);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "new"), fs::directory_iterator()), 1);
}

TEST_F(FilesTest, WhatALinkLeadsToStaysAsItIs)
{
    std::ofstream(folder_ / "other") << "of somebody else";
    fs::create_symlink(folder_ / "other", folder_ / "link");
    ASSERT_TRUE(replace_file(folder_ / "link", "ours"));
    EXPECT_EQ(read_text(folder_ / "other"), "of somebody else");
    EXPECT_EQ(read_text(folder_ / "link"), "ours");
    EXPECT_FALSE(fs::is_symlink(folder_ / "link"));
}

TEST_F(FilesTest, APipeAndADeviceAreWrittenTo)
{
    const auto path = folder_ / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const OwnedFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_TRUE(replace_file(path, "text"));
    char got[8] = "";
    EXPECT_EQ(::read(reader.get(), got, sizeof(got)), 4);
    EXPECT_TRUE(fs::is_fifo(path));
    ASSERT_TRUE(replace_file("/dev/null", "text"));
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FilesTest, WhatThisProcessHasOpenIsAppendedTo)
{
    const auto path = folder_ / "out";
    std::ofstream(path) << "before ";
    const OwnedFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(replace_file("/dev/fd/" + std::to_string(fd.get()), "text"));
    EXPECT_EQ(read_text(path), "before text");
    EXPECT_TRUE(fs::is_symlink("/dev/fd"));
}

TEST_F(FilesTest, AnArchiveIsAFileOrGoesThroughAPipe)
{
    fs::create_directory(folder_ / "in");
    std::ofstream(folder_ / "in/file") << "text";
    ASSERT_TRUE(write_archive(folder_ / "out", folder_ / "in"));
    EXPECT_GT(fs::file_size(folder_ / "out"), 0U);
    fs::create_symlink("/dev/null", folder_ / "null");
    ASSERT_TRUE(write_archive(folder_ / "null", folder_ / "in"));
    EXPECT_TRUE(fs::is_symlink(folder_ / "null"));
}

TEST_F(FilesTest, AnArchiveIsNotWrittenOverADisk)
{
    // No driver has the number: nothing can be written there.
    const auto disk = folder_ / "disk";
    if (::mknod(disk.c_str(), S_IFBLK | 0600, makedev(4095, 0)))
        GTEST_SKIP() << "this user makes no block device: run this as root";
    fs::create_directory(folder_ / "in");
    fs::create_symlink(disk, folder_ / "link");
    for (const auto* name : {"disk", "link"}) {
        const auto done = write_archive(folder_ / name, folder_ / "in");
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, exit_code::usage);
        EXPECT_NE(done.error().text.find("is a disk"), std::string::npos) << done.error().text;
    }
    EXPECT_TRUE(fs::is_block_file(disk));
    EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST(Awaited, IsSeenWhileItsCommandLives)
{
    if (::access("/run", W_OK))
        GTEST_SKIP() << "/run is not writable: run this as root";
    const std::string name = "unit-test-" + std::to_string(::getpid());
    const auto find = [&] {
        std::string found;
        for (const auto& one : awaited_volumes())
            if (one.name == name)
                found = std::to_string(one.since > 0) + one.reason;
        return found;
    };
    EXPECT_EQ(find(), "");
    {
        awaiting others_see(name);
        EXPECT_EQ(find(), "");
        others_see.say("member 0 is missing");
        EXPECT_EQ(find(), "1member 0 is missing");
        others_see.say("member 1");
        EXPECT_EQ(find(), "1member 1");
        // A second command does not take it away.
        awaiting second(name);
        second.say("another reason");
        EXPECT_EQ(find(), "1member 1");
    }
    EXPECT_EQ(find(), "");
    // What a command left that was killed.
    const fs::path left = "/run/weft/awaited/" + name;
    std::ofstream(left) << "1\nold\n";
    EXPECT_EQ(find(), "");
    fs::remove(left);
}

TEST(Printable, OfAnyBytes)
{
    EXPECT_EQ(weft::printable("fio"), "fio");
    EXPECT_EQ(weft::printable("a\33[2Jb\n\377 ~"), "a?[2Jb?? ~");
}

} // namespace

} // namespace weft
