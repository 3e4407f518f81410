// SPDX-License-Identifier: GPL-2.0-only
/// Members found on this host's block devices, grouped to volumes.
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
    bool held = false;      ///< the device has a holder, such as device mapper
    std::string wwid;       ///< of a disk that may be one of several paths to a namespace; else empty
    bool copy_only = false; ///< nothing is left of the first superblock
};

/// A disk that cannot be read now because of its ANA state, and that leads to a member which another disk
/// read.
struct standby_path {
    std::string path;
    std::string wwid;
    std::uint32_t member = 0; ///< index
};

/// A volume with at least one member that was found.
struct member_set {
    std::string name;
    std::string uuid;
    weft_sb_info sb{}; ///< of the first member found
    std::vector<found_member> members;
    std::vector<standby_path> standby;

    /// The devices by member index, or an error that names a missing or duplicate member.
    [[nodiscard]] result<std::vector<std::string>> complete() const;

    /// Member indices and devices of additional paths, beyond those of `complete()`.
    [[nodiscard]] std::vector<std::pair<std::uint32_t, std::string>> further_paths() const;

    /// The set without the devices that `complete()` would refuse, as another device has the same member
    /// before. Only for devices of which the caller knows that they are paths to it, and no copies.
    [[nodiscard]] member_set without_other_paths() const;

private:
    [[nodiscard]] bool is_path(const found_member& member, const std::string& device) const;
};

/// A named device without a superblock of weft, or one that cannot be read.
struct failed_device {
    std::string path;
    error why;
};

/// What named devices lead to.
struct member_search {
    std::vector<member_set> sets;
    std::vector<failed_device> failed;
};

/// Reads the named devices, all of them.
[[nodiscard]] member_search search_members(const std::vector<std::string>& devices);

/// Reads the named devices, or all devices of this host. Devices that this user may not read are counted in
/// `unreadable`. Without that argument they are an error if no member was found.
/// A named device that fails is an error.
[[nodiscard]] result<std::vector<member_set>> find_members(const std::vector<std::string>& devices = {},
                                                           unsigned int* unreadable = nullptr);

/// The identifier of the namespace that a disk leads to, if the disk cannot be read now because of its ANA
/// state; else empty.
[[nodiscard]] std::string standby_wwid(dev_t number);

/// The error for devices that this user may not read.
[[nodiscard]] error unreadable_error(unsigned int count);

/// Whether a member of the volume says that name. Members may say different ones where 'weftctl rename' was
/// interrupted.
[[nodiscard]] bool has_member_called(const member_set& set, const std::string& name);

/// The one volume of that UUID among them, or of that name: as `is_called` finds it.
[[nodiscard]] result<member_set> pick_volume(
    const std::vector<member_set>& sets, const std::string& name,
    bool (*is_called)(const member_set&, const std::string&) =
        [](const member_set& set, const std::string& name) { return set.name == name; });

} // namespace weft
