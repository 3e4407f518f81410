// SPDX-License-Identifier: LGPL-2.1-or-later
/// Targets of I/O: volumes, and files on them.
#pragma once

#include "api.hpp"
#include "error.hpp"
#include "route.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft
{

class Memory;
class OwnedFd;
class Registration;
struct Policy;

/// The layout of a target. Sizes are in bytes.
struct Geometry {
    std::uint64_t size = 0;
    std::uint32_t block_size = 1;   ///< offsets and lengths have to be multiples of it
    std::uint32_t alignment = 1;    ///< required alignment of host memory
    std::uint32_t chunk_size = 0;   ///< contiguous bytes on one member; 0 if the members are unknown
    std::uint32_t member_count = 1; ///< number of members that the chunks are striped over
    /// The size of a stripe: one chunk of each member. 1 MiB if the members are unknown.
    [[nodiscard]] std::uint64_t stripe() const noexcept
    {
        return chunk_size ? std::uint64_t{chunk_size} * member_count : std::uint64_t{1} << 20;
    }
};

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// Whether a block device that is opened for writing is claimed, as a mount claims it. A weft volume whose
/// .mem device can be opened is always claimed; all writers through that share the claim.
enum class Claim : std::uint8_t {
    exclusive, ///< claim it; EBUSY if it is mounted or claimed by another
    shared,    ///< do not claim it: the caller coordinates the writers
};

/// An open target of I/O. It does not change while it is open, so engines of several threads may use it. It
/// has to outlive all I/O on it, and may be moved meanwhile.
class WEFT_API Target
{
public:
    Target(Target&& other) noexcept;
    Target& operator=(Target&& other) noexcept;
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    ~Target();
    [[nodiscard]] const Geometry& geometry() const noexcept { return geometry_; }
    /// In bytes, when it was opened. A file that grows later is read to its new end.
    [[nodiscard]] std::uint64_t size() const noexcept { return geometry_.size; }
    /// In bytes. It is that of a file that may have grown since it was opened.
    [[nodiscard]] std::uint64_t size_now() const noexcept;
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    /// True if the kernel takes registered memory, by /dev/weft/NAME.mem.
    [[nodiscard]] bool is_weft() const noexcept { return mem_ != nullptr; }
    /// False if I/O goes through the page cache.
    [[nodiscard]] bool is_direct() const noexcept { return direct_; }
    /// The reason why a file is read through its filesystem, or why the .mem device of a weft volume cannot
    /// be opened; empty for all else.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

    /// Registers a memory for I/O on this target; for a weft volume, also on files on it.
    ///
    /// Without a direct route it fails with the reason, unless the policy allows another route. I/O on an
    /// unrelated target with this registration fails with EXDEV. It may be called in any thread.
    [[nodiscard]] Result<Registration> add(const Memory& memory, const Policy& policy) const;

protected:
    Target() noexcept;
    void close() noexcept;

    std::string path_;
    std::string reason_;
    Geometry geometry_;
    int fd_ = -1;                        ///< for I/O that does not use the .mem device
    std::shared_ptr<const OwnedFd> mem_; ///< /dev/weft/NAME.mem, shared with files and registrations
    std::uint32_t id_ = 0;               ///< id of the target there
    std::uint64_t number_ = 0;           ///< unique number of this opening
    std::uint64_t home_ = 0; ///< number_ of the target that registrations belong to: its volume or itself
    unsigned forks_ = 0;     ///< of this process; a child of fork() must not end what is its parent's
    bool direct_ = false;
    bool is_file_ = false;
    friend class Engine;
    friend class File;
};

/// Opens a weft volume by its name ("data"), or a file or block device by a path with a slash. A file that is
/// opened for reading finds its volume by itself, as by File::open(path); all else is opened by
/// Volume::open().
[[nodiscard]] WEFT_API Result<Target> open(const std::string& name, Access access = Access::read,
                                           Claim claim = Claim::exclusive);

/// A weft volume, or any other block device or file.
class WEFT_API Volume : public Target
{
public:
    /// `name` is the name of a weft volume ("data"), or a path with a slash. A link to a weft volume opens
    /// that volume. O_DIRECT is used where it is supported. EBUSY: a block device to be written is mounted or
    /// claimed, maybe by this process. EINVAL: `access` is not a valid value.
    [[nodiscard]] static Result<Volume> open(std::string_view name, Access access = Access::read,
                                             Claim claim = Claim::exclusive);

private:
    Volume() = default;
};

/// A file. A sealed file (immutable, on XFS or ext4 on the volume itself) is read without the filesystem.
class WEFT_API File : public Target
{
public:
    /// `volume` is a weft volume. If the kernel refuses direct reads of the file, this fails with the
    /// kernel's sentence if `strict` is set. Otherwise the file is read through the filesystem, and reason()
    /// is that sentence. EINVAL: `volume` is a file.
    [[nodiscard]] static Result<File> open(const Target& volume, const std::string& path, bool strict);
    /// The same for a file on whichever volume it is, or on none. The caller needs no access to the volume
    /// itself. A registration for one file is not one for another.
    [[nodiscard]] static Result<File> open(const std::string& path, bool strict = false);

private:
    File() = default;
    static Result<File> open_plain(const std::string& path);
    Result<void> join(std::shared_ptr<const OwnedFd> mem, const Geometry& whole, bool strict);
};

} // namespace weft
