// SPDX-License-Identifier: LGPL-2.1-or-later
/// Memory for the examples: memory of the first GPU if there is one, else host memory.
#pragma once

#include <weft/memory.hpp>

#include <cerrno>

inline weft::Result<weft::Memory> device_memory(std::size_t bytes)
{
    auto memory = weft::Memory::allocate_cuda(0, bytes);
    // ENOENT: this machine has no GPU.
    return memory || memory.error().code != ENOENT ? std::move(memory) : weft::Memory::allocate(bytes);
}
