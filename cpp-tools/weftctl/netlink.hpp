// SPDX-License-Identifier: GPL-2.0-only
/// weft's generic netlink family from userspace: one connection, its commands, its events.
#pragma once

#include "model.hpp"
#include "result.hpp"

#include <functional>
#include <libmnl/libmnl.h>
#include <memory>
#include <string>
#include <vector>

namespace weft
{

/// What `volume-assemble` takes.
struct assemble_request {
    std::string name;
    std::string host_nqn; ///< may be empty when read-only
    std::vector<std::string> addresses;
    bool read_only = false;
    bool take_over = false;
    bool iostats = true;
};

class netlink
{
public:
    /// Connects; loads weft.ko where it is not loaded.
    [[nodiscard]] static result<netlink> open();

    [[nodiscard]] result<std::vector<volume_status>> volumes();
    [[nodiscard]] result<volume_status> volume(const std::string& name);
    [[nodiscard]] result<void> assemble(const assemble_request& request);
    [[nodiscard]] result<void> stop(const std::string& name);

    /// Joins the event group; messages are received from then on.
    [[nodiscard]] result<void> subscribe();
    /// Calls `handler` for each event until it returns false or a signal comes.
    [[nodiscard]] result<void> receive_events(const std::function<bool(const event_report&)>& handler);

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
    static int on_message(const nlmsghdr* header, void* data);

    /// A volume of 256 members with long addresses is a third of this.
    static constexpr std::size_t buffer_size = 1 << 20;

    std::unique_ptr<mnl_socket, closer> socket_;
    std::vector<char> buffer_;
    std::uint16_t family_ = 0;
    std::uint32_t events_group_ = 0;
    std::uint32_t sequence_ = 0;
};

} // namespace weft
