// SPDX-License-Identifier: GPL-2.0-only
#include "device.hpp"
#include "host.hpp"
#include "member_links.hpp"
#include "members.hpp"
#include "netlink.hpp"
#include "process.hpp"
#include "verbs.hpp"
#include "volume_file.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace weft
{

namespace
{

struct verb_options {
    std::string name;
    std::vector<std::string> devices;
    bool all = false;
    bool saved = false;
    unsigned int wait = 0;
    bool dry_run = false;
    connect_options connecting;
    assemble_options assembly;
};

bool is_assembled(const std::vector<volume_status>& volumes, const std::string& uuid)
{
    for (const auto& volume : volumes)
        if (volume.uuid == uuid)
            return true;
    return false;
}

result<void> assemble_set(const member_set& set, const verb_options& options, std::vector<action>& actions)
{
    if (auto done = assemble_members(set, options.assembly, options.dry_run, actions); !done)
        return done;
    const auto further = set.further_paths();
    if (further.empty() || options.dry_run)
        return {};
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    for (const auto& [member, device] : further) {
        if (auto done = kernel->add_path(set.name, member, device); !done)
            return fail(done.error().code, "volume {} is assembled, but {} is not one of its paths: {}",
                        set.name, device, done.error().text);
        actions.push_back(path_added(set.name, member, device, false));
    }
    return {};
}

// If the user names the members, all of them have to belong to the volume: report a wrong one rather than a
// missing one.
result<void> check_foreign(const std::vector<member_set>& sets, const member_set& wanted)
{
    for (const auto& set : sets)
        if (set.uuid != wanted.uuid)
            return fail(exit_code::damaged, "{} is member {} of volume {} ({}), not of {}",
                        set.members.front().path, set.members.front().sb.member_index, set.name, set.uuid,
                        wanted.name);
    return {};
}

result<void> assemble_one(const verb_options& options, std::vector<action>& actions)
{
    auto links = member_links::resolve(options.devices, options.connecting);
    if (!links)
        return std::unexpected(links.error());
    const auto sets = find_members(links->devices());
    if (!sets)
        return std::unexpected(sets.error());
    const auto set = pick_volume(*sets, options.name);
    if (!set)
        return std::unexpected(set.error());
    if (!options.devices.empty())
        if (auto done = check_foreign(*sets, *set); !done)
            return done;
    auto done = assemble_set(*set, options, actions);
    if (done && !options.dry_run)
        links->keep();
    return done;
}

result<exit_code> run_one(const verb_options& options, renderer& out)
{
    using clock = std::chrono::steady_clock;
    const auto deadline = clock::now() + std::chrono::seconds(options.wait);
    std::vector<action> actions;
    std::optional<waiting> telling;
    if (options.wait)
        telling.emplace("waiting for the members");
    for (;;) {
        auto done = assemble_one(options, actions);
        if (done)
            break;
        // Once it is assembled, another try would only say so.
        if (!actions.empty() || !may_mend_itself(done.error()) || clock::now() >= deadline)
            return std::unexpected(done.error());
        if (!wait_for(std::chrono::milliseconds(500)))
            return std::unexpected(interruption());
    }
    telling.reset();
    out.actions(actions);
    return exit_code::ok;
}

result<exit_code> run_all(const verb_options& options, renderer& out)
{
    const auto sets = find_members(options.devices);
    if (!sets)
        return std::unexpected(sets.error());
    std::vector<action> actions;
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    const auto assembled = connection->volumes();
    if (!assembled)
        return std::unexpected(assembled.error());
    auto worst = exit_code::ok;
    for (const auto& set : *sets) {
        if (is_assembled(*assembled, set.uuid))
            continue;
        if (auto done = assemble_set(set, options, actions); !done) {
            out.failure(done.error());
            worst = done.error().code;
        }
    }
    if (actions.empty() && worst == exit_code::ok)
        actions.push_back({"assemble", "", "no volume is left to assemble", false, false});
    out.actions(actions);
    return worst;
}

/// Members and their options are in the files.
result<exit_code> run_saved(const verb_options& options, renderer& out)
{
    if (!options.devices.empty())
        return fail(exit_code::usage, "--saved takes the members from the file of the volume: name none");
    auto connecting = options.connecting;
    connecting.host_nqn.clear(); // it also names the host that claims the volume
    if (auto none = refuse_with_saved(connecting); !none)
        return std::unexpected(none.error());
    std::vector<action> actions;
    auto worst = exit_code::ok;
    for (const auto& name : options.all ? saved_volumes() : std::vector{options.name}) {
        const auto done = assemble_saved(name, options.assembly, options.wait, options.dry_run);
        if (done) {
            actions.insert(actions.end(), done->begin(), done->end());
        } else {
            out.failure(done.error());
            worst = done.error().code;
        }
    }
    if (actions.empty() && worst == exit_code::ok)
        actions.push_back({"assemble", "", "no volume is saved", false, false});
    out.actions(actions);
    return worst;
}

result<exit_code> run_assemble(const verb_options& options, renderer& out)
{
    if (options.all == !options.name.empty())
        return fail(exit_code::usage, "name a volume, or give --all");
    if (options.saved)
        return run_saved(options, out);
    return options.all ? run_all(options, out) : run_one(options, out);
}

} // namespace

// Waiting mends what appears later: a target, a disk.
bool may_mend_itself(const error& problem)
{
    return problem.code == exit_code::missing || problem.code == exit_code::failure;
}

action path_added(const std::string& volume, std::uint32_t member, const std::string& path, bool dry_run)
{
    return {"path add", volume, fmt::format("member {} of {} is reached by {} as well", member, volume, path),
            dry_run};
}

result<void> assemble_members(const member_set& set, const assemble_options& options, bool dry_run,
                              std::vector<action>& actions)
{
    const auto devices = set.complete();
    if (!devices)
        return std::unexpected(devices.error());
    if (!dry_run)
        if (auto done = assemble_volume(set.name, *devices, options); !done)
            return done;
    actions.push_back({"assemble", set.name,
                       fmt::format("assembled volume {} {}of {} members as /dev/weft/{}", set.name,
                                   options.read_only ? "read-only " : "", devices->size(), set.name),
                       dry_run});
    return {};
}

namespace
{

/// After an interruption: when the connection is closed, the kernel gives the assembly up, and lets its
/// members go. What this command has connected for them can be disconnected then.
void outlast_assembly(netlink connection, const std::string& name, const std::vector<std::string>& devices)
{
    {
        const auto closed = std::move(connection);
    }
    auto kernel = netlink::open();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (kernel && std::chrono::steady_clock::now() < until) {
        const auto volume = kernel->volume(name);
        if (volume ? volume->state != "assembling" : std::ranges::none_of(devices, is_claimed))
            return;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

} // namespace

result<void> assemble_volume(const std::string& name, const std::vector<std::string>& devices,
                             const assemble_options& options)
{
    assemble_request request;
    request.name = name;
    request.addresses = devices;
    request.read_only = options.read_only;
    request.take_over = options.take_over;
    request.iostats = !options.no_iostats;
    request.host_nqn = options.host_nqn;
    if (request.host_nqn.empty() && !request.read_only) {
        auto nqn = lasting_host_nqn();
        if (!nqn)
            return std::unexpected(nqn.error());
        request.host_nqn = *nqn;
    }
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    const waiting telling(
        fmt::format("assembling volume {}: waiting to see whether another host owns it", name));
    auto done = connection->assemble(request);
    if (!done && a_signal_came())
        outlast_assembly(std::move(*connection), name, devices);
    return done;
}

verb add_assemble(CLI::App& app)
{
    auto options = std::make_shared<verb_options>();
    auto* command =
        app.add_subcommand("assemble", "assemble a volume from its members, or all that can be found");
    command->add_option("NAME", options->name, "name of the volume, or its UUID");
    command->add_option(
        "MEMBER", options->devices,
        "block devices, or rdma://ADDRESS[:PORT]/SUBNQN[?ns=1] and tcp://..., in any order; all block "
        "devices are searched otherwise");
    command->add_flag("--all", options->all, "assemble every complete volume");
    command->add_flag("--saved", options->saved,
                      "use the file that 'weftctl save' wrote; with --all: every saved volume");
    command->add_option("--wait", options->wait, "seconds to wait for members that are not there yet")
        ->check(CLI::Range(0, 86400));
    command->add_flag("--read-only", options->assembly.read_only,
                      "assemble read-only: do not claim the volume");
    command->add_flag("--take-over", options->assembly.take_over,
                      "claim the volume from a host whose heartbeat stopped; make sure that it is down");
    command->add_flag("--no-iostats", options->assembly.no_iostats,
                      "do not count I/O, for the least cost per I/O");
    command->add_flag("--dry-run", options->dry_run,
                      "connect, find the members, say what would be assembled, and disconnect again");
    add_connect_options(*command, options->connecting);
    command->footer(
        R"(One host writes to a volume. While its heartbeat is seen, another host is refused; when it has
stopped, another host needs --take-over.

With --saved, members, options and settings are those of /etc/weft/volumes/NAME.toml (weftctl-save(8)). If the volume is
assembled already, paths that it lacks are added, and the settings are set again. One path to each member is enough to
assemble it; with --wait, the others are tried again for that time. If another command assembles or stops the
volume, --wait waits for that command, too.

Examples:
  weftctl assemble data
  weftctl assemble data /dev/nvme1n1 /dev/nvme2n1
  weftctl assemble data rdma://10.0.0.1/nqn.2014-08.org.example:a rdma://10.0.0.2/nqn.2014-08.org.example:b --wait 60
  weftctl assemble data --read-only
  weftctl assemble data --dry-run
  weftctl assemble data --saved --wait 60
  weftctl assemble --all)");
    return {command, [options](renderer& out) {
                options->assembly.host_nqn = options->connecting.host_nqn;
                return run_assemble(*options, out);
            }};
}

} // namespace weft
