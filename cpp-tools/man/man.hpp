// SPDX-License-Identifier: GPL-2.0-only
/// Man pages of commands, from the declarations that --help is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>

namespace man
{

/// Escapes text for troff: no line is a request, and hyphens can be copied and pasted.
[[nodiscard]] std::string roff(const std::string& text);

/// Writes the page's title and NAME. `command` is as typed: "weftctl create" is the page weftctl-create.
void write_head(std::ostream& page, const std::string& command, int section, const std::string& description);
/// Writes each option or positional with its description.
void write_options(std::ostream& page, const CLI::App& app, bool positional);
/// Writes a footer: paragraphs, "Heading:" lines, and indented lines, which are commands.
void write_footer(std::ostream& page, const std::string& footer);

/// Writes the whole page of a command without verbs.
void write_command(std::ostream& page, const CLI::App& app, const std::string& command, int section,
                   const std::string& description);

} // namespace man
