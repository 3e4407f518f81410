// SPDX-License-Identifier: GPL-2.0-only
/// A member's superblocks, read from and written to its device. weftctl compiles
/// kmod/weft/superblock.c, so that the kernel and the tool have the same checks and
/// encoding.
#pragma once

#include "device.hpp"
#include "result.hpp"

#include <optional>

extern "C" {
#include "kmod/weft/map.h"
#include "kmod/weft/superblock.h"
}

namespace weft
{

/// One copy of a superblock: `info` if it is valid, else the reason.
struct sb_copy {
    std::uint64_t offset = 0;         ///< bytes from the device's start
    std::optional<weft_sb_info> info; ///< set when valid
    int err = 0;                      ///< otherwise the negative errno of weft_sb_decode()
    std::string why;                  ///< the sentence for `err`
    [[nodiscard]] bool absent() const { return !info && err == -ENODATA; }
};

/// Both copies of a member's superblock.
struct sb_pair {
    sb_copy first;
    sb_copy second;
    /// The valid superblock: the first one, else the copy, else nullptr.
    [[nodiscard]] const weft_sb_info* best() const;
    [[nodiscard]] bool absent() const { return first.absent() && second.absent(); }
    /// Both are valid and equal.
    [[nodiscard]] bool healthy() const;
};

/// Reads both copies. An error only if one cannot be read and the other is not valid.
[[nodiscard]] result<sb_pair> read_superblocks(const block_device& device);

/// Writes one copy and waits until it is on the medium.
[[nodiscard]] result<void> write_superblock(const block_device& device, const weft_sb_info& info,
                                            std::uint64_t offset);

/// Writes zeroes over the superblocks, the owner record and the claim, and waits until they are on the
/// medium. If the first superblock is absent, the copy alone is erased.
[[nodiscard]] result<void> erase_superblocks(const block_device& device, const sb_pair& copies);

/// An owner record, or the claim: `info` if it is valid, else the reason.
struct owner_copy {
    std::optional<weft_owner_info> info;
    int err = 0;     ///< otherwise the negative errno of weft_owner_decode()
    std::string why; ///< the sentence for `err`
    [[nodiscard]] bool absent() const { return !info && err == -ENODATA; }
    /// A host has the volume assembled read-write, or had it when it crashed.
    [[nodiscard]] bool held() const { return info && info->state == WEFT_OWNER_HELD; }
};

/// The owner record of a volume, or at WEFT_CLAIM_OFFSET the claim, from its member 0.
[[nodiscard]] result<owner_copy> read_owner(const block_device& device,
                                            std::uint64_t offset = WEFT_OWNER_OFFSET);

/// Which of the two says who has the volume, as in kmod/weft/owner.c: the claim counts where the record is
/// lost, and where the claim is newer.
[[nodiscard]] owner_copy deciding(const owner_copy& record, const owner_copy& claim);

/// What the records on a member 0 say of a host that may use the volume, as a clause, such as "which host NQN
/// owns"; none if no host does.
[[nodiscard]] result<std::optional<std::string>> owner_of(const block_device& first);

[[nodiscard]] std::string format_uuid(const std::uint8_t (&uuid)[WEFT_UUID_SIZE]);

/// A random UUID, RFC 4122 version 4.
void make_uuid(std::uint8_t (&uuid)[WEFT_UUID_SIZE]);

} // namespace weft
