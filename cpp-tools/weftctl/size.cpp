// SPDX-License-Identifier: GPL-2.0-only
#include "size.hpp"

#include <array>
#include <cctype>
#include <charconv>

namespace weft
{

namespace
{

constexpr std::string_view unit_letters = "KMGTPE";

// Bytes of one unit; 0 if it is not a unit.
std::uint64_t unit_bytes(std::string_view unit)
{
    if (unit.empty() || unit == "B")
        return 1;
    const auto at = unit_letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    if (at == std::string_view::npos)
        return 0;
    const auto rest = unit.substr(1);
    if (!rest.empty() && rest != "i" && rest != "iB")
        return 0;
    return std::uint64_t{1} << (10 * (at + 1));
}

} // namespace

result<std::uint64_t> parse_size(std::string_view text)
{
    std::uint64_t number = 0;
    const auto* begin = text.data();
    const auto* end = begin + text.size();
    const auto [rest, errc] = std::from_chars(begin, end, number);
    if (errc == std::errc::result_out_of_range)
        return fail(exit_code::usage, "the size '{}' is too large", text);
    if (errc != std::errc{})
        return fail(exit_code::usage, "'{}' is not a size; write it as 131072, 128K or 1MiB", text);
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    const auto bytes = unit_bytes(unit);
    if (!bytes)
        return fail(exit_code::usage,
                    "'{}' in the size '{}' is not a unit; use K, M, G or T, with or without iB", unit, text);
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(number, bytes, &product))
        return fail(exit_code::usage, "the size '{}' is too large", text);
    return product;
}

result<std::uint64_t> parse_rate(std::string_view text)
{
    if (text.ends_with("/s"))
        text.remove_suffix(2);
    return parse_size(text);
}

result<std::uint32_t> parse_microseconds(std::string_view text)
{
    std::uint64_t number = 0;
    const auto* begin = text.data();
    const auto* end = begin + text.size();
    const auto [rest, errc] = std::from_chars(begin, end, number);
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    const std::uint64_t factor = unit == "us" ? 1 : unit == "ms" ? 1000 : unit == "s" ? 1'000'000 : 0;
    if (errc == std::errc::invalid_argument || !factor)
        return fail(exit_code::usage, "'{}' is not a time; write it as 500us, 2ms or 1s", text);
    if (errc != std::errc{} || number > UINT32_MAX / factor)
        return fail(exit_code::usage, "the time '{}' is too long", text);
    return static_cast<std::uint32_t>(number * factor);
}

std::string format_size(std::uint64_t bytes)
{
    static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    auto value = static_cast<double>(bytes);
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        unit++;
    }
    const auto whole = static_cast<std::uint64_t>(value);
    if (static_cast<double>(whole) == value)
        return fmt::format("{} {}", whole, units[unit]);
    return fmt::format("{:.1f} {}", value, units[unit]);
}

} // namespace weft
