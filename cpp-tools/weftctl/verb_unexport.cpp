// SPDX-License-Identifier: GPL-2.0-only
#include "exports.hpp"
#include "process.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct unexport_options {
    std::vector<std::string> names;
    bool all = false;
    bool keep_saved = false;
    bool dry_run = false;
};

result<exit_code> run_unexport(const unexport_options& options, renderer& out)
{
    if (options.all == !options.names.empty())
        return fail(exit_code::usage, "name devices or subsystems, or give --all");
    // As with 'weftctl export': a removal that ends half-way leaves a part of an export.
    end_waits_at_signals();
    auto book = export_book::open();
    if (!book)
        return std::unexpected(book.error());
    const auto selected = book->select(options.names, options.all);
    if (!selected)
        return std::unexpected(selected.error());
    std::vector<export_spec> leaving;
    for (const auto index : *selected)
        leaving.push_back(book->entries()[index]);
    const auto target = nvmet::open("");
    if (!target && !leaving.empty())
        return std::unexpected(target.error());

    std::vector<action> actions;
    auto worst = exit_code::ok;
    for (const auto& spec : leaving) {
        if (!options.dry_run) {
            if (auto done = target->remove(spec); !done) {
                out.failure(done.error());
                worst = done.error().code;
                continue;
            }
        }
        actions.push_back(
            {"unexport", spec.device, fmt::format("{} is no longer exported", spec.device), options.dry_run});
        if (options.dry_run || options.keep_saved)
            continue;
        // After each: what this command does not come to stays in the file, and nothing else.
        book->remove(spec.subnqn);
        if (auto done = book->save(); !done) {
            out.failure(done.error());
            worst = done.error().code;
            break;
        }
    }
    if (actions.empty() && worst == exit_code::ok)
        actions.push_back({"unexport", "", "nothing is exported", options.dry_run, false});
    out.actions(actions);
    return worst;
}

} // namespace

verb add_unexport(CLI::App& app)
{
    auto options = std::make_shared<unexport_options>();
    auto* command = app.add_subcommand("unexport", "stop serving devices to other hosts");
    command->add_option("NAME", options->names, "devices or NQNs, as 'weftctl exports' shows them");
    command->add_flag("--all", options->all, "everything that weftctl exports");
    command->add_flag("--keep-saved", options->keep_saved, "serve them again after a boot");
    command->add_flag("--dry-run", options->dry_run, "say what would be done, change nothing");
    command->footer(R"(Hosts that are connected lose the device: stop the volumes on it first.

Examples:
  weftctl unexport /dev/nvme0n1
  weftctl unexport --all)");
    return {command, [options](renderer& out) { return run_unexport(*options, out); }};
}

} // namespace weft
