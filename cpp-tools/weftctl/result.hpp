// SPDX-License-Identifier: GPL-2.0-only
/// Errors as values: a kind, which decides the exit status, and one sentence.
#pragma once

#include <expected>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

namespace weft
{

/// Exit statuses of weftctl, documented in its --help.
enum class exit_code : int {
    ok = 0,
    failure = 1,    ///< an I/O or system error
    usage = 2,      ///< an invalid or unsupported request
    busy = 3,       ///< in use, owned by another host, or existing already
    missing = 4,    ///< a volume, member, module or superblock is missing
    damaged = 5,    ///< superblocks are damaged or do not belong together
    occupied = 6,   ///< a device has data on it; --force overwrites it
    permission = 7, ///< not allowed, or read-only
    warnings = 8,   ///< doctor: something should be fixed
    problems = 9,   ///< doctor: something does not work
};

struct error {
    exit_code code;
    std::string text; ///< one sentence without a full stop
};

template <typename T>
using result = std::expected<T, error>;

template <typename... Args>
[[nodiscard]] std::unexpected<error> fail(exit_code code, fmt::format_string<Args...> text, Args&&... args)
{
    return std::unexpected(error{code, fmt::format(text, std::forward<Args>(args)...)});
}

/// Their sentences, with '; ' between them.
[[nodiscard]] inline std::string texts_of(const std::vector<error>& errors)
{
    std::string all;
    for (const auto& one : errors)
        all += (all.empty() ? "" : "; ") + one.text;
    return all;
}

/// The exit status for an errno.
[[nodiscard]] exit_code exit_code_of(int errnum) noexcept;

/// Prints to standard error. Somebody may have closed it, and that changes nothing.
template <typename... Arguments>
void complain(fmt::format_string<Arguments...> format, Arguments&&... arguments)
{
    std::fputs(fmt::format(format, std::forward<Arguments>(arguments)...).c_str(), stderr);
}

} // namespace weft
