// SPDX-License-Identifier: GPL-2.0-only
/// Members found on this host's block devices, put together to volumes.
#pragma once

#include "superblock.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft
{

/// A device with at least one valid superblock.
struct found_member {
    std::string path;
    weft_sb_info sb{};
    bool held = false; ///< something else is built on the device
    std::string wwid;  ///< of a disk that can be one path of several to the same namespace, else empty
};

/// A volume some of whose members were found.
struct member_set {
    std::string name;
    std::string uuid;
    weft_sb_info sb{}; ///< of whichever member was found first
    std::vector<found_member> members;

    /// The devices by member index; an error that names what is missing or there twice.
    [[nodiscard]] result<std::vector<std::string>> complete() const;

    /// Member indices and devices beyond those of `complete()`: further paths to the same namespaces.
    [[nodiscard]] std::vector<std::pair<std::uint32_t, std::string>> further_paths() const;

private:
    [[nodiscard]] bool is_path(const found_member& member, const std::string& device) const;
};

/// Looks at the devices named, or at all of this host.
[[nodiscard]] result<std::vector<member_set>> find_members(const std::vector<std::string>& devices = {});

/// The one volume of that name or UUID among them.
[[nodiscard]] result<member_set> pick_volume(const std::vector<member_set>& sets, const std::string& name);

} // namespace weft
