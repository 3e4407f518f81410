// SPDX-License-Identifier: GPL-2.0-only
/// Histograms of latencies, as the kernel counts them.
#pragma once

#include <cstdint>
#include <vector>

namespace weft
{

/// The time in microseconds that a share of the commands did not exceed, from 0 to 1. Within a bucket, which
/// spans a factor of two, it is interpolated. 0 without commands.
[[nodiscard]] double latency_at(const std::vector<std::uint64_t>& latency, double share);

} // namespace weft
