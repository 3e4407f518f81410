// SPDX-License-Identifier: GPL-2.0-only
/// What the tests of /dev/weft/NAME.mem do in a guest: I/O on registered memory, compared with the block
/// device.
///
///   weft-memtest VOLUME verify MEMORY [OPTION...]
///       random writes and reads, each way compared; prints the route. With --buffered the other side is
///       the page cache, whose written bytes are dirty
///   weft-memtest VOLUME load MEMORY [OPTION...]
///       reads and writes until it is killed, or --seconds are over; with --fixed by a file that the ring
///       has and the process has closed; with --daemon in a child, after which the parent exits
///   weft-memtest VOLUME file MEMORY PATH [OPTION...]
///       random reads of a sealed file, compared with what read() gives; with --stop it stops itself
///       before (SIGSTOP), and the first read is of all that fits in the memory
///   weft-memtest VOLUME bad
///       wrong input of every kind, as TAP
///   weft-memtest VOLUME stopped
///       stops the volume under its open file, and sends commands, as TAP
///   weft-memtest VOLUME register MEMORY
///       one registration: its route, or why not
///   weft-memtest VOLUME waits MEMORY [OPTION...]
///       registers and reads --count times, and prints how often the ends of that slept
///   weft-memtest VOLUME workers MEMORY [OPTION...]
///       reads --largest bytes by one command, and prints how many workers of io_uring that took
///
/// MEMORY: pages, udmabuf, heap, bar=PCI-ADDRESS, vfio=PCI-ADDRESS, or
/// exporter[,pin|,pinmoves][,novmap][,refuse][,run][,bar][,ro][,slow=MS]
#include "memtest.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace
{

struct command_line {
    std::string volume;
    std::string verb;
    std::string memory = "pages";
    std::string path;
    std::uint32_t flags = 0;
    std::uint32_t io_class = 0; ///< flags of the commands of "bench"
    std::uint64_t size = 4U << 20;
    unsigned count = 64;
    unsigned depth = 16;
    unsigned seconds = 0;
    unsigned revoke_ms = 0;  ///< the exporter revokes it after this
    unsigned move_ms = 0;    ///< the exporter moves its memory this often meanwhile
    std::uint64_t shift = 0; ///< where in the dma-buf the memory begins
    std::uint64_t from = 0;  ///< I/O is on the volume from here on,
    std::uint64_t span = 0;  ///< on so many bytes; 0 for all of the rest
    std::uint64_t seed = 7;
    std::uint32_t largest = 1U << 20;
    bool stop = false;
    bool buffered = false; ///< the block device is read and written by the page cache
    bool fixed = false;    ///< the ring alone has the file of commands
    bool daemon = false;   ///< the process that opened the file has exited
};

command_line parse(int argc, char** argv)
{
    command_line line;
    std::vector<std::string> words;
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        const auto number = [&](const char* name, auto& to) {
            const std::string prefix = std::string("--") + name + "=";
            if (!word.starts_with(prefix))
                return false;
            to = static_cast<std::remove_reference_t<decltype(to)>>(std::stoull(word.substr(prefix.size())));
            return true;
        };
        if (word == "--vmap")
            line.flags |= WEFT_MEM_ALLOW_VMAP;
        else if (word == "--persistent")
            line.flags |= WEFT_MEM_PERSISTENT;
        else if (word == "--bounce")
            line.flags |= WEFT_MEM_ALLOW_BOUNCE;
        else if (word == "--feed")
            line.io_class = WEFT_MEM_CMD_FEED;
        else if (word == "--background")
            line.io_class = WEFT_MEM_CMD_BACKGROUND;
        else if (word == "--stop")
            line.stop = true;
        else if (word == "--buffered")
            line.buffered = true;
        else if (word == "--fixed")
            line.fixed = true;
        else if (word == "--daemon")
            line.daemon = true;
        else if (!number("size", line.size) && !number("count", line.count) && !number("depth", line.depth) &&
                 !number("seconds", line.seconds) && !number("move", line.move_ms) &&
                 !number("revoke", line.revoke_ms) && !number("shift", line.shift) &&
                 !number("from", line.from) && !number("span", line.span) && !number("seed", line.seed) &&
                 !number("largest", line.largest))
            words.push_back(word);
    }
    if (words.size() < 2)
        die("usage: weft-memtest VOLUME verify|load|submit|file|bad|stopped|register [MEMORY] [PATH] "
            "[OPTION...]");
    line.volume = words[0];
    line.verb = words[1];
    if (words.size() > 2)
        line.memory = words[2];
    if (words.size() > 3)
        line.path = words[3];
    return line;
}

/// The volume's geometry, with the size of that part of it which the test may use.
weft_mem_geometry part_of(const command_line& line, const mem_file& file)
{
    auto geometry = file.geometry();
    if (line.from > geometry.size || line.span > geometry.size - line.from)
        die("the volume has %llu bytes", static_cast<unsigned long long>(geometry.size));
    geometry.size = line.span ? line.span : geometry.size - line.from;
    return geometry;
}

/// A piece of I/O: where on the volume and in the memory.
struct piece {
    std::uint64_t offset;
    std::uint64_t at;
    std::uint32_t length;
};

/// Pieces that overlap neither on the volume nor in the memory, of random sizes, at places that are no
/// multiples of anything but what they must be.
std::vector<piece> random_pieces(std::mt19937_64& random, const weft_mem_geometry& g,
                                 const command_line& line)
{
    std::vector<piece> pieces;
    std::uint64_t at = 0;
    const auto slot = g.size / line.count / g.block_size * g.block_size;
    for (unsigned i = 0; i < line.count; i++) {
        const auto most = std::min<std::uint64_t>({line.largest, slot, line.size - at});
        if (most < g.block_size)
            break;
        const auto length = (random() % (most / g.block_size) + 1) * g.block_size;
        const auto room = (slot - length) / g.block_size + 1;
        pieces.push_back(
            {line.from + i * slot + random() % room * g.block_size, at, static_cast<std::uint32_t>(length)});
        at += length + random() % 4 * g.alignment;
        at = (at + g.alignment - 1) / g.alignment * g.alignment;
        if (at >= line.size)
            break;
    }
    return pieces;
}

std::size_t run_all(mem_file& file, ring& io, std::uint32_t op, std::uint32_t target, std::uint32_t memory,
                    const std::vector<piece>& pieces, unsigned depth)
{
    std::size_t sent = 0, done = 0, failed = 0;
    while (done < pieces.size()) {
        while (sent < pieces.size() && sent - done < depth) {
            const auto& p = pieces[sent];
            io.prepare(file.fd(), op, {target, memory, p.offset, p.at, p.length, 0}, sent);
            sent++;
        }
        const auto [index, result] = io.next();
        if (result != static_cast<int>(pieces[index].length)) {
            std::printf("# command %zu (offset %llu, memory %llu, %u bytes): %d\n", index,
                        static_cast<unsigned long long>(pieces[index].offset),
                        static_cast<unsigned long long>(pieces[index].at), pieces[index].length, result);
            failed++;
        }
        done++;
    }
    return failed;
}

void fill(std::uint8_t* to, std::size_t length, std::mt19937_64& random)
{
    for (std::size_t i = 0; i + 8 <= length; i += 8) {
        const auto value = random();
        std::memcpy(to + i, &value, 8);
    }
}

/// The exporter moves its memory again and again for as long as this is there, or revokes it once.
class disturber
{
public:
    disturber(memory_source& source, unsigned move_ms, unsigned revoke_ms)
    {
        if (move_ms || revoke_ms)
            thread_ = std::jthread([&source, move_ms, revoke_ms](const std::stop_token& stop) {
                std::this_thread::sleep_for(std::chrono::milliseconds(move_ms + revoke_ms));
                if (revoke_ms)
                    source.revoke();
                for (; !revoke_ms && !stop.stop_requested();
                     std::this_thread::sleep_for(std::chrono::milliseconds(move_ms)))
                    source.move();
            });
    }

private:
    std::jthread thread_;
};

int verify(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume, line.buffered ? O_RDWR : O_RDWR | O_DIRECT);
    memory_source source(line.memory, line.size + line.shift);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ | WEFT_MEM_MAY_WRITE);
    const auto memory = file.add(source, line.shift, line.size, line.flags);
    const auto g = part_of(line, file);
    ring io(line.depth * 2);
    std::mt19937_64 random(line.seed);
    std::size_t failed = 0, wrong = 0, bytes = 0;
    const disturber disturbing(source, line.move_ms, line.revoke_ms);

    for (int round = 0; round < 4; round++) {
        const auto pieces = random_pieces(random, g, line);
        std::vector<std::uint8_t> expect(line.size), got;
        fill(expect.data(), expect.size(), random);
        if (round % 2 == 0) {
            // From the memory to the volume, and looked at by the block device.
            source.write(line.shift, expect.data(), expect.size());
            failed += run_all(file, io, WEFT_MEM_CMD_WRITE, target, memory.id, pieces, line.depth);
            for (const auto& p : pieces) {
                got = block.read(p.offset, p.length);
                wrong += !!std::memcmp(got.data(), expect.data() + p.at, p.length);
                bytes += p.length;
            }
        } else {
            // From the volume to the memory; what lies between the pieces stays as it is.
            source.write(line.shift, expect.data(), expect.size());
            for (const auto& p : pieces) {
                std::vector<std::uint8_t> data(p.length);
                fill(data.data(), data.size(), random);
                block.write(p.offset, data);
                std::copy(data.begin(), data.end(), expect.begin() + static_cast<std::ptrdiff_t>(p.at));
                bytes += p.length;
            }
            failed += run_all(file, io, WEFT_MEM_CMD_READ, target, memory.id, pieces, line.depth);
            wrong += source.read(line.shift, line.size) != expect;
        }
    }
    io.prepare(file.fd(), WEFT_MEM_CMD_FLUSH, {target, 0, 0, 0, 0, 0}, 0);
    failed += io.next().second != 0;
    const auto info = file.info(memory.id);
    std::printf("route %u direct %llu vmap %llu bounced %llu\n", memory.route,
                static_cast<unsigned long long>(info.bytes[0]),
                static_cast<unsigned long long>(info.bytes[1]),
                static_cast<unsigned long long>(info.bytes[2]));
    if (failed || wrong)
        std::printf("# %zu commands failed, %zu pieces are wrong\n", failed, wrong);
    if (info.bytes[memory.route] != bytes)
        std::printf("# the counters do not add up to %zu bytes\n", bytes);
    return failed || wrong || info.bytes[memory.route] != bytes;
}

/// Keeps commands in flight, reads and writes alike. Errors are counted, and are an error unless told
/// otherwise.
int load(const command_line& line)
{
    mem_file file(line.volume);
    if (line.daemon && fork())
        _exit(0);
    block_file block(line.volume);
    memory_source source(line.memory, line.size);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ | WEFT_MEM_MAY_WRITE);
    const auto memory = file.add(source, 0, line.size, line.flags);
    const auto g = part_of(line, file);
    ring io(line.depth * 2);
    if (line.fixed) {
        io.register_file(file.fd());
        file.close();
    }
    std::mt19937_64 random(line.seed);
    std::size_t in_flight = 0, done = 0, failed = 0, revoked = 0;
    const disturber disturbing(source, line.move_ms, line.revoke_ms);
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(line.seconds ? line.seconds : 3600);

    // After a pause of this process, until the memory is revoked.
    const auto goes_on = [&] {
        const auto now = std::chrono::steady_clock::now();
        return now < end || (line.revoke_ms && !revoked && now < end + std::chrono::seconds(60));
    };

    std::printf("loaded\n");
    std::fflush(stdout);
    while (goes_on() || in_flight) {
        while (in_flight < line.depth && goes_on()) {
            const auto length = static_cast<std::uint32_t>(
                (random() % (std::min<std::uint64_t>(line.largest, line.size) / g.block_size) + 1) *
                g.block_size);
            const auto offset = line.from + random() % ((g.size - length) / g.block_size + 1) * g.block_size;
            const auto at = random() % ((line.size - length) / g.block_size + 1) * g.block_size;
            io.prepare(file.fd(), random() % 2 ? WEFT_MEM_CMD_READ : WEFT_MEM_CMD_WRITE,
                       {target, memory.id, offset, at, length, 0}, length);
            in_flight++;
        }
        const auto [length, result] = io.next();
        revoked += result == -EFAULT;
        failed += result != static_cast<int>(length) && !(line.revoke_ms && result == -EFAULT);
        in_flight--;
        done++;
    }
    std::printf("%zu commands, %zu failed, %zu revoked\n", done, failed, revoked);
    return failed != 0 || (line.revoke_ms && !revoked);
}

/// What cannot be used any more is told so, in bounded time, and never anything else.
int churn(const command_line& line)
{
    block_file block(line.volume);
    std::atomic<unsigned> failed = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(line.seconds ? line.seconds : 5);
    const auto work = [&](unsigned seed) {
        std::mt19937_64 random(seed);
        mem_file file(line.volume);
        const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ | WEFT_MEM_MAY_WRITE);
        const auto g = file.geometry();
        ring io(64);
        while (std::chrono::steady_clock::now() < end) {
            memory_source source(line.memory, line.size);
            const auto memory = file.add(source, 0, line.size, line.flags);
            for (unsigned i = 0; i < line.depth; i++)
                io.prepare(file.fd(), random() % 2 ? WEFT_MEM_CMD_READ : WEFT_MEM_CMD_WRITE,
                           {target, memory.id, random() % (g.size / 65536) * 65536,
                            random() % (line.size / 65536) * 65536, 65536, 0},
                           0);
            failed += io.next().second != 65536;
            // The others are in flight: it waits for them.
            failed += !file.remove(memory.id);
            for (unsigned i = 1; i < line.depth; i++)
                failed += io.next().second != 65536;
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < 4; i++)
            threads.emplace_back(work, i);
    }
    if (failed)
        std::printf("# %u commands failed\n", failed.load());
    return failed != 0;
}

/// The writes of rdma-hostile.t's late_writes, from registered memory.
int late_writes(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume);
    const memory_source source(line.memory, line.largest);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_WRITE);
    const auto memory = file.add(source, 0, line.largest, line.flags);
    ring io(1);
    unsigned failed = 0;
    const auto write = [&](std::uint8_t byte, std::uint64_t offset) {
        const std::vector<std::uint8_t> bytes(line.largest, byte);
        source.write(0, bytes.data(), bytes.size());
        io.prepare(file.fd(), WEFT_MEM_CMD_WRITE, {target, memory.id, offset, 0, line.largest, 0}, 0);
        const auto result = io.next().second;
        if (result != static_cast<int>(line.largest)) {
            std::printf("write %u %s\n", byte, std::strerror(-result));
            failed++;
        }
    };
    for (unsigned i = 1; i <= line.count; i++) {
        write(static_cast<std::uint8_t>(i), 0);
        if (i == 20)
            write(0xaa, 1 << 20);
    }
    return failed != 0;
}

/// Twice as many bytes at a time as may bounce, which no member answers: prints how many commands are
/// refused.
int crowd(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume, O_RDONLY | O_DIRECT);
    const memory_source source(line.memory, WEFT_MEM_CMD_BYTES_MAX);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ);
    const auto memory = file.add(source, 0, WEFT_MEM_CMD_BYTES_MAX, WEFT_MEM_ALLOW_BOUNCE);
    constexpr unsigned count = 2 * WEFT_MEM_BOUNCE_MAX / WEFT_MEM_CMD_BYTES_MAX;
    ring io(count);
    unsigned busy = 0, done = 0;
    for (unsigned i = 0; i < count; i++)
        io.prepare(file.fd(), WEFT_MEM_CMD_READ, {target, memory.id, 0, 0, WEFT_MEM_CMD_BYTES_MAX, 0}, 0);
    for (unsigned i = 0; i < count; i++) {
        const auto result = io.next().second;
        busy += result == -EBUSY;
        done += result == static_cast<int>(WEFT_MEM_CMD_BYTES_MAX);
        // Those that are not refused wait for the member.
        if (busy == count / 2 && !done) {
            std::printf("refused\n");
            std::fflush(stdout);
        }
    }
    std::printf("%u done, %u refused\n", done, busy);
    return done + busy != count;
}

/// Writes of --largest bytes, --depth of them, and removes the memory, which waits for them.
int remove_busy(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume);
    const memory_source source(line.memory, line.largest);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_WRITE);
    const auto memory = file.add(source, 0, line.largest, line.flags);
    ring io(line.depth);
    for (unsigned i = 0; i < line.depth; i++)
        io.prepare(file.fd(), WEFT_MEM_CMD_WRITE,
                   {target, memory.id, std::uint64_t{i} * line.largest, 0, line.largest, 0}, 0);
    io.submit();
    return !file.remove(memory.id);
}

/// Reads of --largest bytes, --depth at a time: prints how many milliseconds their submission took.
int submit_reads(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume, O_RDONLY | O_DIRECT);
    const memory_source source(line.memory, line.largest);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ);
    const auto memory = file.add(source, 0, line.largest, line.flags);
    ring io(line.depth);
    unsigned failed = 0;
    for (unsigned i = 0; i < line.depth; i++)
        io.prepare(file.fd(), WEFT_MEM_CMD_READ, {target, memory.id, 0, 0, line.largest, 0}, 0);
    const auto start = std::chrono::steady_clock::now();
    io.submit();
    const auto took = std::chrono::steady_clock::now() - start;
    std::printf("%lld\n",
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    std::fflush(stdout);
    for (unsigned i = 0; i < line.depth; i++)
        failed += io.next().second != static_cast<int>(line.largest);
    return failed != 0;
}

/// Random reads of --largest bytes at --depth, --count of them; `prepare` begins one.
template <typename Prepare>
int time_reads(const command_line& line, ring& io, std::uint64_t size, Prepare prepare)
{
    std::mt19937_64 random(3);
    unsigned sent = 0, done = 0;
    const auto start = std::chrono::steady_clock::now();
    while (done < line.count) {
        for (; sent < line.count && sent - done < line.depth; sent++)
            prepare(random() % (size / line.largest) * line.largest, sent % line.depth * line.largest);
        for (const auto result : io.ready()) {
            if (result != static_cast<int>(line.largest))
                die("a read ended with %d", result);
            done++;
        }
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    std::printf("%.1f\n", took.count() / line.count);
    return 0;
}

int bench(const command_line& line)
{
    mem_file file(line.volume);
    block_file block(line.volume);
    memory_source source(line.memory, static_cast<std::uint64_t>(line.depth) * line.largest);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ);
    const auto memory =
        file.add(source, 0, static_cast<std::uint64_t>(line.depth) * line.largest, line.flags);
    ring io(line.depth);
    return time_reads(line, io, std::min<std::uint64_t>(line.size, file.geometry().size),
                      [&](std::uint64_t offset, std::uint64_t at) {
                          io.prepare(file.fd(), WEFT_MEM_CMD_READ,
                                     {target, memory.id, offset, at, line.largest, line.io_class}, 0);
                      });
}

int bench_block(const command_line& line)
{
    const block_file block = block_file::at(line.volume);
    const memory_source source("pages", static_cast<std::uint64_t>(line.depth) * line.largest);
    ring io(line.depth, 0);
    io.register_block(block.fd(), source.data(), static_cast<std::uint64_t>(line.depth) * line.largest);
    return time_reads(line, io, line.size, [&](std::uint64_t offset, std::uint64_t at) {
        io.prepare_fixed(source.data() + at, line.largest, offset);
    });
}

int show_registration(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume);
    static_cast<void>(file.target(block.fd(), WEFT_MEM_MAY_READ));
    memory_source source(line.memory, line.size);
    weft_mem_register request = mem_file::request(source, 0, line.size, line.flags);
    if (!file.try_add(request)) {
        std::printf("%s\n", request.why);
        return 1;
    }
    std::printf("route %u\n", request.route);
    return 0;
}

/// How often this thread has slept.
long slept()
{
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/// The end of a registration that no command uses, and of a target, does not wait: for no grace period of
/// RCU.
int show_waits(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume);
    const memory_source source(line.memory, line.size);
    ring io(1);
    long sum = 0;
    for (unsigned i = 0; i < line.count; i++) {
        std::uint32_t target = file.target(block.fd(), WEFT_MEM_MAY_READ);
        const auto memory = file.add(source, 0, line.size, line.flags);
        io.prepare(file.fd(), WEFT_MEM_CMD_READ, {target, memory.id, 0, 0, line.largest, 0}, 0);
        if (const auto result = io.next().second; result != static_cast<int>(line.largest))
            die("a read ended with %d", result);
        const long before = slept();
        if (!file.remove(memory.id) || ioctl(file.fd(), WEFT_MEM_IOC_UNTARGET, &target))
            die("it cannot be removed");
        sum += slept() - before;
    }
    std::printf("slept %ld times\n", sum);
    return sum >= line.count;
}

/// How many workers io_uring has made for one command: it gives them what must not hold up its ring.
int show_workers(const command_line& line)
{
    mem_file file(line.volume);
    const block_file block(line.volume, O_RDONLY | O_DIRECT);
    const memory_source source(line.memory, line.largest);
    const auto target = file.target(block.fd(), WEFT_MEM_MAY_READ);
    const auto memory = file.add(source, 0, line.largest, line.flags);
    ring io(1);
    io.prepare(file.fd(), WEFT_MEM_CMD_READ, {target, memory.id, 0, 0, line.largest, 0}, 0);
    if (const auto result = io.next().second; result != static_cast<int>(line.largest))
        die("a read ended with %d", result);
    unsigned workers = 0;
    // One that has nothing to do stays for some seconds.
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::getline(std::ifstream(task.path() / "comm"), name);
        workers += name.starts_with("iou-wrk");
    }
    std::printf("%u\n", workers);
    return 0;
}

} // namespace

int main(int argc, char** argv)
{
    const auto line = parse(argc, argv);
    // Who kills this program reads what it has said.
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (line.verb == "verify")
        return verify(line);
    if (line.verb == "churn")
        return churn(line);
    if (line.verb == "check") {
        const auto strays = memory_source::strays();
        std::printf("%llu\n", static_cast<unsigned long long>(strays));
        return strays != 0;
    }
    if (line.verb == "bench")
        return bench(line);
    if (line.verb == "crowd")
        return crowd(line);
    if (line.verb == "submit")
        return submit_reads(line);
    if (line.verb == "remove")
        return remove_busy(line);
    if (line.verb == "late")
        return late_writes(line);
    if (line.verb == "block")
        return bench_block(line);
    if (line.verb == "load")
        return load(line);
    if (line.verb == "register")
        return show_registration(line);
    if (line.verb == "waits")
        return show_waits(line);
    if (line.verb == "workers")
        return show_workers(line);
    if (line.verb == "file")
        return read_file({line.volume, line.memory, line.path, line.flags, line.size, line.largest,
                          line.count, line.seconds, line.stop});
    if (line.verb == "bad")
        return bad_input(line.volume);
    if (line.verb == "stopped")
        return stopped_volume(line.volume);
    die("'%s' is no verb", line.verb.c_str());
}
