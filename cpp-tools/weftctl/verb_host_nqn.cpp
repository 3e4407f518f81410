// SPDX-License-Identifier: GPL-2.0-only
#include "host.hpp"
#include "verbs.hpp"

namespace weft
{

verb add_host_nqn(CLI::App& app)
{
    auto* command = app.add_subcommand("host-nqn", "print this host's NVMe qualified name");
    command->footer(
        R"(A storage node needs it for 'weftctl export --host'. It is the name in /etc/nvme/hostnqn. If that
file is missing, weftctl derives the name from /etc/machine-id and writes it there.

Examples:
  weftctl host-nqn)");
    return {command, [](renderer& out) -> result<exit_code> {
                const auto nqn = lasting_host_nqn();
                if (!nqn)
                    return std::unexpected(nqn.error());
                out.host(*nqn);
                return exit_code::ok;
            }};
}

} // namespace weft
