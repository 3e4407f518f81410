// SPDX-License-Identifier: GPL-2.0-only
/// Writes weft-csi's man page to standard output.
#include "options.hpp"

#include <iostream>
#include <man/man.hpp>

int main()
{
    CLI::App app;
    weft::csi_options options;
    weft::add_options(app, options);
    man::write_command(std::cout, app, "weft-csi", 8, weft::csi_description);
    return std::cout.flush().good() ? 0 : 1;
}
