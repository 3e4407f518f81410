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
        R"(Below the drawing is a line for each pair of a device that has memory for others and an RDMA or NVMe device: the
number of bridges between them, and whether the second one reaches the memory of the first. weft_p2p.ko answers this,
to root only (modprobe weft_p2p). A GPU's driver may have other rules: 'weftctl doctor' tests the route.

Examples:
  weftctl topology
  weftctl topology --json)");
    return {command, [](renderer& out) -> result<exit_code> {
                out.drawn(read_topology());
                return exit_code::ok;
            }};
}

} // namespace weft
