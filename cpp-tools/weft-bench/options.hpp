// SPDX-License-Identifier: GPL-2.0-only
/// weft-bench's command line.
#pragma once

#include "bench.hpp"

#include <CLI/CLI.hpp>

namespace bench
{

struct Options {
    Job job;
    std::uint64_t block = 1 << 20; ///< Job::piece, before it is checked
    std::vector<std::string> routes{"direct", "staged", "pread", "cufile"};
    std::string json, svg; ///< files
};

/// The description for the man page.
constexpr auto description =
    "move a volume, a file or a range to and from GPU or host memory, by every route";

/// Declares the options that are parsed into `options`, which has to outlive the parser.
void add_options(CLI::App& app, Options& options);

} // namespace bench
