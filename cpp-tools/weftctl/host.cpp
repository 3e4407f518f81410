// SPDX-License-Identifier: GPL-2.0-only
#include "host.hpp"

#include "sysfile.hpp"
#include "uapi/weft_format.h"

#include <fstream>
#include <string_view>
#include <sys/utsname.h>

namespace weft
{

namespace
{

constexpr auto nqn_file = "/etc/nvme/hostnqn";
constexpr auto id_file = "/etc/nvme/hostid";

} // namespace

result<std::string> host_nqn()
{
    std::string nqn;
    if (std::ifstream file(nqn_file); file >> nqn) {
        if (nqn.size() >= WEFT_NQN_SIZE)
            return fail(exit_code::usage, "{} holds {} characters, an NQN has at most {}", nqn_file,
                        nqn.size(), WEFT_NQN_SIZE - 1);
        return nqn;
    }
    const auto uuid = machine_uuid();
    if (!uuid)
        return fail(exit_code::missing,
                    "this host has no name for the owner record: /etc/nvme/hostnqn and /etc/machine-id are "
                    "missing; run 'nvme gen-hostnqn >/etc/nvme/hostnqn'");
    return "nqn.2014-08.org.nvmexpress:uuid:" + *uuid;
}

result<std::string> lasting_host_nqn()
{
    auto nqn = host_nqn();
    if (!nqn || !is_missing(nqn_file))
        return nqn;
    // The id first: targets refuse a host whose name they know with another id.
    const auto uuid = nqn->substr(nqn->find("uuid:") + 5);
    if (!is_missing(id_file) || replace_file(id_file, uuid + "\n", 0644))
        static_cast<void>(replace_file(nqn_file, *nqn + "\n", 0644));
    return nqn;
}

std::optional<std::string> machine_uuid()
{
    std::string id;
    if (std::ifstream file("/etc/machine-id"); !(file >> id) || id.size() != 32)
        return std::nullopt;
    const std::string_view digits(id);
    return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                       digits.substr(16, 4), digits.substr(20));
}

std::string kernel_release()
{
    utsname name{};
    ::uname(&name);
    return name.release;
}

} // namespace weft
