// SPDX-License-Identifier: LGPL-2.1-or-later
/// Errors are values. Nothing here throws but for want of memory, and that only where something is set up.
#pragma once

#include <expected>
#include <string>

namespace weft
{

/// Why something was refused or failed.
struct Error {
    int code;         ///< an errno, positive
    std::string text; ///< one sentence without a full stop; the kernel's own where it gave one
};

template <typename T>
using Result = std::expected<T, Error>;

} // namespace weft
