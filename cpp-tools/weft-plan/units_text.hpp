// SPDX-License-Identifier: GPL-2.0-only
/// Quantities as people write and read them. A unit is never guessed.
#pragma once

#include "units.hpp"

#include <result.hpp>

#include <string>
#include <string_view>

namespace weft::plan
{

enum class kind {
    size,     ///< "42GB" is 42 * 10^9 bytes, "40GiB" 40 * 2^30
    rate,     ///< "4GB/s" bytes, "400Gbit/s" bits
    bit_rate, ///< the same, shown in bits
    time,     ///< "45s", "5min", "1h", "30d"
    number,   ///< a whole number
    quantity, ///< "70e9", "70B" (10^9), "1.6M" (10^6)
    percent,  ///< "0.44%", kept as 0.0044
    money,    ///< of any currency
    factor,   ///< a number without a unit
    word,     ///< one of several
};

/// The number in bytes, seconds and so on. An error is the rest of a sentence: "write GB/s (bytes) or Gbit/s
/// (bits)".
[[nodiscard]] result<double> parse_value(kind what, std::string_view text);

/// With three digits: "1.01 TB", "167 GB/s", "45 s", "0.44 %".
[[nodiscard]] std::string show_value(kind what, double value);

[[nodiscard]] std::string show(bytes of);
[[nodiscard]] std::string show(bytes_per_second of);
[[nodiscard]] std::string show(seconds of);
/// A part of 1, as percent.
[[nodiscard]] std::string show_part(double of);
/// "1.6 M", "70 B".
[[nodiscard]] std::string show_quantity(double of);

} // namespace weft::plan
