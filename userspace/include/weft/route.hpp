// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "api.hpp"

#include <cstdint>

namespace weft
{

/// How bytes are moved between a target and a memory.
enum class Route : std::uint8_t {
    direct, ///< devices access the memory itself
    vmap,   ///< software RDMA accesses the memory's CPU mapping
    bounce, ///< the CPU copies them through pages of the kernel
    staged, ///< the GPU, or else the CPU, copies them through pinned pages of this process
    cached, ///< through the page cache, for targets without O_DIRECT
};

/// "direct", "vmap", "bounce", "staged", "cached".
[[nodiscard]] WEFT_API const char* name_of(Route route) noexcept;

} // namespace weft
