// SPDX-License-Identifier: GPL-2.0-only
#include "path_follow.hpp"

#include "netlink.hpp"
#include "notify.hpp"
#include "path_adding.hpp"
#include "process.hpp"
#include "uevent.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

namespace weft
{

namespace
{

using std::chrono::seconds;

/// Without an event, and while something fails.
constexpr seconds usual_wait(60), first_wait(1);

/// Is it news of a discovery controller? Its log changed (NVMe base specification, 5.1.2: notice F0h), or the
/// connection is there again.
bool is_news(const uevent& event)
{
    if (event.empty())
        return true; // an overrun
    const auto is = [&](std::string_view name, std::string_view value) {
        const auto found = event.find(name);
        return found != event.end() && found->second == value;
    };
    return is("NVME_AEN", "0x70f002") || is("NVME_EVENT", "connected") || is("NVME_EVENT", "rediscover");
}

/// Where the paths by weft's own initiator lead to.
std::vector<member_uri> places_of(const volume_status& volume)
{
    std::vector<member_uri> all;
    const auto links = connections();
    for (const auto& member : volume.members)
        for (const auto& path : member.paths)
            for (const auto& link : links)
                if (link.controller == path.controller)
                    if (const auto nsid = disk_nsid(path.disk))
                        all.push_back({link.at, link.subnqn, *nsid});
    return all;
}

class follower
{
public:
    follower(const follow_options& options, renderer& out) : options_(options), out_(out) {}
    [[nodiscard]] result<void> begin();
    /// Looks at each service once. Returns false if the volume is gone.
    [[nodiscard]] result<bool> look();
    /// Did all of the last look succeed?
    [[nodiscard]] bool is_whole() const
    {
        return std::ranges::all_of(services_, [](const service& one) { return one.told.empty(); });
    }

private:
    struct service {
        nvme_address at;
        std::optional<discovery_service> link;
        std::set<std::string> known; ///< URIs that it announces and that were paths since it does
        std::string told;            ///< why the last look failed; empty if it did not
    };
    [[nodiscard]] result<void> look_at(service& one, netlink& kernel, const volume_status& volume);
    [[nodiscard]] result<void> add(service& one, netlink& kernel, const volume_status& volume,
                                   const std::string& uri);

    const follow_options& options_;
    renderer& out_;
    std::vector<service> services_;
    std::set<std::string> would_add_; ///< URIs, in a dry run
};

result<void> follower::begin()
{
    for (const auto& text : options_.services) {
        auto at = parse_service_uri(text);
        if (!at)
            return std::unexpected(at.error());
        services_.push_back({std::move(*at), {}, {}, {}});
    }
    return {};
}

result<void> follower::add(service& one, netlink& kernel, const volume_status& volume, const std::string& uri)
{
    // One that another service announces, too.
    if (options_.dry_run && !would_add_.insert(uri).second)
        return {};
    std::vector<action> actions;
    if (auto done = add_paths(kernel, volume, {uri}, options_.connecting, options_.dry_run, actions); !done)
        return done;
    one.known.insert(uri);
    out_.actions(actions);
    return {};
}

result<void> follower::look_at(service& one, netlink& kernel, const volume_status& volume)
{
    // Somebody may have disconnected it.
    if (one.link && !std::filesystem::exists("/sys/class/nvme/" + one.link->device()))
        one.link.reset();
    if (!one.link) {
        auto link = discovery_service::open(one.at, options_.connecting, !options_.once);
        if (!link)
            return std::unexpected(link.error());
        one.link = std::move(*link);
    }
    unsigned int left_out = 0;
    const auto offers = one.link->ask(left_out);
    if (!offers)
        return std::unexpected(offers.error());
    const auto places = places_of(volume);
    if (places.empty())
        return fail(exit_code::usage,
                    "volume {} has no path by weft's own initiator, and 'follow' adds only such paths",
                    volume.name);
    std::set<std::string> paths, announced;
    for (const auto& place : places)
        paths.insert(place.text());
    result<void> done;
    for (const auto& offer : *offers)
        for (const auto& place : places) {
            if (offer.discovery || offer.subnqn != place.subnqn || offer.at.transport != place.at.transport)
                continue;
            const auto uri = member_uri{offer.at, place.subnqn, place.nsid}.text();
            // A member has several places.
            if (!announced.insert(uri).second)
                continue;
            if (paths.contains(uri))
                one.known.insert(uri);
            else if (!one.known.contains(uri))
                if (auto added = add(one, kernel, volume, uri); !added)
                    done = std::unexpected(added.error());
        }
    std::erase_if(one.known, [&](const std::string& uri) { return !announced.contains(uri); });
    return done;
}

result<bool> follower::look()
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    for (auto& one : services_) {
        const auto volume = kernel->volume(options_.volume);
        if (!volume && volume.error().code == exit_code::missing)
            return false;
        const auto done =
            volume ? look_at(one, *kernel, *volume) : result<void>(std::unexpected(volume.error()));
        const auto problem = done ? std::string() : done.error().text;
        // Once for each reason: it goes on for weeks.
        if (!done && problem != one.told)
            out_.failure(done.error());
        one.told = problem;
    }
    return true;
}

} // namespace

result<exit_code> follow_paths(const follow_options& options, renderer& out)
{
    follower follows(options, out);
    if (auto good = follows.begin(); !good)
        return std::unexpected(good.error());
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    if (const auto volume = kernel->volume(options.volume); !volume)
        return std::unexpected(volume.error());
    end_waits_at_signals();
    // Before the first look, so that what changes during it is seen.
    const auto events = uevents::open();
    if (!events)
        return std::unexpected(events.error());
    auto wait = first_wait;
    for (;;) {
        const auto there = follows.look();
        if (!there)
            return std::unexpected(there.error());
        if (options.once)
            return follows.is_whole() ? exit_code::ok : exit_code::failure;
        notify_ready();
        if (!*there || a_signal_came())
            return exit_code::ok;
        wait = follows.is_whole() ? first_wait : std::min(wait * 2, usual_wait);
        const auto end = std::chrono::steady_clock::now() + (follows.is_whole() ? usual_wait : wait);
        for (bool news = false; !news && !a_signal_came();) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
            if (left.count() <= 0 || !wait_readable(events->fd(), left))
                break;
            while (const auto event = events->next())
                news |= is_news(*event);
        }
        if (a_signal_came())
            return exit_code::ok;
    }
}

} // namespace weft
