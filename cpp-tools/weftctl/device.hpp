// SPDX-License-Identifier: GPL-2.0-only
/// Block devices: open and measure them, find their contents and users.
#pragma once

#include "result.hpp"
#include <fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
    /// A block of 4 KiB, aligned for direct I/O.
    struct alignas(4096) block : std::array<std::byte, 4096> {
    };

    enum class access {
        read,            ///< other users are allowed
        write_exclusive, ///< with an exclusive claim (O_EXCL)
    };

    /// Opens a block device, or returns the reason as a sentence.
    [[nodiscard]] static result<block_device> open(const std::string& path, access access);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }            ///< bytes
    [[nodiscard]] unsigned int block_size() const noexcept { return block_size_; } ///< logical, bytes
    [[nodiscard]] dev_t number() const noexcept { return number_; }

    /// Without the page cache: reads what others wrote, and writes to the medium.
    [[nodiscard]] result<block> read_block(std::uint64_t offset) const;
    [[nodiscard]] result<void> write_block(std::uint64_t offset, const block& data) const;
    /// Writes zeroes; both are multiples of 4096.
    [[nodiscard]] result<void> erase(std::uint64_t offset, std::uint64_t length) const;

    /// The contents that libblkid recognises ("xfs filesystem", "gpt partition table"), if any.
    [[nodiscard]] result<std::optional<std::string>> content() const;

    /// Erases the signatures that libblkid recognises, also backups at the end of the device, so that no
    /// other program takes the device for its own; where the device can be read. It is open for writing.
    [[nodiscard]] result<void> erase_signatures() const;

    /// Call it after the last write: drops old pages from the page cache, and makes udev look
    /// at the device again.
    void written() const;

private:
    std::string path_;
    OwnedFd fd_;
    std::uint64_t size_ = 0;
    unsigned int block_size_ = 0;
    dev_t number_ = 0;
};

/// The disk of a partition; unset for a whole disk. `numbers` is sysfs's folder of all block devices.
[[nodiscard]] std::optional<dev_t> whole_of(dev_t number,
                                            const std::filesystem::path& numbers = "/sys/dev/block");

/// Whether a write to one may change the other: they are the same, or a disk and its partition.
[[nodiscard]] bool overlaps(dev_t one, dev_t other, const std::filesystem::path& numbers = "/sys/dev/block");

/// The users of a block device, one phrase each: "mounted on /data", "held by dm-0", "open in fio
/// (pid 7)".
[[nodiscard]] std::vector<std::string> users_of(dev_t number);
/// Whether it is mounted, part of a volume, or swap.
[[nodiscard]] bool is_claimed(const std::string& path);
/// The number of a block device by its path; unset without it.
[[nodiscard]] std::optional<dev_t> block_number(const std::string& path);

/// The same by path; empty if there is no block device.
[[nodiscard]] std::optional<std::vector<std::string>> users_of(const std::string& path);

/// The processes that have the volume's .mem open: ".mem open in fio (pid 7)". That alone does not keep the
/// volume from being stopped.
[[nodiscard]] std::vector<std::string> memory_users_of(const std::string& volume);

/// Refuses a device that is open already, also by another name.
[[nodiscard]] result<void> check_distinct(const std::vector<block_device>& opened, const std::string& path);

/// The name that a device's disk has in /sys/block; a partition's disk is the whole disk. Empty if the path
/// leads to no block device.
[[nodiscard]] std::string disk_name(const std::string& device);

/// Whether a disk, by its name in /sys/block, is a namespace of weft's own RDMA initiator.
[[nodiscard]] bool is_own_disk(std::string_view name);

/// The identifier of the namespace that a disk of weft's own initiator leads to, which has a disk for each
/// path; empty for other disks: of the stock host's, all paths to a namespace are one disk.
[[nodiscard]] std::string namespace_of(dev_t number);

/// Whether no other namespace has it: one without an identifier has a name made of its controller's serial
/// number.
[[nodiscard]] bool is_identifier(std::string_view wwid);

/// The ANA state of an NVMe namespace by this path, if the target carries no I/O in it ("inaccessible"); else
/// empty.
[[nodiscard]] std::string standby_state(dev_t number);

/// Paths of all block devices of this host that could be members. Without namespaces whose controllers are
/// not connected: a read of those waits.
[[nodiscard]] std::vector<std::string> all_block_devices();

} // namespace weft
