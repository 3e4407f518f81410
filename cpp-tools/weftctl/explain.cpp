// SPDX-License-Identifier: GPL-2.0-only
#include "explain.hpp"

#include "rdma_port.hpp"
#include "size.hpp"
#include "sysfile.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace weft
{

namespace
{

/// From here on a rail or a processor is full: what is left comes in moments that are too short to use.
constexpr double full_rail = 0.85, full_processor = 0.95, full_processors = 0.9;
/// Of the bytes on registered memory.
constexpr double much_bounced = 0.1;
/// Of the commands of a class.
constexpr double much_held = 0.05;
/// A member that works on fewer commands at a time than this is idle, or waits for one command after another.
constexpr double few_in_flight = 2;

/// The input of all checks, for one volume.
struct facts {
    const load_sample& before;
    const load_sample& after;
    const host_sample& host_before;
    const host_sample& host_after;
    volume_load load;
    io_counter reads, writes;              ///< of all members
    std::vector<double> read_us, write_us; ///< by member; 0 without any
    bool counted = false;                  ///< a command of any kind completed
    double in_flight = 0;                  ///< commands on all members, on average
};

using reasons = std::vector<explanation::reason>;

std::string per_second(std::uint64_t number, double seconds)
{
    return format_size(static_cast<std::uint64_t>(static_cast<double>(number) / seconds)) + "/s";
}

std::string percent(double share)
{
    return fmt::format("{:.0f} %", 100 * share);
}

facts collect(const load_sample& before, const load_sample& after, const host_sample& host_before,
              const host_sample& host_after)
{
    facts known{before, after, host_before, host_after, load_between(before, after), {}, {}, {}, {}};
    for (std::size_t i = 0; i < after.volume.members.size(); i++) {
        const auto& now = after.volume.members[i];
        const auto was = i < before.volume.members.size() ? before.volume.members[i] : member_status{};
        const auto reads = growth(was.reads, now.reads), writes = growth(was.writes, now.writes);
        auto all = growth(was.discards, now.discards);
        for (const auto& one : {growth(was.flushes, now.flushes), reads, writes})
            add(all, one);
        add(known.reads, reads);
        add(known.writes, writes);
        known.counted |= all.ios != 0;
        // Little's law: the latencies that were spent in a second are the commands that were in flight.
        known.in_flight += static_cast<double>(all.nsecs) / 1e9 / known.load.seconds;
        known.read_us.push_back(mean_us(reads));
        known.write_us.push_back(mean_us(writes));
    }
    return known;
}

void lost_members(const facts& known, reasons& found)
{
    for (const auto& member : known.after.volume.members)
        if (member.state != "ok")
            found.push_back(
                {"member", fmt::format("member {} ({}) is {}: 'weftctl path list {}' has its paths",
                                       member.index, member.disk, member.state, known.after.volume.name)});
}

void no_load(const facts& known, reasons& found)
{
    const auto waiting = known.host_after.waiting.find(known.after.volume.name);
    if (known.counted)
        return;
    if (!known.after.volume.iostats)
        found.push_back({"load", fmt::format("I/O is not counted (--no-iostats); to start the counters: "
                                             "echo 1 >'/sys/block/weft!{}/queue/iostats'",
                                             known.after.volume.name)});
    else if (waiting != known.host_after.waiting.end() && waiting->second)
        found.push_back({"load", fmt::format("{} commands wait, and none completed in {:.0f} s",
                                             waiting->second, known.load.seconds)});
    else
        found.push_back({"load", fmt::format("no command was sent in {:.0f} s: the volume waits for work",
                                             known.load.seconds)});
}

/// The settings that can hold commands of a class.
std::string limits_of(const qos_status& qos, std::size_t kind)
{
    std::string all;
    const auto list = [&all](const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
    if (qos.max_bytes[kind])
        list(fmt::format("they may move {}/s", format_size(qos.max_bytes[kind])));
    if (qos.max_ios[kind])
        list(fmt::format("there may be {} per second", qos.max_ios[kind]));
    if (kind && qos.feed_latency)
        list(fmt::format("feed commands should take at most {} us", qos.feed_latency));
    if (kind && qos.background_latency)
        list(fmt::format("they should take at most {} us", qos.background_latency));
    return all;
}

void held_by_qos(const facts& known, reasons& found)
{
    for (const auto& row : known.load.rows) {
        if (row.member || (!row.held && (row.stalls <= 0 || row.stalls < much_held * row.ios)))
            continue;
        const std::size_t kind = row.kind == io_classes[0] ? 0 : 1;
        const auto limits = limits_of(known.after.qos, kind);
        found.push_back(
            {"qos", fmt::format("{} commands wait for QoS, {:.0f} per second and {} now{}{}", row.kind,
                                row.stalls, row.held, limits.empty() ? "" : ": ", limits)});
    }
}

void bounced(const facts& known, reasons& found)
{
    const auto& was = known.before.volume;
    const auto& now = known.after.volume;
    const auto bounce = growth(was.mem_bounce, now.mem_bounce);
    const auto all = bounce + growth(was.mem_direct, now.mem_direct) + growth(was.mem_vmap, now.mem_vmap);
    const double share = all ? static_cast<double>(bounce) / static_cast<double>(all) : 0;
    if (share >= much_bounced)
        found.push_back(
            {"route", fmt::format("{} of the bytes on registered memory go through host memory, {}: "
                                  "'weftctl doctor {}' says why",
                                  percent(share), per_second(bounce, known.load.seconds), now.name)});
}

void slow_members(const facts& known, reasons& found)
{
    const auto add_slow = [&](const std::vector<double>& times, const char* kind) {
        for (const auto member : outliers(times))
            found.push_back(
                {"member", fmt::format("member {} ({}) takes {:.0f} us for a {}, the others {:.0f} us",
                                       member, known.after.volume.members[member].disk, times[member], kind,
                                       median_of_others(times, member))});
    };
    add_slow(known.read_us, "read");
    add_slow(known.write_us, "write");
}

void full_rails(const facts& known, reasons& found)
{
    for (const auto& [name, now] : known.host_after.rails) {
        const auto was = known.host_before.rails.find(name);
        if (was == known.host_before.rails.end() || now.rate <= 0)
            continue;
        const auto bytes =
            std::max(growth(was->second.received, now.received), growth(was->second.sent, now.sent));
        const double share = static_cast<double>(bytes) / known.load.seconds / now.rate;
        if (share >= full_rail)
            found.push_back({"rail", fmt::format("rail {} carries {}, {} of its rate", name,
                                                 per_second(bytes, known.load.seconds), percent(share))});
    }
}

/// The share of its time that each processor was busy, by number. One that was not there before says nothing.
std::map<unsigned int, double> busy_processors(const facts& known)
{
    std::map<unsigned int, double> shares;
    for (const auto& [number, now] : known.host_after.processors) {
        const auto was = known.host_before.processors.find(number);
        const auto all = was == known.host_before.processors.end() ? 0 : growth(was->second.all, now.all);
        if (all)
            shares[number] =
                static_cast<double>(growth(was->second.busy, now.busy)) / static_cast<double>(all);
    }
    return shares;
}

void full_host(const facts& known, reasons& found)
{
    const auto shares = busy_processors(known);
    double sum = 0;
    for (const auto& [number, share] : shares)
        sum += share;
    const double mean = shares.empty() ? 0 : sum / static_cast<double>(shares.size());
    if (mean >= full_processors)
        found.push_back({"processor", shares.size() == 1
                                          ? fmt::format("the processor is busy {} of the time", percent(mean))
                                          : fmt::format("all {} processors are busy, {} of the time",
                                                        shares.size(), percent(mean))});
}

/// A program that has nothing to do with the volume can fill one processor, so this is the last reason.
void full_processor_of(const facts& known, reasons& found)
{
    for (const auto& [number, share] : busy_processors(known))
        if (share >= full_processor)
            found.push_back(
                {"processor", fmt::format("processor {} is busy {} of the time", number, percent(share))});
}

void depth(const facts& known, reasons& found)
{
    const auto members = known.after.volume.members.size();
    const double each = known.in_flight / static_cast<double>(members);
    auto both = known.reads;
    add(both, known.writes);
    const double us = mean_us(both);
    if (each < few_in_flight)
        found.push_back(
            {"depth",
             fmt::format("{:.1f} commands are in flight on {} members, which take {:.0f} us for one: more at "
                         "a time (I/O depth, jobs, readahead) would move more",
                         known.in_flight, members, us)});
    else
        found.push_back(
            {"members",
             fmt::format("each member works on {:.1f} commands at a time, and takes {:.0f} us for one: "
                         "the members, or their targets, are at their limit",
                         each, us)});
}

std::string describe(const facts& known)
{
    const auto part = [&](const io_counter& sum, const char* kind) {
        return fmt::format("{:.0f} {}/s, {}", static_cast<double>(sum.ios) / known.load.seconds, kind,
                           per_second(sum.bytes, known.load.seconds));
    };
    return part(known.reads, "reads") + "; " + part(known.writes, "writes");
}

/// Of /proc/stat: the columns after the name are user, nice, system, idle, iowait, and more.
std::map<unsigned int, host_sample::processor> read_processors()
{
    std::map<unsigned int, host_sample::processor> found;
    std::ifstream file("/proc/stat");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        words >> name;
        if (!name.starts_with("cpu") || name == "cpu")
            continue;
        auto& one = found[static_cast<unsigned int>(std::strtoul(name.c_str() + 3, nullptr, 10))];
        std::uint64_t ticks = 0;
        // Time of guests is counted as user's, too.
        for (int column = 0; column < 8 && words >> ticks; column++) {
            one.all += ticks;
            if (column != 3 && column != 4)
                one.busy += ticks;
        }
    }
    return found;
}

/// The reads and writes of a volume's disk that have not completed.
std::uint64_t read_waiting(const std::string& volume)
{
    std::istringstream words(read_text("/sys/block/weft!" + volume + "/inflight").value_or(""));
    std::uint64_t reads = 0, writes = 0;
    words >> reads >> writes;
    return reads + writes;
}

/// A rail is called "mlx5_0/1": the device and its port.
std::optional<host_sample::rail> read_rail(const std::string& name)
{
    const auto slash = name.find('/');
    if (slash == name.npos)
        return std::nullopt;
    const auto port = read_rdma_port(name.substr(0, slash), name.substr(slash + 1));
    if (!port || !port->received || !port->sent)
        return std::nullopt;
    return host_sample::rail{*port->received, *port->sent, static_cast<double>(port->rate.value_or(0))};
}

} // namespace

host_sample take_host_sample(const load_samples& volumes)
{
    host_sample taken;
    taken.processors = read_processors();
    for (const auto& [name, sample] : volumes) {
        taken.waiting[name] = read_waiting(name);
        for (const auto& member : sample.volume.members)
            for (const auto& path : member.paths)
                if (!taken.rails.contains(path.rail))
                    if (const auto rail = read_rail(path.rail))
                        taken.rails.emplace(path.rail, *rail);
    }
    return taken;
}

explanation explain(const load_sample& before, const load_sample& after, const host_sample& host_before,
                    const host_sample& host_after)
{
    const auto known = collect(before, after, host_before, host_after);
    explanation found{after.volume.name, known.load.seconds, describe(known), {}};
    // Causes come before their consequences.
    lost_members(known, found.reasons);
    if (found.reasons.empty())
        no_load(known, found.reasons);
    slow_members(known, found.reasons);
    bounced(known, found.reasons);
    held_by_qos(known, found.reasons);
    full_rails(known, found.reasons);
    full_host(known, found.reasons);
    if (known.reads.ios || known.writes.ios)
        depth(known, found.reasons);
    full_processor_of(known, found.reasons);
    return found;
}

} // namespace weft
