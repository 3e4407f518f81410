// SPDX-License-Identifier: GPL-2.0-only
/// What happened to the volumes of this host in the last hour.
#pragma once

#include <load.hpp>
#include <netlink.hpp>
#include <to_json.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

namespace weft
{

class history
{
public:
    static constexpr std::chrono::seconds interval{10}; ///< from one look to the next
    static constexpr std::size_t slots = 360;           ///< an hour
    static constexpr std::size_t events_most = 500;

    /// Collects until a signal comes: looks at the counters at each interval, and takes events meanwhile.
    void collect();

    /// Adds what the volumes did since the last call, which ended at a time in seconds since 1970 UTC. A
    /// volume that is not among them any more takes its history with it.
    void add(load_samples now, std::int64_t end);
    void add(const event_report& event);

    /// The volumes as they are now, their history and the events, for the page. May be called in any thread.
    [[nodiscard]] json document(const load_samples& now, const std::string& version);

private:
    /// What a volume did in one interval.
    struct slot {
        std::int64_t end; ///< seconds since 1970 UTC
        volume_load load;
    };

    void look();
    /// Takes events for one interval. Returns false if a signal came.
    bool take_events();
    static json to_json(const slot& slot);

    std::optional<netlink> events_from_; ///< of the collecting thread
    std::mutex lock_;                    ///< for the rest
    load_samples before_;
    std::map<std::string, std::deque<slot>> volumes_;
    std::deque<event_report> events_;
    std::string problem_; ///< why the last look failed; empty if it did not
};

} // namespace weft
