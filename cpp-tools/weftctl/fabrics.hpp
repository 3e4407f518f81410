// SPDX-License-Identifier: GPL-2.0-only
/// NVMe over fabrics: discover, connect, disconnect, and the disks that come of it. RDMA by weft's own
/// initiator unless the stock host is asked for, by libnvme, as everything else.
#pragma once

#include "uri.hpp"

#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// How to connect. What is not given is the kernel's default.
struct connect_options {
    std::string host_nqn; ///< empty: /etc/nvme/hostnqn
    std::string host_id;  ///< empty: /etc/nvme/hostid, or the UUID in the NQN
    std::string host_address;
    std::string host_interface;
    std::string initiator;                ///< "weft" or "nvme"; empty: weft's own where it has the transport
    int queues = 0;                       ///< I/O queues, 0: one per processor
    int poll_queues = 0;                  ///< beside them, without interrupts; weft's own alone
    int queue_depth = 0;                  ///< entries of each
    std::optional<int> keep_alive;        ///< seconds
    std::optional<int> reconnect_delay;   ///< seconds
    std::optional<int> ctrl_loss_timeout; ///< seconds, -1: for ever
    std::optional<int> fast_io_fail_timeout;
};

/// A controller of this host that is connected over a fabric.
struct connection {
    std::string controller; ///< "nvme3", "weft-rdma0"
    std::string initiator;  ///< "nvme" for the stock host, "weft" for our own
    std::string state;      ///< "live", "connecting", ...
    nvme_address at;
    std::string host_address; ///< of this host, where one was asked for
    std::string subnqn;
    std::vector<std::string> disks; ///< "/dev/nvme3n1", ...
    bool made = false;              ///< by this command, and not there before
};

/// What a discovery controller offers.
struct discovered {
    nvme_address at;
    std::string subnqn;
    bool discovery = false; ///< another discovery service, and no subsystem
};

[[nodiscard]] result<std::vector<discovered>> discover(const nvme_address& at,
                                                       const connect_options& options);

/// Connects to a subsystem. One that is connected there already, and from that host address where one is
/// asked for, is returned as it is.
[[nodiscard]] result<connection> connect(const nvme_address& at, const std::string& subnqn,
                                         const connect_options& options);

/// The controller as it is now, with the disks that appeared since; nothing where it is gone, or where its
/// name is another's by now.
[[nodiscard]] std::optional<connection> current(const connection& link);

/// Whether a URI, as people write it, names where a connection leads. Nothing else does.
[[nodiscard]] bool is_reached_by(const connection& link, const std::string& uri);

/// Takes a controller off. I/O on its disks fails.
[[nodiscard]] result<void> disconnect(const connection& link);

/// A disk of it that somebody has claimed: mounted, part of a volume, swapped to. Nothing where none is.
[[nodiscard]] std::optional<std::string> claimed_disk(const connection& link);

/// All of this host.
[[nodiscard]] std::vector<connection> connections();

/// The disk of a namespace over a connection, waited for: it appears a moment after its controller.
[[nodiscard]] result<std::string> namespace_disk(const connection& link, const member_uri& uri);

} // namespace weft
