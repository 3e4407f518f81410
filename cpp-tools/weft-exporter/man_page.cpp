// SPDX-License-Identifier: GPL-2.0-only
/// Writes weft-exporter's man page to standard output.
#include "options.hpp"

#include <iostream>
#include <man/man.hpp>

int main()
{
    CLI::App app;
    weft::exporter_options options;
    weft::add_options(app, options);
    man::write_command(std::cout, app, "weft-exporter", 8, weft::exporter_description);
    return std::cout.flush().good() ? 0 : 1;
}
