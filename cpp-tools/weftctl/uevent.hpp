// SPDX-License-Identifier: GPL-2.0-only
/// Events of the kernel's devices, as udev gets them.
#pragma once

#include "result.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct mnl_socket;

namespace weft
{

/// "DEVNAME" -> "nvme0", "NVME_AEN" -> "0x70f002", ...
using uevent = std::map<std::string, std::string, std::less<>>;

/// Parses a message of the kernel: a head, and NAME=VALUE, each with a NUL at the end.
[[nodiscard]] uevent parse_uevent(std::string_view message);

class uevents
{
public:
    /// Events from now on. Needs no privileges.
    [[nodiscard]] static result<uevents> open();
    /// Can be read when an event is there.
    [[nodiscard]] int fd() const;
    /// The next event; nothing if none is there. After an overrun an empty one: any event may be lost.
    [[nodiscard]] std::optional<uevent> next() const;

private:
    struct closer {
        void operator()(mnl_socket* socket) const;
    };
    explicit uevents(mnl_socket* socket) : socket_(socket) {}
    std::unique_ptr<mnl_socket, closer> socket_;
};

} // namespace weft
