// SPDX-License-Identifier: GPL-2.0-only
/// Wrong input: each field of each ioctl and command out of its range, foreign ids, sums that overflow,
/// closed descriptors. Each has its error, and afterwards the device works as before.
#include "memtest.hpp"

#include <cstdio>
#include <fcntl.h>
#include <limits>
#include <sys/ioctl.h>
#include <unistd.h>

namespace
{

int number = 0;
int failures = 0;

void result(bool good, const std::string& sentence)
{
    number++;
    failures += !good;
    std::printf("%sok %d - %s\n", good ? "" : "not ", number, sentence.c_str());
}

void is_error(int got, int wanted, const std::string& sentence)
{
    if (got != wanted)
        std::printf("# %s, wanted %s\n", got ? std::strerror(got) : "success", std::strerror(wanted));
    result(got == wanted, sentence);
}

/// A registration that is refused, with a sentence where the user can do something about it.
void bad_register(const mem_file& file, weft_mem_register request, int error, const char* what)
{
    const int got = file.try_add(request) ? 0 : errno;
    if (got && !request.why[0])
        std::printf("# no sentence\n");
    is_error(got && request.why[0] ? got : 0, error, std::string("register: ") + what);
}

void bad_target(const mem_file& file, weft_mem_target request, int error, const char* what)
{
    const int got = ioctl(file.fd(), WEFT_MEM_IOC_TARGET, &request) ? errno : 0;
    is_error(got && request.why[0] ? got : 0, error, std::string("target: ") + what);
}

void bad_command(const mem_file& file, ring& io, std::uint32_t op, const weft_mem_cmd& command, int error,
                 const char* what)
{
    io.prepare(file.fd(), op, command, 0);
    is_error(-io.next().second, error, std::string("command: ") + what);
}

void registrations(const mem_file& file)
{
    const memory_source pages("pages", 65536);
    const auto good = mem_file::request(pages, 0, 65536, 0);
    auto r = good;
    const auto with = [&](auto change) {
        auto request = good;
        change(request);
        return request;
    };
    bad_register(file, with([](auto& q) { q.kind = 2; }), EINVAL, "a kind that is not known");
    bad_register(file, with([](auto& q) { q.flags = 0x80; }), EINVAL, "a flag that is not known");
    bad_register(file, with([](auto& q) { q.pad = 1; }), EINVAL, "padding that is not zero");
    bad_register(file, with([](auto& q) { q.length = 0; }), EINVAL, "no length");
    bad_register(file, with([](auto& q) { q.length = std::numeric_limits<std::uint64_t>::max(); }), EINVAL,
                 "a length beyond all memory");
    bad_register(file, with([](auto& q) { q.start = ~0ULL - 10; }), EINVAL, "a sum that overflows");
    bad_register(file, with([](auto& q) { q.fd = 0; }), EINVAL, "pages with a descriptor");
    bad_register(file, with([](auto& q) { q.start = 4096; }), EFAULT, "pages that are not there");
    bad_register(file, with([](auto& q) {
                     q.kind = WEFT_MEM_KIND_DMABUF;
                     q.fd = -1;
                 }),
                 EBADF, "no descriptor");
    bad_register(file, with([](auto& q) {
                     q.kind = WEFT_MEM_KIND_DMABUF;
                     q.fd = 0;
                 }),
                 EINVAL, "a descriptor of no dma-buf");
    is_error(ioctl(file.fd(), WEFT_MEM_IOC_REGISTER, nullptr) ? errno : 0, EFAULT, "register: a bad pointer");
    std::uint32_t id = 77;
    is_error(ioctl(file.fd(), WEFT_MEM_IOC_UNREGISTER, &id) ? errno : 0, ENOENT,
             "unregister: an id of nothing");
    weft_mem_info info{};
    info.id = 77;
    is_error(ioctl(file.fd(), WEFT_MEM_IOC_INFO, &info) ? errno : 0, ENOENT, "info: an id of nothing");
    is_error(ioctl(file.fd(), WEFT_MEM_IOC_UNTARGET, &id) ? errno : 0, ENOENT, "untarget: an id of nothing");
    is_error(ioctl(file.fd(), _IO('w', 0x5f)) ? errno : 0, ENOTTY, "an ioctl that is not known");
    result(file.try_add(r) && !ioctl(file.fd(), WEFT_MEM_IOC_UNREGISTER, &r.id),
           "what is right is registered");
}

void targets(const mem_file& file, const std::string& volume)
{
    const block_file reading(volume, O_RDONLY);
    const unique_fd null(open("/dev/null", O_RDWR));
    // The guest's own disk: of QEMU, or of User Mode Linux.
    const char* const disk = access("/dev/vda", F_OK) ? "/dev/ubda" : "/dev/vda";
    const unique_fd other(open(disk, O_RDONLY));
    const auto request = [](int fd, std::uint32_t access) {
        weft_mem_target target{};
        target.fd = fd;
        target.access = access;
        return target;
    };
    bad_target(file, request(-1, WEFT_MEM_MAY_READ), EBADF, "no descriptor");
    bad_target(file, request(null.get(), WEFT_MEM_MAY_READ), EINVAL, "another device");
    bad_target(file, request(other.get(), WEFT_MEM_MAY_READ), EINVAL, "another block device");
    bad_target(file, request(reading.fd(), 0), EINVAL, "no access");
    bad_target(file, request(reading.fd(), 4), EINVAL, "an access that is not known");
    bad_target(file, request(reading.fd(), WEFT_MEM_MAY_WRITE), EACCES,
               "to write what was opened for reading");
    const block_file exclusive(volume, O_RDWR | O_EXCL);
    bad_target(file, request(exclusive.fd(), WEFT_MEM_MAY_WRITE), EBUSY, "to write what somebody holds");
}

void commands(const mem_file& file, const std::string& volume)
{
    const block_file reading(volume, O_RDONLY);
    const memory_source pages("pages", 65536);
    const auto g = file.geometry();
    const auto memory = file.add(pages, 0, 65536, 0).id;
    const auto constant = file.add(pages, 0, 65536, WEFT_MEM_READ_ONLY).id;
    const auto target = file.target(reading.fd(), WEFT_MEM_MAY_READ);
    ring io(8);
    const auto read = WEFT_MEM_CMD_READ;

    bad_command(file, io, 0, {target, memory, 0, 0, 4096, 0}, EOPNOTSUPP, "an opcode that is not known");
    bad_command(file, io, read, {target, memory, 0, 0, 4096, 4}, EINVAL, "a flag that is not known");
    bad_command(file, io, read, {target, memory, 0, 0, 4096, 3}, EINVAL, "two classes");
    bad_command(file, io, read, {target, memory, 0, 0, 0, 0}, EINVAL, "no length");
    bad_command(file, io, read, {target, memory, 0, 0, 100, 0}, EINVAL, "a length of no whole blocks");
    bad_command(file, io, read, {target, memory, 0, 0, 0xfffffe00, 0}, EINVAL, "too long");
    bad_command(file, io, read, {target, memory, 1, 0, 4096, 0}, EINVAL, "an offset within a block");
    bad_command(file, io, read, {target, memory, g.size, 0, 4096, 0}, ERANGE, "beyond the volume's end");
    bad_command(file, io, read, {target, memory, g.size - 512, 0, 4096, 0}, ERANGE, "over the volume's end");
    bad_command(file, io, read, {target, memory, ~511ULL, 0, 4096, 0}, ERANGE, "an offset that overflows");
    bad_command(file, io, read, {target, memory, 0, 65536, 4096, 0}, ERANGE, "beyond the memory's end");
    bad_command(file, io, read, {target, memory, 0, 65536 - 512, 4096, 0}, ERANGE, "over the memory's end");
    bad_command(file, io, read, {target, memory, 0, ~511ULL, 4096, 0}, ERANGE,
                "a memory offset that overflows");
    bad_command(file, io, read, {99, memory, 0, 0, 4096, 0}, ENOENT, "a target of nothing");
    bad_command(file, io, read, {target, 99, 0, 0, 4096, 0}, ENOENT, "a memory of nothing");
    bad_command(file, io, read, {target, 0, 0, 0, 4096, 0}, ENOENT, "no memory");
    bad_command(file, io, read, {target, constant, 0, 0, 4096, 0}, EACCES,
                "a read into memory that is read only");
    bad_command(file, io, WEFT_MEM_CMD_WRITE, {target, memory, 0, 0, 4096, 0}, EACCES,
                "a write without the right");
    bad_command(file, io, WEFT_MEM_CMD_FLUSH, {target, 0, 0, 0, 0, 0}, EACCES, "a flush without the right");
    bad_command(file, io, WEFT_MEM_CMD_FLUSH, {target, memory, 0, 0, 0, 0}, EINVAL, "a flush of a memory");
    {
        ring small(8, 0);
        bad_command(file, small, read, {target, memory, 0, 0, 4096, 0}, EINVAL, "in a ring of small entries");
    }
    const mem_file another(volume);
    bad_command(another, io, read, {target, memory, 0, 0, 4096, 0}, ENOENT, "another file's ids");
    io.prepare(file.fd(), read, {target, memory, 0, 0, 4096, 0}, 0);
    result(io.next().second == 4096, "what is right is done");
}

} // namespace

int bad_input(const std::string& volume)
{
    const mem_file file(volume);
    {
        const memory_source pages("pages", 65536);
        bad_register(file, mem_file::request(pages, 0, 65536, 0), EACCES, "without a target");
    }
    const block_file reading(volume, O_RDONLY);
    static_cast<void>(file.target(reading.fd(), WEFT_MEM_MAY_READ));
    registrations(file);
    targets(file, volume);
    commands(file, volume);
    std::printf("1..%d\n", number);
    return failures != 0;
}

int stopped_volume(const std::string& volume)
{
    const mem_file file(volume);
    result(!std::system(("weftctl stop " + volume).c_str()), "the volume stops");
    weft_mem_geometry geometry{};
    is_error(ioctl(file.fd(), WEFT_MEM_IOC_GEOMETRY, &geometry) ? errno : 0, ENXIO,
             "geometry: of a volume that is gone");
    ring io(8);
    for (const std::uint32_t flags : {0, WEFT_MEM_CMD_FEED, WEFT_MEM_CMD_BACKGROUND}) {
        bad_command(file, io, WEFT_MEM_CMD_READ, {0, 0, 0, 0, 4096, flags}, ENOENT,
                    "to a volume that is gone");
        bad_command(file, io, WEFT_MEM_CMD_FLUSH, {0, 0, 0, 0, 0, flags}, ENOENT,
                    "a flush of a volume that is gone");
    }
    std::printf("1..%d\n", number);
    return failures != 0;
}
