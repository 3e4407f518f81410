// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <weft/error.hpp>

#include <cerrno>
#include <cstring>
#include <string>

namespace weft
{

[[nodiscard]] inline std::unexpected<Error> failure(int code, std::string text)
{
    return std::unexpected(Error{code, std::move(text)});
}

/// The error of a system call on `what`.
[[nodiscard]] inline std::unexpected<Error> failure_of(const std::string& what, int code = errno)
{
    return failure(code, what + ": " + std::strerror(code));
}

} // namespace weft
