// SPDX-License-Identifier: GPL-2.0-only
#include "memtest.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <linux/vfio.h>
#include <memory>
#include <sstream>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/hardware/test_exporter/uapi.h"
#include "uapi/weft_p2p.h"

void die(const char* format, ...)
{
    va_list args;
    va_start(args, format);
    std::fprintf(stderr, "weft-memtest: ");
    std::vfprintf(stderr, format, args);
    std::fprintf(stderr, "\n");
    va_end(args);
    std::exit(3);
}

unique_fd& unique_fd::operator=(unique_fd&& other) noexcept
{
    std::swap(fd_, other.fd_);
    return *this;
}

unique_fd::~unique_fd()
{
    if (fd_ >= 0)
        close(fd_);
}

namespace
{

unique_fd open_or_die(const std::string& path, int flags)
{
    const int fd = open(path.c_str(), flags | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", path.c_str(), std::strerror(errno));
    return unique_fd(fd);
}

unique_fd make_udmabuf(std::uint64_t size)
{
    unique_fd memfd(memfd_create("weft-memtest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (ftruncate(memfd.get(), static_cast<off_t>(size)) || fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK))
        die("memfd: %s", std::strerror(errno));
    const auto device = open_or_die("/dev/udmabuf", O_RDWR);
    udmabuf_create request{};
    request.memfd = static_cast<__u32>(memfd.get());
    request.flags = UDMABUF_FLAGS_CLOEXEC;
    request.size = size;
    const int fd = ioctl(device.get(), UDMABUF_CREATE, &request);
    if (fd < 0)
        die("udmabuf: %s", std::strerror(errno));
    return unique_fd(fd);
}

unique_fd make_heap(std::uint64_t size)
{
    const auto device = open_or_die("/dev/dma_heap/system", O_RDWR);
    dma_heap_allocation_data request{};
    request.len = size;
    request.fd_flags = O_RDWR | O_CLOEXEC;
    if (ioctl(device.get(), DMA_HEAP_IOCTL_ALLOC, &request))
        die("dma-heap: %s", std::strerror(errno));
    return unique_fd(static_cast<int>(request.fd));
}

unique_fd make_exported(int exporter, const std::string& what, std::uint64_t size)
{
    exporter_create request{};
    request.size = size;
    std::istringstream words(what);
    for (std::string word; std::getline(words, word, ',');) {
        if (word == "pin")
            request.flags |= EXPORTER_PIN;
        else if (word == "pinmoves")
            request.flags |= EXPORTER_PIN | EXPORTER_PIN_MOVES;
        else if (word == "novmap")
            request.flags |= EXPORTER_NO_VMAP;
        else if (word == "refuse")
            request.flags |= EXPORTER_REFUSE;
        else if (word == "run")
            request.flags |= EXPORTER_ONE_RUN;
        else if (word == "bar")
            request.flags |= EXPORTER_BAR;
        else if (word == "ro")
            request.flags |= EXPORTER_READ_ONLY;
        else if (word.starts_with("slow="))
            request.unmap_ms = static_cast<__u32>(std::stoul(word.substr(5)));
        else if (word != "exporter")
            die("'%s' is no memory", word.c_str());
    }
    if (ioctl(exporter, EXPORTER_CREATE, &request))
        die("exporter: %s", std::strerror(errno));
    return unique_fd(request.fd);
}

/// /dev/weft/bar-ADDRESS of weft_p2p.
unique_fd make_bar(const std::string& address, std::uint64_t size)
{
    const auto device = open_or_die("/dev/weft/bar-" + address, O_RDWR);
    weft_bar_export request{};
    request.length = size;
    if (ioctl(device.get(), WEFT_BAR_IOC_EXPORT, &request))
        die("bar: %s: %s", std::strerror(errno), request.why);
    return unique_fd(request.fd);
}

// Of linux/vfio.h since 7.0; earlier headers are what the tools are built with.
constexpr __u32 feature_dma_buf = 11;
struct feature_dma_buf_request {
    __u32 argsz;
    __u32 feature;
    __u32 region_index;
    __u32 open_flags;
    __u32 flags;
    __u32 nr_ranges;
    __u64 offset;
    __u64 length;
};

constexpr int memory_bar = 2;

void vfio_memory(int device, bool enable)
{
    vfio_region_info config{};
    config.argsz = sizeof(config);
    config.index = VFIO_PCI_CONFIG_REGION_INDEX;
    const __u16 command = enable ? 6 : 0; // memory space, bus master: PCI 3.0, 6.2.2
    if (ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &config) ||
        pwrite(device, &command, sizeof(command), static_cast<off_t>(config.offset + 4)) != sizeof(command))
        die("vfio: command register: %s", std::strerror(errno));
}

/// BAR 2 of a device that vfio-pci has, without an IOMMU; `held` keeps it.
unique_fd make_vfio(const std::string& address, std::uint64_t size, std::vector<unique_fd>& held)
{
    const auto group_path = std::filesystem::read_symlink("/sys/bus/pci/devices/" + address + "/iommu_group");
    held.push_back(open_or_die("/dev/vfio/vfio", O_RDWR));
    held.push_back(open_or_die("/dev/vfio/noiommu-" + group_path.filename().string(), O_RDWR));
    const int container = held[0].get(), group = held[1].get();
    if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) ||
        ioctl(container, VFIO_SET_IOMMU, VFIO_NOIOMMU_IOMMU))
        die("vfio: %s", std::strerror(errno));
    const int device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, address.c_str());
    if (device < 0)
        die("vfio: %s: %s", address.c_str(), std::strerror(errno));
    held.emplace_back(device);
    vfio_memory(device, true);
    feature_dma_buf_request request{};
    request.argsz = sizeof(request);
    request.feature = VFIO_DEVICE_FEATURE_GET | feature_dma_buf;
    request.region_index = memory_bar;
    request.open_flags = O_RDWR | O_CLOEXEC;
    request.nr_ranges = 1;
    request.length = size;
    const int fd = ioctl(device, VFIO_DEVICE_FEATURE, &request);
    if (fd < 0)
        die("vfio: dma-buf: %s", std::strerror(errno));
    return unique_fd(fd);
}

/// Its dma-buf is mapped for no CPU; the device's own file is.
void* map_vfio(int device, std::uint64_t size)
{
    vfio_region_info region{};
    region.argsz = sizeof(region);
    region.index = memory_bar;
    if (ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &region))
        die("vfio: BAR: %s", std::strerror(errno));
    return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, device, static_cast<off_t>(region.offset));
}

} // namespace

memory_source::memory_source(const std::string& what, std::uint64_t size) : size_((size + 4095) & ~4095ULL)
{
    if (what == "udmabuf") {
        fd_ = make_udmabuf(size_);
    } else if (what == "heap") {
        fd_ = make_heap(size_);
    } else if (what.starts_with("exporter")) {
        exporter_ = open_or_die("/dev/weft-test-exporter", O_RDWR);
        fd_ = make_exported(exporter_.get(), what, size_);
    } else if (what.starts_with("bar=")) {
        bar_ = what.substr(4);
        fd_ = make_bar(bar_, size_);
    } else if (what.starts_with("vfio=")) {
        fd_ = make_vfio(what.substr(5), size_, vfio_);
    } else if (what != "pages") {
        die("'%s' is no memory", what.c_str());
    }
    const int protection = what.find(",ro") == std::string::npos ? PROT_READ | PROT_WRITE : PROT_READ;
    void* at = !vfio_.empty() ? map_vfio(vfio_.back().get(), size_)
               : is_pages()   ? mmap(nullptr, size_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                              : mmap(nullptr, size_, protection, MAP_SHARED, fd_.get(), 0);
    if (at == MAP_FAILED)
        die("mmap of %s: %s", what.c_str(), std::strerror(errno));
    data_ = static_cast<std::uint8_t*>(at);
}

memory_source::~memory_source()
{
    munmap(data_, size_);
}

void memory_source::write(std::uint64_t at, const std::uint8_t* from, std::size_t length) const
{
    std::memcpy(data_ + at, from, length);
}

std::vector<std::uint8_t> memory_source::read(std::uint64_t at, std::size_t length) const
{
    return {data_ + at, data_ + at + length};
}

void memory_source::move() const
{
    const int fd = fd_.get();
    // What is pinned stays where it is.
    if (!ioctl(exporter_.get(), EXPORTER_MOVE, &fd) || errno == EBUSY)
        return;
    // A BAR is soon full of what was taken back: looked at, it is free again.
    if (errno != ENOSPC)
        die("move: %s", std::strerror(errno));
    if (const auto strays = memory_source::strays())
        die("%llu bytes were written to memory that was taken back", static_cast<unsigned long long>(strays));
}

void memory_source::revoke() const
{
    const int fd = fd_.get();
    if (!vfio_.empty()) {
        vfio_memory(vfio_.back().get(), false);
        return;
    }
    if (bar_.empty() && ioctl(exporter_.get(), EXPORTER_REVOKE, &fd))
        die("revoke: %s", std::strerror(errno));
    if (!bar_.empty())
        std::ofstream("/sys/bus/pci/drivers/weft_p2p/unbind") << bar_ << std::flush;
}

std::uint64_t memory_source::strays()
{
    const auto exporter = open_or_die("/dev/weft-test-exporter", O_RDWR);
    std::uint64_t strays = 0;
    if (ioctl(exporter.get(), EXPORTER_CHECK, &strays))
        die("check: %s", std::strerror(errno));
    return strays;
}

mem_file::mem_file(const std::string& volume) : fd_(open_or_die("/dev/weft/" + volume + ".mem", O_RDWR)) {}

weft_mem_geometry mem_file::geometry() const
{
    weft_mem_geometry geometry{};
    if (ioctl(fd(), WEFT_MEM_IOC_GEOMETRY, &geometry))
        die("geometry: %s", std::strerror(errno));
    return geometry;
}

std::uint32_t mem_file::target(int block, std::uint32_t access) const
{
    weft_mem_target request{};
    request.fd = block;
    request.access = access;
    if (ioctl(fd(), WEFT_MEM_IOC_TARGET, &request))
        die("target: %s: %s", std::strerror(errno), request.why);
    return request.id;
}

weft_mem_register mem_file::request(const memory_source& source, std::uint64_t start, std::uint64_t length,
                                    std::uint32_t flags)
{
    weft_mem_register request{};
    request.kind = source.is_pages() ? WEFT_MEM_KIND_PAGES : WEFT_MEM_KIND_DMABUF;
    request.flags = flags;
    request.fd = source.fd();
    request.start = source.is_pages() ? reinterpret_cast<std::uintptr_t>(source.data()) + start : start;
    request.length = length;
    return request;
}

bool mem_file::try_add(weft_mem_register& request) const
{
    return !ioctl(fd(), WEFT_MEM_IOC_REGISTER, &request);
}

registered mem_file::add(const memory_source& source, std::uint64_t start, std::uint64_t length,
                         std::uint32_t flags) const
{
    auto request = mem_file::request(source, start, length, flags);
    // Each try waits 20 s for a path that is being connected, which takes longer on a slow machine.
    for (unsigned left = 5; !try_add(request); left--)
        if (errno != ENOTCONN || !left)
            die("register: %s: %s", std::strerror(errno), request.why);
    return {request.id, request.route};
}

bool mem_file::remove(std::uint32_t id) const
{
    return !ioctl(fd(), WEFT_MEM_IOC_UNREGISTER, &id);
}

weft_mem_info mem_file::info(std::uint32_t id) const
{
    weft_mem_info info{};
    info.id = id;
    if (ioctl(fd(), WEFT_MEM_IOC_INFO, &info))
        die("info: %s", std::strerror(errno));
    return info;
}

block_file::block_file(const std::string& volume, int flags) : fd_(open_or_die("/dev/weft/" + volume, flags))
{
}

block_file block_file::at(const std::string& path)
{
    return block_file(open_or_die(path, O_RDONLY | O_DIRECT));
}

namespace
{

struct freer {
    void operator()(void* memory) const { std::free(memory); }
};

std::unique_ptr<std::uint8_t, freer> aligned(std::size_t length)
{
    return std::unique_ptr<std::uint8_t, freer>(
        static_cast<std::uint8_t*>(std::aligned_alloc(4096, (length + 4095) & ~4095UL)));
}

} // namespace

std::vector<std::uint8_t> block_file::read(std::uint64_t offset, std::size_t length) const
{
    const auto buffer = aligned(length);
    if (pread(fd(), buffer.get(), length, static_cast<off_t>(offset)) != static_cast<ssize_t>(length))
        die("read at %llu: %s", static_cast<unsigned long long>(offset), std::strerror(errno));
    return {buffer.get(), buffer.get() + length};
}

void block_file::write(std::uint64_t offset, const std::vector<std::uint8_t>& data) const
{
    const auto buffer = aligned(data.size());
    std::memcpy(buffer.get(), data.data(), data.size());
    if (pwrite(fd(), buffer.get(), data.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(data.size()))
        die("write at %llu: %s", static_cast<unsigned long long>(offset), std::strerror(errno));
}

ring::ring(unsigned entries, unsigned flags)
{
    const int ret = io_uring_queue_init(entries, &ring_, flags);
    if (ret)
        die("io_uring: %s", std::strerror(-ret));
}

ring::~ring()
{
    io_uring_queue_exit(&ring_);
}

void ring::prepare(int fd, std::uint32_t op, const weft_mem_cmd& command, std::uint64_t tag)
{
    auto* sqe = io_uring_get_sqe(&ring_);
    if (!sqe) {
        io_uring_submit(&ring_);
        sqe = io_uring_get_sqe(&ring_);
    }
    std::memset(sqe, 0, ring_.flags & IORING_SETUP_SQE128 ? 128 : 64);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = fixed_file_ ? 0 : fd;
    sqe->flags = fixed_file_ ? IOSQE_FIXED_FILE : 0;
    sqe->cmd_op = op;
    sqe->user_data = tag;
    std::memcpy(sqe->cmd, &command, ring_.flags & IORING_SETUP_SQE128 ? sizeof(command) : 16);
}

void ring::submit()
{
    int ret = 0;
    do {
        ret = io_uring_submit(&ring_);
    } while (ret == -EINTR);
    if (ret < 0)
        die("io_uring: %s", std::strerror(-ret));
}

std::pair<std::uint64_t, int> ring::next()
{
    io_uring_cqe* cqe = nullptr;
    int ret = 0;
    do {
        ret = io_uring_submit_and_wait(&ring_, 1);
    } while (ret == -EINTR);
    if (ret < 0 || io_uring_wait_cqe(&ring_, &cqe))
        die("io_uring: %s", std::strerror(ret < 0 ? -ret : EIO));
    const std::pair<std::uint64_t, int> result(cqe->user_data, cqe->res);
    io_uring_cqe_seen(&ring_, cqe);
    return result;
}

std::vector<int> ring::ready()
{
    std::vector<int> results{next().second};
    io_uring_cqe* cqe = nullptr;
    while (!io_uring_peek_cqe(&ring_, &cqe)) {
        results.push_back(cqe->res);
        io_uring_cqe_seen(&ring_, cqe);
    }
    return results;
}

void ring::register_file(int fd)
{
    if (io_uring_register_files(&ring_, &fd, 1))
        die("io_uring: the file cannot be registered");
    fixed_file_ = true;
}

void ring::register_block(int fd, void* memory, std::uint64_t length)
{
    const iovec buffer{memory, length};
    register_file(fd);
    if (io_uring_register_buffers(&ring_, &buffer, 1))
        die("io_uring: the buffer cannot be registered");
}

void ring::prepare_fixed(void* memory, std::uint32_t length, std::uint64_t offset)
{
    auto* sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_read_fixed(sqe, 0, memory, length, offset, 0);
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
}
