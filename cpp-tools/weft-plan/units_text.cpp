// SPDX-License-Identifier: GPL-2.0-only
#include "units_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

namespace weft::plan
{

namespace
{

struct unit {
    std::string_view name;
    double factor;
};

constexpr std::array sizes{unit{"B", 1},        unit{"kB", 1e3},     unit{"MB", 1e6},
                           unit{"GB", 1e9},     unit{"TB", 1e12},    unit{"PB", 1e15},
                           unit{"EB", 1e18},    unit{"KiB", 0x1p10}, unit{"MiB", 0x1p20},
                           unit{"GiB", 0x1p30}, unit{"TiB", 0x1p40}, unit{"PiB", 0x1p50}};
constexpr std::array bits{unit{"bit", 1.0 / 8}, unit{"kbit", 1e3 / 8}, unit{"Mbit", 1e6 / 8},
                          unit{"Gbit", 1e9 / 8}, unit{"Tbit", 1e12 / 8}};
constexpr std::array times{unit{"us", 1e-6}, unit{"ms", 1e-3}, unit{"s", 1},       unit{"min", 60},
                           unit{"h", 3600},  unit{"d", 86400}, unit{"y", 31557600}};
constexpr std::array quantities{unit{"", 1}, unit{"K", 1e3}, unit{"M", 1e6}, unit{"B", 1e9}, unit{"T", 1e12}};

constexpr auto sizes_shown = std::span(sizes).first(7);
constexpr auto binary_shown = std::span(sizes).last(5);

const unit* find(std::span<const unit> among, std::string_view name)
{
    const auto at = std::ranges::find(among, name, &unit::name);
    return at == among.end() ? nullptr : &*at;
}

std::unexpected<error> wrong(std::string text)
{
    return std::unexpected(error{exit_code::usage, std::move(text)});
}

result<double> size_unit(std::string_view unit)
{
    if (const auto* found = find(sizes, unit))
        return found->factor;
    if (unit.empty())
        return wrong("write a unit, as GB (10^9 bytes) or GiB (2^30 bytes)");
    if (unit.ends_with("/s"))
        return wrong("this is an amount and not a rate; write it as 42GB or 40GiB");
    if (unit.size() == 1)
        return wrong(
            fmt::format("'{0}' can be {0}B (powers of 1000) or {0}iB (powers of 1024); write which", unit));
    return wrong(fmt::format("'{}' is not a unit of bytes; write GB (10^9 bytes) or GiB (2^30 bytes)", unit));
}

result<double> rate_unit(std::string_view unit)
{
    if (unit.ends_with("/s")) {
        unit.remove_suffix(2);
        if (const auto* found = find(sizes, unit))
            return found->factor;
        if (const auto* found = find(bits, unit))
            return found->factor;
    }
    return wrong("write GB/s (bytes) or Gbit/s (bits)");
}

result<double> time_unit(std::string_view unit)
{
    if (const auto* found = find(times, unit))
        return found->factor;
    if (unit == "m")
        return wrong("'m' can be minutes or months; write min");
    return wrong("write a time with s, min, h or d, as 45s or 1h");
}

result<double> unit_factor(kind what, std::string_view unit)
{
    switch (what) {
    case kind::size:
        return size_unit(unit);
    case kind::rate:
    case kind::bit_rate:
        return rate_unit(unit);
    case kind::time:
        return time_unit(unit);
    case kind::quantity:
        if (const auto* found = find(quantities, unit))
            return found->factor;
        return wrong("write a number, as 70e9, or with K, M, B (10^9) or T");
    case kind::percent:
        if (unit == "%")
            return 0.01;
        return wrong("write percent, as 0.44%");
    default:
        if (unit.empty())
            return 1;
        return wrong("write a number without a unit");
    }
}

/// Three digits.
std::string digits(double value)
{
    const double size = std::fabs(value);
    if (size >= 999.5)
        return fmt::format("{:.0f}", value);
    return fmt::format("{:.3g}", value);
}

/// Writes a value in the largest unit that is not above it; the units ascend.
std::string in_units(double value, std::span<const unit> among)
{
    std::size_t at = 0;
    while (at + 1 < among.size() && std::fabs(value) >= 0.9995 * among[at + 1].factor)
        at++;
    return fmt::format("{} {}", digits(value / among[at].factor), among[at].name);
}

} // namespace

result<double> parse_value(kind what, std::string_view text)
{
    double number = 0;
    const auto* begin = text.data();
    const auto* end = begin + text.size();
    const auto [rest, errc] = std::from_chars(begin, end, number);
    if (errc == std::errc::result_out_of_range)
        return wrong("the number is too large or too small");
    if (errc != std::errc{})
        return wrong("write a number");
    if (!std::isfinite(number))
        return wrong("write a finite number");
    std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    while (unit.starts_with(' '))
        unit.remove_prefix(1);
    const auto factor = unit_factor(what, unit);
    if (!factor)
        return std::unexpected(factor.error());
    if (!std::isfinite(number * *factor))
        return wrong("the number is too large");
    if (what == kind::number && (number != std::floor(number) || std::fabs(number) > 0x1p53))
        return wrong("write a whole number");
    return number * *factor;
}

std::string show(bytes of)
{
    // A power of two was meant as one.
    if (of.value() >= 1024 && of.value() < 0x1p60 &&
        std::log2(of.value()) == std::floor(std::log2(of.value())))
        return in_units(of.value(), binary_shown);
    return in_units(of.value(), sizes_shown);
}

std::string show(bytes_per_second of)
{
    return in_units(of.value(), sizes_shown) + "/s";
}

std::string show(seconds of)
{
    return in_units(of.value(), times);
}

std::string show_part(double of)
{
    return digits(of * 100) + " %";
}

std::string show_quantity(double of)
{
    auto text = in_units(of, quantities);
    while (text.ends_with(' '))
        text.pop_back();
    return text;
}

std::string show_value(kind what, double value)
{
    switch (what) {
    case kind::size:
        return show(bytes(value));
    case kind::rate:
        return show(bytes_per_second(value));
    case kind::bit_rate:
        return in_units(value, bits) + "/s";
    case kind::time:
        return show(seconds(value));
    case kind::quantity:
        return show_quantity(value);
    case kind::percent:
        return show_part(value);
    case kind::number:
    case kind::word:
        return fmt::format("{:.0f}", value);
    case kind::money:
    case kind::factor:
        return digits(value);
    }
    return {};
}

} // namespace weft::plan
