// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <weft/target.hpp>

#include <algorithm>
#include <cstdint>

namespace weft
{

/// The default size of a stream's piece in bytes: whole stripes, about 1 MiB. If a stripe is larger than a
/// command on registered memory (WEFT_MEM_CMD_BYTES_MAX): as many chunks as fit in a command.
[[nodiscard]] inline std::uint64_t usual_piece(const Geometry& geometry) noexcept
{
    constexpr std::uint64_t usual = 1 << 20, most = 64 << 20;
    const auto stripe = geometry.stripe();
    if (stripe > most)
        return std::max<std::uint64_t>(1, most / geometry.chunk_size) * geometry.chunk_size;
    return stripe * std::max<std::uint64_t>(1, usual / stripe);
}

} // namespace weft
