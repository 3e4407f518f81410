// SPDX-License-Identifier: GPL-2.0-only
#include "device.hpp"
#include "netlink.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

result<exit_code> run_status(const std::vector<std::string>& wanted, renderer& out)
{
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    auto names = wanted;
    if (names.empty()) {
        const auto all = connection->volumes();
        if (!all)
            return std::unexpected(all.error());
        for (const auto& volume : *all)
            names.push_back(volume.name);
    }
    std::vector<volume_status> volumes;
    for (const auto& name : names) {
        auto volume = connection->volume(name);
        if (!volume)
            return std::unexpected(volume.error());
        volume->users = users_of("/dev/weft/" + name).value_or(std::vector<std::string>());
        volumes.push_back(std::move(*volume));
    }
    out.status(volumes);
    return exit_code::ok;
}

} // namespace

verb add_status(CLI::App& app)
{
    auto names = std::make_shared<std::vector<std::string>>();
    auto* command = app.add_subcommand("status", "show assembled volumes with their members and counters");
    command->add_option("NAME", *names, "of the volumes; all otherwise");
    command->footer(R"(Counters are of this assembly, and zero with --no-iostats.

A controller of weft_rdma counts since it was created: how often it reconnected, and for which reasons its
associations ended by an error (/sys/class/weft-rdma/weft-rdmaN/ends):

  timeout     a command was not answered, or a work request did not complete
  keep-alive  a Keep Alive was not answered, or it failed
  queue-pair  a work request failed, or the queue pair went into error
  connection  the target ended a connection
  device      the RDMA device was removed, or the address moved to another device
  protocol    the target broke a rule of the protocol
  scan        the namespaces could not be read
  memory      memory was revoked, and a command on it did not end

Examples:
  weftctl status
  weftctl status data --json)");
    return {command, [names](renderer& out) { return run_status(*names, out); }};
}

} // namespace weft
