// SPDX-License-Identifier: GPL-2.0-only
#include "memory.hpp"

#include "uapi/weft_p2p.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fd.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace bench
{

namespace
{

/// The first bytes of a BAR that weft_p2p exports, as a dma-buf.
weft::Result<weft::Memory> bar_memory(const std::string& address, std::size_t bytes)
{
    const auto path = "/dev/weft/bar-" + address;
    const auto failed = [](int code, std::string text) {
        return std::unexpected(weft::Error{code, std::move(text)});
    };
    const weft::OwnedFd device(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device && errno == ENOENT)
        return failed(ENOENT, fmt::format("{} does not exist; bind weft_p2p to the device first", path));
    if (!device)
        return failed(errno, fmt::format("{}: {}", path, std::strerror(errno)));
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    weft_bar_export request{};
    request.length = (bytes + page - 1) / page * page;
    if (::ioctl(device.get(), WEFT_BAR_IOC_EXPORT, &request) < 0)
        return failed(errno,
                      fmt::format("{}: {}", path, request.why[0] ? request.why : std::strerror(errno)));
    const weft::OwnedFd dmabuf(request.fd);
    return weft::Memory::from_dmabuf(dmabuf.get(), 0, bytes);
}

} // namespace

weft::Result<weft::Memory> make_memory(const Job& job)
{
    const auto bytes = std::size_t{job.piece} * job.depth;
    if (job.gpu)
        return weft::Memory::allocate_cuda(*job.gpu, bytes);
    if (!job.bar.empty())
        return bar_memory(job.bar, bytes);
    auto memory = weft::Memory::allocate(bytes);
    // The kernel makes its pages now, and not while the figures are counted.
    if (memory)
        std::memset(memory->data(), 0, bytes);
    return memory;
}

const char* memory_name(const Job& job)
{
    return job.gpu ? "GPU" : job.bar.empty() ? "host" : "BAR";
}

} // namespace bench
