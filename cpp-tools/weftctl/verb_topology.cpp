// SPDX-License-Identifier: GPL-2.0-only
#include "topology.hpp"
#include "verbs.hpp"

namespace weft
{

verb add_topology(CLI::App& app)
{
    auto* command =
        app.add_subcommand("topology", "draw GPUs, RDMA and NVMe devices with the bridges between them");
    command->footer(
        R"(Below the drawing: for each device whose memory others could use, and each RDMA and NVMe device, how many
bridges are between the two and whether the one reaches the other's memory. That is for weft_p2p.ko to say
(modprobe weft_p2p), to root. The driver of a GPU may know better, or ask for more: 'weftctl doctor' tries.

Examples:
  weftctl topology
  weftctl topology --json)");
    return {command, [](renderer& out) -> result<exit_code> {
                out.drawn(read_topology());
                return exit_code::ok;
            }};
}

} // namespace weft
