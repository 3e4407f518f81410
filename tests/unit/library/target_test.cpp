// SPDX-License-Identifier: GPL-2.0-only
#include "support.hpp"

#include <weft/weft.h>

#include <cstring>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace weft::test
{

namespace
{

using TargetTest = LibraryTest;

TEST_F(TargetTest, WhatCannotBeOpenedSaysWhy)
{
    const auto volume = Volume::open("no-such-volume");
    ASSERT_FALSE(volume);
    EXPECT_EQ(volume.error().code, ENOENT);
    EXPECT_NE(volume.error().text.find("/dev/weft/no-such-volume"), std::string::npos);
    EXPECT_FALSE(Volume::open("/dev/null"));
    EXPECT_FALSE(Volume::open("/"));
}

TEST_F(TargetTest, AFileIsAVolume)
{
    const TemporaryFile file(100000);
    auto volume = must(Volume::open(file.path()));
    EXPECT_EQ(volume.size(), 100000U);
    EXPECT_EQ(volume.geometry().member_count, 1U);
    EXPECT_FALSE(volume.is_weft());
    const auto moved = std::move(volume);
    EXPECT_EQ(moved.size(), 100000U);
}

TEST_F(TargetTest, ADeviceThatIsWrittenIsClaimed)
{
    const TemporaryFile file(mib);
    const auto loop = LoopDevice::of(file);
    if (!loop)
        GTEST_SKIP() << "a loop device takes root, and a kernel that has them";
    {
        // As a mounted filesystem has it.
        const OwnedFd held(::open(loop->path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
        ASSERT_TRUE(held);
        for (const auto access : {Access::write, Access::read_write}) {
            const auto busy = Volume::open(loop->path(), access);
            ASSERT_FALSE(busy);
            EXPECT_EQ(busy.error().code, EBUSY);
        }
        EXPECT_TRUE(Volume::open(loop->path()));
        EXPECT_TRUE(Volume::open(loop->path(), Access::read_write, Claim::shared));
        weft_error error{};
        EXPECT_EQ(weft_volume_open(loop->path().c_str(), WEFT_WRITE, &error), nullptr);
        EXPECT_EQ(error.code, EBUSY);
        auto* shared = weft_volume_open(loop->path().c_str(), WEFT_WRITE | WEFT_SHARED, &error);
        EXPECT_NE(shared, nullptr) << error.text;
        weft_close(shared);
    }
    const auto volume = must(Volume::open(loop->path(), Access::read_write));
    EXPECT_LT(::open(loop->path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC), 0) << "nobody mounts it meanwhile";
}

TEST_F(TargetTest, AFileBesideItIsLeftAlone)
{
    // What is called NAME.mem beside something that is no weft volume is somebody's.
    const TemporaryFile file(mib);
    const auto beside = file.path() + ".mem";
    ASSERT_EQ(::mkfifo(beside.c_str(), 0600), 0);
    const OwnedFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    ASSERT_GE(::inotify_add_watch(watch.get(), beside.c_str(), IN_OPEN), 0);
    EXPECT_FALSE(must(Volume::open(file.path())).is_weft());
    char event[4096];
    EXPECT_LT(::read(watch.get(), event, sizeof(event)), 0) << "it was opened";
    ::unlink(beside.c_str());
}

TEST_F(TargetTest, AnAccessThatIsNone)
{
    const TemporaryFile file(mib);
    EXPECT_EQ(Volume::open(file.path(), static_cast<Access>(0)).error().code, EINVAL);
}

TEST_F(TargetTest, FilesOnWhatIsNoWeftVolume)
{
    const TemporaryFile file(100000);
    const auto volume = must(Volume::open(file.path()));
    const auto strict = File::open(volume, file.path(), true);
    ASSERT_FALSE(strict);
    EXPECT_NE(strict.error().text.find("is not a weft volume"), std::string::npos);
    const auto loose = must(File::open(volume, file.path(), false));
    EXPECT_EQ(loose.size(), 100000U);
    EXPECT_FALSE(loose.reason().empty());
}

TEST_F(TargetTest, Memories)
{
    EXPECT_FALSE(Memory::allocate(0));
    EXPECT_FALSE(Memory::allocate(~std::size_t{0}));
    EXPECT_FALSE(Memory::allocate_udmabuf(0));
    EXPECT_FALSE(Memory::allocate_udmabuf(std::size_t{1} << 45))
        << "no device has that, and no limit allows it";
    EXPECT_FALSE(Memory::of(nullptr, 10));
    EXPECT_FALSE(Memory::from_dmabuf(-1, 0, 10));
    const int fd = memfd_create("weft", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, 8192), 0);
    EXPECT_FALSE(Memory::from_dmabuf(fd, 4096, 8192));
    EXPECT_FALSE(Memory::from_dmabuf(fd, ~std::uint64_t{0}, 2));
    const auto memory = must(Memory::from_dmabuf(fd, 100, 1000));
    ::close(fd);
    EXPECT_NE(memory.data(), nullptr);
    EXPECT_EQ(memory.size(), 1000U);
}

TEST_F(TargetTest, NothingIsRegisteredForGoodWithAFile)
{
    const TemporaryFile file(8192);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::allocate(8192));
    EXPECT_FALSE(volume.add(memory, {.persistent = true}));
    if (volume.is_direct()) {
        const auto odd = must(Memory::of(memory.data() + 1, 4096));
        const auto refused = volume.add(odd, {});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, EINVAL);
        const auto staged = must(volume.add(odd, {.staged = true}));
        EXPECT_EQ(staged.route(), Route::staged);
        EXPECT_EQ(staged.reason(), refused.error().text);
        auto engine = must(Engine::create());
        ASSERT_TRUE(engine.read(volume, staged, {4096, 0, 4096}, 0));
        EXPECT_EQ(one(engine).result, 4096);
        EXPECT_EQ(std::memcmp(odd.data(), file.data().data() + 4096, 4096), 0);
    }
}

TEST_F(TargetTest, AFileFindsItsVolumeOrNone)
{
    const TemporaryFile file(64 * kib);
    const auto opened = must(File::open(file.path()));
    EXPECT_EQ(opened.size(), 64 * kib);
    EXPECT_FALSE(opened.is_weft());
    EXPECT_EQ(opened.reason(), file.path() + " is not on a weft volume");
    const auto strict = File::open(file.path(), true);
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().code, EOPNOTSUPP);
    EXPECT_EQ(File::open("/nix/nix").error().code, ENOENT);
    EXPECT_EQ(File::open(opened, file.path(), false).error().code, EINVAL) << "files are opened on a volume";
}

TEST_F(TargetTest, OneCallOpensAll)
{
    const TemporaryFile file(64 * kib);
    const auto read = must(weft::open(file.path()));
    EXPECT_EQ(read.size(), 64 * kib);
    EXPECT_EQ(read.reason(), file.path() + " is not on a weft volume");
    const auto written = must(weft::open(file.path(), Access::read_write));
    EXPECT_EQ(written.reason(), "");
    EXPECT_EQ(weft::open("data").error().code, ENOENT) << "a name without a slash is a volume's";
    EXPECT_EQ(weft::open("/nix/nix").error().code, ENOENT);
    EXPECT_EQ(weft::open("/dev/null").error().code, EINVAL);
    EXPECT_EQ(weft::open(file.path(), static_cast<Access>(0)).error().code, EINVAL);
}

} // namespace

} // namespace weft::test
