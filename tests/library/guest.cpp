// SPDX-License-Identifier: GPL-2.0-only
/// libweft on a weft volume, in a guest, built as a user builds: with what is installed. Speaks TAP.
///
///   weft-libtest VOLUME          overwrites its first 16 MiB; or those of another block device
///   weft-libtest VOLUME FILE     reads a sealed file on it
///   weft-libtest long VOLUME     one I/O that is longer than a command; overwrites its last 96 MiB
///   weft-libtest bench SOURCE DEPTH BATCHES SPAN [BATCH]
///       gathers batches of BATCH (4,096) reads of 4 KiB from the first SPAN bytes; prints nanoseconds a
///       read, by the clock and of the processor
///   weft-libtest bench-c SOURCE DEPTH BATCHES SPAN [BATCH]
///       the same by the interface for C
#include <weft/gather.hpp>
#include <weft/stream.hpp>
#include <weft/weft.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace
{

constexpr std::size_t mib = 1 << 20;
int number = 0;
int failures = 0;

void result(bool good, const std::string& sentence)
{
    failures += !good;
    std::printf("%sok %d - %s\n", good ? "" : "not ", ++number, sentence.c_str());
}

template <typename T>
T must(weft::Result<T> value)
{
    if (!value)
        throw std::runtime_error(value.error().text);
    if constexpr (!std::is_void_v<T>)
        return std::move(*value);
}

/// Extents of 4 KiB that cover `bytes`, in no order, and go where they belong.
std::vector<weft::Extent> shuffled(std::size_t bytes)
{
    std::vector<weft::Extent> extents;
    for (std::size_t at = 0; at < bytes; at += 4096)
        extents.push_back({at, at, static_cast<std::uint32_t>(std::min<std::size_t>(4096, bytes - at)), 0});
    std::shuffle(extents.begin(), extents.end(), std::mt19937(5));
    return extents;
}

/// Gathers what `data` should be, and says whether it is, and by which route.
bool gathers(weft::Engine& engine, const weft::Target& target, const weft::Memory& memory,
             const weft::Policy& policy, const std::vector<std::byte>& data, weft::Route route)
{
    const auto registration = must(target.add(memory, policy));
    auto gather = must(weft::Gather::create(engine));
    auto extents = shuffled(data.size());
    // The last block is read to its end.
    const auto block = target.geometry().block_size;
    for (auto& extent : extents)
        extent.length = (extent.length + block - 1) / block * block;
    std::vector<std::int32_t> results(extents.size());
    std::memset(memory.data(), 0, data.size());
    const auto done = must(gather.run(target, registration, extents, results));
    if (done.failed || done.bytes != data.size() || done.route != route)
        std::printf("# %u failed, %llu bytes of %zu, %s\n", done.failed,
                    static_cast<unsigned long long>(done.bytes), data.size(), weft::name_of(done.route));
    return !done.failed && done.bytes == data.size() && done.route == route &&
           !std::memcmp(memory.data(), data.data(), data.size());
}

/// The result of the engine's only I/O.
std::int64_t result_of(weft::Engine& engine, const std::optional<weft::Ticket>& begun)
{
    weft::Completion done;
    if (!begun)
        return -1;
    while (!engine.wait({&done, 1}))
        ;
    return done.result;
}

/// The result of one read.
std::int64_t read_at(weft::Engine& engine, const weft::Target& target, const weft::Registration& memory,
                     const weft::Io& io)
{
    return result_of(engine, engine.read(target, memory, io, 1));
}

std::int64_t read_block(weft::Engine& engine, const weft::Target& target, const weft::Registration& memory)
{
    return read_at(engine, target, memory, {0, 0, 4096});
}

/// A read that begins in the last block and asks for much more ends with what is there, and writes no byte
/// behind that block.
bool is_short_at_the_end(weft::Engine& engine, const weft::Target& target, const weft::Memory& memory)
{
    const auto registration = must(target.add(memory, {}));
    const std::uint64_t block = target.geometry().block_size, size = target.size();
    const auto last = (size - 1) / block * block;
    std::memset(memory.data(), 0xa5, mib);
    const auto result = read_at(engine, target, registration, {last, 0, mib});
    const std::byte* const first = memory.data() + block;
    const std::byte* const end = memory.data() + mib;
    const bool clean = std::all_of(first, end, [](std::byte byte) { return byte == std::byte{0xa5}; });
    if (result != static_cast<std::int64_t>(size - last) || !clean)
        std::printf("# %lld of %llu bytes\n", static_cast<long long>(result),
                    static_cast<unsigned long long>(size - last));
    return registration.route() == weft::Route::direct && clean &&
           result == static_cast<std::int64_t>(size - last);
}

/// In a child of fork(): its parent's registration of host memory is refused, and one of its own is good.
bool child_registers_anew(const weft::Target& volume, const weft::Memory& memory,
                          const weft::Registration& parents)
{
    const auto child = ::fork();
    if (!child) {
        auto engine = must(weft::Engine::create());
        const bool refused = read_block(engine, volume, parents) == -ECHILD;
        const auto own = must(volume.add(memory, {}));
        ::_exit(refused && read_block(engine, volume, own) == 4096 ? 0 : 1);
    }
    int status = 1;
    return child > 0 && ::waitpid(child, &status, 0) == child && !status;
}

void test_volume(const std::string& name)
{
    const auto volume = must(weft::Volume::open(name, weft::Access::read_write));
    const auto& geometry = volume.geometry();
    std::printf("# %llu bytes, %u members, chunks of %u\n", static_cast<unsigned long long>(geometry.size),
                geometry.member_count, geometry.chunk_size);
    if (volume.is_weft())
        result(geometry.member_count > 1 && geometry.chunk_size, "a weft volume tells of its stripes");
    auto engine = must(weft::Engine::create());
    const auto memory = must(weft::Memory::allocate(16 * mib));
    std::vector<std::byte> data(16 * mib);
    std::mt19937 random(9);
    for (auto& byte : data)
        byte = static_cast<std::byte>(random());
    {
        const auto registration = must(volume.add(memory, {}));
        result(registration.route() == weft::Route::direct, "the process's own memory is direct");
        auto stream = must(weft::WriteStream::create(engine, volume, registration, {.length = data.size()}));
        for (auto part = must(stream.next()); part.length; part = must(stream.next())) {
            std::memcpy(memory.data() + part.memory_offset, data.data() + part.offset, part.length);
            must(stream.put(part.length));
        }
        must(stream.finish());
        if (volume.is_weft())
            result(child_registers_anew(volume, memory, registration),
                   "a child is refused its parent's registration, and reads by its own");
    }
    result(gathers(engine, volume, memory, {}, data, weft::Route::direct), "written by a stream, gathered");
    result(is_short_at_the_end(engine, volume, memory), "a read over the end is short");
    if (access("/dev/udmabuf", F_OK)) {
        std::printf("ok %d - a dma-buf # SKIP this kernel has no udmabuf\n", ++number);
        return;
    }
    const auto buffer = must(weft::Memory::allocate_udmabuf(16 * mib));
    const auto strict = volume.add(buffer, {});
    result(!strict && strict.error().text.find("no direct route") != std::string::npos,
           "a dma-buf without a direct route is refused, with the kernel's sentence");
    std::printf("# %s\n", strict ? "" : strict.error().text.c_str());
    if (volume.is_weft()) {
        result(gathers(engine, volume, buffer, {.bounce = true}, data, weft::Route::bounce),
               "and bounces where that is allowed");
        const auto bounced = must(volume.add(buffer, {.bounce = true}));
        result(!strict && bounced.reason() == strict.error().text, "for the same reason");
    }
    result(gathers(engine, volume, buffer, {.staged = true}, data, weft::Route::staged),
           "or is staged by the library");
}

/// Word `number` of the pattern. No two are alike, so a piece at a wrong place is noticed.
std::uint64_t word(std::uint64_t number)
{
    return (number + 1) * 0x9e3779b97f4a7c15;
}

/// One I/O that is longer than a command on registered memory (WEFT_MEM_CMD_BYTES_MAX, 64 MiB).
void test_long(const std::string& name)
{
    constexpr std::size_t bytes = 96 * mib, skipped = 16 * mib, each = sizeof(std::uint64_t);
    constexpr std::int64_t whole = bytes, rest = bytes - skipped;
    const auto volume = must(weft::Volume::open(name, weft::Access::read_write));
    auto engine = must(weft::Engine::create());
    const auto memory = must(weft::Memory::allocate(bytes));
    const auto registration = must(volume.add(memory, {}));
    result(volume.is_weft() && registration.route() == weft::Route::direct,
           "96 MiB are registered with a weft volume");
    auto* const words = reinterpret_cast<std::uint64_t*>(memory.data());
    // The bytes from the memory's start on that are those of the pattern from this word on.
    const auto good = [words](std::uint64_t from) {
        std::uint64_t count = 0;
        while (count < bytes / each && words[count] == word(from + count))
            count++;
        return static_cast<std::int64_t>(count * each);
    };
    const auto check = [&](const char* sentence, std::int64_t wanted, std::int64_t moved,
                           std::int64_t right) {
        result(moved == wanted && right == wanted, sentence);
        std::printf("# %lld bytes, the first %lld right\n", static_cast<long long>(moved),
                    static_cast<long long>(right));
    };
    for (std::uint64_t i = 0; i < bytes / each; i++)
        words[i] = word(i);
    const auto start = volume.size() - bytes;
    result(result_of(engine, engine.write(volume, registration, {start, 0, bytes}, 1)) == whole,
           "one write of 96 MiB");
    std::memset(memory.data(), 0, bytes);
    const auto read = read_at(engine, volume, registration, {start, 0, bytes});
    check("one read of 96 MiB has these bytes", whole, read, good(0));
    std::memset(memory.data(), 0, bytes);
    const auto short_read = read_at(engine, volume, registration, {start + skipped, 0, bytes});
    check("one over the end is short, and has the rest", rest, short_read, good(skipped / each));
}

void test_file(const std::string& name, const std::string& path)
{
    const auto volume = must(weft::Volume::open(name));
    const auto file = must(weft::File::open(volume, path, true));
    std::vector<std::byte> data(file.size());
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (pread(fd, data.data(), data.size(), 0) != static_cast<ssize_t>(data.size()))
        throw std::runtime_error("pread");
    close(fd);
    auto engine = must(weft::Engine::create());
    const auto memory = must(weft::Memory::allocate((data.size() + 4095) / 4096 * 4096));
    result(file.is_weft() && gathers(engine, file, memory, {}, data, weft::Route::direct),
           "a sealed file is read past its filesystem");
    result(is_short_at_the_end(engine, file, memory), "a read over its end is short");
    const auto loose = must(weft::File::open(volume, "/proc/self/exe", false));
    result(!loose.is_weft() && !loose.reason().empty(), "another is read through its own");
    std::printf("# %s\n", loose.reason().c_str());
}

/// Batches of reads of 4 KiB at random places in the first `span` bytes.
struct Reads {
    std::uint32_t depth;
    unsigned batches;
    std::uint64_t span;
    std::uint32_t batch;
};

/// Prints the nanoseconds of a read. `gather` reads the extents of a batch, and returns the number of reads
/// that it sent, 0 if one failed.
template <typename Extent, typename Gather>
void time_reads(const Reads& reads, Gather gather)
{
    std::vector<Extent> extents(reads.batch);
    std::vector<std::int32_t> results(reads.batch);
    std::mt19937_64 random(3);
    std::chrono::nanoseconds took{};
    std::clock_t used = 0;
    for (unsigned b = 0; b < reads.batches; b++) {
        for (std::uint32_t i = 0; i < reads.batch; i++)
            extents[i] = {random() % (reads.span / 4096) * 4096, std::uint64_t{i} * 4096, 4096, 0};
        const auto before = std::clock();
        const auto start = std::chrono::steady_clock::now();
        const std::uint32_t sent = gather(extents, results);
        took += std::chrono::steady_clock::now() - start;
        used += std::clock() - before;
        if (sent != reads.batch)
            throw std::runtime_error("a read failed");
    }
    const auto count = static_cast<double>(reads.batches) * reads.batch;
    std::printf("%.1f %.1f\n", static_cast<double>(took.count()) / count,
                static_cast<double>(used) * 1e9 / CLOCKS_PER_SEC / count);
}

void bench(const std::string& source, const Reads& reads)
{
    const auto target = must(weft::open(source));
    if (!target.reason().empty())
        throw std::runtime_error(target.reason());
    auto engine = must(weft::Engine::create({.entries = reads.depth}));
    must(engine.attach(target));
    const auto memory = must(weft::Memory::allocate(std::size_t{reads.batch} * 4096));
    const auto registration = must(target.add(memory, {}));
    auto gather =
        must(weft::Gather::create(engine, {.capacity = reads.batch, .depth = reads.depth, .largest = 4096}));
    time_reads<weft::Extent>(reads, [&](auto& extents, auto& results) -> std::uint32_t {
        const auto done = must(gather.run(target, registration, extents, results));
        return done.failed ? 0 : done.reads;
    });
}

/// The same by the interface for C.
void bench_c(const std::string& source, const Reads& reads)
{
    weft_error error{};
    // An object of the library, until its end.
    const auto made = [&error](auto* object, auto end) {
        if (!object)
            throw std::runtime_error(error.text);
        return std::unique_ptr<std::remove_pointer_t<decltype(object)>, decltype(end)>(object, end);
    };
    const auto target = made(weft_open(source.c_str(), WEFT_READ, &error), weft_close);
    if (*weft_target_reason(target.get()))
        throw std::runtime_error(weft_target_reason(target.get()));
    weft_engine_options engine_options{};
    engine_options.size = sizeof(engine_options);
    engine_options.entries = reads.depth;
    const auto engine = made(weft_engine_create(&engine_options, &error), weft_engine_destroy);
    if (weft_engine_attach(engine.get(), target.get()))
        throw std::runtime_error("the target cannot be attached to the engine");
    const auto memory = made(weft_memory_allocate(std::size_t{reads.batch} * 4096, &error), weft_memory_free);
    const auto registration = made(weft_register(target.get(), memory.get(), 0, &error), weft_unregister);
    weft_gather_options gather_options{};
    gather_options.size = sizeof(gather_options);
    gather_options.capacity = reads.batch;
    gather_options.depth = reads.depth;
    gather_options.largest = 4096;
    const auto gather = made(weft_gather_create(engine.get(), &gather_options, &error), weft_gather_destroy);
    time_reads<weft_extent>(reads, [&](auto& extents, auto& results) -> std::uint32_t {
        weft_gathered done{};
        if (weft_gather_run(gather.get(), target.get(), registration.get(), extents.data(), extents.size(),
                            results.data(), &done, &error))
            throw std::runtime_error(error.text);
        return done.failed ? 0 : done.reads;
    });
}

} // namespace

int main(int argc, char** argv)
{
    try {
        const bool is_c = argc > 1 && !std::strcmp(argv[1], "bench-c");
        if ((argc == 6 || argc == 7) && (is_c || !std::strcmp(argv[1], "bench"))) {
            const Reads reads{static_cast<std::uint32_t>(std::atoi(argv[3])),
                              static_cast<unsigned>(std::atoi(argv[4])), std::strtoull(argv[5], nullptr, 10),
                              argc == 7 ? static_cast<std::uint32_t>(std::atoi(argv[6])) : 4096};
            (is_c ? bench_c : bench)(argv[2], reads);
            return 0;
        }
        if (argc == 2)
            test_volume(argv[1]);
        else if (argc == 3 && !std::strcmp(argv[1], "long"))
            test_long(argv[2]);
        else if (argc == 3)
            test_file(argv[1], argv[2]);
        else
            throw std::runtime_error("usage: weft-libtest VOLUME [FILE], or long VOLUME");
    } catch (const std::exception& problem) {
        result(false, problem.what());
    }
    std::printf("1..%d\n", number);
    return failures != 0;
}
