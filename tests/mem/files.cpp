// SPDX-License-Identifier: GPL-2.0-only
/// Sealed files: read into registered memory, and compared with what read() gives.
#include "memtest.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <random>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

std::vector<std::uint8_t> contents(int fd)
{
    struct stat status {
    };
    if (fstat(fd, &status) < 0)
        die("fstat: %s", std::strerror(errno));
    std::vector<std::uint8_t> data(static_cast<std::size_t>(status.st_size));
    for (std::size_t done = 0; done < data.size();) {
        const auto n = pread(fd, data.data() + done, data.size() - done, static_cast<off_t>(done));
        if (n <= 0)
            die("pread: %s", n ? std::strerror(errno) : "the end came early");
        done += static_cast<std::size_t>(n);
    }
    return data;
}

/// One read, of which the end may lie behind the file's: there are zeros.
bool read_is_right(const mem_file& file, ring& io, const memory_source& source, const weft_mem_cmd& command,
                   const std::vector<std::uint8_t>& data)
{
    const auto length = std::min<std::uint64_t>(command.length, data.size() - command.offset);
    io.prepare(file.fd(), WEFT_MEM_CMD_READ, command, 0);
    const auto result = io.next().second;
    if (result != static_cast<int>(length)) {
        std::printf("# %u bytes at %llu: %d\n", command.length,
                    static_cast<unsigned long long>(command.offset), result);
        return false;
    }
    const auto got = source.read(command.memory_offset, command.length);
    const auto tail = got.begin() + static_cast<std::ptrdiff_t>(length);
    if (std::equal(got.begin(), tail, data.begin() + static_cast<std::ptrdiff_t>(command.offset)) &&
        std::all_of(tail, got.end(), [](auto byte) { return byte == 0; }))
        return true;
    std::printf("# %u bytes at %llu are others\n", command.length,
                static_cast<unsigned long long>(command.offset));
    return false;
}

} // namespace

int read_file(const file_test& test)
{
    const unique_fd fd(open(test.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0)
        die("%s: %s", test.path.c_str(), std::strerror(errno));
    const mem_file file(test.volume);
    weft_mem_target target{};
    target.fd = fd.get();
    target.access = WEFT_MEM_MAY_READ;
    if (ioctl(file.fd(), WEFT_MEM_IOC_TARGET, &target) < 0)
        die("%s", target.why);
    const auto data = contents(fd.get());
    const memory_source source(test.memory, test.size);
    const auto memory = file.add(source, 0, test.size, test.flags);
    const auto g = file.geometry();
    const auto blocks = (data.size() + g.block_size - 1) / g.block_size;
    ring io(4);
    std::mt19937_64 random(5);
    std::size_t wrong = target.size != data.size();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(test.seconds);

    std::printf("held\n");
    std::fflush(stdout);
    if (test.stop)
        raise(SIGSTOP);
    for (unsigned i = 0; i < test.count || std::chrono::steady_clock::now() < end; i++) {
        // The last block now and then: it is where a file ends.
        const bool long_one = test.stop && !i;
        const auto first = long_one ? 0 : i % 8 ? random() % blocks : blocks - 1;
        const auto most =
            std::min<std::uint64_t>({test.largest / g.block_size, test.size / g.block_size, blocks - first});
        const auto length =
            static_cast<std::uint32_t>((long_one ? most : random() % most + 1) * g.block_size);
        const auto at = random() % ((test.size - length) / g.alignment + 1) * g.alignment;
        wrong += !read_is_right(file, io, source, {target.id, memory.id, first * g.block_size, at, length, 0},
                                data);
    }
    io.prepare(file.fd(), WEFT_MEM_CMD_READ,
               {target.id, memory.id, blocks * g.block_size, 0, g.block_size, 0}, 0);
    wrong += io.next().second != -ERANGE;
    io.prepare(file.fd(), WEFT_MEM_CMD_WRITE, {target.id, memory.id, 0, 0, g.block_size, 0}, 0);
    wrong += io.next().second != -EACCES;
    const auto info = file.info(memory.id);
    std::printf("route %u direct %llu vmap %llu bounced %llu\n", memory.route,
                static_cast<unsigned long long>(info.bytes[0]),
                static_cast<unsigned long long>(info.bytes[1]),
                static_cast<unsigned long long>(info.bytes[2]));
    if (wrong)
        std::printf("# %zu are wrong\n", wrong);
    return wrong != 0;
}
