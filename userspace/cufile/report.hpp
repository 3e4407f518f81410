// SPDX-License-Identifier: LGPL-2.1-or-later
/// What this process moved by which route, and why not directly.
#pragma once

#include <weft/route.hpp>

#include <cstdint>
#include <string>

namespace weft::cufile
{

/// The environment, read once. WEFT_CUFILE_STRICT=1: I/O without a direct route fails. WEFT_CUFILE_LOG: a
/// file to append the lines to that go to stderr otherwise; "none" for neither.
[[nodiscard]] bool is_strict() noexcept;

/// Counts bytes. A reason goes with what was not moved directly.
void count(Route route, std::uint64_t bytes, const std::string& file, const std::string& reason) noexcept;

/// Writes a line for the user. Never fails: I/O does not depend on the log.
void say(const std::string& line) noexcept;

/// The same once for each pair of a file and a reason, up to 100 of them.
void say_once(const std::string& file, const std::string& reason) noexcept;

struct Moved {
    std::uint64_t direct, staged, cached;
};

[[nodiscard]] Moved moved() noexcept;

/// Writes what was moved and why, if there is a log file and something was moved since the last time.
void summarize() noexcept;

} // namespace weft::cufile
