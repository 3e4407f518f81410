// SPDX-License-Identifier: GPL-2.0-only
/// One verb a file. Each declares its command line and returns what runs it.
#pragma once

#include "render.hpp"
#include "result.hpp"

#include <CLI/CLI.hpp>
#include <functional>

namespace weft
{

/// Runs a verb that was given on the command line. Failures of single objects are rendered by the verb and
/// end in the exit code; what ends the verb is the error.
using runner = std::function<result<exit_code>(renderer&)>;

struct verb {
    CLI::App* command;
    runner run;
};

[[nodiscard]] verb add_create(CLI::App& app);
[[nodiscard]] verb add_assemble(CLI::App& app);
[[nodiscard]] verb add_stop(CLI::App& app);
[[nodiscard]] verb add_list(CLI::App& app);
[[nodiscard]] verb add_status(CLI::App& app);
[[nodiscard]] verb add_events(CLI::App& app);
[[nodiscard]] verb add_check(CLI::App& app);
[[nodiscard]] verb add_wipe(CLI::App& app);

/// What create and assemble have in common.
struct assemble_options {
    bool read_only = false;
    bool take_over = false;
    bool no_iostats = false;
    std::string host_nqn;
};

/// Assembles a volume of these devices.
[[nodiscard]] result<void> assemble_volume(const std::string& name, const std::vector<std::string>& devices,
                                           const assemble_options& options);

} // namespace weft
