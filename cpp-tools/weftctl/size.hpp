// SPDX-License-Identifier: GPL-2.0-only
/// Parsing and printing of sizes.
#pragma once

#include "result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace weft
{

/// Bytes of "131072", "128K", "128KiB", "1MiB", "16m": units of 1024, B optional. "128kB" and "1MB" as the
/// decimal units would be 1000, and are refused rather than guessed at.
[[nodiscard]] result<std::uint64_t> parse_size(std::string_view text);

/// Bytes per second of "2G/s" or "2G", in the units of parse_size().
[[nodiscard]] result<std::uint64_t> parse_rate(std::string_view text);

/// Microseconds of "500us", "2ms" or "1s".
[[nodiscard]] result<std::uint32_t> parse_microseconds(std::string_view text);

/// "128 KiB", "1.5 TiB".
[[nodiscard]] std::string format_size(std::uint64_t bytes);

} // namespace weft
