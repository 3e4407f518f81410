// SPDX-License-Identifier: LGPL-2.1-or-later
#include "failure.hpp"
#include "fd.hpp"
#include "fork.hpp"
#include "memory_impl.hpp"

#include <weft/target.hpp>

#include "uapi/weft_mem.h"

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace weft
{

namespace
{

// For files that do not report the alignment of O_DIRECT.
constexpr std::uint32_t usual_block = 4096;

int flags_of(Access access)
{
    return access == Access::read ? O_RDONLY : access == Access::write ? O_WRONLY : O_RDWR;
}

/// Opens with O_DIRECT if the filesystem supports it.
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

/// "major:minor" as the kernel writes it in sysfs.
std::string number_of(dev_t device)
{
    return std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

/// Finds /dev/weft/NAME.mem of a weft volume by the number of its block device, so that a link to the volume
/// works, and a file with such a name beside another device is ignored. Empty if the device belongs to
/// another driver.
Result<OwnedFd> open_mem(dev_t device)
{
    std::error_code failed;
    const auto disk =
        std::filesystem::read_symlink("/sys/dev/block/" + number_of(device), failed).filename().string();
    constexpr std::string_view prefix = "weft!";
    if (failed || !disk.starts_with(prefix))
        return OwnedFd();
    const auto node = "/dev/weft/" + disk.substr(prefix.size()) + ".mem";
    std::string number;
    std::getline(std::ifstream("/sys/class/weft-mem/" + disk + ".mem/dev"), number);
    struct stat found {
    };
    if (::lstat(node.c_str(), &found))
        return failure_of(node);
    if (!S_ISCHR(found.st_mode) || number_of(found.st_rdev) != number)
        return failure(ENODEV, node + " is not the device of the volume " + disk.substr(prefix.size()));
    OwnedFd mem(::open(node.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!mem)
        return failure_of(node);
    return mem;
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

/// The kernel's sentence if there is one, else that of the errno.
std::string sentence(const char* why, int code)
{
    return why[0] ? why : std::strerror(code);
}

/// Registers the file `fd` as a target with the .mem device.
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

/// Numbers for Target::number_.
std::uint64_t next_number()
{
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
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

Target::Target() noexcept
{
    watch_forks();
    forks_ = fork_count;
}

Target::Target(Target&& other) noexcept : Target()
{
    *this = std::move(other);
}

Target& Target::operator=(Target&& other) noexcept
{
    std::swap(path_, other.path_);
    std::swap(reason_, other.reason_);
    std::swap(geometry_, other.geometry_);
    std::swap(fd_, other.fd_);
    std::swap(mem_, other.mem_);
    std::swap(id_, other.id_);
    std::swap(number_, other.number_);
    std::swap(home_, other.home_);
    std::swap(forks_, other.forks_);
    std::swap(direct_, other.direct_);
    std::swap(is_file_, other.is_file_);
    return *this;
}

Target::~Target()
{
    close();
}

std::uint64_t Target::size_now() const noexcept
{
    struct stat status {
    };
    if (fd_ < 0 || ::fstat(fd_, &status) || !S_ISREG(status.st_mode))
        return geometry_.size;
    return static_cast<std::uint64_t>(status.st_size);
}

void Target::close() noexcept
{
    // That of a volume ends with its .mem device.
    if (is_file_ && mem_ && id_ && forks_ == fork_count)
        ::ioctl(mem_->get(), WEFT_MEM_IOC_UNTARGET, &id_);
    if (fd_ >= 0)
        ::close(std::exchange(fd_, -1));
    mem_.reset();
    id_ = 0;
}

Result<Registration> Target::add(const Memory& memory, const Policy& policy) const
{
    const auto& impl = *memory.impl_;
    std::string reason = impl.reason;
    const auto made = [&](Route route) {
        return std::make_unique<Registration::State>(memory.impl_, route, home_, policy);
    };
    // CPU memory without a dma-buf is registered as the caller's own pages.
    const bool pages = impl.data && !impl.dmabuf && !impl.device_pointer;
    if (!policy.direct) {
        reason = "a direct route was not requested";
    } else if (mem_ && id_ && (pages || impl.dmabuf)) {
        weft_mem_register request{};
        request.kind = pages ? WEFT_MEM_KIND_PAGES : WEFT_MEM_KIND_DMABUF;
        request.flags =
            (policy.vmap ? WEFT_MEM_ALLOW_VMAP : 0U) | (policy.bounce ? WEFT_MEM_ALLOW_BOUNCE : 0U) |
            (policy.read_only ? WEFT_MEM_READ_ONLY : 0U) | (policy.persistent ? WEFT_MEM_PERSISTENT : 0U);
        request.fd = pages ? -1 : impl.dmabuf.get();
        request.start = pages ? reinterpret_cast<std::uintptr_t>(impl.data) : impl.dmabuf_offset;
        request.length = impl.size;
        // Try only the direct route first, to get the reason if a dma-buf has none.
        const auto allowed = pages ? 0U : request.flags & (WEFT_MEM_ALLOW_VMAP | WEFT_MEM_ALLOW_BOUNCE);
        request.flags &= ~allowed;
        int code = ::ioctl(mem_->get(), WEFT_MEM_IOC_REGISTER, &request) ? errno : 0;
        if (code)
            reason = sentence(request.why, code);
        // What may be staged need not be registered for good: for each I/O is better than not at all.
        if (code && code != EINTR && code != EACCES && policy.persistent && policy.staged) {
            request.flags &= ~WEFT_MEM_PERSISTENT;
            code = ::ioctl(mem_->get(), WEFT_MEM_IOC_REGISTER, &request) ? errno : 0;
            if (code)
                reason = sentence(request.why, code);
        }
        if (code && code != EINTR && allowed) {
            request.flags |= allowed;
            code = ::ioctl(mem_->get(), WEFT_MEM_IOC_REGISTER, &request) ? errno : 0;
            if (code)
                reason = sentence(request.why, code);
        }
        if (!code) {
            auto state = made(route_of(request.route));
            state->mem = mem_;
            state->id = request.id;
            if (state->route != Route::direct)
                state->reason = std::move(reason);
            return Registration(std::move(state));
        }
        // No other route helps with these errors of the caller.
        if (!policy.staged || code == EACCES || code == EINTR)
            return failure(code, reason);
    }
    if (policy.persistent && !policy.staged)
        return failure(EOPNOTSUPP, (reason_.empty() ? path_ + " is not a weft volume" : reason_) +
                                       ": memory cannot be registered for good with it");
    if (pages && policy.direct) {
        const bool fits = !direct_ || reinterpret_cast<std::uintptr_t>(impl.data) % geometry_.alignment == 0;
        if (fits)
            return Registration(made(direct_ ? Route::direct : Route::cached));
        reason = "the address of the memory must be a multiple of " + std::to_string(geometry_.alignment) +
                 " bytes for O_DIRECT on " + path_;
        if (!policy.staged)
            return failure(EINVAL, reason);
    }
    if (reason.empty())
        reason = path_ + " takes only memory of this process without a copy";
    if (!policy.staged)
        return failure(EOPNOTSUPP, "no direct route: " + reason);
    if (!impl.data && !impl.device_pointer)
        return failure(EOPNOTSUPP,
                       "the memory can be reached neither by the CPU nor by CUDA, so it cannot be staged: " +
                           reason);
    auto state = made(Route::staged);
    state->reason = std::move(reason);
    return Registration(std::move(state));
}

Result<Volume> Volume::open(std::string_view name, Access access, Claim claim)
{
    Volume volume;
    volume.path_ = name.find('/') == std::string_view::npos ? "/dev/weft/" + std::string(name) : name;
    if (access != Access::read && access != Access::write && access != Access::read_write)
        return failure(EINVAL, volume.path_ + ": access " + std::to_string(static_cast<unsigned>(access)) +
                                   " is not valid: use read (1), write (2) or both (3)");
    struct stat status {
    };
    if (::stat(volume.path_.c_str(), &status))
        return failure_of(volume.path_);
    OwnedFd mem;
    if (S_ISBLK(status.st_mode)) {
        if (auto found = open_mem(status.st_rdev))
            mem = std::move(*found);
        else
            volume.reason_ = std::move(found.error().text);
    }
    // O_EXCL claims a device. For a weft volume, its target for writing claims it, if it has one.
    const bool claimed =
        !mem && S_ISBLK(status.st_mode) && access != Access::read && claim == Claim::exclusive;
    auto opened = open_direct(volume.path_, flags_of(access) | (claimed ? O_EXCL : 0));
    if (!opened)
        return std::unexpected(std::move(opened.error()));
    volume.direct_ = opened->direct;
    auto geometry = measure(volume.path_, opened->fd.get(), opened->direct);
    if (!geometry)
        return std::unexpected(std::move(geometry.error()));
    volume.geometry_ = *geometry;
    if (mem) {
        std::uint64_t size = 0;
        if (auto read = read_geometry(mem.get(), volume.geometry_); !read)
            return std::unexpected(std::move(read.error()));
        auto id = add_target(mem.get(), opened->fd.get(), static_cast<std::uint32_t>(access), &size);
        if (!id)
            return std::unexpected(std::move(id.error()));
        volume.id_ = *id;
        volume.mem_ = std::make_shared<const OwnedFd>(std::move(mem));
    }
    volume.number_ = volume.home_ = next_number();
    volume.fd_ = opened->fd.release();
    return volume;
}

/// Opens a file to be read through its filesystem.
Result<File> File::open_plain(const std::string& path)
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
    file.is_file_ = true;
    file.number_ = file.home_ = next_number();
    file.fd_ = opened->fd.release();
    return file;
}

/// Makes it a target of the volume that has this .mem device and geometry, or takes down why it is none.
Result<void> File::join(std::shared_ptr<const OwnedFd> mem, const Geometry& whole, bool strict)
{
    std::uint64_t size = 0;
    auto id = add_target(mem->get(), fd_, WEFT_MEM_MAY_READ, &size);
    if (!id && strict)
        return std::unexpected(std::move(id.error()));
    if (!id) {
        reason_ = std::move(id.error().text);
        return {};
    }
    geometry_ = {size, whole.block_size, whole.alignment, whole.chunk_size, whole.member_count};
    id_ = *id;
    mem_ = std::move(mem);
    return {};
}

Result<File> File::open(const Target& volume, const std::string& path, bool strict)
{
    if (volume.is_file_)
        return failure(EINVAL, volume.path() + " is a file: open it on a volume");
    auto file = open_plain(path);
    if (!file)
        return file;
    if (!volume.mem_) {
        file->reason_ = volume.reason_.empty() ? volume.path() + " is not a weft volume" : volume.reason_;
        if (strict)
            return failure(EOPNOTSUPP, file->reason_);
        return file;
    }
    if (auto joined = file->join(volume.mem_, volume.geometry(), strict); !joined)
        return std::unexpected(std::move(joined.error()));
    if (file->id_)
        file->home_ = volume.home_;
    return file;
}

Result<File> File::open(const std::string& path, bool strict)
{
    auto file = open_plain(path);
    if (!file)
        return file;
    struct stat status {
    };
    if (::fstat(file->fd_, &status))
        return failure_of(path);
    auto mem = open_mem(status.st_dev);
    Geometry whole;
    if (!mem)
        file->reason_ = std::move(mem.error().text);
    else if (!*mem)
        file->reason_ = path + " is not on a weft volume";
    else if (auto read = read_geometry(mem->get(), whole); !read)
        file->reason_ = std::move(read.error().text);
    if (!file->reason_.empty()) {
        if (strict)
            return failure(EOPNOTSUPP, file->reason_);
        return file;
    }
    if (auto joined = file->join(std::make_shared<const OwnedFd>(std::move(*mem)), whole, strict); !joined)
        return std::unexpected(std::move(joined.error()));
    return file;
}

Result<Target> open(const std::string& name, Access access, Claim claim)
{
    struct stat status {
    };
    const bool is_file =
        name.find('/') != std::string::npos && !::stat(name.c_str(), &status) && S_ISREG(status.st_mode);
    if (is_file && access == Access::read) {
        auto file = File::open(name);
        if (!file)
            return std::unexpected(std::move(file.error()));
        return Target(std::move(*file));
    }
    auto volume = Volume::open(name, access, claim);
    if (!volume)
        return std::unexpected(std::move(volume.error()));
    return Target(std::move(*volume));
}

} // namespace weft
