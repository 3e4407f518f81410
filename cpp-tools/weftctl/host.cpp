// SPDX-License-Identifier: GPL-2.0-only
#include "host.hpp"

#include "uapi/weft_format.h"

#include <fstream>
#include <string_view>

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
    std::string id;
    if (std::ifstream file("/etc/machine-id"); !(file >> id) || id.size() != 32)
        return fail(
            exit_code::missing,
            "this host has no name for the owner record: neither /etc/nvme/hostnqn nor /etc/machine-id; "
            "'nvme gen-hostnqn >/etc/nvme/hostnqn' makes one");
    const std::string_view digits(id);
    return fmt::format("nqn.2014-08.org.nvmexpress:uuid:{}-{}-{}-{}-{}", digits.substr(0, 8),
                       digits.substr(8, 4), digits.substr(12, 4), digits.substr(16, 4), digits.substr(20));
}

} // namespace weft
