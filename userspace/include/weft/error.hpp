// SPDX-License-Identifier: LGPL-2.1-or-later
/// Errors are values. The library throws only std::bad_alloc, and only from functions that set something up.
#pragma once

#include <expected>
#include <string>

namespace weft
{

/// The reason of a failure.
struct Error {
    int code;         ///< an errno, positive
    std::string text; ///< one sentence without a full stop; the kernel's sentence if there is one
};

template <typename T>
using Result = std::expected<T, Error>;

} // namespace weft
