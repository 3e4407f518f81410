// SPDX-License-Identifier: GPL-2.0-only
#include "path_adding.hpp"

#include "device.hpp"
#include "member_links.hpp"
#include "members.hpp"
#include "superblock.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"

#include <fmt/format.h>
#include <optional>
#include <sys/sysmacros.h>

namespace weft
{

namespace
{

/// The identifier of a disk; empty if it has none.
std::string wwid_of(const std::string& disk)
{
    return read_text("/sys/block/" + disk + "/wwid").value_or("");
}

/// The member of the volume that a disk leads to which cannot be read now, by its identifier.
std::optional<std::uint32_t> standby_member(const block_device& device, const volume_status& volume)
{
    const auto wwid = standby_wwid(device.number());
    for (const auto& member : volume.members)
        for (const auto& path : member.paths)
            if (!wwid.empty() && wwid_of(path.disk) == wwid)
                return member.index;
    return {};
}

/// Whether two identifiers are of one kind and length. Those of two kinds do not tell two disks apart.
bool comparable(std::string_view one, std::string_view other)
{
    return is_identifier(one) && one.size() == other.size() &&
           one.substr(0, one.find('.')) == other.substr(0, other.find('.'));
}

/// The member of the volume that a device leads to, by its superblock if that can be read.
result<std::uint32_t> member_of(const std::string& device, const volume_status& volume)
{
    auto opened = block_device::open(device, block_device::access::read);
    if (!opened)
        return std::unexpected(opened.error());
    auto copies = read_superblocks(*opened);
    if (!copies) {
        if (const auto member = standby_member(*opened, volume))
            return *member;
        return std::unexpected(copies.error());
    }
    const auto* sb = copies->best();
    if (!sb)
        return fail(exit_code::usage, "{} has no weft superblock, so it is not a path to a member", device);
    if (format_uuid(sb->volume_uuid) != volume.uuid)
        return fail(exit_code::usage, "{} leads to member {} of volume {}, not of {}", device,
                    sb->member_index, sb->name, volume.name);
    if (auto same = check_identifier(device, volume, sb->member_index); !same)
        return std::unexpected(same.error());
    return sb->member_index;
}

} // namespace

result<void> check_identifier(const std::string& device, const volume_status& volume, std::uint32_t member)
{
    const auto wwid = wwid_of(disk_name(device));
    for (const auto& one : volume.members) {
        if (one.index != member)
            continue;
        for (const auto& path : one.paths)
            if (const auto has = wwid_of(path.disk); comparable(wwid, has) && wwid != has)
                return fail(exit_code::usage,
                            "{} is another disk than member {} of volume {}: its identifier is {}, and "
                            "that of {} is {}",
                            device, member, volume.name, wwid, path.disk, has);
    }
    return {};
}

result<void> add_paths(netlink& kernel, const volume_status& volume, const std::vector<std::string>& paths,
                       const connect_options& connecting, bool dry_run, std::vector<action>& actions)
{
    auto links = member_links::resolve(paths, connecting, volume.members.size());
    if (!links)
        return std::unexpected(links.error());
    for (std::size_t i = 0; i < paths.size(); i++) {
        const auto& device = links->devices()[i];
        const auto member = member_of(device, volume);
        if (!member)
            return std::unexpected(member.error());
        if (!dry_run)
            if (auto done = kernel.add_path(volume.name, *member, device); !done)
                return done;
        actions.push_back(path_added(volume.name, *member, paths[i], dry_run));
    }
    if (!dry_run)
        links->keep();
    return {};
}

} // namespace weft
