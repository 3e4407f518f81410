// SPDX-License-Identifier: GPL-2.0-only
/// NVMe over fabrics: discover, connect, disconnect, and find the disks. RDMA uses weft's own initiator
/// unless the stock host is requested; everything else uses libnvme.
#pragma once

#include "uri.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// Options of a connection. Unset options have the kernel's defaults.
struct connect_options {
    std::string host_nqn; ///< empty: /etc/nvme/hostnqn
    std::string host_id;  ///< empty: /etc/nvme/hostid, or the UUID in the NQN
    std::string host_address;
    std::string host_interface;
    std::string initiator;              ///< "weft" or "nvme"; empty: weft's own if it supports the transport
    std::optional<int> queues;          ///< I/O queues; otherwise one per processor
    std::optional<int> poll_queues;     ///< additional queues for polling; only weft's own initiator
    std::optional<int> queue_depth;     ///< entries of each
    std::optional<int> keep_alive;      ///< seconds
    std::optional<int> reconnect_delay; ///< seconds
    std::optional<int> ctrl_loss_timeout; ///< seconds, -1: without limit
    std::optional<int> fast_io_fail_timeout;
    std::optional<int> tos;                                  ///< type of service, 0 to 255
    std::string dhchap_secret_file, dhchap_ctrl_secret_file; ///< empty: those of /etc/weft, if they are there
    std::string tls_key_file;                                ///< empty: without TLS; tcp alone
    std::optional<int> background_tos; ///< of connections for background I/O; only weft's own initiator
};

/// A controller of this host that is connected over a fabric.
struct connection {
    std::string controller; ///< "nvme3", "weft-rdma0"
    std::string initiator;  ///< "nvme" for the stock host, "weft" for our own
    std::string state;      ///< "live", "connecting", ...
    nvme_address at;
    std::string host_address;   ///< of this host, if one was requested
    std::string host_interface; ///< the same; only the stock host has one
    std::string subnqn;
    std::vector<std::string> disks; ///< "/dev/nvme3n1", ...
    bool made = false;              ///< this command connected it
    std::vector<std::string> notes; ///< sentences for the user
};

/// An entry of a discovery controller.
struct discovered {
    nvme_address at;
    std::string subnqn;
    bool discovery = false; ///< it is a discovery service, not a subsystem
};

/// A connection of the stock host to a discovery controller. The destructor ends it.
class discovery_service
{
public:
    /// A persistent one reports by events that its log has changed, and is connected again when it is lost.
    [[nodiscard]] static result<discovery_service> open(const nvme_address& at,
                                                        const connect_options& options, bool persistent);
    discovery_service(discovery_service&& other) noexcept;
    discovery_service& operator=(discovery_service&& other) noexcept;
    discovery_service(const discovery_service&) = delete;
    discovery_service& operator=(const discovery_service&) = delete;
    ~discovery_service();

    /// "nvme0"
    [[nodiscard]] std::string device() const;
    /// What it offers. `left_out` counts entries whose address or NQN is not valid.
    [[nodiscard]] result<std::vector<discovered>> ask(unsigned int& left_out) const;

private:
    struct state;
    explicit discovery_service(std::unique_ptr<state> opened);
    std::unique_ptr<state> state_;
};

/// Which existing controller is the one that a path without a host address, or without an interface, means.
enum class path_match {
    any,   ///< one from any address of this host
    exact, ///< one that was connected without them, too: there are paths with them beside it
};

/// Connects to a subsystem. Returns an existing controller at that address (and host address and interface,
/// if they are given) unchanged.
[[nodiscard]] result<connection> connect(const nvme_address& at, const std::string& subnqn,
                                         const connect_options& options, path_match match = path_match::any);

/// Which sides authenticated when a controller was connected.
struct proven {
    bool host, target;
};
[[nodiscard]] proven authentication_of(const connection& link);

/// Does TLS protect it?
[[nodiscard]] bool is_encrypted(const connection& link);

/// The current state of the controller with its disks; unset if it is removed, or if its name belongs to
/// another one now.
[[nodiscard]] std::optional<connection> current(const connection& link);

/// Does a URI name the place that a connection leads to?
[[nodiscard]] bool is_reached_by(const connection& link, const std::string& uri);

/// The namespace that a disk, named without /dev/, leads to; unset if it is not an NVMe disk.
[[nodiscard]] std::optional<std::uint32_t> disk_nsid(const std::string& name);

/// Removes a controller. I/O on its disks fails.
[[nodiscard]] result<void> disconnect(const connection& link);

/// A disk of it that is claimed: mounted, part of a volume, or swap. Unset if none is.
[[nodiscard]] std::optional<std::string> claimed_disk(const connection& link);

/// All controllers of this host.
[[nodiscard]] std::vector<connection> connections();

/// Waits for the disk of a namespace: it appears a moment after its controller.
[[nodiscard]] result<std::string> namespace_disk(const connection& link, const member_uri& uri);

} // namespace weft
