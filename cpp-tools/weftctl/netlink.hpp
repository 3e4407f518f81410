// SPDX-License-Identifier: GPL-2.0-only
/// A connection to weft's generic netlink family: commands and events.
#pragma once

#include "dhchap.hpp"
#include "model.hpp"
#include "result.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <libmnl/libmnl.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// Arguments of `volume-assemble`.
struct assemble_request {
    std::string name;
    std::string host_nqn; ///< may be empty when read-only
    std::vector<std::string> addresses;
    bool read_only = false;
    bool take_over = false;
    bool iostats = true;
};

/// Arguments of `controller-create`; 0 is the kernel's default.
struct controller_request {
    std::string transport;
    std::string subnqn;
    std::string host_nqn;
    std::array<std::uint8_t, 16> host_id{};
    std::string address;
    std::string service;
    std::string host_address; ///< may be empty
    std::uint32_t io_queues = 0;
    std::uint32_t poll_queues = 0;
    std::optional<int> tos, background_tos;
    std::uint32_t queue_size = 0;
    std::uint32_t keep_alive = 0;      ///< seconds
    std::uint32_t reconnect_delay = 0; ///< seconds
    std::optional<std::int32_t> ctrl_loss_timeout;
    std::optional<std::int32_t> fast_io_fail_timeout;
    dhchap_secrets secrets;
};

/// Arguments of `qos-set`. What is not given stays as it is.
struct qos_request {
    std::string volume;
    bool off = false;
    std::optional<std::uint32_t> feed_latency;                             ///< microseconds; 0: no target
    std::optional<std::uint32_t> floor;                                    ///< percent
    std::array<std::optional<std::uint64_t>, io_classes.size()> max_bytes; ///< per second; 0: no limit
    std::array<std::optional<std::uint32_t>, io_classes.size()> max_ios;   ///< per second; 0: no limit
    std::array<std::optional<std::string>, io_classes.size()> cgroup;      ///< empty: none
    std::optional<std::uint32_t> reads;                                    ///< class
    std::optional<std::uint32_t> writes;                                   ///< class
    std::optional<std::uint32_t> background_from;                          ///< bytes; 0: none
    std::optional<std::uint32_t> background_latency;                       ///< microseconds; 0: no target
    std::optional<std::uint32_t> background_weight;
};

class netlink
{
public:
    /// Connects, and loads weft.ko if needed.
    [[nodiscard]] static result<netlink> open();
    /// Whether weft.ko was unloaded since: then no event comes any more, also when it is loaded again.
    /// It stays unloaded.
    [[nodiscard]] bool is_stale();
    /// Whether weft.ko is loaded.
    [[nodiscard]] static bool is_served();

    [[nodiscard]] result<std::vector<volume_status>> volumes();
    /// The names that the user gave, or those of all volumes if there are none.
    [[nodiscard]] result<std::vector<std::string>> names(const std::vector<std::string>& wanted);
    [[nodiscard]] result<volume_status> volume(const std::string& name);
    [[nodiscard]] result<void> assemble(const assemble_request& request);
    [[nodiscard]] result<void> stop(const std::string& name);

    /// Gives a controller other secrets, for its next authentication. One that is not given stays.
    [[nodiscard]] result<void> set_secrets(const std::string& transport, const std::string& controller,
                                           const dhchap_secrets& secrets);
    /// Returns the name of the controller. Its disks exist.
    [[nodiscard]] result<std::string> create_controller(const controller_request& request);
    [[nodiscard]] result<void> delete_controller(const std::string& transport, const std::string& name);

    /// Adds a path, a block device, to a member.
    [[nodiscard]] result<void> add_path(const std::string& volume, std::uint32_t member,
                                        const std::string& device);
    /// `disk` is a name as in /sys/block.
    [[nodiscard]] result<void> remove_path(const std::string& volume, std::uint32_t member,
                                           const std::string& disk);

    [[nodiscard]] result<void> set_qos(const qos_request& request);
    /// With the first `members` members.
    [[nodiscard]] result<qos_status> qos(const std::string& volume, std::uint32_t members);

    /// Joins the event group and so starts to receive events.
    [[nodiscard]] result<void> subscribe();
    /// Calls `handler` for each event until it returns false, a signal arrives, or the time is over.
    [[nodiscard]] result<void> receive_events(const std::function<bool(const event_report&)>& handler,
                                              std::optional<std::chrono::milliseconds> time = {});

private:
    struct closer {
        void operator()(mnl_socket* socket) const { mnl_socket_close(socket); }
    };
    struct exchange;
    using attributes = std::function<void(nlmsghdr*)>;
    using handler = std::function<void(const nlmsghdr*)>;

    netlink() : buffer_(buffer_size) {}
    [[nodiscard]] result<void> resolve();
    [[nodiscard]] result<void> transact(std::uint16_t type, std::uint8_t command, std::uint16_t flags,
                                        const attributes& put, const handler& reply);
    [[nodiscard]] result<void> get_qos(qos_status& status, std::optional<std::uint32_t> member);
    [[nodiscard]] result<void> change_path(std::uint8_t command, const std::string& volume,
                                           std::uint32_t member, const attributes& put);
    static int on_message(const nlmsghdr* header, void* data);

    /// Twice what 256 paths of 4,095 bytes need. The kernel refuses such a message, and this must not be too
    /// small before.
    static constexpr std::size_t buffer_size = 1 << 21;

    std::unique_ptr<mnl_socket, closer> socket_;
    std::vector<char> buffer_;
    std::uint16_t family_ = 0;
    std::uint32_t events_group_ = 0;
    std::uint32_t sequence_ = 0;
    bool ends_at_signal_ = false; ///< it waits for a target: the kernel gives up what its caller leaves
};

} // namespace weft
