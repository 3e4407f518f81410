// SPDX-License-Identifier: GPL-2.0-only
#include "latency.hpp"

#include <cmath>
#include <numeric>

namespace weft
{

double latency_at(const std::vector<std::uint64_t>& latency, double share)
{
    const auto total = static_cast<double>(std::accumulate(latency.begin(), latency.end(), std::uint64_t{0}));
    double below = 0;
    for (std::size_t i = 0; i < latency.size(); i++) {
        const auto count = static_cast<double>(latency[i]);
        if (count > 0 && below + count >= share * total) {
            // Bucket i has the times below 2^i units of 1.024 us.
            const double end = std::ldexp(1.024, static_cast<int>(i)), begin = i ? end / 2 : 0;
            return begin + (end - begin) * (share * total - below) / count;
        }
        below += count;
    }
    return 0;
}

} // namespace weft
