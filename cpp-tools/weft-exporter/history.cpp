// SPDX-License-Identifier: GPL-2.0-only
#include "history.hpp"

#include <process.hpp>

namespace weft
{

namespace
{

std::int64_t unix_seconds()
{
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

} // namespace

void history::collect()
{
    do
        look();
    while (take_events());
}

void history::look()
{
    auto now = watch_samples({});
    {
        const std::lock_guard guard(lock_);
        problem_ = now ? std::string() : now.error().text;
    }
    if (now)
        add(std::move(*now), unix_seconds());
}

void history::add(load_samples now, std::int64_t end)
{
    const std::lock_guard guard(lock_);
    for (const auto& [name, sample] : now) {
        const auto was = before_.find(name);
        if (was == before_.end() || was->second.volume.uuid != sample.volume.uuid) {
            volumes_.erase(name); // another volume of that name
            continue;
        }
        auto& slots_of = volumes_[name];
        slots_of.push_back({end, load_between(was->second, sample)});
        // 256 members with their histograms, for an hour, are a lot of memory.
        for (auto& row : slots_of.back().load.rows)
            if (row.member)
                row.latency = {};
        if (slots_of.size() > slots)
            slots_of.pop_front();
    }
    std::erase_if(volumes_, [&](const auto& one) { return !now.contains(one.first); });
    before_ = std::move(now);
}

void history::add(const event_report& event)
{
    const std::lock_guard guard(lock_);
    events_.push_back(event);
    if (events_.size() > events_most)
        events_.pop_front();
}

bool history::take_events()
{
    if (events_from_ && events_from_->is_stale())
        events_from_.reset();
    if (!events_from_ && netlink::is_served()) {
        auto kernel = netlink::open();
        if (kernel && kernel->subscribe())
            events_from_.emplace(std::move(*kernel));
    }
    if (!events_from_)
        return wait_for(interval);
    const auto taken = events_from_->receive_events(
        [this](const event_report& event) {
            add(event);
            return true;
        },
        interval);
    if (!taken)
        events_from_.reset();
    return !a_signal_came();
}

json history::to_json(const slot& slot)
{
    json line = {{"end", slot.end}, {"seconds", slot.load.seconds}, {"kinds", json::object()}};
    for (const auto& row : slot.load.rows) {
        auto& kind = line["kinds"][row.kind];
        if (!row.member)
            kind = {{"ios", row.ios}, {"bytes", row.bytes}, {"us", json::array()}, {"latency", row.latency}};
        else
            kind["us"].push_back(slot.load.qos ? row.p50 : row.mean);
    }
    return line;
}

json history::document(const load_samples& now, const std::string& version)
{
    json volumes = json::array(), events = json::array();
    const std::lock_guard guard(lock_);
    for (const auto& [name, sample] : now) {
        auto line = weft::to_json(sample.volume);
        line["qos"] = weft::to_json(sample.qos);
        auto& past = line["history"] = json::array();
        if (const auto found = volumes_.find(name); found != volumes_.end())
            for (const auto& one : found->second)
                past.push_back(to_json(one));
        volumes.push_back(std::move(line));
    }
    for (const auto& event : events_)
        events.push_back(weft::to_json(event));
    return {{"schema", 1},
            {"version", version},
            {"time", unix_seconds()},
            {"interval", interval.count()},
            {"problem", problem_},
            {"volumes", std::move(volumes)},
            {"events", std::move(events)}};
}

} // namespace weft
