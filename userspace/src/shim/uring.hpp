// SPDX-License-Identifier: LGPL-2.1-or-later
/// Whether this process may use io_uring.
#pragma once

#include <string>

namespace weft
{

/// Sets up a ring and frees it. Returns 0, or the errno of io_uring_setup(2).
[[nodiscard]] int try_io_uring() noexcept;

/// Why io_uring_setup(2) has failed with this errno, and what to do: a sentence without a full stop. Empty if
/// the errno says it all.
[[nodiscard]] std::string why_io_uring_fails(int errnum);

} // namespace weft
