// SPDX-License-Identifier: GPL-2.0-only
/// Identifiers of disks and namespaces. weft refuses one whose identifier changes: it may be another disk.
#pragma once

#include "fabrics.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace weft
{

/// Whether a target may have made the identifier up when it started. Linux's and SPDK's targets make a random
/// UUID (version 4, RFC 9562) unless they are given one, so a random one that was given looks the same. wwid:
/// as in sysfs, "uuid.550e8400-e29b-41d4-a716-446655440000"; model: of the controller.
[[nodiscard]] bool looks_made_up(std::string_view wwid, std::string_view model);

/// What tells a disk from another one that has its path later: its attributes in sysfs, the one that counts
/// first, such as "dm/uuid LVM-..." or "wwid eui.0025388b710116a1"; for a partition with its place, "...,
/// sector 2048". Empty for disks without any, such as loop devices. One that a target may have made up when
/// it started is left out. `numbers` is sysfs's folder of all block devices.
[[nodiscard]] std::vector<std::string> identities_of(dev_t number,
                                                     const std::filesystem::path& numbers = "/sys/dev/block");

/// A namespace whose identifier looks made up.
struct doubtful_namespace {
    std::string disk;       ///< "/dev/weft-rdma0n1"
    std::string identifier; ///< its wwid, or "nguid 550e8400-e29b-41d4-a716-446655440000"
};

/// Those of a connection.
[[nodiscard]] std::vector<doubtful_namespace> doubtful_namespaces(const connection& link);

/// What happens when such an identifier changes, and how it is set at the target.
extern const char* const made_up_why;
extern const char* const made_up_fix;

} // namespace weft
