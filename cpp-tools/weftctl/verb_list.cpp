// SPDX-License-Identifier: GPL-2.0-only
#include "members.hpp"
#include "netlink.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

found_volume describe(const member_set& set)
{
    found_volume volume{set.name, set.uuid, set.sb.data_size * set.sb.member_count, set.sb.member_count, {}};
    volume.devices.resize(set.sb.member_count);
    // A superblock that disagrees with the first one may have any index; 'weftctl check' reports it.
    for (const auto& member : set.members)
        if (member.sb.member_index < volume.devices.size())
            volume.devices[member.sb.member_index] = member.path;
    return volume;
}

result<exit_code> run_list(renderer& out)
{
    std::vector<volume_status> assembled;
    // Without the module no volume is assembled, but members can be listed.
    if (netlink::is_served()) {
        auto connection = netlink::open();
        if (!connection)
            return std::unexpected(connection.error());
        auto volumes = connection->volumes();
        if (!volumes)
            return std::unexpected(volumes.error());
        assembled = std::move(*volumes);
    }
    unsigned int unreadable = 0;
    const auto sets = find_members({}, &unreadable);
    if (!sets)
        return std::unexpected(sets.error());
    std::vector<found_volume> found;
    for (const auto& set : *sets)
        if (std::none_of(assembled.begin(), assembled.end(),
                         [&](const auto& v) { return v.uuid == set.uuid; }))
            found.push_back(describe(set));
    if (!unreadable) {
        out.list(assembled, found);
        return exit_code::ok;
    }
    // Some devices could not be read: do not claim that there are no volumes.
    if (!assembled.empty() || !found.empty())
        out.list(assembled, found);
    return std::unexpected(unreadable_error(unreadable));
}

} // namespace

verb add_list(CLI::App& app)
{
    auto* command = app.add_subcommand("list", "list assembled volumes and those found on block devices");
    command->footer(
        R"(weftctl reads block devices to find volumes that are not assembled, which needs root. For other users it lists only
assembled volumes, and the exit status is 7.

Examples:
  weftctl list
  weftctl list --json)");
    return {command, [](renderer& out) { return run_list(out); }};
}

} // namespace weft
