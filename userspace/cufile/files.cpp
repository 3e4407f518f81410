// SPDX-License-Identifier: LGPL-2.1-or-later
#include "files.hpp"

#include "forks.hpp"
#include "report.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <shared_mutex>
#include <sys/stat.h>
#include <vector>

namespace weft::cufile
{

namespace
{

struct Table {
    ProcessLock<std::shared_mutex> lock;
    std::map<void*, std::shared_ptr<Handle>> handles;
    std::mutex edges;
    Table();
};

/// Never destroyed: threads may do I/O until the process ends.
Table& table()
{
    static auto* const once = new Table;
    return *once;
}

Table::Table()
{
    renew_in_children([]() noexcept {
        renew(table().edges);
        for (const auto& [key, handle] : table().handles)
            handle->renew_locks();
    });
}

CUfileOpError error_of(int code) noexcept
{
    return code == EACCES || code == EPERM || code == EBUSY || code == EROFS ? CU_FILE_PERMISSION_DENIED
           : code == EINVAL                                                  ? CU_FILE_INVALID_FILE_TYPE
                                                                             : CU_FILE_INTERNAL_ERROR;
}

} // namespace

Opened::Opened(Target target) : target_(std::move(target)), forks_(forks()) {}

bool Opened::is_parents() const noexcept
{
    return forks_ != forks();
}

Result<std::shared_ptr<const Registration>> Opened::registration(const Buffer& buffer, bool read_only)
{
    const auto add = [&](const Policy& policy) { return target().add(buffer.memory, policy); };
    if (!buffer.number) {
        auto made = add({.staged = !is_strict(), .read_only = read_only});
        if (!made)
            return std::move(made.error());
        return std::make_shared<const Registration>(*std::move(made));
    }
    const std::lock_guard held(lock_);
    auto& known = registrations_[buffer.number];
    if (known)
        return known;
    // Registered for good where the volume can do that: an I/O then needs no registration of its own. What is
    // not in whole blocks is staged even so.
    auto made = add({.staged = !is_strict(), .persistent = target().is_weft()});
    if (!made)
        made = add({.staged = !is_strict()});
    if (!made) {
        registrations_.erase(buffer.number);
        return std::move(made.error());
    }
    known = std::make_shared<const Registration>(*std::move(made));
    return known;
}

void Opened::forget(const Buffer& buffer) noexcept
{
    std::shared_ptr<const Registration> last;
    const std::lock_guard held(lock_);
    const auto found = registrations_.find(buffer.number);
    if (found == registrations_.end())
        return;
    last = std::move(found->second);
    registrations_.erase(found);
}

const std::string& Opened::why(const Registration& registration) const noexcept
{
    return target_.reason().empty() ? registration.reason() : target_.reason();
}

Handle::Handle(OwnedFd fd, std::string name, int flags, bool is_block) noexcept
    : fd_(std::move(fd)), name_(std::move(name)), reads_((flags & O_ACCMODE) != O_WRONLY),
      writes_((flags & O_ACCMODE) != O_RDONLY), is_block_(is_block), sync_(flags & (O_SYNC | O_DSYNC))
{
}

void Handle::renew_locks() noexcept
{
    renew(lock_);
    // Another thread may have been changing them: they are not looked at, and stay.
    for (auto* opened : {&reader_, &writer_})
        if (*opened)
            static_cast<void>(new std::shared_ptr<Opened>(std::move(*opened))); // NOLINT
}

/// The file again, also if it has no name any more. The kernel checks the permissions once more.
std::string Handle::path() const
{
    return "/proc/self/fd/" + std::to_string(fd_.get());
}

std::string Handle::named(std::string text) const
{
    const auto found = text.find(path());
    return found == std::string::npos ? text : text.replace(found, path().size(), name_);
}

Result<std::shared_ptr<Opened>> Handle::open_volume(Access access) const
{
    // The program has opened the device, and claimed it if it wanted to.
    auto volume = Volume::open(path(), access, Claim::shared);
    if (!volume)
        return std::move(volume.error());
    return std::make_shared<Opened>(*std::move(volume));
}

Result<std::shared_ptr<Opened>> Handle::open_reader() const
{
    if (is_block_)
        return open_volume(writes_ ? Access::read_write : Access::read);
    auto file = File::open(path(), false);
    if (!file)
        return std::move(file.error());
    return std::make_shared<Opened>(*std::move(file));
}

Result<std::shared_ptr<Opened>> Handle::reader(std::uint64_t end)
{
    const std::lock_guard held(lock_);
    struct stat status {
    };
    const bool is_current = reader_ && !reader_->is_parents();
    if (is_current && (is_block_ || end <= reader_->target().size() ||
                       (!::fstat(fd_.get(), &status) &&
                        static_cast<std::uint64_t>(status.st_size) == reader_->target().size())))
        return reader_;
    auto opened = open_reader();
    if (!opened)
        return opened;
    reader_ = *opened;
    if (is_block_ && writes_)
        writer_ = reader_;
    return reader_;
}

Result<std::shared_ptr<Opened>> Handle::writer()
{
    const std::lock_guard held(lock_);
    if (writer_ && !writer_->is_parents())
        return writer_;
    auto opened = open_volume(is_block_ && reads_ ? Access::read_write : Access::write);
    if (!opened)
        return opened;
    writer_ = *opened;
    if (is_block_ && reads_)
        reader_ = writer_;
    return writer_;
}

int Handle::cached_fd()
{
    const std::lock_guard held(lock_);
    if (!cached_)
        cached_ = OwnedFd(::open(path().c_str(), O_WRONLY | O_CLOEXEC | sync_));
    return cached_ ? cached_.get() : -errno;
}

void Handle::forget(const Buffer& buffer) noexcept
{
    std::shared_ptr<Opened> reader, writer;
    {
        const std::lock_guard held(lock_);
        reader = reader_;
        writer = writer_;
    }
    for (const auto& opened : {reader, writer})
        if (opened)
            opened->forget(buffer);
}

std::expected<std::shared_ptr<Handle>, CUfileOpError> Handle::open(int fd)
{
    const int flags = ::fcntl(fd, F_GETFL);
    OwnedFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    struct stat status {
    };
    if (flags < 0 || !own || ::fstat(fd, &status))
        return std::unexpected(CU_FILE_INVALID_VALUE);
    std::error_code failed;
    const auto link = "/proc/self/fd/" + std::to_string(own.get());
    const auto name = std::filesystem::read_symlink(link, failed).string();
    auto handle =
        std::make_shared<Handle>(std::move(own), failed ? link : name, flags, S_ISBLK(status.st_mode));
    // Say now what would fail at the first I/O.
    const auto opened = handle->reads() ? handle->reader(0) : handle->writer();
    if (!opened) {
        say(handle->named(opened.error().text));
        return std::unexpected(error_of(opened.error().code));
    }
    return handle;
}

std::mutex& edges() noexcept
{
    return table().edges;
}

void* add_handle(std::shared_ptr<Handle> handle)
{
    auto* const key = handle.get();
    const std::lock_guard held(table().lock);
    table().handles.emplace(key, std::move(handle));
    return key;
}

std::shared_ptr<Handle> find_handle(void* handle) noexcept
{
    const std::shared_lock held(table().lock);
    const auto found = table().handles.find(handle);
    return found == table().handles.end() ? nullptr : found->second;
}

void remove_handle(void* handle) noexcept
{
    std::shared_ptr<Handle> last;
    const std::lock_guard held(table().lock);
    const auto found = table().handles.find(handle);
    if (found == table().handles.end())
        return;
    last = std::move(found->second);
    table().handles.erase(found);
}

void forget_everywhere(const Buffer& buffer) noexcept
{
    std::vector<std::shared_ptr<Handle>> all;
    {
        const std::shared_lock held(table().lock);
        for (const auto& [key, handle] : table().handles)
            all.push_back(handle);
    }
    for (const auto& handle : all)
        handle->forget(buffer);
}

} // namespace weft::cufile
