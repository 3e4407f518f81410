// SPDX-License-Identifier: GPL-2.0-only
#include "cluster.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::plan
{

namespace
{

/// More than any cluster has.
constexpr count most_targets = 1'000'000;
constexpr count most_rails = 8;

bytes_per_second adapters(const adapter& each, count number)
{
    return each.rate * each.efficiency * static_cast<double>(number);
}

bytes_per_second rate_from(bytes_per_second every_copy, count copies)
{
    return every_copy / static_cast<double>(copies);
}

double ratio(double wanted, double there)
{
    if (wanted <= 0)
        return 0;
    return there > 0 ? wanted / there : std::numeric_limits<double>::infinity();
}

void stress(strain& so_far, double by, reason because)
{
    if (by > so_far.most)
        so_far = {by, because};
}

/// The part of their time that disks spend on what is written.
double writing_share(const cluster& of, bytes_per_second writing)
{
    return ratio(writing.value(), write_limits(of).disks.value());
}

} // namespace

bytes_per_second limits::rate() const
{
    return std::min({node_network, target_network, disks, gpu_links});
}

part limits::first() const
{
    const auto least = rate();
    if (least == node_network)
        return part::node_network;
    if (least == target_network)
        return part::target_network;
    return least == disks ? part::disks : part::gpu_links;
}

limits write_limits(const cluster& of)
{
    auto at = read_limits(of);
    at.gpu_links = of.gpu_link * static_cast<double>(of.writing_gpus);
    at.node_network = rate_from(adapters(of.node_adapter, of.writing_nodes * of.node_rails), of.copies);
    at.target_network = rate_from(at.target_network, of.copies);
    at.disks = rate_from(of.each.write * static_cast<double>(of.members()), of.copies);
    return at;
}

limits read_limits(const cluster& of)
{
    return {adapters(of.node_adapter, of.nodes * of.node_rails),
            adapters(of.target_adapter, of.targets * of.rails),
            of.each.read * static_cast<double>(of.members()), of.gpu_link * static_cast<double>(of.gpus)};
}

bytes_per_second feed_beside(const cluster& of, bytes_per_second writing)
{
    auto at = read_limits(of);
    at.disks = at.disks * std::max(0.0, 1 - writing_share(of, writing));
    return at.rate();
}

strain strain_of(const cluster& of, const demand& load)
{
    strain most;
    const auto writing = load.checkpoint / load.within;
    stress(most, ratio(writing.value(), write_limits(of).rate().value()), reason::checkpoint);
    stress(most, ratio(load.feed.value(), read_limits(of).rate().value()), reason::feed);
    if (load.feed_goes_on)
        stress(most, writing_share(of, writing) + ratio(load.feed.value(), read_limits(of).disks.value()),
               reason::both);
    if (load.restore_within)
        stress(most, ratio((load.restore / *load.restore_within).value(), read_limits(of).rate().value()),
               reason::restore);
    const auto room = of.each.capacity * static_cast<double>(of.members());
    stress(most, ratio(load.capacity.value() * static_cast<double>(of.copies), room.value()),
           reason::capacity);
    stress(most, ratio(load.samples_iops.value(), of.each.iops.value() * static_cast<double>(of.members())),
           reason::iops);
    return most;
}

need need_of(cluster of, const demand& load, std::optional<count> rails)
{
    need best;
    // What the nodes' own adapters and links have to carry, whatever the targets are.
    auto unlimited = of;
    unlimited.targets = most_targets;
    unlimited.rails = most_rails;
    for (count n = 1; n <= 64 && !best.node_rails; n++) {
        unlimited.node_rails = n;
        if (strain_of(unlimited, load).most <= 1)
            best.node_rails = n;
    }
    // Each copy has targets of its own, and as many as the others.
    for (count r = rails.value_or(1); r <= rails.value_or(most_rails); r++) {
        of.rails = r;
        of.targets = most_targets;
        if (strain_of(of, load).most > 1)
            continue;
        count low = std::max<count>(1, of.copies), high = most_targets;
        while (low < high) {
            of.targets = low + (high - low) / 2;
            if (strain_of(of, load).most <= 1)
                high = of.targets;
            else
                low = of.targets + 1;
        }
        low = (low + of.copies - 1) / of.copies * of.copies;
        if (best.possible && best.targets <= low)
            continue;
        best.possible = true;
        best.targets = low;
        best.rails = r;
        of.targets = low;
        best.because = strain_of(of, load).because;
    }
    if (!best.possible) {
        of.targets = most_targets;
        of.rails = rails.value_or(most_rails);
        best.because = strain_of(of, load).because;
    }
    return best;
}

epoch epoch_of(const cluster& of, double samples, bytes sample, bytes chunk, per_second samples_rate)
{
    epoch one;
    one.samples = samples_rate;
    one.rate = sample * samples_rate;
    one.iops = samples_rate * (1 + sample / chunk);
    one.member_iops = one.iops / static_cast<double>(of.members());
    one.size = sample * samples;
    one.time = seconds(samples / samples_rate.value());
    one.busy = std::max(ratio(one.member_iops.value(), of.each.iops.value()),
                        ratio(one.rate.value(), read_limits(of).rate().value()));
    return one;
}

load_times load_of(const cluster& of, bytes weights, count volumes)
{
    auto node = of;
    node.gpus = std::max<count>(1, of.gpus / of.nodes);
    node.nodes = 1;
    const auto whole = read_limits(node);
    auto single = whole;
    // A volume's members are spread over all targets, and have its part of their adapters' rate at the least;
    // all of it when no one else reads.
    single.disks = whole.disks / static_cast<double>(volumes);
    return {weights / single.rate(), weights / whole.rate(),
            weights * static_cast<double>(of.nodes) / read_limits(of).rate()};
}

double loss_chance(double members, double annual_failures, seconds run, count copies, seconds rebuild)
{
    const double disk_rate = -std::log1p(-annual_failures) / year.value();
    const double volume_rate = disk_rate * members;
    const double others =
        std::pow(-std::expm1(-volume_rate * rebuild.value()), static_cast<double>(copies - 1));
    return -std::expm1(-static_cast<double>(copies) * volume_rate * others * run.value());
}

double price_of(const cluster& of, const prices& at)
{
    const auto targets = static_cast<double>(of.targets);
    return targets * at.target + static_cast<double>(of.members()) * at.disk +
           (targets * static_cast<double>(of.rails) + static_cast<double>(of.nodes * of.node_rails)) *
               at.adapter;
}

} // namespace weft::plan
