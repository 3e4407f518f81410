// SPDX-License-Identifier: LGPL-2.1-or-later
/// Files that appear whole or not at all, for checkpoints.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <string>

namespace weft
{

/// A new file of a known size, open for writing. It gets its name in finish(); a regular file that had the
/// name, or a link to one, is replaced then. Without finish(), nothing is left of it; a process that is
/// killed leaves a hidden file, .NAME- and eight letters, in its folder.
///
/// Engines and streams write to it as to any target: in whole blocks. Its size as a target is that of the
/// file in whole pages; finish() cuts off what is beyond the file's size.
class WEFT_API NewFile : public Target
{
public:
    /// All blocks are allocated here, so a full filesystem fails here, with ENOSPC. EFBIG: no file has this
    /// size. EEXIST, also in finish(): the name is that of a folder, a device, a pipe or a socket.
    [[nodiscard]] static Result<NewFile> create(const std::string& path, std::uint64_t size);
    NewFile(NewFile&& other) noexcept;
    NewFile& operator=(NewFile&& other) noexcept;
    /// All I/O on it has to have ended. In a child of fork() it leaves the parent's file alone.
    ~NewFile();

    /// Writes any bytes of the memory to any offset, and waits for them. Bytes that are not in whole pages of
    /// the file are copied. Use it in the engine's thread; the engine's other completions stay for its
    /// poll(). EINVAL: the range is not within the file or the memory, or the registration does not allow
    /// `staged`, and the whole pages of the file are not at the memory's alignment. EBUSY: other completions
    /// fill the engine. EBADF: after finish().
    [[nodiscard]] Result<void> write(Engine& engine, const Registration& memory, std::uint64_t offset,
                                     std::uint64_t memory_offset, std::uint64_t length);
    /// Puts the data on the medium, gives the file its name, and closes it. All I/O on it has to have ended.
    /// After an error nothing is left of the file, unless only its name may not be on the medium yet.
    [[nodiscard]] Result<void> finish();

private:
    NewFile() = default;
    [[nodiscard]] std::uint64_t unit() const noexcept;
    Result<void> copy(const Memory& memory, std::uint64_t offset, std::uint64_t memory_offset,
                      std::uint64_t length) const;
    Result<void> publish();
    void abandon() noexcept;

    std::string name_;            ///< its path when it is whole
    std::string draft_;           ///< its path until finish(); empty afterwards
    std::uint64_t file_size_ = 0; ///< in bytes
    int cached_fd_ = -1;          ///< for bytes that are not in whole pages
};

} // namespace weft
