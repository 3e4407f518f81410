// SPDX-License-Identifier: GPL-2.0-only
/// GPU memory, with the stand-in for libcuda or, where this machine has one, a real one.
#include "support.hpp"

#include <array>
#include <cstring>
#include <poll.h>
#include <shim/cuda.hpp>
#include <string_view>
#include <thread>
#include <weft/stream.hpp>

namespace weft::test
{

namespace
{

class CudaTest : public LibraryTest
{
protected:
    void SetUp() override
    {
        ASSERT_NE(cuda_, nullptr) << shim::cuda_reason();
        shim::CuContext context = nullptr;
        ASSERT_EQ(cuda_->context_retain(&context, 0), 0);
        ASSERT_EQ(cuda_->context_set(context), 0);
        ASSERT_EQ(cuda_->allocate(&pointer_, 4 * mib), 0);
    }
    void TearDown() override
    {
        cuda_->release(pointer_);
        cuda_->context_release(0);
        LibraryTest::TearDown();
    }
    [[nodiscard]] std::vector<std::byte> device(std::size_t at, std::size_t bytes) const
    {
        std::vector<std::byte> data(bytes);
        EXPECT_EQ(cuda_->copy_to_host_now(data.data(), pointer_ + at, bytes), 0);
        return data;
    }
    static bool same(const std::vector<std::byte>& got, const std::vector<std::byte>& data, std::size_t from)
    {
        return !std::memcmp(got.data(), data.data() + from, got.size());
    }

    const shim::Cuda* cuda_ = shim::cuda();
    shim::CuPointer pointer_ = 0;
};

/// Ends after main(), and after what is made later than it is.
std::optional<Memory> global;

TEST_F(CudaTest, GlobalObjectsHaveMemoryUntilTheEnd)
{
    global.emplace(must(Memory::allocate_cuda(0, mib)));
    EXPECT_NE(global->device_pointer(), 0U);
}

TEST_F(CudaTest, WhatIsNoDeviceMemory)
{
    EXPECT_FALSE(Memory::from_cuda(4096, 4096));
    const auto beyond = Memory::from_cuda(pointer_ + 4096, 4 * mib);
    ASSERT_FALSE(beyond);
    EXPECT_NE(beyond.error().text.find("beyond the end"), std::string::npos);
}

TEST_F(CudaTest, MappingsOneAfterAnother)
{
    ::setenv("WEFT_STANDIN_MAPPINGS", "65536", 1);
    const auto memory = Memory::from_cuda(pointer_ + 4096, 4 * mib - 4096);
    const auto beyond = Memory::from_cuda(pointer_ + 4096, 4 * mib);
    ::unsetenv("WEFT_STANDIN_MAPPINGS");
    EXPECT_TRUE(memory) << memory.error().text;
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().text, "4194304 bytes go beyond the end of their allocation, 4190208 bytes away");
}

TEST_F(CudaTest, OfItsOwn)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path(), Access::read_write));
    const auto memory = must(Memory::allocate_cuda(0, mib));
    EXPECT_EQ(memory.data(), nullptr);
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 2}));
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
    std::vector<std::byte> data(mib);
    EXPECT_EQ(memory.copy_out(0, data.data(), mib), 0);
    EXPECT_EQ(data, file.data());
    EXPECT_EQ(memory.copy_in(mib - 4, data.data(), 4), 0);
    EXPECT_EQ(memory.copy_out(mib - 4, data.data() + 8, 4), 0);
    EXPECT_EQ(std::memcmp(data.data(), data.data() + 8, 4), 0);
    EXPECT_EQ(memory.copy_in(mib - 4, data.data(), 5), EINVAL);
    EXPECT_EQ(memory.copy_out(mib + 1, data.data(), 0), EINVAL);
}

TEST_F(CudaTest, LeavesTheThreadsContext)
{
    cuda_->context_set(nullptr);
    {
        const auto memory = must(Memory::allocate_cuda(0, mib));
        EXPECT_EQ(Memory::allocate_cuda(7, mib).error().text, "there is no GPU 7: CUDA has 1");
        EXPECT_EQ(Memory::allocate_cuda(-1, mib).error().code, ENOENT);
        EXPECT_EQ(Memory::allocate_cuda(0, std::size_t{1} << 50).error().code, ENOMEM);
        EXPECT_EQ(Memory::allocate_cuda(0, 0).error().code, EINVAL);
        EXPECT_EQ(memory.copy_in(0, "data", 4), 0) << "what failed takes nothing along";
    }
    void* current = this;
    ASSERT_EQ(cuda_->context_get(&current), 0);
    EXPECT_EQ(current, nullptr);
}

TEST_F(CudaTest, TakesAPointerInAnyThread)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    cuda_->context_set(nullptr);
    for (const bool pooled : {false, true}) {
        if (pooled)
            ::setenv("WEFT_STANDIN_NO_CONTEXT", "1", 1);
        const auto memory = must(Memory::from_cuda(pointer_, mib));
        ::unsetenv("WEFT_STANDIN_NO_CONTEXT");
        EXPECT_NE(memory.cuda_context(), nullptr);
        void* current = this;
        ASSERT_EQ(cuda_->context_get(&current), 0);
        EXPECT_EQ(current, nullptr);
        const auto registration = must(volume.add(memory, {.staged = true}));
        auto engine = must(Engine::create());
        ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
        EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
        std::vector<std::byte> data(mib);
        EXPECT_EQ(memory.copy_out(0, data.data(), mib), 0);
        EXPECT_EQ(data, file.data());
    }
    ASSERT_EQ(cuda_->context_set(must(Memory::from_cuda(pointer_, mib)).cuda_context()), 0);
}

// PyTorch captures in the mode "global": then CUDA refuses calls of other threads, and the graph is lost.
TEST_F(CudaTest, WhileAnotherThreadCapturesAGraph)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path(), Access::read_write));
    const auto memory = must(Memory::allocate_cuda(0, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 2, .staging_slots = 2, .staging_bytes = 64 * kib}));
    ::setenv("WEFT_STANDIN_GRAPH", "1", 1);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    const auto read = one(engine).result;
    std::vector<std::byte> data(mib);
    const int copied_out = memory.copy_out(0, data.data(), mib);
    ASSERT_TRUE(engine.write(volume, registration, {0, 0, mib}, 1));
    const auto written = one(engine).result;
    // That of the program stays as it was.
    int mode = 0;
    EXPECT_EQ(cuda_->exchange_capture_mode(&mode), 0);
    ::unsetenv("WEFT_STANDIN_GRAPH");
    EXPECT_EQ(mode, 0);
    EXPECT_EQ(read, static_cast<std::int64_t>(mib));
    EXPECT_EQ(copied_out, 0);
    EXPECT_EQ(data, file.data());
    EXPECT_EQ(written, static_cast<std::int64_t>(mib));
}

TEST_F(CudaTest, OddSizesHaveDmabufs)
{
    ::setenv("WEFT_STANDIN_DMABUF", "1", 1);
    const auto memory = must(Memory::allocate_cuda(0, 73726));
    ::unsetenv("WEFT_STANDIN_DMABUF");
    EXPECT_EQ(memory.reason(), "");
    EXPECT_EQ(memory.size(), 73726U);
}

TEST_F(CudaTest, WhatWasCopiedInIsThere)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path(), Access::read_write));
    const auto memory = must(Memory::allocate_cuda(0, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 2}));
    const std::vector<std::byte> data(4096, std::byte{0x5a});
    ASSERT_EQ(memory.copy_in(0, data.data(), data.size()), 0);
    ASSERT_TRUE(engine.write(volume, registration, {0, 0, 4096}, 0));
    EXPECT_EQ(one(engine).result, 4096);
    EXPECT_EQ(std::memcmp(file.read().data(), data.data(), 4096), 0);
}

TEST_F(CudaTest, InAnotherThread)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    std::thread([&] {
        // It has no context of its own, and none afterwards.
        auto engine = must(Engine::create({.entries = 2}));
        EXPECT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
        EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
        void* current = this;
        EXPECT_EQ(cuda_->context_get(&current), 0);
        EXPECT_EQ(current, nullptr);
    }).join();
    EXPECT_TRUE(same(device(0, mib), file.data(), 0));
}

TEST_F(CudaTest, CopiesThatFail)
{
    std::array<char, 64> name{};
    ASSERT_EQ(cuda_->device_name(name.data(), static_cast<int>(name.size()), 0), 0);
    if (std::string_view(name.data()) != "stand-in")
        GTEST_SKIP() << "the stand-in for libcuda is missing: copies of a real GPU do not fail";
    const TemporaryFile file(4 * mib);
    const auto volume = must(Volume::open(file.path(), Access::read_write));
    const auto memory = must(Memory::from_cuda(pointer_, 4 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 8, .staging_slots = 2, .staging_bytes = 64 * kib}));
    ::setenv("WEFT_STANDIN_BROKEN_COPIES", "1", 1);
    for (std::uint64_t i = 0; i < 4; i++)
        ASSERT_TRUE(engine.write(volume, registration, {i * mib, i * mib, mib}, i));
    unsigned tokens = 0;
    for (int i = 0; i < 4; i++) {
        const auto completion = one(engine);
        EXPECT_EQ(completion.result, -EIO);
        tokens |= 1U << completion.token;
    }
    ::unsetenv("WEFT_STANDIN_BROKEN_COPIES");
    EXPECT_EQ(tokens, 15U);
    EXPECT_EQ(engine.in_flight(), 0U);
    EXPECT_EQ(std::memcmp(file.read().data(), file.data().data(), 4 * mib), 0) << "nothing was written";
    ASSERT_TRUE(engine.write(volume, registration, {0, 0, mib}, 9));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
}

TEST_F(CudaTest, StagedOnlyWhereThatIsAllowed)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, mib));
    EXPECT_EQ(memory.data(), nullptr);
    const auto strict = volume.add(memory, {});
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().code, EOPNOTSUPP);
    EXPECT_EQ(must(volume.add(memory, {.staged = true})).route(), Route::staged);
}

TEST_F(CudaTest, ReadsAndWrites)
{
    const TemporaryFile file(4 * mib);
    const auto volume = must(Volume::open(file.path(), Access::read_write));
    // From the middle of a page on.
    const auto memory = must(Memory::from_cuda(pointer_ + 100, 3 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 16, .staging_slots = 4, .staging_bytes = 256 * kib}));
    faults.longest = 100 * 4096;
    for (std::size_t i = 0; i < 3; i++)
        ASSERT_TRUE(engine.read(volume, registration, {i * mib, i * mib, mib}, i));
    for (std::size_t i = 0; i < 3; i++) {
        const auto completion = one(engine);
        EXPECT_EQ(completion.result, static_cast<std::int64_t>(mib));
        EXPECT_EQ(completion.route, Route::staged);
    }
    EXPECT_TRUE(same(device(100, 3 * mib), file.data(), 0));
    const std::vector<std::byte> pattern(2 * mib, std::byte{0x3c});
    ASSERT_EQ(cuda_->copy_to_device_now(pointer_ + 100, pattern.data(), pattern.size()), 0);
    ASSERT_EQ(cuda_->stream_synchronize(nullptr), 0);
    ASSERT_TRUE(engine.write(volume, registration, {mib, 0, 2 * mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(2 * mib));
    const auto now = file.read();
    EXPECT_EQ(now[mib - 1], file.data()[mib - 1]);
    EXPECT_FALSE(std::memcmp(now.data() + mib, pattern.data(), pattern.size()));
    EXPECT_EQ(now[3 * mib], file.data()[3 * mib]);
}

TEST_F(CudaTest, TheEndOfAFile)
{
    const TemporaryFile file(mib + 1000);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, 2 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 2 * mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib + 1000));
    EXPECT_TRUE(same(device(0, mib + 1000), file.data(), 0));
}

TEST_F(CudaTest, CopiesTellByTheDescriptorToo)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create());
    pollfd waiting{must(engine.event_fd()), POLLIN, 0};
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 3));
    EXPECT_EQ(engine.submit(), 0);
    Completion completion;
    while (!engine.poll({&completion, 1})) {
        ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
        std::uint64_t count = 0;
        static_cast<void>(!::read(waiting.fd, &count, sizeof(count)));
    }
    EXPECT_EQ(completion.result, static_cast<std::int64_t>(mib));
}

TEST_F(CudaTest, AnErrorEndsIt)
{
    const TemporaryFile file(4 * mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, 4 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 4, .staging_slots = 2, .staging_bytes = 64 * kib}));
    faults.broken_after = 10;
    faults.broken = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4 * mib}, 0));
    EXPECT_EQ(one(engine).result, -EIO);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4 * mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(4 * mib));
    EXPECT_TRUE(same(device(0, 4 * mib), file.data(), 0));
}

TEST_F(CudaTest, AnEngineThatEndsWaits)
{
    const TemporaryFile file(4 * mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, 4 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    {
        auto engine = must(Engine::create());
        ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4 * mib}, 0));
        EXPECT_EQ(engine.submit(), 0);
    }
    EXPECT_TRUE(same(device(0, 4 * mib), file.data(), 0));
}

TEST_F(CudaTest, Streams)
{
    const TemporaryFile file(4 * mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_cuda(pointer_, 2 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create());
    auto stream = must(ReadStream::create(engine, volume, registration, {.piece = 512 * kib}));
    std::size_t total = 0;
    for (auto part = must(stream.next()); part.length; part = must(stream.next())) {
        EXPECT_TRUE(same(device(part.memory_offset, part.length), file.data(), part.offset));
        total += part.length;
    }
    EXPECT_EQ(total, 4 * mib);
}

} // namespace

} // namespace weft::test
