// SPDX-License-Identifier: GPL-2.0-only
/// Adding paths to the members of a volume.
#pragma once

#include "fabrics.hpp"
#include "model.hpp"
#include "netlink.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft
{

/// Connects the paths, URIs or disks, and adds each to the member that its superblock or its identifier
/// names. `actions` gets what was done, or would be with dry_run.
[[nodiscard]] result<void> add_paths(netlink& kernel, const volume_status& volume,
                                     const std::vector<std::string>& paths, const connect_options& connecting,
                                     bool dry_run, std::vector<action>& actions);

/// Is the device the disk of that member's paths? A copy of a disk has its superblock as well. The kernel
/// compares what its drivers give it; UUIDs are not among that.
[[nodiscard]] result<void> check_identifier(const std::string& device, const volume_status& volume,
                                            std::uint32_t member);

} // namespace weft
