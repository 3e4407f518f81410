// SPDX-License-Identifier: GPL-2.0-only
#include "notify.hpp"

#include <fd.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>

namespace weft
{

bool notify_ready()
{
    const char* name = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (!name || (name[0] != '/' && name[0] != '@') || std::strlen(name) >= sizeof(address.sun_path))
        return false;
    std::memcpy(address.sun_path, name, std::strlen(name));
    // A name that begins with '@' is in the abstract name space.
    if (name[0] == '@')
        address.sun_path[0] = 0;
    const OwnedFd to(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    constexpr std::string_view message = "READY=1";
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(name));
    // Without the message systemd ends the service after its TimeoutStartSec, and says so.
    static_cast<void>(::sendto(to.get(), message.data(), message.size(), MSG_NOSIGNAL,
                               reinterpret_cast<const sockaddr*>(&address), size));
    return true;
}

} // namespace weft
