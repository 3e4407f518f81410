// SPDX-License-Identifier: GPL-2.0-only
#include "members.hpp"

#include "device.hpp"
#include "sysfile.hpp"

#include <algorithm>
#include <filesystem>
#include <sys/sysmacros.h>

namespace weft
{

namespace
{

bool has_holders(dev_t number)
{
    std::error_code failed;
    const auto dir = fmt::format("/sys/dev/block/{}:{}/holders", major(number), minor(number));
    return std::filesystem::directory_iterator(dir, failed) != std::filesystem::directory_iterator();
}

bool is_same_namespace(const found_member& one, const found_member& other)
{
    return !one.wwid.empty() && one.wwid == other.wwid && one.sb.member_index == other.sb.member_index;
}

member_set& set_of(std::vector<member_set>& sets, const weft_sb_info& sb)
{
    const auto uuid = format_uuid(sb.volume_uuid);
    const auto known =
        std::find_if(sets.begin(), sets.end(), [&](const auto& set) { return set.uuid == uuid; });
    if (known != sets.end())
        return *known;
    return sets.emplace_back(member_set{sb.name, uuid, sb, {}, {}});
}

/// A disk that cannot be read now.
struct standby_disk {
    std::string path;
    std::string wwid;
    error problem;
};

// It is a path to the member that another disk of the same namespace says to be.
bool add_standby(std::vector<member_set>& sets, const standby_disk& disk)
{
    for (auto& set : sets)
        for (const auto& member : set.members)
            if (member.wwid == disk.wwid) {
                set.standby.push_back({disk.path, disk.wwid, member.sb.member_index});
                return true;
            }
    return false;
}

} // namespace

std::string standby_wwid(dev_t number)
{
    const auto state = standby_state(number);
    const auto wwid = state.empty() || state == "persistent-loss" ? std::string() : namespace_of(number);
    return is_identifier(wwid) ? wwid : std::string();
}

error unreadable_error(unsigned int count)
{
    return {exit_code::permission,
            fmt::format("this user may not read {} of this host's block devices, so it cannot find members "
                        "on them; run weftctl as root",
                        count)};
}

member_search search_members(const std::vector<std::string>& devices)
{
    member_search search;
    std::vector<standby_disk> standbys;
    for (const auto& path : devices) {
        auto device = block_device::open(path, block_device::access::read);
        if (!device) {
            search.failed.push_back({path, device.error()});
            continue;
        }
        auto copies = read_superblocks(*device);
        if (!copies) {
            if (auto wwid = standby_wwid(device->number()); !wwid.empty())
                standbys.push_back({path, std::move(wwid), copies.error()});
            else
                search.failed.push_back({path, copies.error()});
            continue;
        }
        if (const auto* sb = copies->best())
            set_of(search.sets, *sb)
                .members.push_back({path, *sb, has_holders(device->number()), namespace_of(device->number()),
                                    copies->first.absent()});
        else
            search.failed.push_back(
                {path,
                 {copies->absent() ? exit_code::missing : exit_code::damaged,
                  fmt::format("{}: {}", path, copies->absent() ? "no weft superblock" : copies->first.why)}});
    }
    for (const auto& disk : standbys)
        if (!add_standby(search.sets, disk))
            search.failed.push_back({disk.path, disk.problem});
    return search;
}

result<std::vector<member_set>> find_members(const std::vector<std::string>& devices,
                                             unsigned int* unreadable)
{
    auto search = search_members(devices.empty() ? all_block_devices() : devices);
    if (!devices.empty() && !search.failed.empty())
        return std::unexpected(search.failed.front().why);
    // A device that the user did not name may hold other data, or nothing: a card reader without a card.
    const auto refused = static_cast<unsigned int>(std::ranges::count_if(
        search.failed, [](const failed_device& one) { return one.why.code == exit_code::permission; }));
    if (unreadable)
        *unreadable = refused;
    else if (refused && search.sets.empty())
        return std::unexpected(unreadable_error(refused));
    return std::move(search.sets);
}

// Was this member found already on another device that leads to the same namespace?
bool member_set::is_path(const found_member& member, const std::string& device) const
{
    return std::any_of(members.begin(), members.end(), [&](const auto& other) {
        return other.path == device && is_same_namespace(member, other);
    });
}

std::vector<std::pair<std::uint32_t, std::string>> member_set::further_paths() const
{
    const auto devices = complete().value_or(std::vector<std::string>());
    std::vector<std::pair<std::uint32_t, std::string>> further;
    for (const auto& member : members) {
        const auto index = member.sb.member_index;
        if (index < devices.size() && member.path != devices[index] && is_path(member, devices[index]))
            further.emplace_back(index, member.path);
    }
    for (const auto& disk : standby)
        if (disk.member < devices.size() &&
            std::any_of(members.begin(), members.end(), [&](const auto& member) {
                return member.path == devices[disk.member] && member.wwid == disk.wwid;
            }))
            further.emplace_back(disk.member, disk.path);
    return further;
}

member_set member_set::without_other_paths() const
{
    auto set = *this;
    set.members.clear();
    for (const auto& member : members) {
        const auto is_same_member = [&](const found_member& first) {
            return !first.held && first.sb.member_index == member.sb.member_index &&
                   !is_same_namespace(member, first);
        };
        if (member.held || std::ranges::none_of(set.members, is_same_member))
            set.members.push_back(member);
    }
    return set;
}

result<std::vector<std::string>> member_set::complete() const
{
    std::vector<std::string> devices(sb.member_count);
    std::vector<bool> held(sb.member_count);
    for (const auto& member : members) {
        // Anyone can write a superblock with this UUID, and an index beyond the others' number of members.
        weft_why why{};
        if (weft_sb_same_volume(&sb, &member.sb, &why))
            return fail(exit_code::damaged, "volume {}: {} disagrees with {}: {}", name, member.path,
                        members.front().path, why.text);
        auto& known = devices[member.sb.member_index];
        // A path below a multipath device has the same contents as that device: use the upper one.
        if (known.empty() || (held[member.sb.member_index] && !member.held)) {
            known = member.path;
            held[member.sb.member_index] = member.held;
        } else if (!member.held && !is_path(member, known)) {
            return fail(exit_code::damaged, "volume {}: {} and {} both claim to be member {}", name, known,
                        member.path, member.sb.member_index);
        }
    }
    for (std::size_t i = 0; i < devices.size(); i++)
        if (devices[i].empty())
            return fail(exit_code::missing, "volume {}: member {} of {} is missing", name, i, devices.size());
    return devices;
}

bool has_member_called(const member_set& set, const std::string& name)
{
    return std::ranges::any_of(set.members,
                               [&](const found_member& member) { return name == member.sb.name; });
}

result<member_set> pick_volume(const std::vector<member_set>& sets, const std::string& name,
                               bool (*is_called)(const member_set&, const std::string&))
{
    const member_set* picked = nullptr;
    for (const auto& set : sets) {
        if (set.uuid != name && !is_called(set, name))
            continue;
        if (picked)
            return fail(exit_code::busy, "two volumes are called {}: {} and {}; give one of them by its UUID",
                        name, picked->uuid, set.uuid);
        picked = &set;
    }
    if (!picked)
        return fail(exit_code::missing, "no volume called {} was found on any block device", name);
    return *picked;
}

} // namespace weft
