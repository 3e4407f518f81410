// SPDX-License-Identifier: GPL-2.0-only
/// Shared code of the verbs that make a secret.
#pragma once

#include "verbs.hpp"

#include <functional>
#include <string>

namespace weft
{

struct secret_file_options {
    std::string file;
    std::size_t length = 32; ///< bytes
    bool force = false;
    bool dry_run = false;
};

/// Adds --force and --dry-run.
void add_secret_file_options(CLI::App& command, secret_file_options& options);

/// Writes what `make` gives to the file, which only its owner may read. `noun` is "secret" or "key".
[[nodiscard]] result<exit_code> write_secret(const secret_file_options& options, const char* verb,
                                             const char* noun,
                                             const std::function<result<std::string>()>& make, renderer& out);

} // namespace weft
