// SPDX-License-Identifier: GPL-2.0-only
/// weft-bench's command line.
#pragma once

#include "bench.hpp"

#include <CLI/CLI.hpp>

namespace bench
{

struct Options {
    Job job;
    std::uint64_t block = 1 << 20; ///< Job::piece, before it is known to be one
    std::vector<std::string> routes{"direct", "staged", "pread", "cufile"};
    std::string json, svg; ///< files
};

/// What it is for, in a man page's words.
constexpr auto description =
    "move a volume, a file or a range to and from GPU or host memory, by every route";

/// Declares what is read into `options`, which outlives the parsing.
void add_options(CLI::App& app, Options& options);

} // namespace bench
