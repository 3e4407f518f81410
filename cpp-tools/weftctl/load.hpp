// SPDX-License-Identifier: GPL-2.0-only
/// What a volume and its members did between two looks at their counters.
#pragma once

#include "model.hpp"
#include "result.hpp"

#include <chrono>
#include <map>

namespace weft
{

class netlink;

/// A volume's counters at one moment.
struct load_sample {
    volume_status volume;
    qos_status qos;
    std::chrono::steady_clock::time_point at;
};

/// By the name of the volume.
using load_samples = std::map<std::string, load_sample>;

/// Samples of the volumes that the user named, or of all if there are none.
[[nodiscard]] result<load_samples> take_samples(netlink& kernel, const std::vector<std::string>& wanted);

/// The same for a watcher: it does not load the module. Without it there are no volumes.
[[nodiscard]] result<load_samples> watch_samples(const std::vector<std::string>& wanted);

/// The difference of two samples of one volume: by class if QoS is on, otherwise by read and write. A counter
/// that began anew in between counts from zero.
[[nodiscard]] volume_load load_between(const load_sample& before, const load_sample& after);

/// By how much a counter grew. One that began anew in between counts from zero.
[[nodiscard]] std::uint64_t growth(std::uint64_t before, std::uint64_t after);
[[nodiscard]] io_counter growth(const io_counter& before, const io_counter& after);
void add(io_counter& sum, const io_counter& one);

/// The mean time in microseconds; 0 without commands.
[[nodiscard]] double mean_us(const io_counter& counter);

/// The median of all numbers but one, and without 0; 0 if none is left.
[[nodiscard]] double median_of_others(const std::vector<double>& numbers, std::size_t index);

/// The members whose number is at least four times the median of the others'. 0 means that a member has no
/// number.
[[nodiscard]] std::vector<std::uint32_t> outliers(const std::vector<double>& numbers);

} // namespace weft
