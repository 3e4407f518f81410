// SPDX-License-Identifier: GPL-2.0-only
/// Block devices as weftctl meets them: opened, measured, asked what is on them and who has them.
#pragma once

#include "result.hpp"
#include <fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace weft
{

class block_device
{
public:
    /// 4 KiB as they are read and written, aligned for direct I/O.
    struct alignas(4096) block : std::array<std::byte, 4096> {
    };

    enum class access {
        read,            ///< beside others
        write_exclusive, ///< with the kernel's promise that nobody else has claimed it
    };

    /// Opens a block device or says in one sentence why not.
    [[nodiscard]] static result<block_device> open(const std::string& path, access access);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }            ///< bytes
    [[nodiscard]] unsigned int block_size() const noexcept { return block_size_; } ///< logical, bytes
    [[nodiscard]] dev_t number() const noexcept { return number_; }

    /// Past the page cache, so that what others wrote is seen and what we write is on the medium.
    [[nodiscard]] result<block> read_block(std::uint64_t offset) const;
    [[nodiscard]] result<void> write_block(std::uint64_t offset, const block& data) const;

    /// What libblkid recognises on it ("xfs filesystem", "gpt partition table"), if anything.
    [[nodiscard]] result<std::optional<std::string>> content() const;

    /// After the last write: removes from the kernel's cache what direct writes went past, and has udev look
    /// again.
    void written() const;

private:
    std::string path_;
    OwnedFd fd_;
    std::uint64_t size_ = 0;
    unsigned int block_size_ = 0;
    dev_t number_ = 0;
};

/// Who has a block device open or claimed, one phrase each: "mounted on /data", "held by dm-0", "open in fio
/// (pid 7)".
[[nodiscard]] std::vector<std::string> users_of(dev_t number);

/// The same by path; nothing where there is no block device.
[[nodiscard]] std::optional<std::vector<std::string>> users_of(const std::string& path);

/// Refuses a device that is among those opened already, under whichever name.
[[nodiscard]] result<void> check_distinct(const std::vector<block_device>& opened, const std::string& path);

/// Whether a disk, by its name in /sys/block, is a namespace of weft's own RDMA initiator.
[[nodiscard]] bool is_own_disk(std::string_view name);

/// Paths of all block devices of this host that could be members.
[[nodiscard]] std::vector<std::string> all_block_devices();

} // namespace weft
