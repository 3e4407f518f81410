// SPDX-License-Identifier: GPL-2.0-only
/// The interface for C.
#include "support.hpp"

#include <weft/weft.h>

#include <array>
#include <cstring>
#include <poll.h>
#include <thread>

namespace weft::test
{

namespace
{

/// Options with nothing but their size.
template <typename Options>
Options sized()
{
    Options options{};
    options.size = sizeof(options);
    return options;
}

/// A file of 1 MiB, memory of that size that is registered with it, and an engine.
class CTest : public LibraryTest
{
protected:
    CTest() : file_(mib)
    {
        target_ = weft_open(file_.path().c_str(), WEFT_READ_WRITE, &error_);
        EXPECT_NE(target_, nullptr) << error_.text;
        memory_ = weft_memory_allocate(mib, &error_);
        registration_ = weft_register(target_, memory_, WEFT_ALLOW_STAGED, &error_);
        EXPECT_NE(registration_, nullptr) << error_.text;
        auto options = sized<weft_engine_options>();
        options.entries = 8;
        engine_ = weft_engine_create(&options, &error_);
        EXPECT_NE(engine_, nullptr) << error_.text;
    }
    ~CTest() override
    {
        weft_engine_destroy(engine_);
        weft_unregister(registration_);
        weft_memory_free(memory_);
        weft_close(target_);
    }
    [[nodiscard]] weft_completion one() const
    {
        weft_completion completion{};
        EXPECT_EQ(weft_wait(engine_, &completion, 1, -1), 1U);
        return completion;
    }
    [[nodiscard]] const std::byte* data() const
    {
        return static_cast<const std::byte*>(weft_memory_data(memory_));
    }
    [[nodiscard]] bool same(std::size_t at, std::size_t from, std::size_t length) const
    {
        return !std::memcmp(data() + at, file_.data().data() + from, length);
    }

    TemporaryFile file_;
    weft_error error_{};
    weft_target* target_ = nullptr;
    weft_memory* memory_ = nullptr;
    weft_registration* registration_ = nullptr;
    weft_engine* engine_ = nullptr;
};

TEST_F(CTest, WhatCannotBeMadeSaysWhy)
{
    EXPECT_EQ(weft_open("no-such-volume", WEFT_READ, &error_), nullptr);
    EXPECT_EQ(error_.code, ENOENT);
    EXPECT_EQ(weft_open("no-such-volume", WEFT_READ, nullptr), nullptr);
    for (const unsigned access : {0U, 4U, 9U}) {
        EXPECT_EQ(weft_volume_open(file_.path().c_str(), access, &error_), nullptr);
        EXPECT_EQ(error_.code, EINVAL) << access;
    }
    EXPECT_EQ(weft_register(target_, memory_, 32, &error_), nullptr);
    EXPECT_EQ(error_.code, EINVAL);
    EXPECT_NE(std::strstr(error_.text, "policy 32"), nullptr) << error_.text;
    auto* file = weft_open(file_.path().c_str(), WEFT_READ, &error_);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(weft_file_open(file, file_.path().c_str(), 0, &error_), nullptr);
    EXPECT_EQ(error_.code, EINVAL);
    EXPECT_STREQ(weft_target_reason(file), (file_.path() + " is not on a weft volume").c_str());
    EXPECT_STREQ(weft_target_reason(target_), "");
    weft_close(file);
}

TEST_F(CTest, Geometry)
{
    weft_geometry geometry{};
    std::memset(&geometry, 0xff, sizeof(geometry));
    weft_target_geometry(target_, &geometry);
    EXPECT_EQ(geometry.size, mib);
    EXPECT_EQ(geometry.reserved[4], 0U) << "for what later versions tell there";
    EXPECT_STREQ(weft_route_name(WEFT_ROUTE_STAGED), "staged");
    EXPECT_EQ(weft_memory_size(memory_), mib);
    EXPECT_EQ(weft_memory_device_pointer(memory_), 0U);
}

TEST_F(CTest, Checksum)
{
    // The usual check value, and those of RFC 3720, B.4.
    EXPECT_EQ(weft_crc32c(0, "123456789", 9), 0xe3069283U);
    std::array<unsigned char, 32> bytes{};
    EXPECT_EQ(weft_crc32c(0, bytes.data(), bytes.size()), 0x8a9136aaU);
    bytes.fill(0xff);
    EXPECT_EQ(weft_crc32c(0, bytes.data(), bytes.size()), 0x62a8ab43U);
    EXPECT_EQ(weft_crc32c(0, nullptr, 0), 0U);
    EXPECT_EQ(weft_crc32c(0x12345678, nullptr, 0), 0x12345678U);
    // Many pieces at once.
    const std::vector<std::uint64_t> starts{0, 9, 3}, lengths{9, 0, 4};
    const char* digits = "123456789";
    std::vector<std::uint32_t> sums{0xe3069283U, 0, weft_crc32c(0, "4567", 4)};
    EXPECT_EQ(weft_crc32c_compare(digits, starts.data(), lengths.data(), sums.data(), 3), 3U);
    sums[2]++;
    EXPECT_EQ(weft_crc32c_compare(digits, starts.data(), lengths.data(), sums.data(), 3), 2U);
    EXPECT_EQ(weft_crc32c_compare(digits, starts.data(), lengths.data(), sums.data(), 2), 2U);
    // In pieces, from any address.
    const auto whole = weft_crc32c(0, file_.data().data() + 1, mib - 1);
    std::uint32_t crc = 0;
    for (std::size_t at = 1, length = 1; at < mib; at += length, length = std::min(3 * length, mib - at))
        crc = weft_crc32c(crc, file_.data().data() + at, length);
    EXPECT_EQ(crc, whole);
}

TEST_F(CTest, Options)
{
    struct {
        weft_engine_options known;
        std::uint64_t later;
    } options{};
    options.known.size = sizeof(options);
    auto* engine = weft_engine_create(&options.known, &error_);
    EXPECT_NE(engine, nullptr) << error_.text;
    weft_engine_destroy(engine);
    options.later = 1;
    EXPECT_EQ(weft_engine_create(&options.known, &error_), nullptr);
    EXPECT_EQ(error_.code, E2BIG);
    options.known.size = 0;
    EXPECT_EQ(weft_engine_create(&options.known, &error_), nullptr);
    EXPECT_EQ(error_.code, EINVAL);
    options.known = sized<weft_engine_options>();
    options.known.flags = 64;
    EXPECT_EQ(weft_engine_create(&options.known, &error_), nullptr);
    EXPECT_EQ(error_.code, EINVAL);
    // An older program knows fewer fields.
    options.known = {};
    options.known.size = 16;
    options.known.flags = WEFT_ENGINE_ANY_THREAD;
    options.known.entries = 4;
    engine = weft_engine_create(&options.known, &error_);
    EXPECT_NE(engine, nullptr) << error_.text;
    weft_engine_destroy(engine);
    engine = weft_engine_create(nullptr, &error_);
    EXPECT_NE(engine, nullptr) << error_.text;
    weft_engine_destroy(engine);
}

TEST_F(CTest, ReadsWritesAndFlushes)
{
    weft_ticket ticket{};
    auto all = sized<weft_io>();
    all.length = mib;
    all.token = 5;
    ASSERT_EQ(weft_read(engine_, target_, registration_, &all, &ticket), 0);
    auto completion = one();
    EXPECT_EQ(completion.token, 5U);
    EXPECT_EQ(completion.result, static_cast<std::int64_t>(mib));
    EXPECT_TRUE(same(0, 0, mib));
    auto odd = sized<weft_io>();
    odd.offset = 4097;
    odd.memory_offset = 3;
    odd.length = 10000;
    odd.token = 6;
    ASSERT_EQ(weft_read(engine_, target_, registration_, &odd, nullptr), 0);
    EXPECT_EQ(one().result, 10000);
    EXPECT_TRUE(same(3, 4097, 10000));
    auto block = sized<weft_io>();
    block.length = 4096;
    ASSERT_EQ(weft_write(engine_, target_, registration_, &block, nullptr), 0);
    EXPECT_EQ(one().result, 4096);
    ASSERT_EQ(weft_flush(engine_, target_, 7), 0);
    EXPECT_EQ(one().result, 0);
    EXPECT_FALSE(std::memcmp(file_.read().data(), data(), 4096));
    EXPECT_EQ(weft_read(engine_, target_, registration_, nullptr, nullptr), -EINVAL);
    const auto without = weft_io{};
    EXPECT_EQ(weft_read(engine_, target_, registration_, &without, nullptr), -EINVAL);
}

TEST_F(CTest, DeadlinesCancellationAndTimeouts)
{
    faults.stalled = 2;
    weft_ticket ticket{};
    auto late = sized<weft_io>();
    late.length = 4096;
    late.deadline = 20'000'000;
    ASSERT_EQ(weft_read(engine_, target_, registration_, &late, nullptr), 0);
    EXPECT_EQ(one().result, -ETIME);
    auto stalled = sized<weft_io>();
    stalled.length = 4096;
    ASSERT_EQ(weft_read(engine_, target_, registration_, &stalled, &ticket), 0);
    weft_completion completion{};
    EXPECT_EQ(weft_wait(engine_, &completion, 1, 10'000'000), 0U) << "nothing has completed in 10 ms";
    weft_cancel(engine_, ticket);
    EXPECT_EQ(one().result, -ECANCELED);
    EXPECT_EQ(weft_wait(engine_, &completion, 1, -1), 0U) << "nothing is in flight";
}

TEST_F(CTest, AnotherThreadDoesNotWait)
{
    auto* const engine = weft_engine_create(nullptr, &error_);
    ASSERT_NE(engine, nullptr) << error_.text;
    faults.stalled = 1;
    std::thread([&] {
        auto io = sized<weft_io>();
        io.length = 4096;
        EXPECT_EQ(weft_read(engine, target_, registration_, &io, nullptr), 0);
        EXPECT_EQ(weft_submit(engine), 0);
    }).join();
    weft_completion completion{};
    for (const std::int64_t timeout : {std::int64_t{-1}, std::int64_t{3600'000'000'000}})
        EXPECT_EQ(weft_wait(engine, &completion, 1, timeout), 0U);
    EXPECT_EQ(weft_submit(engine), -EEXIST);
    weft_engine_destroy(engine);
}

TEST_F(CTest, OneThreadAfterAnother)
{
    auto options = sized<weft_engine_options>();
    options.flags = WEFT_ENGINE_ANY_THREAD;
    auto* const engine = weft_engine_create(&options, &error_);
    ASSERT_NE(engine, nullptr) << error_.text;
    auto io = sized<weft_io>();
    io.length = 8192;
    for (std::uint64_t i = 0; i < 4; i++) {
        io.offset = i * 8192;
        io.token = i;
        // One thread begins it, another one gets it.
        std::thread([&] {
            EXPECT_EQ(weft_read(engine, target_, registration_, &io, nullptr), 0);
            EXPECT_EQ(weft_submit(engine), 0);
        }).join();
        weft_completion completion{};
        std::thread([&] { EXPECT_EQ(weft_wait(engine, &completion, 1, -1), 1U); }).join();
        EXPECT_EQ(completion.token, i);
        EXPECT_EQ(completion.result, 8192);
        EXPECT_TRUE(same(0, io.offset, 8192));
    }
    weft_engine_destroy(engine);
}

TEST_F(CTest, TellsByADescriptor)
{
    const int fd = weft_engine_event_fd(engine_);
    ASSERT_GE(fd, 0);
    auto io = sized<weft_io>();
    io.length = 4096;
    ASSERT_EQ(weft_read(engine_, target_, registration_, &io, nullptr), 0);
    ASSERT_EQ(weft_submit(engine_), 0);
    pollfd waits{fd, POLLIN, 0};
    weft_completion completion{};
    std::size_t got = 0;
    for (int i = 0; i < 10 && !got && ::poll(&waits, 1, 10000) == 1; i++)
        got = weft_poll(engine_, &completion, 1);
    EXPECT_EQ(got, 1U);
}

TEST_F(CTest, Gathers)
{
    auto options = sized<weft_gather_options>();
    options.capacity = 64;
    auto* gather = weft_gather_create(engine_, &options, &error_);
    ASSERT_NE(gather, nullptr) << error_.text;
    std::vector<weft_extent> extents;
    for (std::uint32_t i = 0; i < 64; i++)
        extents.push_back({(63 - i) * 16 * kib + 100, i * 1000, 1000, 0});
    std::vector<std::int32_t> results(64);
    weft_gathered gathered{};
    ASSERT_EQ(weft_gather_run(gather, target_, registration_, extents.data(), 64, results.data(), &gathered,
                              &error_),
              0);
    EXPECT_EQ(gathered.bytes, 64000U);
    EXPECT_EQ(gathered.failed, 0U);
    weft_geometry geometry{};
    weft_target_geometry(target_, &geometry);
    EXPECT_EQ(gathered.route, geometry.block_size > 1 ? WEFT_ROUTE_STAGED : WEFT_ROUTE_CACHED);
    for (std::uint32_t i = 0; i < 64; i++)
        EXPECT_TRUE(same(i * 1000, (63 - i) * 16 * kib + 100, 1000)) << i;
    const weft_records records{4096, 100, 512, 0};
    const std::vector<std::int64_t> numbers{99, 3};
    ASSERT_EQ(weft_gather_run_records(gather, target_, registration_, &records, numbers.data(), 2, 8192,
                                      results.data(), &gathered, &error_),
              0)
        << error_.text;
    EXPECT_EQ(gathered.bytes, 1024U);
    EXPECT_TRUE(same(8192, 4096 + 99 * 512, 512) && same(8192 + 512, 4096 + 3 * 512, 512));
    const std::vector<std::int64_t> none{100};
    EXPECT_EQ(weft_gather_run_records(gather, target_, registration_, &records, none.data(), 1, 0,
                                      results.data(), nullptr, &error_),
              -ERANGE);
    EXPECT_NE(std::strstr(error_.text, "no record 100"), nullptr) << error_.text;
    extents.resize(65);
    results.resize(65);
    EXPECT_EQ(
        weft_gather_run(gather, target_, registration_, extents.data(), 65, results.data(), nullptr, &error_),
        -E2BIG);
    EXPECT_NE(std::strstr(error_.text, "65 extents"), nullptr) << error_.text;
    weft_gather_destroy(gather);
}

TEST_F(CTest, Streams)
{
    auto options = sized<weft_stream_options>();
    options.offset = 64 * kib;
    options.window = 2;
    options.piece = 128 * kib;
    auto* reads = weft_read_stream_create(engine_, target_, registration_, &options, &error_);
    ASSERT_NE(reads, nullptr) << error_.text;
    weft_piece piece{};
    std::uint64_t at = 64 * kib;
    while (!weft_read_stream_next(reads, &piece, &error_) && piece.length) {
        EXPECT_EQ(piece.offset, at);
        EXPECT_TRUE(same(piece.memory_offset, at, piece.length));
        at += piece.length;
    }
    EXPECT_EQ(at, mib) << error_.text;
    weft_read_stream_end(reads);

    auto* writes = weft_write_stream_create(engine_, target_, registration_, &options, &error_);
    ASSERT_NE(writes, nullptr) << error_.text;
    while (!weft_write_stream_next(writes, &piece, &error_) && piece.length) {
        std::memset(static_cast<std::byte*>(weft_memory_data(memory_)) + piece.memory_offset, 0x33,
                    piece.length);
        EXPECT_EQ(weft_write_stream_put(writes, piece.length, &error_), 0) << error_.text;
    }
    EXPECT_EQ(weft_write_stream_finish(writes, &error_), 0) << error_.text;
    weft_write_stream_end(writes);
    const auto now = file_.read();
    EXPECT_EQ(now[64 * kib - 1], file_.data()[64 * kib - 1]);
    EXPECT_EQ(now[64 * kib], std::byte{0x33});
    EXPECT_EQ(now[mib - 1], std::byte{0x33});
    auto beyond = sized<weft_stream_options>();
    beyond.offset = 2 * mib;
    EXPECT_EQ(weft_read_stream_create(engine_, target_, registration_, &beyond, &error_), nullptr);
    EXPECT_EQ(error_.code, EINVAL);
}

} // namespace

} // namespace weft::test
