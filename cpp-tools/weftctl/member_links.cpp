// SPDX-License-Identifier: GPL-2.0-only
#include "member_links.hpp"

#include <algorithm>
#include <filesystem>

namespace weft
{

namespace
{

/// One queue pair per CPU, node and target would be too many for a fabric: at most 64 for a volume.
int queues_for(std::size_t members)
{
    return std::max<int>(2, 64 / static_cast<int>(members));
}

} // namespace

result<connection> member_links::link(const member_uri& uri, const connect_options& options)
{
    auto link = connect(uri.at, uri.subnqn, options);
    if (link && link->made)
        made_.push_back(*link);
    return link;
}

std::vector<error> member_links::reach(const std::vector<member_path>& members)
{
    std::vector<error> absent;
    devices_.clear();
    const auto disk_of = [&](const member_path& member) -> result<std::string> {
        std::error_code ignored;
        if (!is_uri(member.at)) {
            if (std::filesystem::is_block_file(member.at, ignored))
                return std::filesystem::canonical(member.at, ignored);
            return fail(exit_code::missing, "{} is not there", member.at);
        }
        const auto uri = parse_member_uri(member.at);
        if (!uri)
            return std::unexpected(uri.error());
        auto options = member.options;
        if (!options.queues)
            options.queues = queues_for(members.size());
        const auto link = this->link(*uri, options);
        return link ? namespace_disk(*link, *uri) : std::unexpected(link.error());
    };
    for (const auto& member : members) {
        auto disk = disk_of(member);
        if (!disk)
            absent.push_back(disk.error());
        // The stock host has one disk for all paths to a namespace.
        else if (std::ranges::find(devices_, *disk) == devices_.end())
            devices_.push_back(std::move(*disk));
    }
    return absent;
}

result<member_links> member_links::resolve(const std::vector<std::string>& members,
                                           const connect_options& options)
{
    // Parse all of them before connecting the first.
    std::vector<member_uri> uris;
    for (const auto& member : members) {
        if (!is_uri(member))
            continue;
        auto uri = parse_member_uri(member);
        if (!uri)
            return std::unexpected(uri.error());
        uris.push_back(std::move(*uri));
    }

    auto limited = options;
    if (!limited.queues && !uris.empty())
        limited.queues = queues_for(members.size());

    member_links links;
    std::vector<connection> found;
    for (const auto& uri : uris) {
        auto link = links.link(uri, limited);
        if (!link)
            return std::unexpected(link.error());
        found.push_back(std::move(*link));
    }
    auto uri = uris.begin();
    auto link = found.begin();
    for (const auto& member : members) {
        if (!is_uri(member)) {
            links.devices_.push_back(member);
            continue;
        }
        auto disk = namespace_disk(*link++, *uri++);
        if (!disk)
            return std::unexpected(disk.error());
        links.devices_.push_back(std::move(*disk));
    }
    return links;
}

member_links::~member_links()
{
    // A controller that another command uses now stays. The first error has been reported already.
    for (const auto& link : made_)
        if (!claimed_disk(link))
            static_cast<void>(disconnect(link));
}

} // namespace weft
