// SPDX-License-Identifier: LGPL-2.1-or-later
/// Files and block devices that a program registered.
#pragma once

#include "buffers.hpp"
#include "cufile.h"
#include "forks.hpp"

#include <fd.hpp>

#include <weft/target.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace weft::cufile
{

/// A file as libweft's target, and the memory that is registered for I/O on it. It does not change, so that
/// I/O on it needs no lock.
class Opened
{
public:
    explicit Opened(Target target);
    [[nodiscard]] const Target& target() const noexcept { return target_; }
    /// The registration of a buffer; that of a registered one is kept for the next I/O. Its error is that of
    /// the memory.
    [[nodiscard]] Result<std::shared_ptr<const Registration>> registration(const Buffer& buffer,
                                                                           bool read_only);
    /// Forgets a buffer's registration, which ends after the I/O on it.
    void forget(const Buffer& buffer) noexcept;
    /// Why its I/O is not direct: of the file, or of the memory.
    [[nodiscard]] const std::string& why(const Registration& registration) const noexcept;
    [[nodiscard]] bool is_parents() const noexcept;

private:
    Target target_;
    unsigned forks_;
    std::mutex lock_;
    std::map<std::uint64_t, std::shared_ptr<const Registration>> registrations_; ///< by the buffer's number
};

/// What cuFileHandleRegister() makes. Its own descriptor keeps the file there.
class Handle
{
public:
    /// An error, and a line that says why, if it is not a file or device that can be read or written.
    [[nodiscard]] static std::expected<std::shared_ptr<Handle>, CUfileOpError> open(int fd);
    Handle(OwnedFd fd, std::string name, int flags, bool is_block) noexcept;

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// A sentence of libweft, with the name of the file in place of the path by which it was opened again.
    [[nodiscard]] std::string named(std::string text) const;
    [[nodiscard]] bool reads() const noexcept { return reads_; }
    [[nodiscard]] bool writes() const noexcept { return writes_; }
    [[nodiscard]] bool is_block() const noexcept { return is_block_; }
    /// What is written has to be on the medium when a write returns: O_SYNC or O_DSYNC.
    [[nodiscard]] bool is_synchronous() const noexcept { return sync_ != 0; }

    /// The target to read up to `end` from, or to write to. A file that has grown since it was opened is
    /// opened again.
    [[nodiscard]] Result<std::shared_ptr<Opened>> reader(std::uint64_t end);
    [[nodiscard]] Result<std::shared_ptr<Opened>> writer();
    /// A descriptor for writes of any bytes, through the page cache, or a negative errno. Only of a regular
    /// file.
    [[nodiscard]] int cached_fd();
    void forget(const Buffer& buffer) noexcept;
    /// In a child of fork(): no other thread has its locks, and what is open is the parent's.
    void renew_locks() noexcept;

private:
    [[nodiscard]] Result<std::shared_ptr<Opened>> open_volume(Access access) const;
    [[nodiscard]] Result<std::shared_ptr<Opened>> open_reader() const;
    [[nodiscard]] std::string path() const;

    OwnedFd fd_;
    std::string name_; ///< for people
    bool reads_, writes_, is_block_;
    int sync_;        ///< O_SYNC or O_DSYNC
    std::mutex lock_; ///< of what follows
    std::shared_ptr<Opened> reader_, writer_;
    OwnedFd cached_;
};

/// Held while blocks of devices are read, changed and written: several handles may lead to one device. Other
/// processes are not kept from it.
[[nodiscard]] std::mutex& edges() noexcept;

/// The handles that are registered.
[[nodiscard]] void* add_handle(std::shared_ptr<Handle> handle);
[[nodiscard]] std::shared_ptr<Handle> find_handle(void* handle) noexcept;
void remove_handle(void* handle) noexcept;
/// Ends a buffer's registrations with all of them.
void forget_everywhere(const Buffer& buffer) noexcept;

} // namespace weft::cufile
