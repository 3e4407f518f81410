// SPDX-License-Identifier: GPL-2.0-only
#include "support.hpp"

#include "userspace/src/piece.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <weft/gather.hpp>
#include <weft/stream.hpp>

namespace weft::test
{

namespace
{

class GatherTest : public LibraryTest
{
protected:
    TemporaryFile file_{8 * mib};
    Volume volume_ = must(Volume::open(file_.path(), Access::read_write));
    Memory memory_ = must(Memory::allocate(8 * mib));
    Registration registration_ = must(volume_.add(memory_, {}));
    Engine engine_ = must(Engine::create({.entries = 32}));

    [[nodiscard]] bool right(const Extent& extent, std::size_t length) const
    {
        return !std::memcmp(memory_.data() + extent.memory_offset, file_.data().data() + extent.offset,
                            length);
    }
};

TEST_F(GatherTest, ThousandsOfThem)
{
    auto gather = must(Gather::create(engine_));
    std::mt19937 random(3);
    for (int round = 0; round < 3; round++) {
        std::vector<Extent> extents(2000);
        std::vector<std::int32_t> results(extents.size());
        for (std::size_t i = 0; i < extents.size(); i++)
            extents[i] = {random() % 2048 * 4096ULL, i * 4096, 4096,
                          static_cast<std::uint32_t>(random() % 3)};
        const auto done = must(gather.run(volume_, registration_, extents, results));
        EXPECT_EQ(done.bytes, extents.size() * 4096);
        EXPECT_EQ(done.failed, 0U);
        EXPECT_LE(done.reads, extents.size());
        EXPECT_TRUE(std::all_of(results.begin(), results.end(), [](auto r) { return r == 4096; }));
        EXPECT_TRUE(std::all_of(extents.begin(), extents.end(),
                                [&](const auto& extent) { return right(extent, 4096); }));
    }
}

TEST_F(GatherTest, ExtentsWithoutBytesFail)
{
    auto gather = must(Gather::create(engine_, {}));
    const std::vector<Extent> extents{
        {0, 0, 8192, 0}, {8192, 8192, 0, 0}, {100 * kib, 8192, 8192, 0}, {mib, 0, 0, 0}};
    std::vector<std::int32_t> results(extents.size());
    EXPECT_EQ(must(gather.run(volume_, registration_, extents, results)).failed, 2U);
    EXPECT_EQ(results, (std::vector<std::int32_t>{8192, -EINVAL, 8192, -EINVAL}));
}

TEST_F(GatherTest, NeighboursAreJoined)
{
    auto gather = must(Gather::create(engine_, {.largest = 64 * kib}));
    std::vector<Extent> extents;
    for (std::size_t i = 0; i < 64; i++)
        extents.push_back({i * 4096, i * 4096, 4096, 0});
    std::reverse(extents.begin(), extents.end());
    std::vector<std::int32_t> results(extents.size());
    const auto done = must(gather.run(volume_, registration_, extents, results));
    EXPECT_EQ(done.reads, 4U);
    EXPECT_EQ(done.bytes, 64U * 4096);
    EXPECT_TRUE(std::all_of(results.begin(), results.end(), [](auto r) { return r == 4096; }));
    EXPECT_FALSE(std::memcmp(memory_.data(), file_.data().data(), 64 * 4096));
    // Of different orders, or apart in memory, they are not.
    extents[0].order = 1;
    extents[1].memory_offset = mib;
    EXPECT_GT(must(gather.run(volume_, registration_, extents, results)).reads, 4U);
}

TEST_F(GatherTest, RecordsByTheirNumbers)
{
    auto gather = must(Gather::create(engine_, {.capacity = 100}));
    const Records records{.offset = 64 * kib, .count = 200, .length = 8192};
    std::vector<std::int64_t> numbers{199, 0, 17, 17, 18};
    std::vector<std::int32_t> results(100);
    auto done = must(gather.run(volume_, registration_, records, numbers, mib, results));
    EXPECT_EQ(done.bytes, 5U * 8192);
    for (std::size_t i = 0; i < numbers.size(); i++) {
        EXPECT_EQ(results[i], 8192);
        EXPECT_TRUE(
            right({64 * kib + static_cast<std::uint64_t>(numbers[i]) * 8192, mib + i * 8192, 8192, 0}, 8192));
    }
    numbers.clear();
    EXPECT_EQ(must(gather.run(volume_, registration_, records, numbers, 0, results)).reads, 0U);
    const auto refused = [&](const Records& from, std::int64_t number, std::uint64_t to) {
        return gather.run(volume_, registration_, from, std::vector{number}, to, results).error().code;
    };
    EXPECT_EQ(refused(records, 200, 0), ERANGE);
    EXPECT_EQ(refused(records, -1, 0), ERANGE);
    EXPECT_EQ(refused({.offset = 0, .count = UINT64_MAX, .length = 8192}, 0, 0), EOVERFLOW);
    EXPECT_EQ(refused({.offset = UINT64_MAX, .count = 2, .length = 8192}, 0, 0), EOVERFLOW);
    EXPECT_EQ(refused(records, 0, UINT64_MAX - 100), EOVERFLOW);
    numbers.resize(101);
    EXPECT_EQ(gather.run(volume_, registration_, records, numbers, 0, results).error().code, E2BIG);
}

TEST_F(GatherTest, EachExtentHasItsResult)
{
    auto gather = must(Gather::create(engine_));
    const std::vector<Extent> extents{
        {0, 0, 4096, 0}, {8 * mib, 4096, 4096, 0}, {64 * kib, 8192, 4096, 0}, {0, 8 * mib, 4096, 0}};
    std::vector<std::int32_t> results(extents.size());
    const auto done = must(gather.run(volume_, registration_, extents, results));
    EXPECT_EQ(results, (std::vector<std::int32_t>{4096, -ERANGE, 4096, -ERANGE}));
    EXPECT_EQ(done.failed, 2U);
    EXPECT_EQ(done.bytes, 8192U);
    faults.broken = 1;
    const auto broken = must(gather.run(volume_, registration_, std::span(extents).first(1), results));
    EXPECT_EQ(broken.failed, 1U);
    EXPECT_EQ(results[0], -EIO);
}

TEST_F(GatherTest, AnErrorIsOfItsExtentAlone)
{
    auto gather = must(Gather::create(engine_));
    // Joined, and the last one ends beyond the memory.
    std::vector<Extent> extents;
    for (std::size_t i = 0; i < 5; i++)
        extents.push_back({i * 4096, 8 * mib - 4 * 4096 + i * 4096, 4096, 0});
    std::vector<std::int32_t> results(extents.size());
    auto done = must(gather.run(volume_, registration_, extents, results));
    EXPECT_EQ(results, (std::vector<std::int32_t>{4096, 4096, 4096, 4096, -ERANGE}));
    EXPECT_EQ(done.failed, 1U);
    EXPECT_EQ(done.bytes, 4U * 4096);
    for (std::size_t i = 0; i < 4; i++)
        EXPECT_TRUE(right(extents[i], 4096));
    // An error of the device: of what is read again by itself, one fails again.
    for (std::size_t i = 0; i < 5; i++)
        extents[i].memory_offset = i * 4096;
    faults.broken = 2;
    done = must(gather.run(volume_, registration_, extents, results));
    EXPECT_EQ(done.failed, 1U);
    EXPECT_EQ(done.reads, 6U);
    EXPECT_EQ(done.bytes, 4U * 4096);
    // Beyond the target's end there is nothing, joined or not.
    extents = {{8 * mib - 4096, 0, 4096, 0}, {8 * mib, 4096, 4096, 0}};
    done = must(gather.run(volume_, registration_, extents, std::span(results).first(2)));
    EXPECT_EQ(results[0], 4096);
    EXPECT_EQ(results[1], -ERANGE);
}

TEST_F(GatherTest, AFileThatHasGrownIsReadToItsNewEnd)
{
    const auto gather_of = [&](const Registration& registration) {
        auto gather = must(Gather::create(engine_));
        const std::vector<Extent> extents{{8 * mib - 4096, 0, 4096, 0},
                                          {8 * mib, 4096, 4096, 0},
                                          {8 * mib + 4096, 8192, 4096, 0},
                                          {8 * mib + 8192, 12288, 4096, 0}};
        std::vector<std::int32_t> results(extents.size());
        const auto done = must(gather.run(volume_, registration, extents, results));
        EXPECT_EQ(done.reads, 1U) << "they are joined";
        return results;
    };
    EXPECT_EQ(gather_of(registration_), (std::vector<std::int32_t>{4096, -ERANGE, -ERANGE, -ERANGE}));
    EXPECT_EQ(volume_.size_now(), 8 * mib);
    std::ofstream(file_.path(), std::ios::binary | std::ios::app) << std::string(8191, 'x');
    EXPECT_EQ(volume_.size(), 8 * mib);
    EXPECT_EQ(volume_.size_now(), 8 * mib + 8191);
    for (const bool staged : {false, true}) {
        const auto registration = must(volume_.add(memory_, {.direct = !staged, .staged = staged}));
        std::memset(memory_.data(), 0, 4 * 4096);
        // In several parts, of which one ends where the file has ended.
        for (const std::uint32_t longest : {0U, 4096U}) {
            faults.longest = longest;
            EXPECT_EQ(gather_of(registration), (std::vector<std::int32_t>{4096, 4096, 4095, -ERANGE}));
            ASSERT_TRUE(engine_.read(volume_, registration, {8 * mib - 4096, 0, 16384}, 0));
            EXPECT_EQ(one(engine_).result, 4096 + 8191);
            EXPECT_TRUE(right({8 * mib - 4096, 0, 4096, 0}, 4096));
            EXPECT_EQ(std::count(memory_.data() + 4096, memory_.data() + 4 * 4096, std::byte('x')), 8191);
        }
    }
    faults.longest = 0;
    auto stream =
        must(ReadStream::create(engine_, volume_, registration_, {.offset = 8 * mib, .piece = 65536}));
    EXPECT_EQ(must(stream.next()).length, 8191U);
    EXPECT_EQ(must(stream.next()).length, 0U);
}

/// Uses the engine while it is told of something, in all the ways that there are.
struct Busy final : Sink {
    void complete(std::uint64_t token, const Completion& completion) noexcept override
    {
        EXPECT_EQ(completion.result, 4096);
        tokens |= std::uint64_t{1} << token;
        count++;
        if (depth > 3)
            return;
        depth++;
        static_cast<void>(engine->poll({}));
        EXPECT_TRUE(engine->read(*volume, *memory, {0, 7 * mib, 4096}, 40, &inner));
        static_cast<void>(engine->wait({}));
        // I/O may end in any order: the first four alone may be at this depth.
        if (!gathered || token % 4 == 0) {
            const std::vector<Extent> extents{{4096, 6 * mib, 4096, 0}, {mib, 6 * mib + 8192, 4096, 0}};
            std::vector<std::int32_t> results(2);
            const auto done = gather->run(*volume, *memory, extents, results);
            EXPECT_TRUE((done && done->bytes == 8192) || done.error().code == EBUSY);
            gathered += done.has_value();
        }
        depth--;
    }
    struct Inner final : Sink {
        void complete(std::uint64_t, const Completion&) noexcept override { count++; }
        unsigned count = 0;
    } inner;
    Engine* engine = nullptr;
    Gather* gather = nullptr;
    const Volume* volume = nullptr;
    const Registration* memory = nullptr;
    std::uint64_t tokens = 0;
    unsigned count = 0, depth = 0, gathered = 0;
};

TEST_F(GatherTest, SinksMayUseTheEngine)
{
    for (const bool staged : {false, true}) {
        const auto registration = must(volume_.add(memory_, {.direct = !staged, .staged = staged}));
        auto engine = must(Engine::create({.entries = 32, .staging_slots = 3, .staging_bytes = 4096}));
        auto gather = must(Gather::create(engine));
        Busy busy;
        busy.engine = &engine;
        busy.gather = &gather;
        busy.volume = &volume_;
        busy.memory = &registration;
        for (std::uint64_t i = 0; i < 16; i++)
            ASSERT_TRUE(engine.read(volume_, registration, {i * 4096, i * 4096, 4096}, i, &busy));
        while (engine.in_flight())
            static_cast<void>(engine.wait({}));
        EXPECT_EQ(busy.count, 16U) << "each is told of once";
        EXPECT_EQ(busy.tokens, 0xffffU);
        EXPECT_GT(busy.inner.count, 0U);
        EXPECT_GT(busy.gathered, 0U);
        EXPECT_FALSE(std::memcmp(memory_.data(), file_.data().data(), 16 * 4096));
    }
}

TEST_F(GatherTest, ItsEngineMayBeMoved)
{
    auto first = std::make_unique<Engine>(must(Engine::create({.entries = 8})));
    auto gather = must(Gather::create(*first));
    auto stream = must(ReadStream::create(*first, volume_, registration_, {.window = 2, .piece = 64 * 1024}));
    const auto second = std::move(*first);
    first.reset();
    const std::vector<Extent> extents{{4096, 4 * mib, 4096, 0}};
    std::vector<std::int32_t> results(1);
    EXPECT_EQ(must(gather.run(volume_, registration_, extents, results)).bytes, 4096U);
    EXPECT_TRUE(right(extents[0], 4096));
    EXPECT_EQ(must(stream.next()).length, 64 * kib);
}

TEST_F(GatherTest, MoreThanItsCapacity)
{
    auto gather = must(Gather::create(engine_, {.capacity = 2}));
    const std::vector<Extent> extents(3);
    std::vector<std::int32_t> results(3);
    EXPECT_EQ(gather.run(volume_, registration_, extents, results).error().code, E2BIG);
    EXPECT_EQ(gather.run(volume_, registration_, std::span(extents).first(2), std::span(results).first(1))
                  .error()
                  .code,
              EINVAL);
    EXPECT_EQ(must(gather.run(volume_, registration_, {}, {})).reads, 0U);
    EXPECT_FALSE(Gather::create(engine_, {.capacity = 0}));
}

TEST_F(GatherTest, OthersOfTheEngineAreLeftToTheirs)
{
    auto gather = must(Gather::create(engine_));
    ASSERT_TRUE(engine_.read(volume_, registration_, {0, 4 * mib, 4096}, 77));
    const std::vector<Extent> extents{{4096, 0, 4096, 0}};
    std::vector<std::int32_t> results(1);
    EXPECT_EQ(must(gather.run(volume_, registration_, extents, results)).bytes, 4096U);
    EXPECT_EQ(one(engine_).token, 77U);
    // And where they take all its room, nobody waits for ever.
    auto small = must(Engine::create({.entries = 2}));
    auto other = must(Gather::create(small));
    for (std::uint64_t i = 0; i < 2; i++)
        ASSERT_TRUE(small.read(volume_, registration_, {0, 4 * mib, 4096}, i));
    EXPECT_EQ(other.run(volume_, registration_, extents, results).error().code, EBUSY);
    auto stream = must(ReadStream::create(small, volume_, registration_, {.window = 1}));
    EXPECT_EQ(stream.next().error().code, EBUSY);
    static_cast<void>(one(small));
    EXPECT_EQ(must(other.run(volume_, registration_, extents, results)).bytes, 4096U);
}

TEST_F(GatherTest, AStreamReadsAllOfIt)
{
    for (const std::uint32_t piece : {0U, 64U * 1024, 1048576U}) {
        auto stream = must(ReadStream::create(engine_, volume_, registration_, {.piece = piece}));
        std::vector<std::byte> all;
        for (;;) {
            const auto part = must(stream.next());
            if (!part.length)
                break;
            EXPECT_EQ(part.offset, all.size());
            all.insert(all.end(), memory_.data() + part.memory_offset,
                       memory_.data() + part.memory_offset + part.length);
        }
        EXPECT_EQ(all, file_.data());
    }
}

TEST(Pieces, AreWhatACommandTakes)
{
    const auto piece = [](std::uint64_t chunk, std::uint32_t members) {
        return usual_piece({.chunk_size = static_cast<std::uint32_t>(chunk), .member_count = members});
    };
    EXPECT_EQ(piece(0, 1), mib);
    EXPECT_EQ(piece(64 * kib, 4), mib);
    EXPECT_EQ(piece(512 * kib, 3), 3 * 512 * kib);
    EXPECT_EQ(piece(512 * kib, 128), 64 * mib);
    EXPECT_EQ(piece(16 * mib, 256), 64 * mib);
    EXPECT_EQ(piece(mib, 65), 64 * mib);
}

TEST_F(GatherTest, AStreamOfAPart)
{
    auto stream = must(ReadStream::create(engine_, volume_, registration_,
                                          {.offset = 3 * mib + 4096, .length = 100000, .piece = 64 * 1024}));
    std::vector<std::byte> all;
    for (auto part = must(stream.next()); part.length; part = must(stream.next()))
        all.insert(all.end(), memory_.data() + part.memory_offset,
                   memory_.data() + part.memory_offset + part.length);
    ASSERT_EQ(all.size(), 100000U);
    EXPECT_FALSE(std::memcmp(all.data(), file_.data().data() + 3 * mib + 4096, all.size()));
    EXPECT_FALSE(ReadStream::create(engine_, volume_, registration_, {.offset = 9 * mib}));
    EXPECT_FALSE(ReadStream::create(engine_, volume_, registration_, {.offset = mib, .length = 8 * mib}));
    EXPECT_FALSE(ReadStream::create(engine_, volume_, registration_, {.piece = 16 * 1024 * 1024}));
}

TEST_F(GatherTest, AStreamTellsOfAnError)
{
    auto stream = must(ReadStream::create(engine_, volume_, registration_, {.window = 2, .piece = 1048576}));
    ASSERT_TRUE(stream.next());
    faults.broken = 1;
    bool failed = false;
    for (int i = 0; i < 8 && !failed; i++)
        failed = !stream.next();
    EXPECT_TRUE(failed);
    // A caller that goes on gets no later piece, and no end.
    EXPECT_FALSE(stream.next());
    EXPECT_FALSE(stream.next());
    // It ends here, with reads in flight.
}

TEST_F(GatherTest, AStreamOfAnotherThread)
{
    // Of one that goes on.
    std::optional<ReadStream> reads;
    std::optional<WriteStream> writes;
    std::atomic<bool> made = false, polls = false;
    std::jthread thread([&] {
        auto engine = must(Engine::create());
        const StreamOptions options{.window = 2, .piece = 65536};
        reads.emplace(must(ReadStream::create(engine, volume_, registration_, options)));
        writes.emplace(must(WriteStream::create(engine, volume_, registration_, options)));
        static_cast<void>(must(writes->next()));
        EXPECT_TRUE(writes->put(4096));
        made = true;
        while (!polls)
            std::this_thread::yield();
        while (engine.in_flight())
            static_cast<void>(engine.wait({}));
    });
    while (!made)
        std::this_thread::yield();
    EXPECT_EQ(reads->next().error().code, EEXIST);
    EXPECT_EQ(writes->finish().error().code, EEXIST);
    polls = true;
    reads.reset();
    writes.reset();
    thread.join();
    // Of one that has ended, with a read whose sink gets no completion.
    auto engine = std::make_unique<Engine>(must(Engine::create()));
    faults.stalled = 1;
    std::thread([&] { reads.emplace(must(ReadStream::create(*engine, volume_, registration_))); }).join();
    EXPECT_EQ(reads->next().error().code, EEXIST);
    reads.reset();
    engine.reset();
}

TEST_F(GatherTest, AStreamWritesAllOfIt)
{
    {
        auto stream = must(WriteStream::create(engine_, volume_, registration_, {.piece = 1048576}));
        unsigned number = 0;
        for (auto part = must(stream.next()); part.length; part = must(stream.next())) {
            std::memset(memory_.data() + part.memory_offset, static_cast<int>(++number), part.length);
            ASSERT_TRUE(stream.put(part.length));
        }
        EXPECT_EQ(number, 8U);
        ASSERT_TRUE(stream.finish());
    }
    const auto now = file_.read();
    for (std::size_t i = 0; i < 8; i++) {
        EXPECT_EQ(now[i * mib], std::byte(i + 1));
        EXPECT_EQ(now[i * mib + mib - 1], std::byte(i + 1));
    }
    auto stream = must(WriteStream::create(engine_, volume_, registration_, {.piece = 1048576}));
    ASSERT_TRUE(stream.next());
    EXPECT_FALSE(stream.put(0));
    EXPECT_FALSE(stream.put(2097152));
    ASSERT_TRUE(stream.put(4096));
    EXPECT_EQ(must(stream.next()).length, 0U);
    faults.broken = 1;
    EXPECT_FALSE(stream.finish());
}

TEST_F(GatherTest, ALastPieceThatFoundNoRoomIsPutAgain)
{
    auto small = must(Engine::create({.entries = 2}));
    auto stream = must(WriteStream::create(small, volume_, registration_, {.window = 1, .piece = 65536}));
    auto part = must(stream.next());
    for (std::uint64_t i = 0; i < 2; i++)
        ASSERT_TRUE(small.read(volume_, registration_, {0, 4 * mib, 4096}, i));
    std::memset(memory_.data() + part.memory_offset, 77, 4096);
    EXPECT_EQ(stream.put(4096).error().code, EBUSY);
    static_cast<void>(one(small));
    static_cast<void>(one(small));
    part = must(stream.next());
    ASSERT_EQ(part.length, 65536U);
    ASSERT_TRUE(stream.put(4096));
    EXPECT_EQ(must(stream.next()).length, 0U);
    ASSERT_TRUE(stream.finish());
    EXPECT_EQ(file_.read()[4095], std::byte(77));
}

} // namespace

} // namespace weft::test
