// SPDX-License-Identifier: GPL-2.0-only
#include "load.hpp"
#include "latency.hpp"
#include "netlink.hpp"

#include <algorithm>

namespace weft
{

std::uint64_t growth(std::uint64_t before, std::uint64_t after)
{
    return after >= before ? after - before : after;
}

io_counter growth(const io_counter& before, const io_counter& after)
{
    return {growth(before.ios, after.ios), growth(before.bytes, after.bytes),
            growth(before.nsecs, after.nsecs)};
}

void add(io_counter& sum, const io_counter& one)
{
    sum.ios += one.ios;
    sum.bytes += one.bytes;
    sum.nsecs += one.nsecs;
}

namespace
{

using weft::add;
using weft::growth;

/// Of an outlier, against the median of the others.
constexpr double outlier_factor = 4;

/// Counters grow; all other fields are the current values.
qos_class_status growth(const qos_class_status& before, const qos_class_status& after)
{
    auto grown = after;
    grown.ios = growth(before.ios, after.ios);
    grown.bytes = growth(before.bytes, after.bytes);
    grown.stalls = growth(before.stalls, after.stalls);
    for (std::size_t i = 0; i < std::min(before.latency.size(), after.latency.size()); i++)
        grown.latency[i] = growth(before.latency[i], after.latency[i]);
    return grown;
}

void add(qos_class_status& sum, const qos_class_status& one)
{
    sum.ios += one.ios;
    sum.bytes += one.bytes;
    sum.stalls += one.stalls;
    sum.held += one.held;
    sum.in_flight += one.in_flight;
    sum.latency.resize(std::max(sum.latency.size(), one.latency.size()));
    for (std::size_t i = 0; i < one.latency.size(); i++)
        sum.latency[i] += one.latency[i];
}

load_row row_of(std::optional<std::uint32_t> member, const char* kind, const io_counter& grown,
                double seconds)
{
    load_row row;
    row.member = member;
    row.kind = kind;
    row.ios = static_cast<double>(grown.ios) / seconds;
    row.bytes = static_cast<double>(grown.bytes) / seconds;
    row.mean = mean_us(grown);
    return row;
}

load_row row_of(std::optional<std::uint32_t> member, const char* kind, const qos_class_status& grown,
                double seconds)
{
    auto row = row_of(member, kind, io_counter{grown.ios, grown.bytes, 0}, seconds);
    row.p50 = latency_at(grown.latency, 0.5);
    row.p99 = latency_at(grown.latency, 0.99);
    row.p999 = latency_at(grown.latency, 0.999);
    row.latency = grown.latency;
    row.in_flight = grown.in_flight;
    row.held = grown.held;
    row.stalls = static_cast<double>(grown.stalls) / seconds;
    return row;
}

void add_classes(volume_load& load, const qos_status& before, const qos_status& after)
{
    std::array<qos_class_status, io_classes.size()> sum;
    std::vector<load_row> rows;
    for (std::size_t m = 0; m < after.members.size(); m++) {
        const auto& member = after.members[m];
        for (std::size_t i = 0; i < io_classes.size(); i++) {
            const auto grown = m < before.members.size()
                                   ? growth(before.members[m].classes[i], member.classes[i])
                                   : member.classes[i];
            add(sum[i], grown);
            rows.push_back(row_of(member.index, io_classes[i], grown, load.seconds));
        }
        rows.back().rate = member.rate;
        rows.back().window = member.window;
    }
    for (std::size_t i = 0; i < io_classes.size(); i++)
        load.rows.push_back(row_of({}, io_classes[i], sum[i], load.seconds));
    load.rows.insert(load.rows.end(), rows.begin(), rows.end());
}

void add_kinds(volume_load& load, const volume_status& before, const volume_status& after)
{
    io_counter reads, writes;
    std::vector<load_row> rows;
    for (std::size_t m = 0; m < after.members.size(); m++) {
        const auto& member = after.members[m];
        const auto was = m < before.members.size() ? before.members[m] : member_status{};
        const auto read = growth(was.reads, member.reads), write = growth(was.writes, member.writes);
        add(reads, read);
        add(writes, write);
        rows.push_back(row_of(member.index, "read", read, load.seconds));
        rows.push_back(row_of(member.index, "write", write, load.seconds));
    }
    load.rows.push_back(row_of({}, "read", reads, load.seconds));
    load.rows.push_back(row_of({}, "write", writes, load.seconds));
    load.rows.insert(load.rows.end(), rows.begin(), rows.end());
}

} // namespace

double mean_us(const io_counter& counter)
{
    return counter.ios ? static_cast<double>(counter.nsecs) / static_cast<double>(counter.ios) / 1000 : 0;
}

double median_of_others(const std::vector<double>& numbers, std::size_t index)
{
    std::vector<double> others;
    for (std::size_t i = 0; i < numbers.size(); i++)
        if (i != index && numbers[i] > 0)
            others.push_back(numbers[i]);
    if (others.empty())
        return 0;
    const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
    std::ranges::nth_element(others, middle);
    return *middle;
}

std::vector<std::uint32_t> outliers(const std::vector<double>& numbers)
{
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < numbers.size(); i++)
        if (const double others = median_of_others(numbers, i);
            others > 0 && numbers[i] >= outlier_factor * others)
            found.push_back(i);
    return found;
}

result<load_samples> take_samples(netlink& kernel, const std::vector<std::string>& wanted)
{
    const auto names = kernel.names(wanted);
    if (!names)
        return std::unexpected(names.error());
    load_samples taken;
    for (const auto& name : *names) {
        auto volume = kernel.volume(name);
        auto qos = volume ? kernel.qos(name, volume->member_count) : std::unexpected(volume.error());
        // Of all volumes, one may be stopped just now.
        if (!qos && wanted.empty())
            continue;
        if (!qos)
            return std::unexpected(qos.error());
        taken.emplace(name,
                      load_sample{std::move(*volume), std::move(*qos), std::chrono::steady_clock::now()});
    }
    return taken;
}

result<load_samples> watch_samples(const std::vector<std::string>& wanted)
{
    if (wanted.empty() && !netlink::is_served())
        return load_samples{};
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    return take_samples(*kernel, wanted);
}

volume_load load_between(const load_sample& before, const load_sample& after)
{
    volume_load load;
    load.volume = after.volume.name;
    load.qos = after.qos.on;
    load.feed_latency = after.qos.feed_latency;
    load.seconds = std::max(std::chrono::duration<double>(after.at - before.at).count(), 1e-6);
    if (load.qos)
        add_classes(load, before.qos, after.qos);
    else
        add_kinds(load, before.volume, after.volume);
    std::vector<double> times;
    for (const auto& row : load.rows)
        if (row.member && (row.kind == io_classes[0] || row.kind == "read"))
            times.push_back(load.qos ? row.p50 : row.mean);
    load.slow = outliers(times);
    return load;
}

} // namespace weft
