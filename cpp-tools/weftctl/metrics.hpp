// SPDX-License-Identifier: GPL-2.0-only
/// The counters of volumes and of RDMA ports, and how busy the GPUs are, as Prometheus reads them.
#pragma once

#include "awaited.hpp"
#include "gpu.hpp"
#include "load.hpp"
#include "rdma_port.hpp"

#include <string>

namespace weft
{

/// What a host has beside its volumes.
struct node_status {
    std::vector<awaited_volume> awaited;
    std::vector<gpu_status> gpus;
    std::vector<rdma_port> ports;
};

/// Without the GPUs or the ports if their driver does not answer for some seconds.
[[nodiscard]] node_status read_node();

/// The samples in Prometheus's text format, version 0.0.4: base units, counters that end in _total. A family
/// without a sample is left out; weft_build_info is always there.
[[nodiscard]] std::string metrics_text(const load_samples& samples, const node_status& node,
                                       const std::string& version);

} // namespace weft
