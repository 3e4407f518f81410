// SPDX-License-Identifier: GPL-2.0-only
#include "device.hpp"
#include "netlink.hpp"
#include "verbs.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft
{

namespace
{

struct stop_options {
    std::vector<std::string> names;
    bool all = false;
    bool dry_run = false;
};

using user_list = std::optional<std::vector<std::string>>;

user_list users_of_volume(const std::string& name)
{
    return users_of("/dev/weft/" + name);
}

error in_use(const std::string& name, const std::vector<std::string>& users)
{
    return {exit_code::busy, fmt::format("volume {} is in use: {}", name, fmt::join(users, ", "))};
}

// The kernel only reports that a volume is open. Find its users here.
error explain(const error& refusal, const std::string& name)
{
    if (refusal.code != exit_code::busy)
        return refusal;
    auto users = users_of_volume(name).value_or(std::vector<std::string>());
    if (users.empty())
        users = memory_users_of(name);
    return users.empty() ? refusal : in_use(name, users);
}

// udev opens a volume for a moment after each writer has closed it. This does not
// count as use. On a busy node that moment lasts many seconds.
constexpr auto udev_patience = std::chrono::seconds(30);
// No process has it open. The last one is closing it, or another command works on it.
constexpr auto moment = std::chrono::seconds(5);

bool only_udev(const user_list& users)
{
    return users && std::all_of(users->begin(), users->end(), [](const std::string& user) {
               return user.rfind("open in (udev-worker)", 0) == 0 ||
                      user.rfind("open in systemd-udevd", 0) == 0 || user.rfind("open in weftctl", 0) == 0;
           });
}

result<void> stop_patiently(netlink& connection, const std::string& name)
{
    const waiting telling(fmt::format("stopping volume {}: waiting for its last I/O", name));
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        auto done = connection.stop(name);
        if (done || done.error().code != exit_code::busy)
            return done;
        const auto users = users_of_volume(name);
        const auto patience = users && users->empty() ? moment : udev_patience;
        if (!only_udev(users) || std::chrono::steady_clock::now() - begin >= patience)
            return done;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

/// What a stop would find now.
result<void> try_stop(netlink& connection, const std::string& name)
{
    const auto volume = connection.volume(name);
    if (!volume)
        return std::unexpected(volume.error());
    const auto users = users_of_volume(name);
    if (users && !users->empty() && !only_udev(users))
        return std::unexpected(in_use(name, *users));
    return {};
}

result<exit_code> run_stop(const stop_options& options, renderer& out)
{
    if (options.all == !options.names.empty())
        return fail(exit_code::usage, "name volumes, or give --all");
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    auto names = options.names;
    if (options.all) {
        const auto volumes = connection->volumes();
        if (!volumes)
            return std::unexpected(volumes.error());
        for (const auto& volume : *volumes)
            names.push_back(volume.name);
    }
    std::vector<action> actions;
    auto worst = exit_code::ok;
    for (const auto& name : names) {
        auto done = options.dry_run ? try_stop(*connection, name) : stop_patiently(*connection, name);
        if (!done) {
            const auto refusal = explain(done.error(), name);
            out.failure(refusal);
            worst = refusal.code;
            continue;
        }
        actions.push_back({"stop", name, fmt::format("stopped volume {}", name), options.dry_run});
    }
    if (!actions.empty())
        out.actions(actions);
    return worst;
}

} // namespace

verb add_stop(CLI::App& app)
{
    auto options = std::make_shared<stop_options>();
    auto* command = app.add_subcommand("stop", "stop volumes that are not in use");
    command->add_option("NAME", options->names, "names of volumes");
    command->add_flag("--all", options->all, "every volume");
    command->add_flag("--dry-run", options->dry_run, "say what would be stopped, change nothing");
    command->footer(R"(weftctl refuses to stop a volume that is mounted or open, and names its users.

If a write lost its path, its target may still execute a copy of it for some
seconds, 16 with the default keep-alive timeout. The stop waits for that time.

Examples:
  weftctl stop data
  weftctl stop --all)");
    return {command, [options](renderer& out) { return run_stop(*options, out); }};
}

} // namespace weft
