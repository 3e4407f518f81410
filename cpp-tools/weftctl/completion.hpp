// SPDX-License-Identifier: GPL-2.0-only
/// Completion of weftctl's command line in shells, made of the declarations that --help is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <ostream>
#include <vector>

namespace completion
{

/// Commands that are shown in the help.
[[nodiscard]] std::vector<const CLI::App*> shown(const CLI::App& app);

struct shell {
    const char* file; ///< as the shell looks for it
    void (*write)(std::ostream& out, const CLI::App& app);
};

void write_bash(std::ostream& out, const CLI::App& app);
void write_fish(std::ostream& out, const CLI::App& app);
void write_zsh(std::ostream& out, const CLI::App& app);

inline constexpr shell shells[] = {
    {"weftctl", write_bash},
    {"weftctl.fish", write_fish},
    {"_weftctl", write_zsh},
};

} // namespace completion
