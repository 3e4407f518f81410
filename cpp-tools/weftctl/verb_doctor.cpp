// SPDX-License-Identifier: GPL-2.0-only
#include "doctor/doctor.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

struct doctor_options {
    std::string volume;
    bool quiet = false;
};

result<exit_code> run_doctor(const doctor_options& options, renderer& out)
{
    diagnoses found;
    if (options.volume.empty())
        found = diagnose();
    else if (auto done = diagnose_volume_routes(found, options.volume); !done)
        return std::unexpected(done.error());
    auto worst = severity::good;
    for (const auto& one : found)
        worst = std::max(worst, one.level);
    if (options.quiet)
        found.erase(std::remove_if(found.begin(), found.end(),
                                   [](const auto& one) { return one.level < severity::warning; }),
                    found.end());
    out.diagnosed(found);
    return worst == severity::problem   ? exit_code::problems
           : worst == severity::warning ? exit_code::warnings
                                        : exit_code::ok;
}

} // namespace

verb add_doctor(CLI::App& app)
{
    auto options = std::make_shared<doctor_options>();
    auto* command = app.add_subcommand("doctor", "find faults of this node, and say how to fix them");
    command->add_option("NAME", options->volume,
                        "name of a volume: test only its routes to other devices' memory");
    command->add_flag("--quiet", options->quiet, "print only warnings and problems");
    command->footer(
        R"(Changes nothing. The exit status is 0 if there is nothing to fix (a note is not a fault), 8
when there are warnings, 9 when something does not work.

doctor tests routes to other devices' memory: it registers some memory of each GPU (CUDA) and of each BAR that
weft_p2p offers with each RDMA device (ibv_reg_dmabuf_mr). With NAME, it registers the memory with that volume.

Examples:
  weftctl doctor
  weftctl doctor data
  weftctl doctor --quiet --json)");
    return {command, [options](renderer& out) { return run_doctor(*options, out); }};
}

} // namespace weft
