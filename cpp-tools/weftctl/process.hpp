// SPDX-License-Identifier: GPL-2.0-only
/// Other programs: run with an argument vector, no shell.
#pragma once

#include "result.hpp"

#include <string>
#include <vector>

namespace weft
{

/// What a program left.
struct process_result {
    int status =
        127; ///< exit status; 128 and the signal's number where one ended it; 127 where it is not there
    std::string output; ///< standard output and standard error
};

/// Runs a program found on PATH and waits for it.
[[nodiscard]] process_result run_process(const std::vector<std::string>& arguments);

/// Loads a kernel module and what it needs. Fine where it is loaded or built in.
[[nodiscard]] result<void> load_module(const std::string& name);

} // namespace weft
