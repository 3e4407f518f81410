// SPDX-License-Identifier: GPL-2.0-only
#include "support.hpp"

#include <cstdlib>
#include <cstring>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <map>
#include <poll.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

namespace weft::test
{

namespace
{

using EngineTest = LibraryTest;

bool same(const Memory& memory, std::size_t at, const std::vector<std::byte>& data, std::size_t from,
          std::size_t length)
{
    return !std::memcmp(memory.data() + at, data.data() + from, length);
}

TEST_F(EngineTest, ReadsAndWritesAndFlushes)
{
    const OpenFile opened(4 * mib, mib, Access::read_write);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.read(volume, registration, {mib, 0, mib}, 7));
    const auto read = one(engine);
    EXPECT_EQ(read.token, 7U);
    EXPECT_EQ(read.result, static_cast<std::int64_t>(mib));
    EXPECT_EQ(read.route, volume.is_direct() ? Route::direct : Route::cached);
    EXPECT_TRUE(same(memory, 0, file.data(), mib, mib));
    std::memset(memory.data(), 0x5a, mib);
    ASSERT_TRUE(engine.write(volume, registration, {2 * mib, 0, mib}, 8));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
    ASSERT_TRUE(engine.flush(volume, 9));
    EXPECT_EQ(one(engine).result, 0);
    const auto now = file.read();
    EXPECT_EQ(now[2 * mib], std::byte{0x5a});
    EXPECT_EQ(now[3 * mib - 1], std::byte{0x5a});
    EXPECT_EQ(now[3 * mib], file.data()[3 * mib]);
}

TEST_F(EngineTest, TheLastReadIsShort)
{
    const OpenFile opened(64 * kib + 100, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.read(volume, registration, {64 * kib, 0, 4096}, 0));
    EXPECT_EQ(one(engine).result, 100);
    EXPECT_TRUE(same(memory, 0, file.data(), 64 * kib, 100));
}

TEST_F(EngineTest, ShortReadsAreContinued)
{
    const OpenFile opened(mib, mib, Access::read_write);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    faults.longest = 8192;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
    EXPECT_TRUE(same(memory, 0, file.data(), 0, mib));
    std::memset(memory.data(), 0x11, mib);
    ASSERT_TRUE(engine.write(volume, registration, {0, 0, mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
    EXPECT_EQ(file.read(), std::vector<std::byte>(mib, std::byte{0x11}));
}

// O_DIRECT refuses what follows, as it does not begin with a block.
TEST_F(EngineTest, AFileThatEndsWithinABlockAndGrows)
{
    for (const bool staged : {false, true}) {
        const OpenFile opened(64 * kib, 64 * kib, Access::read, {.direct = !staged, .staged = staged});
        auto engine = must(Engine::create());
        faults.odd = 1;
        ASSERT_TRUE(engine.read(opened.volume, opened.registration, {0, 0, 64 * kib}, 0));
        const auto whole = static_cast<std::int64_t>(64 * kib);
        EXPECT_EQ(one(engine).result, opened.volume.is_direct() ? whole - 1 : whole) << staged;
        EXPECT_EQ(faults.odd, 0U);
    }
}

TEST_F(EngineTest, WhatCannotBeContinuedIsNoSuccess)
{
    for (const bool staged : {false, true}) {
        const OpenFile opened(64 * kib, 64 * kib, Access::read_write, {.direct = !staged, .staged = staged});
        auto engine = must(Engine::create());
        faults.longest = 8192;
        ASSERT_TRUE(engine.read(opened.volume, opened.registration, {0, 0, 64 * kib}, 0));
        EXPECT_EQ(engine.submit(), 0);
        faults.full = 1;
        EXPECT_EQ(one(engine).result, -EBUSY);
        ASSERT_TRUE(engine.write(opened.volume, opened.registration, {0, 0, 64 * kib}, 0));
        EXPECT_EQ(engine.submit(), 0);
        faults.full = 1;
        EXPECT_EQ(one(engine).result, -EBUSY);
        const auto ticket = engine.write(opened.volume, opened.registration, {0, 0, 64 * kib}, 0);
        ASSERT_TRUE(ticket);
        EXPECT_EQ(engine.submit(), 0);
        engine.cancel(*ticket);
        EXPECT_EQ(one(engine).result, -ECANCELED);
    }
}

TEST_F(EngineTest, TransientErrorsAreNone)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    faults.transient = 5;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 64 * kib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(64 * kib));
    EXPECT_EQ(faults.transient, 0U);
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 64 * kib));
}

TEST_F(EngineTest, AnErrorIsThatReadsAlone)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    faults.broken = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 1));
    EXPECT_EQ(one(engine).result, -EIO);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 2));
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, WrongArgumentsAreToldOf)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    const auto result = [&](const Io& io) {
        EXPECT_TRUE(engine.read(volume, registration, io, 0));
        return one(engine).result;
    };
    EXPECT_EQ(result({0, 0, 0}), -EINVAL);
    EXPECT_EQ(result({0, 64 * kib, 4096}), -ERANGE);
    EXPECT_EQ(result({0, ~std::uint64_t{0} - 10, 4096}), -ERANGE);
    EXPECT_EQ(result({64 * kib, 0, 4096}), -ERANGE);
    EXPECT_EQ(result({0, 0, 0x80000000U}), -ERANGE);
    EXPECT_EQ(result({0, 0, ~std::uint64_t{4095}}), -ERANGE);
    EXPECT_EQ(result({0, 0, 4096, std::chrono::nanoseconds(0)}), -ETIME);
    if (volume.is_direct())
        EXPECT_EQ(result({1, 0, 4096}), -EINVAL);
    EXPECT_EQ(result({0, 0, 4096, std::chrono::seconds(60)}), 4096);
    EXPECT_EQ(engine.in_flight(), 0U);
}

TEST_F(EngineTest, AnyBytesAreReadWhereStagingIsAllowed)
{
    constexpr std::size_t size = mib + 1234;
    const OpenFile opened(size, 2 * mib, Access::read, {.staged = true});
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.staging_slots = 3, .staging_bytes = 64 * kib}));
    const auto read = [&](const Io& io) {
        std::memset(memory.data(), 0x55, memory.size());
        EXPECT_TRUE(engine.read(volume, registration, io, 0));
        return one(engine);
    };
    std::mt19937 random(7);
    for (int i = 0; i < 200; i++) {
        const std::uint64_t offset = random() % size, memory_offset = random() % (512 * kib);
        const std::uint64_t length = 1 + random() % (i % 2 ? 9000 : 700 * kib);
        const auto wanted = std::min<std::uint64_t>(length, size - offset);
        const auto completion = read({offset, memory_offset, length});
        ASSERT_EQ(completion.result, static_cast<std::int64_t>(wanted)) << offset << " " << length;
        EXPECT_TRUE(same(memory, memory_offset, file.data(), offset, wanted));
        EXPECT_EQ(memory.data()[memory_offset + wanted], std::byte{0x55}) << "bytes behind the read";
        if (memory_offset)
            EXPECT_EQ(memory.data()[memory_offset - 1], std::byte{0x55}) << "bytes before the read";
    }
    if (!volume.is_direct())
        return;
    EXPECT_EQ(read({1, 0, 4096}).route, Route::staged);
    EXPECT_EQ(read({0, 1, 4096}).route, Route::staged);
    EXPECT_EQ(read({0, 0, 4096}).route, Route::direct);
    // Short reads are continued within blocks, too.
    faults.longest = 4096;
    EXPECT_EQ(read({4095, 3, 20000}).result, 20000);
    EXPECT_TRUE(same(memory, 3, file.data(), 4095, 20000));
}

TEST_F(EngineTest, NothingIsWrittenBesidesWholeBlocks)
{
    const OpenFile opened(64 * kib, 64 * kib, Access::read_write, {.staged = true});
    const auto& [file, volume, memory, registration] = opened;
    if (!volume.is_direct())
        GTEST_SKIP() << "this filesystem takes any bytes";
    auto engine = must(Engine::create());
    for (const Io& io : {Io{1, 0, 4096}, Io{0, 0, 100}, Io{1, 1, 4095}}) {
        ASSERT_TRUE(engine.write(volume, registration, io, 0));
        EXPECT_EQ(one(engine).result, -EINVAL);
    }
    EXPECT_EQ(file.read(), file.data());
    std::memset(memory.data(), 0x44, memory.size());
    ASSERT_TRUE(engine.write(volume, registration, {4096, 1, 4096}, 0));
    const auto completion = one(engine);
    EXPECT_EQ(completion.result, 4096);
    EXPECT_EQ(completion.route, Route::staged) << "memory that begins anywhere";
    const auto now = file.read();
    EXPECT_EQ(now[4095], file.data()[4095]);
    EXPECT_EQ(now[4096], std::byte{0x44});
    EXPECT_EQ(now[8191], std::byte{0x44});
    EXPECT_EQ(now[8192], file.data()[8192]);
}

TEST_F(EngineTest, AnEngineForAnyThread)
{
    const OpenFile opened(256 * kib, 256 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.any_thread = true}));
    for (std::size_t i = 0; i < 4; i++)
        std::thread([&] {
            ASSERT_TRUE(engine.read(volume, registration, {i * 64 * kib, i * 64 * kib, 64 * kib}, i));
            EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(64 * kib));
        }).join();
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 256 * kib));
}

TEST_F(EngineTest, NoMoreThanItsEntriesAreInFlight)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 4}));
    for (unsigned i = 0; i < 4; i++)
        EXPECT_TRUE(engine.read(volume, registration, {i * 4096, i * 4096, 4096}, i));
    EXPECT_FALSE(engine.read(volume, registration, {0, 0, 4096}, 9));
    std::uint64_t tokens = 0;
    for (unsigned i = 0; i < 4; i++)
        tokens |= 1U << one(engine).token;
    EXPECT_EQ(tokens, 15U);
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 4 * 4096));
    EXPECT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 9));
    engine.cancel({0, 0});
    engine.cancel({4, 1});
    engine.cancel({~0U, 1});
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, ADeadlineEndsWhatDoesNotComeBack)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 4}));
    faults.stalled = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096, std::chrono::milliseconds(50)}, 1));
    ASSERT_TRUE(engine.read(volume, registration, {4096, 4096, 4096, std::chrono::seconds(60)}, 2));
    // A busy machine may need more than the 50 ms before it submits them: either may be the first.
    std::map<std::uint64_t, std::int64_t> results;
    for (int i = 0; i < 2; i++) {
        const auto completion = one(engine);
        results[completion.token] = completion.result;
    }
    EXPECT_EQ(results, (std::map<std::uint64_t, std::int64_t>{{1, -ETIME}, {2, 4096}}));
    // It is a time, and not a duration of each submission. A busy machine may stand still for as long, but
    // not each time.
    constexpr std::chrono::milliseconds duration(1900);
    std::chrono::nanoseconds took = duration;
    for (int i = 0; i < 5 && took >= duration; i++) {
        faults.stalled = 1;
        ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096, std::chrono::seconds(2)}, 3));
        std::this_thread::sleep_for(std::chrono::milliseconds(2020));
        const auto start = std::chrono::steady_clock::now();
        EXPECT_EQ(one(engine).result, -ETIME);
        took = std::chrono::steady_clock::now() - start;
    }
    EXPECT_LT(took, duration);
    // And as long as anybody may want.
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096, std::chrono::nanoseconds::max()}, 4));
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, AWaitForEverWaits)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 4}));
    faults.stalled = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096, std::chrono::milliseconds(100)}, 1));
    Completion completion;
    unsigned turns = 0;
    while (!engine.wait({&completion, 1}, std::chrono::nanoseconds::max()))
        turns++;
    EXPECT_LT(turns, 10U);
    EXPECT_EQ(completion.result, -ETIME);
}

TEST_F(EngineTest, ACancelledOneEnds)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 4}));
    faults.stalled = 1;
    const auto ticket = engine.read(volume, registration, {0, 0, 4096}, 1);
    ASSERT_TRUE(ticket);
    Completion completion;
    EXPECT_EQ(engine.wait({&completion, 1}, std::chrono::milliseconds(20)), 0U) << "nothing ends it";
    engine.cancel(*ticket);
    engine.cancel(*ticket);
    EXPECT_EQ(one(engine).result, -ECANCELED);
    EXPECT_EQ(engine.in_flight(), 0U);
    engine.cancel(*ticket);
    // The slot's next is another one.
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 2));
    engine.cancel(*ticket);
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, WithAttachedFiles)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.attach(volume));
    ASSERT_TRUE(engine.attach(volume));
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 64 * kib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(64 * kib));
    engine.detach(volume);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 0));
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, WhatIsAttachedMayBeMovedAndOpenedAnew)
{
    const TemporaryFile first(64 * kib, 1), second(64 * kib, 2);
    const auto memory = must(Memory::allocate(64 * kib));
    auto engine = must(Engine::create());
    const auto reads = [&](const Volume& volume, const TemporaryFile& file) {
        const auto registration = must(volume.add(memory, {}));
        std::memset(memory.data(), 0, 64 * kib);
        EXPECT_TRUE(engine.read(volume, registration, {0, 0, 64 * kib}, 0));
        EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(64 * kib));
        EXPECT_TRUE(same(memory, 0, file.data(), 0, 64 * kib));
    };
    auto volume = must(Volume::open(first.path()));
    ASSERT_TRUE(engine.attach(volume));
    auto moved = std::move(volume);
    reads(moved, first);
    // In the same place, and another one.
    moved = must(Volume::open(second.path()));
    reads(moved, second);
}

TEST_F(EngineTest, WhatWasBegunGoesToItsTarget)
{
    // Until submit(), the kernel does not have it: the next target must not get its place meanwhile.
    const TemporaryFile first(64 * kib, 1), second(64 * kib, 2);
    const auto memory = must(Memory::allocate(64 * kib));
    const auto volume = must(Volume::open(first.path())), other = must(Volume::open(second.path()));
    const auto registration = must(volume.add(memory, {}));
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.attach(volume));
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 64 * kib}, 0));
    engine.detach(volume);
    ASSERT_TRUE(engine.attach(other));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(64 * kib));
    EXPECT_TRUE(same(memory, 0, first.data(), 0, 64 * kib));
}

TEST_F(EngineTest, ARegistrationIsForItsTarget)
{
    const OpenFile one_file(64 * kib, 64 * kib), other(64 * kib, 64 * kib);
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.read(one_file.volume, other.registration, {0, 0, 4096}, 0));
    EXPECT_EQ(one(engine).result, -EXDEV);
    ASSERT_TRUE(engine.read(one_file.volume, one_file.registration, {0, 0, 4096}, 0));
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, ObjectsMayBeMoved)
{
    const TemporaryFile file(64 * kib);
    auto volume = std::make_unique<Volume>(must(Volume::open(file.path())));
    auto memory = std::make_unique<Memory>(must(Memory::allocate(64 * kib)));
    auto* data = memory->data();
    auto registration = std::make_unique<Registration>(must(volume->add(*memory, {})));
    auto engine = std::make_unique<Engine>(must(Engine::create()));
    ASSERT_TRUE(engine->read(*volume, *registration, {0, 0, 64 * kib}, 0));
    // In flight, each of them goes elsewhere; the memory is the registration's, too.
    const auto moved_volume = std::move(*volume);
    volume.reset();
    memory.reset();
    auto moved_registration = std::move(*registration);
    registration.reset();
    auto moved_engine = std::move(*engine);
    engine.reset();
    EXPECT_EQ(one(moved_engine).result, static_cast<std::int64_t>(64 * kib));
    EXPECT_FALSE(std::memcmp(data, file.data().data(), 64 * kib));
    EXPECT_EQ(moved_registration.memory().data(), data);
}

TEST_F(EngineTest, ARegistrationEndsAfterItsIo)
{
    for (const bool staged : {false, true}) {
        OpenFile opened(64 * kib, 64 * kib, Access::read, {.direct = !staged, .staged = staged});
        auto engine = must(Engine::create());
        faults.stalled = 1;
        std::optional registration(std::move(opened.registration));
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE(
            engine.read(opened.volume, *registration, {0, 0, 4096, std::chrono::milliseconds(100)}, 1));
        registration.reset();
        EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(90));
        // It is told of all the same.
        Completion completion;
        ASSERT_EQ(engine.poll({&completion, 1}), 1U);
        EXPECT_EQ(completion.result, -ETIME);
    }
}

TEST_F(EngineTest, ARegistrationEndsAfterTheIoOfAnotherThread)
{
    OpenFile opened(64 * kib, 64 * kib);
    std::optional registration(std::move(opened.registration));
    faults.stalled = 1;
    std::atomic<bool> begun = false, ended = false;
    std::jthread thread([&] {
        auto engine = must(Engine::create());
        EXPECT_TRUE(
            engine.read(opened.volume, *registration, {0, 0, 4096, std::chrono::milliseconds(100)}, 1));
        begun = true;
        EXPECT_EQ(one(engine).result, -ETIME);
        ended = true;
    });
    while (!begun)
        std::this_thread::yield();
    registration.reset();
    for (int i = 0; i < 60000 && !ended; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(ended);
}

TEST_F(EngineTest, ItIsTheThreadsThatUsesItFirst)
{
    OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = std::make_unique<Engine>(must(Engine::create()));
    ASSERT_TRUE(engine->attach(volume));
    faults.stalled = 1;
    std::thread([&] {
        EXPECT_TRUE(engine->read(volume, registration, {0, 0, 4096}, 1));
        EXPECT_EQ(engine->submit(), 0);
        EXPECT_TRUE(engine->read(volume, registration, {0, 0, 4096}, 2));
        EXPECT_EQ(one(*engine).result, 4096);
    }).join();
    EXPECT_EQ(engine->submit(), -EEXIST);
    EXPECT_EQ(engine->attach(opened.volume).error().code, EEXIST);
    EXPECT_EQ(engine->event_fd().error().code, EEXIST);
    ASSERT_TRUE(engine->read(volume, registration, {0, 0, 4096}, 3));
    EXPECT_EQ(one(*engine).result, -EEXIST);
    EXPECT_EQ(engine->in_flight(), 1U) << "of the other thread";
    // And both end here all the same.
    {
        const Registration ends(std::move(opened.registration));
    }
    engine.reset();
}

TEST_F(EngineTest, ARingThatIsLostEndsEverything)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    faults.stalled = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 1));
    EXPECT_EQ(engine.submit(), 0);
    // Somebody closes descriptors that are not his.
    const OwnedFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    unsigned lost = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry, gone) == "anon_inode:[io_uring]")
            lost += ::dup2(null.get(), std::stoi(entry.path().filename())) >= 0;
    }
    ASSERT_EQ(lost, 1U);
    EXPECT_LT(one(engine).result, 0);
    EXPECT_LT(engine.submit(), 0);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 2));
    EXPECT_LT(one(engine).result, 0);
    EXPECT_EQ(engine.in_flight(), 0U);
}

/// Whether an engine names the filter in a child whose seccomp filter refuses io_uring with that errno.
bool names_the_filter(int errnum)
{
    const auto child = ::fork();
    if (!child) {
        sock_filter rules[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned int>(errnum)),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog program = {std::size(rules), rules};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
            ::_exit(2);
        const auto engine = Engine::create();
        const bool named = !engine && engine.error().code == errnum &&
                           engine.error().text.contains("a seccomp filter, such as that of a container");
        ::_exit(named ? 0 : 1);
    }
    int status = -1;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

TEST_F(EngineTest, AFilterThatRefusesItIsNamed)
{
    EXPECT_TRUE(names_the_filter(EPERM));
    // As if the kernel did not have it: what container runtimes do.
    EXPECT_TRUE(names_the_filter(ENOSYS));
}

TEST_F(EngineTest, ARegistrationForReadingOnlyIsNotWritten)
{
    OpenFile opened(64 * kib, 64 * kib, Access::read_write, {.read_only = true});
    auto engine = must(Engine::create());
    ASSERT_TRUE(engine.read(opened.volume, opened.registration, {0, 0, 4096}, 1));
    EXPECT_EQ(one(engine).result, -EACCES);
    ASSERT_TRUE(engine.write(opened.volume, opened.registration, {0, 0, 4096}, 2));
    EXPECT_EQ(one(engine).result, 4096);
}

TEST_F(EngineTest, AChildLeavesItToItsParent)
{
    if (is_under_valgrind())
        GTEST_SKIP() << "what a child leaves to its parent is a leak to valgrind";
    OpenFile opened(64 * kib, 64 * kib);
    auto engine = std::make_unique<Engine>(must(Engine::create()));
    faults.stalled = 1;
    const auto ticket = engine->read(opened.volume, opened.registration, {0, 0, 4096}, 1);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(engine->submit(), 0);
    for (const bool used : {false, true}) {
        const auto child = ::fork();
        ASSERT_GE(child, 0);
        if (!child) {
            // Which hangs where something is wrong.
            ::alarm(20);
            bool good = true;
            if (used) {
                good = one(*engine).result == -ECHILD && engine->submit() == -ECHILD &&
                       engine->read(opened.volume, opened.registration, {0, 0, 4096}, 2) &&
                       one(*engine).result == -ECHILD;
                // One of its own is as good as any.
                auto own = must(Engine::create());
                good = good && own.read(opened.volume, opened.registration, {0, 0, 4096}, 2) &&
                       one(own).result == 4096;
            }
            {
                const Registration ends(std::move(opened.registration));
            }
            engine.reset();
            ::_exit(good ? 0 : 1);
        }
        int status = -1;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    engine->cancel(*ticket);
    EXPECT_EQ(one(*engine).result, -ECANCELED);
    ASSERT_TRUE(engine->read(opened.volume, opened.registration, {0, 0, 4096}, 2));
    EXPECT_EQ(one(*engine).result, 4096);
}

TEST_F(EngineTest, SubmittedByAKernelThread)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 8, .sqpoll = true}));
    for (int i = 0; i < 20; i++) {
        ASSERT_TRUE(engine.read(volume, registration, {0, 0, 64 * kib}, 0));
        EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(64 * kib));
    }
}

TEST_F(EngineTest, PolledFor)
{
    const OpenFile opened(64 * kib, 64 * kib, Access::read_write);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 8, .iopoll = true}));
    // Not every device can be polled, but whether it can is no matter of deadlines.
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 0));
    const auto result = one(engine).result;
    EXPECT_TRUE(result == 4096 || result == -EOPNOTSUPP) << result;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096, std::chrono::seconds(60)}, 0));
    EXPECT_EQ(one(engine).result, result);
    const auto staged = must(volume.add(memory, {.direct = false, .staged = true}));
    ASSERT_TRUE(engine.read(volume, staged, {0, 0, 4096, std::chrono::seconds(60)}, 0));
    EXPECT_EQ(one(engine).result, result);
    ASSERT_TRUE(engine.flush(volume, 7));
    const auto flushed = one(engine);
    EXPECT_EQ(flushed.token, 7U);
    EXPECT_EQ(flushed.result, 0);
}

TEST_F(EngineTest, TellsByADescriptor)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create());
    pollfd waiting{must(engine.event_fd()), POLLIN, 0};
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 3));
    EXPECT_EQ(engine.submit(), 0);
    Completion completion;
    while (!engine.poll({&completion, 1}))
        ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
    EXPECT_EQ(completion.token, 3U);
    while (engine.poll({&completion, 1}))
        ;
    EXPECT_EQ(::poll(&waiting, 1, 0), 0) << "there is nothing more";
    // What the kernel never sees is told of, too, and so is what was not taken.
    ASSERT_TRUE(engine.read(volume, registration, {1, 0, 4096}, 4));
    ASSERT_TRUE(engine.read(volume, registration, {2, 0, 4096}, 5));
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
        ASSERT_EQ(engine.poll({&completion, 1}), 1U);
        EXPECT_EQ(completion.result, -EINVAL);
    }
    // Of what there was before there was a descriptor, and of what submit() finds out.
    auto other = must(Engine::create({.staging_slots = 0}));
    const auto staged = must(volume.add(memory, {.direct = false, .staged = true}));
    ASSERT_TRUE(other.read(volume, registration, {1, 0, 4096}, 6));
    waiting.fd = must(other.event_fd());
    ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
    ASSERT_EQ(other.poll({&completion, 1}), 1U);
    ASSERT_TRUE(other.read(volume, staged, {0, 0, 4096}, 7));
    EXPECT_EQ(other.submit(), 0);
    ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
    ASSERT_EQ(other.poll({&completion, 1}), 1U);
    EXPECT_EQ(completion.result, -ENOBUFS);
}

struct Counter final : Sink {
    void complete(std::uint64_t, const Completion& completion) noexcept override
    {
        count++;
        result = completion.result;
    }
    unsigned count = 0;
    std::int64_t result = 0;
};

TEST_F(EngineTest, SinksAloneArePolledFor)
{
    const OpenFile opened(64 * kib, 64 * kib);
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 2}));
    Counter counter;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 0, &counter));
    for (int i = 0; i < 5000 && !counter.count; i++) {
        EXPECT_EQ(engine.poll({}), 0U);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(counter.result, 4096);
}

/// A coroutine that nobody waits for.
struct Detached {
    struct promise_type {
        Detached get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

Detached read_once(Engine& engine, const Volume& volume, const Registration& memory, std::size_t at,
                   unsigned& done)
{
    EXPECT_EQ((co_await engine.co_read(volume, memory, {at, at, 4096})).result, 4096);
    done++;
}

Detached read_twice(Engine& engine, const Volume& volume, const Registration& memory, std::size_t at,
                    unsigned& done)
{
    for (int i = 0; i < 2; i++) {
        const auto completion = co_await engine.co_read(volume, memory, {at, at, 4096});
        EXPECT_EQ(completion.result, 4096);
    }
    done++;
}

TEST_F(EngineTest, Coroutines)
{
    const OpenFile opened(256 * kib, 256 * kib);
    const auto& [file, volume, memory, registration] = opened;
    // More of them than there are entries: the others take turns.
    auto engine = must(Engine::create({.entries = 4}));
    unsigned done = 0;
    for (std::size_t i = 0; i < 64; i++)
        read_twice(engine, volume, registration, i * 4096, done);
    while (done < 64)
        static_cast<void>(engine.wait({}));
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 256 * kib));
    done = 0;
    for (std::size_t i = 0; i < 64; i++)
        read_once(engine, volume, registration, i * 4096, done);
    // Those that wait do not mind where it is.
    auto moved = std::move(engine);
    while (done < 64)
        static_cast<void>(moved.wait({}));
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 256 * kib));
}

TEST_F(EngineTest, AnEngineEachThread)
{
    const OpenFile opened(4 * mib, 4 * mib);
    const auto& [file, volume, memory, registration] = opened;
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < 4; t++)
            threads.emplace_back([&, t] {
                auto engine = must(Engine::create({.entries = 8}));
                for (std::size_t i = 0; i < 256; i++) {
                    const auto at = t * mib + i * 4096;
                    while (!engine.read(volume, registration, {at, at, 4096}, i))
                        EXPECT_EQ(one(engine).result, 4096);
                }
                while (engine.in_flight())
                    EXPECT_EQ(one(engine).result, 4096);
            });
    }
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 4 * mib));
}

/// Memory that only the CPU reaches; a memfd is as good a dma-buf for that.
class Staged : public LibraryTest
{
protected:
    Staged() : fd_(memfd_create("weft", MFD_CLOEXEC)) { EXPECT_EQ(ftruncate(fd_, 4 * mib), 0); }
    ~Staged() override { ::close(fd_); }
    int fd_;
};

TEST_F(Staged, IsRefusedUnlessItIsAllowed)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_dmabuf(fd_, 0, mib));
    const auto strict = volume.add(memory, {});
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().code, EOPNOTSUPP);
    EXPECT_NE(strict.error().text.find("no direct route"), std::string::npos);
    const auto staged = must(volume.add(memory, {.staged = true}));
    EXPECT_EQ(staged.route(), Route::staged);
    EXPECT_FALSE(staged.reason().empty());
}

TEST_F(Staged, ReadsAndWrites)
{
    const TemporaryFile file(4 * mib);
    const auto volume = must(Volume::open(file.path(), Access::read_write));
    const auto memory = must(Memory::from_dmabuf(fd_, 4096, 3 * mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 16, .staging_slots = 3, .staging_bytes = 64 * kib}));
    faults.longest = 16 * kib;
    for (std::size_t i = 0; i < 3; i++)
        ASSERT_TRUE(engine.read(volume, registration, {i * mib, i * mib, mib}, i));
    for (std::size_t i = 0; i < 3; i++) {
        const auto completion = one(engine);
        EXPECT_EQ(completion.result, static_cast<std::int64_t>(mib));
        EXPECT_EQ(completion.route, Route::staged);
    }
    EXPECT_TRUE(same(memory, 0, file.data(), 0, 3 * mib));
    std::memset(memory.data(), 0x77, 3 * mib);
    ASSERT_TRUE(engine.write(volume, registration, {mib, 0, 2 * mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(2 * mib));
    // Its exporter is told of each copy: DMA_BUF_SYNC_READ is 1, _WRITE 2, _END 4.
    EXPECT_GE(faults.synced[2], 48U);
    EXPECT_EQ(faults.synced[2 | 4], faults.synced[2]);
    EXPECT_GE(faults.synced[1], 32U);
    EXPECT_EQ(faults.synced[1 | 4], faults.synced[1]);
    const auto written = faults.synced[2].load();
    EXPECT_EQ(memory.copy_in(0, "data", 4), 0);
    EXPECT_EQ(faults.synced[2 | 4], written + 1);
    const auto now = file.read();
    EXPECT_EQ(now[mib - 1], file.data()[mib - 1]);
    EXPECT_EQ(now[mib], std::byte{0x77});
    EXPECT_EQ(now[3 * mib - 1], std::byte{0x77});
    EXPECT_EQ(now[3 * mib], file.data()[3 * mib]);
}

TEST_F(Staged, CoroutinesInTurn)
{
    const OpenFile opened(64 * kib, 64 * kib, Access::read, {.direct = false, .staged = true});
    const auto& [file, volume, memory, registration] = opened;
    for (const bool sqpoll : {false, true}) {
        auto engine = must(Engine::create({.entries = 1, .sqpoll = sqpoll, .staging_slots = 1}));
        pollfd waiting{must(engine.event_fd()), POLLIN, 0};
        unsigned done = 0;
        for (std::size_t i = 0; i < 8; i++)
            read_twice(engine, volume, registration, i * 4096, done);
        while (done < 8) {
            ASSERT_EQ(::poll(&waiting, 1, 60000), 1) << done;
            engine.poll({});
        }
    }
}

TEST_F(Staged, AnErrorEndsIt)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_dmabuf(fd_, 0, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 4, .staging_slots = 2, .staging_bytes = 64 * kib}));
    faults.broken_after = 3;
    faults.broken = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    EXPECT_EQ(one(engine).result, -EIO);
    EXPECT_EQ(engine.in_flight(), 0U);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(mib));
}

/// What is behind the piece that was read short does not count.
TEST_F(Staged, AFileThatEndsWithinTheRangeAndGrows)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_dmabuf(fd_, 0, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 4, .staging_slots = 2, .staging_bytes = 64 * kib}));
    faults.broken_after = 3;
    faults.ended = 1;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    const auto got = one(engine).result;
    EXPECT_EQ(got % (64 * kib), 0U);
    ASSERT_LT(got, static_cast<std::int64_t>(mib / 2));
    EXPECT_FALSE(std::memcmp(memory.data(), file.data().data(), static_cast<std::size_t>(got)));
}

TEST_F(Staged, DeadlinesAndCancellation)
{
    const OpenFile opened(4 * mib, 4 * mib, Access::read, {.direct = false, .staged = true});
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 8, .staging_slots = 2, .staging_bytes = 64 * kib}));
    const auto in_flight = [&](std::uint64_t token) {
        Completion completion;
        EXPECT_EQ(engine.wait({&completion, 1}, std::chrono::milliseconds(20)), 0U) << token;
    };
    // Two pieces have slots and do not come back; the third waits for one.
    faults.stalled = 2;
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib, std::chrono::seconds(1)}, 1));
    EXPECT_EQ(one(engine).result, -ETIME);
    faults.stalled = 2;
    const auto first = engine.read(volume, registration, {0, 0, mib}, 2);
    const auto second = engine.read(volume, registration, {mib, mib, mib}, 3);
    ASSERT_TRUE(first && second);
    in_flight(2);
    engine.cancel(*second);
    auto completion = one(engine);
    EXPECT_EQ(completion.token, 3U);
    EXPECT_EQ(completion.result, -ECANCELED);
    engine.cancel(*first);
    completion = one(engine);
    EXPECT_EQ(completion.token, 2U);
    EXPECT_EQ(completion.result, -ECANCELED);
    EXPECT_EQ(engine.in_flight(), 0U);
    // Of one that never had a slot.
    faults.stalled = 2;
    const auto third = engine.read(volume, registration, {0, 0, mib}, 5);
    ASSERT_TRUE(third);
    in_flight(5);
    ASSERT_TRUE(engine.read(volume, registration, {mib, mib, mib, std::chrono::seconds(1)}, 6));
    ASSERT_TRUE(engine.read(volume, registration, {mib, mib, mib, std::chrono::milliseconds(50)}, 7));
    // In this order, unless this process stood still.
    std::map<std::uint64_t, std::int64_t> ended;
    for (int i = 0; i < 2; i++) {
        completion = one(engine);
        ended[completion.token] = completion.result;
    }
    EXPECT_EQ(ended, (std::map<std::uint64_t, std::int64_t>{{6, -ETIME}, {7, -ETIME}}));
    engine.cancel(*third);
    EXPECT_EQ(one(engine).result, -ECANCELED);
    // And in an engine that has room for one.
    auto small = must(Engine::create({.entries = 1, .staging_slots = 1, .staging_bytes = 64 * kib}));
    ASSERT_TRUE(small.read(volume, registration, {0, 0, mib, std::chrono::seconds(60)}, 8));
    EXPECT_EQ(one(small).result, static_cast<std::int64_t>(mib));
    faults.stalled = 1;
    ASSERT_TRUE(small.read(volume, registration, {0, 0, mib, std::chrono::milliseconds(50)}, 9));
    EXPECT_EQ(one(small).result, -ETIME);
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4 * mib}, 4));
    EXPECT_EQ(one(engine).result, static_cast<std::int64_t>(4 * mib));
    EXPECT_EQ(std::memcmp(memory.data(), file.data().data(), 4 * mib), 0);
}

TEST_F(Staged, SmallOnesTakeLittleOfIt)
{
    const OpenFile opened(mib, mib, Access::read, {.direct = false, .staged = true});
    const auto& [file, volume, memory, registration] = opened;
    auto engine = must(Engine::create({.entries = 64, .staging_slots = 2, .staging_bytes = mib}));
    // Thirty-one do not come back, and the next one does not wait for them.
    faults.stalled = 31;
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < 32; i++)
        tickets.push_back(*engine.read(volume, registration, {i * 4096, i * 4096, 4096}, i));
    Completion completion;
    ASSERT_EQ(engine.wait({&completion, 1}, std::chrono::seconds(10)), 1U);
    EXPECT_EQ(completion.token, 31U);
    EXPECT_EQ(completion.result, 4096);
    // A piece that is larger than what is left waits for its neighbours, and those behind it for their turn.
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 40));
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096}, 41));
    EXPECT_EQ(engine.wait({&completion, 1}, std::chrono::milliseconds(20)), 0U);
    for (const auto& ticket : tickets)
        engine.cancel(ticket);
    for (int i = 0; i < 31; i++)
        EXPECT_EQ(one(engine).result, -ECANCELED);
    std::int64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += one(engine).result;
    EXPECT_EQ(bytes, static_cast<std::int64_t>(mib + 4096));
    EXPECT_TRUE(same(memory, 0, file.data(), 0, mib));
}

TEST_F(Staged, ManyMayWait)
{
    const OpenFile opened(mib, mib, Access::read, {.direct = false, .staged = true});
    const auto& [file, volume, memory, registration] = opened;
    constexpr unsigned many = 16384;
    auto engine = must(Engine::create({.entries = many, .staging_slots = 1, .staging_bytes = 64 * kib}));
    const auto cpu_seconds = [] {
        timespec time{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    };
    const auto start = cpu_seconds();
    for (unsigned i = 0; i < many; i++)
        ASSERT_TRUE(engine.read(volume, registration, {0, 0, 4096, std::chrono::minutes(10)}, i));
    EXPECT_LT(cpu_seconds() - start, 1.0) << "each looks at all others";
    std::vector<Completion> completions(many);
    for (unsigned i = 0; i < many;) {
        const auto count = static_cast<unsigned>(engine.wait(completions));
        for (unsigned k = 0; k < count; k++)
            ASSERT_EQ(completions[k].result, 4096);
        i += count;
    }
    EXPECT_EQ(engine.in_flight(), 0U);
}

TEST_F(Staged, WithoutSlotsItFails)
{
    const TemporaryFile file(mib);
    const auto volume = must(Volume::open(file.path()));
    const auto memory = must(Memory::from_dmabuf(fd_, 0, mib));
    const auto registration = must(volume.add(memory, {.staged = true}));
    auto engine = must(Engine::create({.entries = 4, .staging_slots = 0}));
    ASSERT_TRUE(engine.read(volume, registration, {0, 0, mib}, 0));
    EXPECT_EQ(one(engine).result, -ENOBUFS);
}

TEST_F(EngineTest, OptionsOutOfRange)
{
    EXPECT_FALSE(Engine::create({.entries = 0}));
    EXPECT_FALSE(Engine::create({.entries = 100000}));
    EXPECT_FALSE(Engine::create({.staging_bytes = 1000}));
}

} // namespace

} // namespace weft::test
