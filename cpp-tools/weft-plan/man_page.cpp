// SPDX-License-Identifier: GPL-2.0-only
/// Writes weft-plan's man page to standard output.
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <man/man.hpp>

int main()
{
    CLI::App app;
    weft::plan::options options;
    weft::plan::add_options(app, options);
    man::write_command(std::cout, app, "weft-plan", 1, weft::plan::plan_description);
    return std::cout.flush().good() ? 0 : 1;
}
