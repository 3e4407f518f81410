// SPDX-License-Identifier: GPL-2.0-only
#include "doctor/doctor.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

result<exit_code> run_doctor(bool quiet, renderer& out)
{
    auto found = diagnose();
    auto worst = severity::good;
    for (const auto& one : found)
        worst = std::max(worst, one.level);
    if (quiet)
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
    auto quiet = std::make_shared<bool>(false);
    auto* command =
        app.add_subcommand("doctor", "look for what is wrong with this node, and say what mends it");
    command->add_flag("--quiet", *quiet, "only warnings and problems");
    command->footer(
        R"(Changes nothing. The exit status is 0 when there is nothing to mend (notes are nothing to mend), 8
when there are warnings, 9 when something does not work.

Examples:
  weftctl doctor
  weftctl doctor --quiet --json)");
    return {command, [quiet](renderer& out) { return run_doctor(*quiet, out); }};
}

} // namespace weft
