// SPDX-License-Identifier: GPL-2.0-only
#include "member_links.hpp"

#include "process.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

namespace weft
{

namespace
{

/// The number of controllers that are connected at a time.
constexpr std::size_t at_once = 16;

/// One queue pair per CPU, node and target would be too many for a fabric: at most 64 for a volume.
int queues_for(std::size_t members)
{
    return static_cast<int>(64 / std::clamp<std::size_t>(members, 1, 32));
}

/// Paths over one controller, which is connected once.
struct controller_group {
    member_uri uri;
    connect_options options;
    std::vector<std::size_t> members; ///< indices
    path_match match = path_match::any;
};

/// Connects the controller, and finds the disks of its paths. Returns it if this made it.
std::optional<connection> reach_group(const controller_group& group, bool live_only,
                                      std::vector<reached_path>& paths)
{
    const auto link = a_signal_came() ? result<connection>(std::unexpected(interruption()))
                                      : connect(group.uri.at, group.uri.subnqn, group.options, group.match);
    for (const auto index : group.members) {
        auto& device = paths[index].device;
        const auto uri = parse_member_uri(paths[index].path.at);
        if (!link)
            device = std::unexpected(link.error());
        // A read of its disks would wait for the target.
        else if (live_only && link->state != "live")
            device = fail(exit_code::missing, "{} is {}, the controller of {}", link->controller, link->state,
                          paths[index].path.at);
        else
            device = namespace_disk(*link, *uri);
    }
    return link && link->made ? std::optional(*link) : std::nullopt;
}

result<std::string> local_disk(const std::string& path)
{
    std::error_code ignored;
    if (!std::filesystem::is_block_file(path, ignored))
        return fail(exit_code::missing, "{} is not there", path);
    return std::filesystem::canonical(path, ignored);
}

} // namespace

std::vector<reached_path> member_links::look_for(const std::vector<member_path>& members, std::size_t of,
                                                 bool live_only)
{
    std::vector<reached_path> paths;
    std::vector<controller_group> groups;
    for (const auto& member : members) {
        paths.push_back({member, {}});
        const auto uri = is_uri(member.at) ? parse_member_uri(member.at) : result<member_uri>();
        if (!uri)
            paths.back().device = std::unexpected(uri.error());
        else if (!is_uri(member.at))
            paths.back().device = local_disk(member.at);
        if (!uri || !is_uri(member.at))
            continue;
        auto known = std::ranges::find_if(groups, [&](const controller_group& group) {
            return group.uri.at == uri->at && group.uri.subnqn == uri->subnqn &&
                   group.options.host_address == member.options.host_address &&
                   group.options.host_interface == member.options.host_interface;
        });
        if (known == groups.end()) {
            known = groups.insert(groups.end(), {*uri, member.options, {}, path_match::any});
            if (!known->options.queues)
                known->options.queues = queues_for(of);
        }
        known->members.push_back(paths.size() - 1);
    }
    for (auto& group : groups)
        if (std::ranges::count_if(groups, [&](const controller_group& other) {
                return other.uri.at == group.uri.at && other.uri.subnqn == group.uri.subnqn;
            }) > 1)
            group.match = path_match::exact;
    // A target that is down takes seconds, and there may be many of them.
    if (!groups.empty())
        end_waits_at_signals(); // so that what is connected until then is disconnected
    std::atomic<std::size_t> next = 0;
    std::vector<std::optional<connection>> made(groups.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < std::min<std::size_t>(groups.size(), at_once); i++)
            threads.emplace_back([&] {
                for (auto at = next++; at < groups.size(); at = next++)
                    try {
                        made[at] = reach_group(groups[at], live_only, paths);
                    } catch (
                        const std::exception& problem) { // as for a folder that vanishes while it is listed
                        for (const auto index : groups[at].members)
                            paths[index].device =
                                fail(exit_code::failure, "{}: {}", paths[index].path.at, problem.what());
                    }
            });
    }
    for (auto& link : made)
        if (link)
            made_.push_back(std::move(*link));
    return paths;
}

std::vector<reached_path> member_links::reach(const std::vector<member_path>& members, std::size_t of)
{
    auto paths = look_for(members, of, true);
    devices_.clear();
    for (const auto& path : paths)
        if (path.device && std::ranges::find(devices_, *path.device) == devices_.end())
            devices_.push_back(*path.device);
    return paths;
}

result<member_links> member_links::resolve(const std::vector<std::string>& members,
                                           const connect_options& options, std::size_t of)
{
    // Parse all of them before connecting the first.
    std::vector<member_path> uris;
    for (const auto& member : members) {
        if (!is_uri(member))
            continue;
        if (const auto uri = parse_member_uri(member); !uri)
            return std::unexpected(uri.error());
        uris.push_back({member, options});
    }
    member_links links;
    const auto reached = links.look_for(uris, of ? of : members.size(), false);
    if (a_signal_came())
        return std::unexpected(interruption());
    auto next = reached.begin();
    for (const auto& member : members) {
        if (!is_uri(member)) {
            links.devices_.push_back(member);
            continue;
        }
        if (!next->device)
            return std::unexpected(next->device.error());
        links.devices_.push_back(*next++->device);
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
