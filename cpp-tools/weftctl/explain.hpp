// SPDX-License-Identifier: GPL-2.0-only
/// What limits a volume now, from its counters and the host's.
#pragma once

#include "load.hpp"

#include <map>
#include <string>
#include <vector>

namespace weft
{

/// The host's counters at one moment.
struct host_sample {
    struct processor {
        std::uint64_t busy = 0, all = 0; ///< in ticks
    };
    struct rail {
        std::uint64_t received = 0, sent = 0; ///< bytes of all programs
        double rate = 0;                      ///< bytes per second in one direction; 0: not known
    };
    std::map<unsigned int, processor> processors; ///< by number
    std::map<std::string, rail> rails;            ///< by the name that paths have
    std::map<std::string, std::uint64_t> waiting; ///< commands in flight, by volume
};

/// The processors, the rails of the volumes' paths, and the volumes' disks.
[[nodiscard]] host_sample take_host_sample(const load_samples& volumes);

/// Explains the time between two samples of a volume and of the host.
[[nodiscard]] explanation explain(const load_sample& before, const load_sample& after,
                                  const host_sample& host_before, const host_sample& host_after);

} // namespace weft
