// SPDX-License-Identifier: GPL-2.0-only
#include "uevent.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <sys/socket.h>

namespace weft
{

namespace
{

constexpr unsigned int group_of_the_kernel = 1;

} // namespace

uevent parse_uevent(std::string_view message)
{
    uevent event;
    while (!message.empty()) {
        const auto line = message.substr(0, message.find('\0'));
        message.remove_prefix(std::min(line.size() + 1, message.size()));
        if (const auto equals = line.find('='); equals != std::string_view::npos)
            event.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    return event;
}

void uevents::closer::operator()(mnl_socket* socket) const
{
    mnl_socket_close(socket);
}

result<uevents> uevents::open()
{
    auto* socket = mnl_socket_open2(NETLINK_KOBJECT_UEVENT, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!socket)
        return fail(exit_code::failure, "events of devices cannot be listened to: {}", std::strerror(errno));
    uevents made(socket);
    if (mnl_socket_bind(socket, group_of_the_kernel, MNL_SOCKET_AUTOPID))
        return fail(exit_code::failure, "events of devices cannot be listened to: {}", std::strerror(errno));
    return made;
}

int uevents::fd() const
{
    return mnl_socket_get_fd(socket_.get());
}

std::optional<uevent> uevents::next() const
{
    std::array<char, 8192> buffer;
    sockaddr_nl from{};
    socklen_t size = sizeof(from);
    const auto got =
        ::recvfrom(fd(), buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0)
        return errno == ENOBUFS ? std::optional<uevent>(std::in_place) : std::nullopt;
    // Any process may send to this socket; the kernel's number is 0.
    return from.nl_pid ? uevent() : parse_uevent({buffer.data(), static_cast<std::size_t>(got)});
}

} // namespace weft
