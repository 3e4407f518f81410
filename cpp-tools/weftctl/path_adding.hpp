// SPDX-License-Identifier: GPL-2.0-only
/// Adding paths to the members of a volume.
#pragma once

#include "fabrics.hpp"
#include "model.hpp"
#include "netlink.hpp"

#include <string>
#include <vector>

namespace weft
{

/// Connects the paths, URIs or disks, and adds each to the member that its superblock or its identifier
/// names. `actions` gets what was done, or would be with dry_run.
[[nodiscard]] result<void> add_paths(netlink& kernel, const volume_status& volume,
                                     const std::vector<std::string>& paths, const connect_options& connecting,
                                     bool dry_run, std::vector<action>& actions);

} // namespace weft
