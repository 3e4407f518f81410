// SPDX-License-Identifier: GPL-2.0-only
/// The ports of this host's RDMA devices: their state, their counters, and their flow control.
#pragma once

#include "flow_control.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

struct rdma_port {
    std::string device, port; ///< "mlx5_0", "1"
    std::string netdev;       ///< its network interface; empty for InfiniBand
    bool active = false;
    /// Bytes a second that the link carries each way. Unset for a device in software, which has no link.
    std::optional<std::uint64_t> rate;
    std::optional<std::uint64_t> received, sent; ///< bytes; unset if the device does not count them
    /// What it counts: packets, errors, retransmissions, congestion notifications.
    std::vector<named_counter> counters;
    std::vector<named_counter> flow_control; ///< of an adapter's network interface

    [[nodiscard]] std::filesystem::path folder() const; ///< in sysfs
};

/// One port without counters and flow control; unset if the device or the port is not there.
[[nodiscard]] std::optional<rdma_port> read_rdma_port(const std::string& device, const std::string& port);

/// All of them, with all that they count, by device and port. An adapter that hangs does not answer.
[[nodiscard]] std::vector<rdma_port> rdma_ports();

} // namespace weft
