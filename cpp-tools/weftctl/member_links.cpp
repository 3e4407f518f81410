// SPDX-License-Identifier: GPL-2.0-only
#include "member_links.hpp"

#include <algorithm>

namespace weft
{

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

    // One queue pair per CPU, node and target would be too many for a fabric: at most 64 for a
    // volume.
    auto limited = options;
    if (!limited.queues && !uris.empty())
        limited.queues = std::max<int>(2, 64 / static_cast<int>(members.size()));

    member_links links;
    std::vector<connection> found;
    for (const auto& uri : uris) {
        auto link = connect(uri.at, uri.subnqn, limited);
        if (!link)
            return std::unexpected(link.error());
        if (link->made)
            links.made_.push_back(*link);
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
