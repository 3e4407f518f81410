// SPDX-License-Identifier: GPL-2.0-only
/// Man pages of commands, from the declarations that --help is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>

namespace man
{

/// Text as troff takes it: nothing in it is a request, and a hyphen can be copied and pasted.
[[nodiscard]] std::string roff(const std::string& text);

/// The page's title and its NAME. `command` is what is typed: "weftctl create" is the page weftctl-create.
void write_head(std::ostream& page, const std::string& command, int section, const std::string& description);
/// Each option, or each positional, and what it is for.
void write_options(std::ostream& page, const CLI::App& app, bool positional);
/// A footer: paragraphs, "Heading:" lines, and lines that are indented because they are to be typed.
void write_footer(std::ostream& page, const std::string& footer);

/// The whole page of a command that has no verbs.
void write_command(std::ostream& page, const CLI::App& app, const std::string& command, int section,
                   const std::string& description);

} // namespace man
