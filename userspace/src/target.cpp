// SPDX-License-Identifier: LGPL-2.1-or-later
#include "failure.hpp"
#include "fd.hpp"
#include "memory_impl.hpp"

#include <weft/target.hpp>

#include "uapi/weft_mem.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft
{

namespace
{

// Where a file does not say what O_DIRECT takes.
constexpr std::uint32_t usual_block = 4096;

int flags_of(Access access)
{
    return access == Access::read ? O_RDONLY : access == Access::write ? O_WRONLY : O_RDWR;
}

/// O_DIRECT where the filesystem has it.
struct Opened {
    OwnedFd fd;
    bool direct = true;
};

Result<Opened> open_direct(const std::string& path, int flags)
{
    Opened opened{OwnedFd(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC))};
    if (!opened.fd && errno == EINVAL) {
        opened.direct = false;
        opened.fd = OwnedFd(::open(path.c_str(), flags | O_CLOEXEC));
    }
    if (!opened.fd)
        return failure_of(path);
    return opened;
}

Result<Geometry> measure(const std::string& path, int fd, bool direct)
{
    Geometry geometry;
    struct stat status {
    };
    if (::fstat(fd, &status))
        return failure_of(path);
    if (S_ISBLK(status.st_mode)) {
        int block = 0;
        if (::ioctl(fd, BLKGETSIZE64, &geometry.size) || ::ioctl(fd, BLKSSZGET, &block))
            return failure_of(path);
        geometry.block_size = geometry.alignment = static_cast<std::uint32_t>(block);
        return geometry;
    }
    if (!S_ISREG(status.st_mode))
        return failure(EINVAL, path + " is neither a block device nor a file");
    geometry.size = static_cast<std::uint64_t>(status.st_size);
    geometry.block_size = geometry.alignment = direct ? usual_block : 1;
#ifdef STATX_DIOALIGN
    struct statx more {
    };
    if (direct && !::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &more) &&
        (more.stx_mask & STATX_DIOALIGN) && more.stx_dio_offset_align) {
        geometry.block_size = more.stx_dio_offset_align;
        geometry.alignment = more.stx_dio_mem_align;
    }
#endif
    return geometry;
}

/// The kernel's sentence, where it gave one.
std::string sentence(const char* why, int code)
{
    return why[0] ? why : std::strerror(code);
}

/// What is in fd becomes a target of the .mem file.
Result<std::uint32_t> add_target(int mem, int fd, std::uint32_t access, std::uint64_t* size)
{
    weft_mem_target request{};
    request.fd = fd;
    request.access = access;
    if (::ioctl(mem, WEFT_MEM_IOC_TARGET, &request)) {
        const int code = errno;
        return failure(code, sentence(request.why, code));
    }
    *size = request.size;
    return request.id;
}

Result<void> read_geometry(int mem, Geometry& geometry)
{
    weft_mem_geometry kernel{};
    if (::ioctl(mem, WEFT_MEM_IOC_GEOMETRY, &kernel))
        return failure_of("geometry");
    geometry.block_size = kernel.block_size;
    geometry.alignment = kernel.alignment;
    geometry.chunk_size = kernel.chunk_size;
    geometry.member_count = kernel.member_count;
    return {};
}

Route route_of(std::uint32_t kernel)
{
    return kernel == WEFT_MEM_ROUTE_DIRECT ? Route::direct
           : kernel == WEFT_MEM_ROUTE_VMAP ? Route::vmap
                                           : Route::bounce;
}

} // namespace

const char* name_of(Route route) noexcept
{
    switch (route) {
    case Route::direct:
        return "direct";
    case Route::vmap:
        return "vmap";
    case Route::bounce:
        return "bounce";
    case Route::staged:
        return "staged";
    case Route::cached:
        return "cached";
    }
    return "?";
}

Target::Target(Target&& other) noexcept
    : path_(std::move(other.path_)), geometry_(other.geometry_), fd_(std::exchange(other.fd_, -1)),
      mem_(std::exchange(other.mem_, -1)), id_(std::exchange(other.id_, 0)), direct_(other.direct_)
{
}

Target& Target::operator=(Target&& other) noexcept
{
    std::swap(path_, other.path_);
    std::swap(geometry_, other.geometry_);
    std::swap(fd_, other.fd_);
    std::swap(mem_, other.mem_);
    std::swap(id_, other.id_);
    std::swap(direct_, other.direct_);
    return *this;
}

Target::~Target()
{
    if (fd_ >= 0)
        ::close(fd_);
}

Result<Registration> Target::add(const Memory& memory, const Policy& policy) const
{
    const auto& impl = *memory.impl_;
    std::string reason = impl.reason;
    // The caller's own pages are what the kernel has for all memory that is the CPU's and no dma-buf.
    const bool pages = impl.data && !impl.dmabuf && !impl.device_pointer;
    if (!policy.direct) {
        reason = "a direct route was not asked for";
    } else if (mem_ >= 0 && id_ && (pages || impl.dmabuf)) {
        weft_mem_register request{};
        request.kind = pages ? WEFT_MEM_KIND_PAGES : WEFT_MEM_KIND_DMABUF;
        request.flags =
            (policy.vmap ? WEFT_MEM_ALLOW_VMAP : 0U) | (policy.bounce ? WEFT_MEM_ALLOW_BOUNCE : 0U) |
            (policy.read_only ? WEFT_MEM_READ_ONLY : 0U) | (policy.persistent ? WEFT_MEM_PERSISTENT : 0U);
        request.fd = pages ? -1 : impl.dmabuf.get();
        request.start = pages ? reinterpret_cast<std::uintptr_t>(impl.data) : impl.dmabuf_offset;
        request.length = impl.size;
        // A dma-buf strictly first, so that it is known why there is no direct route where there is none.
        const auto allowed = pages ? 0U : request.flags & (WEFT_MEM_ALLOW_VMAP | WEFT_MEM_ALLOW_BOUNCE);
        request.flags &= ~allowed;
        int code = ::ioctl(mem_, WEFT_MEM_IOC_REGISTER, &request) ? errno : 0;
        if (code)
            reason = sentence(request.why, code);
        if (code && code != EINTR && allowed) {
            request.flags |= allowed;
            code = ::ioctl(mem_, WEFT_MEM_IOC_REGISTER, &request) ? errno : 0;
            if (code)
                reason = sentence(request.why, code);
        }
        if (!code) {
            Registration registration(memory, route_of(request.route));
            registration.mem_ = mem_;
            registration.id_ = request.id;
            if (registration.route() != Route::direct)
                registration.reason_ = std::move(reason);
            return registration;
        }
        // What is the caller's no other route mends.
        if (!policy.staged || code == EACCES || code == ENOMEM || code == EINTR)
            return failure(code, reason);
    }
    if (policy.persistent && !policy.staged)
        return failure(EOPNOTSUPP, path_ + " is no weft volume: nothing is registered for good with it");
    if (pages && policy.direct) {
        if (direct_ && reinterpret_cast<std::uintptr_t>(impl.data) % geometry_.alignment)
            return failure(EINVAL, "the memory begins at no multiple of " +
                                       std::to_string(geometry_.alignment) + " bytes, which O_DIRECT on " +
                                       path_ + " takes");
        return Registration(memory, direct_ ? Route::direct : Route::cached);
    }
    if (reason.empty())
        reason = path_ + " takes memory of this process alone, without copies";
    if (!policy.staged)
        return failure(EOPNOTSUPP, "no direct route: " + reason);
    if (!impl.data && !impl.device_pointer)
        return failure(EOPNOTSUPP,
                       "the memory can be reached neither by the CPU nor by CUDA, so it cannot be staged: " +
                           reason);
    Registration registration(memory, Route::staged);
    registration.reason_ = std::move(reason);
    return registration;
}

Result<Volume> Volume::open(std::string_view name, Access access)
{
    Volume volume;
    volume.path_ = name.find('/') == std::string_view::npos ? "/dev/weft/" + std::string(name) : name;
    auto opened = open_direct(volume.path_, flags_of(access));
    if (!opened)
        return std::unexpected(std::move(opened.error()));
    volume.direct_ = opened->direct;
    auto geometry = measure(volume.path_, opened->fd.get(), opened->direct);
    if (!geometry)
        return std::unexpected(std::move(geometry.error()));
    volume.geometry_ = *geometry;
    OwnedFd mem(::open((volume.path_ + ".mem").c_str(), O_RDWR | O_CLOEXEC));
    // A file that happens to have this name is no weft volume: it does not answer.
    if (mem && read_geometry(mem.get(), volume.geometry_)) {
        std::uint64_t size = 0;
        auto id = add_target(mem.get(), opened->fd.get(), static_cast<std::uint32_t>(access), &size);
        if (!id)
            return std::unexpected(std::move(id.error()));
        volume.id_ = *id;
        volume.mem_ = mem.release();
    }
    volume.fd_ = opened->fd.release();
    return volume;
}

Volume& Volume::operator=(Volume&& other) noexcept
{
    Target::operator=(std::move(other));
    return *this;
}

Volume::~Volume()
{
    if (mem_ >= 0)
        ::close(mem_);
}

Result<File> File::open(const Volume& volume, const std::string& path, bool strict)
{
    File file;
    file.path_ = path;
    auto opened = open_direct(path, O_RDONLY);
    if (!opened)
        return std::unexpected(std::move(opened.error()));
    file.direct_ = opened->direct;
    auto geometry = measure(path, opened->fd.get(), opened->direct);
    if (!geometry)
        return std::unexpected(std::move(geometry.error()));
    file.geometry_ = *geometry;
    if (volume.mem_ < 0) {
        file.reason_ = volume.path() + " is no weft volume";
        if (strict)
            return failure(EOPNOTSUPP, file.reason_);
    } else {
        std::uint64_t size = 0;
        auto id = add_target(volume.mem_, opened->fd.get(), WEFT_MEM_MAY_READ, &size);
        if (id) {
            const auto& whole = volume.geometry();
            file.geometry_ = {size, whole.block_size, whole.alignment, whole.chunk_size, whole.member_count};
            file.id_ = *id;
            file.mem_ = volume.mem_;
        } else if (strict) {
            return std::unexpected(std::move(id.error()));
        } else {
            file.reason_ = std::move(id.error().text);
        }
    }
    file.fd_ = opened->fd.release();
    return file;
}

void File::close() noexcept
{
    if (mem_ >= 0 && id_)
        ::ioctl(mem_, WEFT_MEM_IOC_UNTARGET, &id_);
    id_ = 0;
}

File& File::operator=(File&& other) noexcept
{
    Target::operator=(std::move(other));
    std::swap(reason_, other.reason_);
    return *this;
}

File::~File()
{
    close();
}

} // namespace weft
