// SPDX-License-Identifier: GPL-2.0-only
#include "exports.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <filesystem>

namespace weft
{

namespace
{

export_status status_of(const export_spec& spec, const nvmet* target)
{
    export_status status;
    status.spec = spec;
    status.saved = true;
    for (const auto& [at, own] : spec.addresses)
        if (nvmet::listens(spec, at))
            status.heard.push_back(at);
    std::error_code ignored;
    switch (target ? target->presence_of(spec) : nvmet::presence::absent) {
    case nvmet::presence::serving:
        status.serving = true;
        break;
    case nvmet::presence::foreign:
        status.why = "another program created a subsystem of that name";
        break;
    case nvmet::presence::incomplete:
        status.serving = true;
        status.why = "served at some of its addresses only; 'weftctl export --saved' tries the others again";
        break;
    case nvmet::presence::broken:
        status.why = "its subsystem is disabled or has no listener; 'weftctl export --saved' serves it again";
        break;
    case nvmet::presence::absent:
        status.why = std::filesystem::exists(spec.device, ignored)
                         ? "not served; 'weftctl export --saved' serves it"
                         : "the device is missing";
        break;
    }
    return status;
}

result<exit_code> run_exports(bool all, renderer& out)
{
    const auto book = export_book::load();
    if (!book)
        return std::unexpected(book.error());
    // Without the kernel's target no export is served, but the saved ones can be shown.
    std::error_code ignored;
    result<nvmet> target = fail(exit_code::missing, "no target");
    if (std::filesystem::exists("/sys/kernel/config/nvmet", ignored))
        target = nvmet::open("");
    std::vector<served_subsystem> served;
    if (target)
        served = target->subsystems();
    std::vector<export_status> rows;
    for (const auto& spec : book->entries())
        rows.push_back(status_of(spec, target ? &*target : nullptr));
    for (const auto& subsystem : served) {
        if (!all || book->find(subsystem.subnqn))
            continue;
        export_status row;
        row.spec.device = subsystem.device;
        row.spec.subnqn = subsystem.subnqn;
        for (const auto& port : subsystem.ports)
            row.spec.addresses.push_back({port});
        if (subsystem.ports.empty())
            row.spec.addresses.emplace_back();
        row.serving = subsystem.enabled && !subsystem.ports.empty();
        row.heard = subsystem.ports;
        row.why = "configured by other programs";
        rows.push_back(std::move(row));
    }
    out.exports(rows);
    return exit_code::ok;
}

} // namespace

verb add_exports(CLI::App& app)
{
    auto all = std::make_shared<bool>(false);
    auto* command = app.add_subcommand("exports", "list the devices that this host serves to other hosts");
    command->add_flag("--all", *all, "also list what other programs configured in the kernel's target");
    command->footer(R"(Examples:
  weftctl exports
  weftctl exports --all --json)");
    return {command, [all](renderer& out) { return run_exports(*all, out); }};
}

} // namespace weft
