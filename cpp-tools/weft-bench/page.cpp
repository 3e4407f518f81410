// SPDX-License-Identifier: GPL-2.0-only
/// Writes weft-bench's man page to standard output.
#include "options.hpp"

#include <iostream>
#include <man/man.hpp>

int main()
{
    CLI::App app;
    bench::Options options;
    bench::add_options(app, options);
    man::write_command(std::cout, app, "weft-bench", 1, bench::description);
    return std::cout.flush().good() ? 0 : 1;
}
