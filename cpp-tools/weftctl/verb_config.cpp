// SPDX-License-Identifier: GPL-2.0-only
#include "verbs.hpp"
#include "volume_file.hpp"

namespace weft
{

namespace
{

result<exit_code> run_check(const std::vector<std::string>& wanted, renderer& out)
{
    std::vector<action> actions;
    auto worst = exit_code::ok;
    for (const auto& name : wanted.empty() ? saved_volumes() : wanted) {
        if (const auto file = load_volume_file(name)) {
            actions.push_back(
                {"config check", name,
                 fmt::format("{} is good: {} paths", volume_file_path(name).string(), file->paths.size()),
                 false, false});
        } else {
            out.failure(file.error());
            worst = file.error().code;
        }
    }
    if (actions.empty() && worst == exit_code::ok)
        actions.push_back({"config check", "", "no volume is saved", false, false});
    out.actions(actions);
    return worst;
}

} // namespace

verb add_config(CLI::App& app)
{
    auto names = std::make_shared<std::vector<std::string>>();
    auto* command = app.add_subcommand("config", "check the files of saved volumes");
    auto* check = command->add_subcommand("check", "read the files, and print each error with its line");
    check->add_option("NAME", *names, "names of saved volumes; default: all");
    command->require_subcommand(1);
    command->footer(
        R"(The files are /etc/weft/volumes/NAME.toml, see weftctl-save(8). The check only reads the files: it does
not look for members.

Examples:
  weftctl config check
  weftctl config check data)");
    return {command, [names](renderer& out) { return run_check(*names, out); }};
}

} // namespace weft
