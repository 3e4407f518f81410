// SPDX-License-Identifier: GPL-2.0-only
#include "awaited.hpp"
#include "device.hpp"
#include "netlink.hpp"
#include "process.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <iterator>

namespace weft
{

namespace
{

struct status_options {
    std::vector<std::string> names;
    unsigned int interval = 0; ///< seconds; 0 for once
};

/// The awaited volumes that the user names, or all of them.
std::vector<awaited_volume> read_awaited(const std::vector<std::string>& wanted)
{
    auto all = awaited_volumes();
    std::erase_if(all, [&](const auto& one) {
        return !wanted.empty() && std::ranges::find(wanted, one.name) == wanted.end();
    });
    return all;
}

result<std::vector<volume_status>> read_status(netlink& connection, const std::vector<std::string>& wanted,
                                               const std::vector<awaited_volume>& awaited)
{
    const auto names = connection.names(wanted);
    if (!names)
        return std::unexpected(names.error());
    std::vector<volume_status> volumes;
    for (const auto& name : *names) {
        auto volume = connection.volume(name);
        if (!volume && std::ranges::find(awaited, name, &awaited_volume::name) != awaited.end())
            continue;
        if (!volume)
            return std::unexpected(volume.error());
        volume->users = users_of("/dev/weft/" + name).value_or(std::vector<std::string>());
        std::ranges::move(memory_users_of(name), std::back_inserter(volume->users));
        volumes.push_back(std::move(*volume));
    }
    return volumes;
}

result<exit_code> run_status(const status_options& options, renderer& out)
{
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    if (options.interval)
        end_waits_at_signals();
    for (;;) {
        const auto awaited = read_awaited(options.names);
        const auto volumes = read_status(*connection, options.names, awaited);
        if (!volumes)
            return std::unexpected(volumes.error());
        if (options.interval)
            clear_screen();
        out.status(*volumes, awaited);
        if (!options.interval)
            return exit_code::ok;
        out.next();
        if (!wait_for(std::chrono::seconds(options.interval)))
            return exit_code::ok;
    }
}

} // namespace

verb add_status(CLI::App& app)
{
    auto options = std::make_shared<status_options>();
    auto* command = app.add_subcommand("status", "show assembled volumes with their members and counters");
    command->add_option("NAME", options->names, "names of volumes; default: all");
    command
        ->add_option("--watch", options->interval,
                     "seconds from one output to the next; repeats until a signal")
        ->check(CLI::Range(1, 3600));
    command->footer(
        R"(Counters start at zero when the volume is assembled, and stay zero with --no-iostats. With --watch and --json each sample
is one line.

A saved volume for which a command or its service waits has a line: since when, and for which member.

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
  ana         a change of an ANA state took longer than the target allows
  reset       a user has reset the controller

Examples:
  weftctl status
  weftctl status data --watch 5
  weftctl status data --json)");
    return {command, [options](renderer& out) { return run_status(*options, out); }};
}

} // namespace weft
