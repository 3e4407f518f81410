// SPDX-License-Identifier: GPL-2.0-only
#include "host.hpp"

#include "uapi/weft_format.h"

#include <fstream>
#include <string_view>
#include <sys/utsname.h>

namespace weft
{

result<std::string> host_nqn()
{
    std::string nqn;
    if (std::ifstream file("/etc/nvme/hostnqn"); file >> nqn) {
        if (nqn.size() >= WEFT_NQN_SIZE)
            return fail(exit_code::usage, "/etc/nvme/hostnqn holds {} characters, an NQN has at most {}",
                        nqn.size(), WEFT_NQN_SIZE - 1);
        return nqn;
    }
    const auto uuid = machine_uuid();
    if (!uuid)
        return fail(
            exit_code::missing,
            "this host has no name for the owner record: neither /etc/nvme/hostnqn nor /etc/machine-id; "
            "'nvme gen-hostnqn >/etc/nvme/hostnqn' makes one");
    return "nqn.2014-08.org.nvmexpress:uuid:" + *uuid;
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
