// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace weft::cufile
{

/// Differs between a child of fork() and its parent: rings, threads and registrations are the parent's.
[[nodiscard]] unsigned forks() noexcept;

} // namespace weft::cufile
