// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "api.hpp"

#include <cstdint>

namespace weft
{

/// The way bytes take between a target and a memory.
enum class Route : std::uint8_t {
    direct, ///< devices read and write the memory itself
    vmap,   ///< a software RDMA device does, by the CPU's mapping of it
    bounce, ///< through pages of the kernel, copied by the CPU
    staged, ///< through pinned pages of this process, copied by the GPU, or by the CPU where there is none
    cached, ///< through the page cache: what is read does no O_DIRECT
};

/// "direct", "vmap", "bounce", "staged", "cached".
[[nodiscard]] WEFT_API const char* name_of(Route route) noexcept;

} // namespace weft
