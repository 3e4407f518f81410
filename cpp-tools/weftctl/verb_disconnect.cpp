// SPDX-License-Identifier: GPL-2.0-only
#include "device.hpp"
#include "fabrics.hpp"
#include "nvmet.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct disconnect_options {
    std::vector<std::string> names;
    bool all = false;
    bool force = false;
    bool dry_run = false;
};

bool is_named(const connection& link, const std::string& name)
{
    if (name == link.subnqn || name == link.controller || name == "/dev/" + link.controller)
        return true;
    for (const auto& disk : link.disks)
        if (name == disk)
            return true;
    return is_reached_by(link, name);
}

result<void> check_unused(const connection& link)
{
    const auto disk = claimed_disk(link);
    if (!disk) {
        // nvmet does not claim what it serves.
        for (const auto& served : link.disks)
            if (const auto number = block_number(served))
                if (auto unserved = nvmet::check_unserved(served, *number, "; --force disconnects it anyway");
                    !unserved)
                    return unserved;
        return {};
    }
    const auto users = users_of(*disk).value_or(std::vector<std::string>());
    return fail(exit_code::busy, "{} of {} is in use{}{}; --force disconnects it anyway", *disk,
                link.controller, users.empty() ? "" : ": ", fmt::join(users, ", "));
}

result<exit_code> run_disconnect(const disconnect_options& options, renderer& out)
{
    if (options.all == !options.names.empty())
        return fail(exit_code::usage, "name what to disconnect, or give --all");
    const auto all = connections();
    std::vector<connection> leaving;
    for (const auto& name : options.names) {
        const auto before = leaving.size();
        for (const auto& link : all)
            if (is_named(link, name))
                leaving.push_back(link);
        if (leaving.size() == before)
            return fail(exit_code::missing, "nothing called {} is connected; 'weftctl connect' lists what is",
                        name);
    }
    if (options.all)
        leaving = all;
    std::vector<action> actions;
    auto worst = exit_code::ok;
    for (const auto& link : leaving) {
        auto done = options.force ? result<void>() : check_unused(link);
        if (done && !options.dry_run)
            done = disconnect(link);
        if (!done) {
            out.failure(done.error());
            worst = done.error().code;
            continue;
        }
        actions.push_back(
            {"disconnect", link.controller,
             fmt::format("disconnected {} from {}/{}", link.controller, link.at.text(), link.subnqn),
             options.dry_run});
    }
    if (actions.empty() && worst == exit_code::ok)
        actions.push_back({"disconnect", "", "nothing is connected", options.dry_run, false});
    if (!actions.empty())
        out.actions(actions);
    return worst;
}

} // namespace

verb add_disconnect(CLI::App& app)
{
    auto options = std::make_shared<disconnect_options>();
    auto* command = app.add_subcommand("disconnect", "disconnect from exports of other hosts");
    command->add_option("NAME", options->names, "URIs, NQNs, controllers (nvme3) or disks (/dev/nvme3n1)");
    command->add_flag(
        "--all", options->all,
        "all NVMe over Fabrics controllers of this host, also those that other programs connected");
    command->add_flag("--force", options->force, "also disconnect disks that are in use: I/O on them fails");
    command->add_flag("--dry-run", options->dry_run, "say what would be done, change nothing");
    command->footer(
        R"(A controller whose disks are mounted, members of a volume, exported or otherwise claimed is refused. The I/O of programs
that only have a disk open fails.

Examples:
  weftctl disconnect rdma://10.0.0.1/nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427
  weftctl disconnect --all --dry-run)");
    return {command, [options](renderer& out) { return run_disconnect(*options, out); }};
}

} // namespace weft
