// SPDX-License-Identifier: LGPL-2.1-or-later
/// What can be read and written: volumes, and files on them.
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
class Registration;
struct Policy;

/// How a target lies on its devices. Sizes are in bytes.
struct Geometry {
    std::uint64_t size = 0;
    std::uint32_t block_size = 1;   ///< offsets and lengths are multiples of it
    std::uint32_t alignment = 1;    ///< of host memory
    std::uint32_t chunk_size = 0;   ///< that stay together on one member; 0 where nothing is known of members
    std::uint32_t member_count = 1; ///< that chunks go round
    /// A chunk of each member; 1 MiB where nothing is known of them.
    [[nodiscard]] std::uint64_t stripe() const noexcept
    {
        return chunk_size ? std::uint64_t{chunk_size} * member_count : std::uint64_t{1} << 20;
    }
};

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// Something that is open for I/O. It does not change while it is open, so engines of several threads may use
/// one; it outlives what is registered with it and every engine's I/O on it.
class WEFT_API Target
{
public:
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    [[nodiscard]] const Geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return geometry_.size; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    /// True where the kernel takes registered memory: /dev/weft/NAME.mem.
    [[nodiscard]] bool is_weft() const noexcept { return mem_ >= 0; }
    /// False where I/O goes through the page cache.
    [[nodiscard]] bool is_direct() const noexcept { return direct_; }

    /// Registers a memory for I/O on this target (and, of a weft volume, on files on it).
    ///
    /// Without a direct route this fails and says why, unless the policy allows another. The memory outlives
    /// the registration. Any thread.
    [[nodiscard]] Result<Registration> add(const Memory& memory, const Policy& policy) const;

protected:
    Target() = default;
    Target(Target&& other) noexcept;
    Target& operator=(Target&& other) noexcept;
    ~Target();

    std::string path_;
    Geometry geometry_;
    int fd_ = -1;          ///< for I/O by file
    int mem_ = -1;         ///< /dev/weft/NAME.mem; owned by the volume
    std::uint32_t id_ = 0; ///< of the target there
    bool direct_ = false;
    friend class Engine;
};

/// A weft volume, or any other block device or file, all of it.
class WEFT_API Volume : public Target
{
public:
    /// `name` is that of a weft volume ("data"), or a path with a slash. O_DIRECT is used where there is
    /// such. EBUSY: it is to be written and is mounted or held by somebody.
    [[nodiscard]] static Result<Volume> open(std::string_view name, Access access = Access::read);
    Volume(Volume&&) noexcept = default;
    Volume& operator=(Volume&& other) noexcept;
    ~Volume();

private:
    Volume() = default;
    friend class File;
};

/// A file, read past its filesystem where it is sealed (immutable, on XFS or ext4 on the volume itself).
class WEFT_API File : public Target
{
public:
    /// Where the kernel does not hold the file still for direct reads, `strict` fails with the kernel's
    /// sentence; otherwise it is read through the filesystem, and reason() is that sentence. The volume
    /// outlives the file.
    [[nodiscard]] static Result<File> open(const Volume& volume, const std::string& path, bool strict);
    File(File&& other) noexcept = default;
    File& operator=(File&& other) noexcept;
    ~File();
    /// Why it is read through the filesystem; empty where it is not.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

private:
    File() = default;
    void close() noexcept;
    std::string reason_;
};

} // namespace weft
