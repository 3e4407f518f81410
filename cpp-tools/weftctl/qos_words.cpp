// SPDX-License-Identifier: GPL-2.0-only
#include "qos_words.hpp"

#include "size.hpp"

#include <algorithm>
#include <charconv>

namespace weft
{

namespace
{

result<std::uint32_t> parse_number(std::string_view text, const char* what)
{
    std::uint32_t number = 0;
    const auto* begin = text.data();
    const auto* end = begin + text.size();
    const auto [rest, errc] = std::from_chars(begin, end, number);
    if (errc != std::errc{} || rest != end)
        return fail(exit_code::usage, "'{}' is not {}", text, what);
    return number;
}

result<std::uint32_t> parse_percent(std::string_view text)
{
    if (text.ends_with("%"))
        text.remove_suffix(1);
    auto percent = parse_number(text, "a percentage; write it as 5%");
    if (percent && *percent > 100)
        return fail(exit_code::usage, "{} % is more than 100 %", *percent);
    return percent;
}

result<std::uint32_t> parse_weight(std::string_view text)
{
    constexpr auto what = "a weight; write it as a number from 1 to 100";
    auto weight = parse_number(text, what);
    if (weight && (*weight < 1 || *weight > 100))
        return fail(exit_code::usage, "'{}' is not {}", text, what);
    return weight;
}

result<std::uint32_t> parse_bytes(std::string_view text)
{
    const auto bytes = parse_size(text);
    if (!bytes)
        return std::unexpected(bytes.error());
    if (*bytes > UINT32_MAX)
        return fail(exit_code::usage, "the size '{}' is too large", text);
    return static_cast<std::uint32_t>(*bytes);
}

result<std::uint32_t> parse_class(std::string_view text)
{
    for (std::uint32_t i = 0; i < io_classes.size(); i++)
        if (text == io_classes[i])
            return i;
    return fail(exit_code::usage, "'{}' is not a class; use feed or background", text);
}

/// Parses what was given; "off" is 0.
template <typename T, typename Parse>
result<void> take(const std::string& text, std::optional<T>& value, Parse parse, bool may_be_off = true)
{
    if (text.empty())
        return {};
    if (may_be_off && text == "off") {
        value = 0;
        return {};
    }
    const auto parsed = parse(text);
    if (!parsed)
        return std::unexpected(parsed.error());
    value = *parsed;
    return {};
}

/// The shortest text that parse_size() reads as exactly so many bytes.
std::string exact_size(std::uint64_t bytes)
{
    constexpr std::string_view units = "KMGT";
    std::string unit;
    for (const char next : units) {
        if (!bytes || bytes % 1024)
            break;
        bytes /= 1024;
        unit = next;
    }
    return std::to_string(bytes) + unit;
}

std::string or_off(std::uint64_t value, std::string text)
{
    return value ? std::move(text) : "off";
}

} // namespace

bool qos_words::any() const
{
    const auto given = [](const auto& texts) {
        return std::ranges::any_of(texts, [](const std::string& text) { return !text.empty(); });
    };
    return given(
               std::array{feed_latency, floor, background_latency, background_from, reads, writes, weight}) ||
           given(max_rate) || given(max_ios) || cgroup[0] || cgroup[1];
}

result<qos_request> parse_qos(const qos_words& words, const std::string& volume)
{
    qos_request request;
    request.volume = volume;
    request.cgroup = words.cgroup;
    auto done = take(words.feed_latency, request.feed_latency, parse_microseconds);
    if (done)
        done = take(words.floor, request.floor, parse_percent);
    if (done)
        done = take(words.background_latency, request.background_latency, parse_microseconds);
    if (done)
        done = take(words.background_from, request.background_from, parse_bytes);
    if (done)
        done = take(words.weight, request.background_weight, parse_weight, false);
    if (done)
        done = take(words.reads, request.reads, parse_class, false);
    if (done)
        done = take(words.writes, request.writes, parse_class, false);
    for (std::size_t i = 0; i < io_classes.size() && done; i++) {
        done = take(words.max_rate[i], request.max_bytes[i], parse_rate);
        if (done)
            done = take(words.max_ios[i], request.max_ios[i],
                        [](const auto& text) { return parse_number(text, "a number of I/Os per second"); });
    }
    if (!done)
        return std::unexpected(done.error());
    return request;
}

qos_words words_of(const qos_status& status)
{
    const auto microseconds = [](std::uint32_t time) { return or_off(time, fmt::format("{}us", time)); };
    qos_words words;
    words.feed_latency = microseconds(status.feed_latency);
    words.floor = fmt::format("{}%", status.floor);
    words.background_latency = microseconds(status.background_latency);
    words.background_from = or_off(status.background_from, exact_size(status.background_from));
    if (status.background_weight)
        words.weight = std::to_string(status.background_weight);
    words.reads = io_classes.at(status.reads);
    words.writes = io_classes.at(status.writes);
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        words.max_rate[i] = or_off(status.max_bytes[i], exact_size(status.max_bytes[i]) + "/s");
        words.max_ios[i] = or_off(status.max_ios[i], std::to_string(status.max_ios[i]));
        words.cgroup[i] = status.cgroup[i];
    }
    return words;
}

} // namespace weft
