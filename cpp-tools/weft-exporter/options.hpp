// SPDX-License-Identifier: GPL-2.0-only
/// The command line of weft-exporter, for main() and the man page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft
{

constexpr auto exporter_description = "serve metrics of weft volumes by HTTP, and a page for people";

struct exporter_options {
    std::string listen = "127.0.0.1:9919";
};

void add_options(CLI::App& app, exporter_options& options);

} // namespace weft
