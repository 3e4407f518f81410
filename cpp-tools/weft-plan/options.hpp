// SPDX-License-Identifier: GPL-2.0-only
/// The command line of weft-plan, for main() and the man page.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI
{
class App;
}

namespace weft::plan
{

constexpr auto plan_description = "what to buy for a model, and what a checkpoint costs";

struct options {
    std::vector<std::string> values; ///< one for each of fields(); empty if not given
    std::string model, gpu, nic, ssd;
    std::vector<std::string> profiles;
    std::string plan;
    std::vector<std::string> compare;
    std::vector<std::string> what_if;
    std::string from;
    std::string fio;
    std::string watch;
    std::string report;
    bool list = false;
    bool published = false;
    bool sensitivity = false;
    bool plot = false;
    bool json = false;
};

void add_options(CLI::App& app, options& to);

/// Reads a command line. Returns the status to end with after --help, --version and what is refused.
[[nodiscard]] std::optional<int> parse(int argc, char** argv, options& to);

} // namespace weft::plan
