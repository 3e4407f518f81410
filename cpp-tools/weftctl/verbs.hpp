// SPDX-License-Identifier: GPL-2.0-only
/// One file for each verb. It declares the command line and returns the function that runs it.
#pragma once

#include "members.hpp"
#include "render.hpp"
#include "result.hpp"

#include <CLI/CLI.hpp>
#include <functional>

namespace weft
{

/// Runs the verb of the command line. The verb renders failures of single objects and returns them in the
/// exit code. An error that ends the verb is returned as an error.
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
[[nodiscard]] verb add_examine(CLI::App& app);
[[nodiscard]] verb add_rename(CLI::App& app);
[[nodiscard]] verb add_host_nqn(CLI::App& app);
[[nodiscard]] verb add_wipe(CLI::App& app);
[[nodiscard]] verb add_export(CLI::App& app);
[[nodiscard]] verb add_change_export(CLI::App& app);
[[nodiscard]] verb add_unexport(CLI::App& app);
[[nodiscard]] verb add_exports(CLI::App& app);
[[nodiscard]] verb add_gen_dhchap_key(CLI::App& app);
[[nodiscard]] verb add_gen_tls_key(CLI::App& app);
[[nodiscard]] verb add_discover(CLI::App& app);
[[nodiscard]] verb add_connect(CLI::App& app);
[[nodiscard]] verb add_disconnect(CLI::App& app);
[[nodiscard]] verb add_path(CLI::App& app);
[[nodiscard]] verb add_qos(CLI::App& app);
[[nodiscard]] verb add_save(CLI::App& app);
[[nodiscard]] verb add_config(CLI::App& app);
[[nodiscard]] verb add_top(CLI::App& app);
[[nodiscard]] verb add_explain(CLI::App& app);
[[nodiscard]] verb add_metrics(CLI::App& app);
[[nodiscard]] verb add_cdi(CLI::App& app);
[[nodiscard]] verb add_doctor(CLI::App& app);
[[nodiscard]] verb add_topology(CLI::App& app);
[[nodiscard]] verb add_report(CLI::App& app);
[[nodiscard]] verb add_probe(CLI::App& app); ///< for udev; not in the help

/// The whole command line, for main(), the man pages and the completion.
[[nodiscard]] std::vector<verb> add_verbs(CLI::App& app, bool& json);

/// The options of how to connect to an NVMe subsystem.
void add_connect_options(CLI::App& command, connect_options& options);
/// They are in the file of a volume that is saved: refuses those that are given beside it.
[[nodiscard]] result<void> refuse_with_saved(const connect_options& options);

/// The common options of create and assemble.
struct assemble_options {
    bool read_only = false;
    bool take_over = false;
    bool no_iostats = false;
    std::string host_nqn;
};

/// Assembles a volume of these devices.
[[nodiscard]] result<void> assemble_volume(const std::string& name, const std::vector<std::string>& devices,
                                           const assemble_options& options);

/// The same for a complete set of members. Adds what was done to `actions`.
[[nodiscard]] result<void> assemble_members(const member_set& set, const assemble_options& options,
                                            bool dry_run, std::vector<action>& actions);

/// That a path was added to a member.
[[nodiscard]] action path_added(const std::string& volume, std::uint32_t member, const std::string& path,
                                bool dry_run);

/// Whether an error may go away by waiting.
[[nodiscard]] bool may_mend_itself(const error& problem);

/// Assembles a saved volume and adds its paths. Tries again for `wait` seconds while a member, and then a
/// path, is not there; tells systemd as soon as the volume is assembled. Returns what was done.
[[nodiscard]] result<std::vector<action>>
assemble_saved(const std::string& name, const assemble_options& options, unsigned int wait, bool dry_run);

} // namespace weft
