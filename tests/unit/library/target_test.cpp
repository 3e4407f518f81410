// SPDX-License-Identifier: GPL-2.0-only
#include "support.hpp"

#include <cstring>
#include <sys/mman.h>
#include <weft/weft.h>

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

TEST_F(TargetTest, FilesOnWhatIsNoWeftVolume)
{
    const TemporaryFile file(100000);
    const auto volume = must(Volume::open(file.path()));
    const auto strict = File::open(volume, file.path(), true);
    ASSERT_FALSE(strict);
    EXPECT_NE(strict.error().text.find("is no weft volume"), std::string::npos);
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
        EXPECT_FALSE(volume.add(odd, {}));
    }
}

TEST_F(TargetTest, ByC)
{
    const TemporaryFile file(64 * kib);
    weft_error error{};
    EXPECT_EQ(weft_volume_open("no-such-volume", WEFT_READ, &error), nullptr);
    EXPECT_EQ(error.code, ENOENT);
    EXPECT_EQ(weft_volume_open("no-such-volume", WEFT_READ, nullptr), nullptr);
    auto* volume = weft_volume_open(file.path().c_str(), WEFT_READ_WRITE, &error);
    ASSERT_NE(volume, nullptr) << error.text;
    weft_geometry geometry{};
    weft_volume_geometry(volume, &geometry);
    EXPECT_EQ(geometry.size, 64 * kib);
    auto* memory = weft_memory_allocate(64 * kib, &error);
    auto* registration = weft_volume_add(volume, memory, 0, &error);
    ASSERT_NE(registration, nullptr) << error.text;
    auto* engine = weft_engine_create(8, &error);
    ASSERT_EQ(weft_read(engine, volume, registration, 0, 0, 64 * kib, 5), 0);
    weft_completion completion{};
    ASSERT_EQ(weft_wait(engine, &completion, 1), 1U);
    EXPECT_EQ(completion.token, 5U);
    EXPECT_EQ(completion.result, static_cast<std::int64_t>(64 * kib));
    EXPECT_EQ(std::memcmp(weft_memory_data(memory), file.data().data(), 64 * kib), 0);
    ASSERT_EQ(weft_write(engine, volume, registration, 0, 0, 4096, 6), 0);
    ASSERT_EQ(weft_wait(engine, &completion, 1), 1U);
    ASSERT_EQ(weft_flush(engine, volume, 7), 0);
    ASSERT_EQ(weft_wait(engine, &completion, 1), 1U);
    EXPECT_EQ(completion.result, 0);
    weft_engine_destroy(engine);
    weft_registration_end(registration);
    weft_memory_free(memory);
    weft_volume_close(volume);
}

} // namespace

} // namespace weft::test
