// SPDX-License-Identifier: GPL-2.0-only
/// The GPUs of this host as their driver reports them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft
{

struct gpu_status {
    unsigned index = 0; ///< NVML's, in the order of PCI addresses
    std::string uuid, model;
    /// The part of the last sample period in which a kernel ran, 0 to 1. A GPU that is divided by MIG has
    /// none.
    std::optional<double> utilization;
};

/// Asks NVML. Empty if this host has no libnvidia-ml, or no driver that answers it. One that hangs does not
/// answer.
[[nodiscard]] std::vector<gpu_status> gpus();

} // namespace weft
