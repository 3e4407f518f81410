// SPDX-License-Identifier: LGPL-2.1-or-later
/// Memory that a program registered, or uses without.
#pragma once

#include "cufile.h"

#include <weft/memory.hpp>

#include <cstdint>
#include <expected>
#include <memory>

namespace weft::cufile
{

/// A range of memory of the program, of CUDA or of the host.
struct Buffer {
    std::uint64_t number; ///< unique; 0 if it is not registered
    std::uint64_t base;
    std::uint64_t length;
    Memory memory;
};

/// A place in a buffer.
struct Place {
    std::shared_ptr<const Buffer> buffer;
    std::uint64_t offset = 0;
};

/// Registers [base, base + length). MEMORY_ALREADY_REGISTERED: a part of it is. CUDA_POINTER_INVALID: device
/// memory that is shorter, or that CUDA does not know.
[[nodiscard]] CUfileOpError add_buffer(const void* base, std::size_t length);

/// Forgets it and returns it, so that its registrations can be ended; nullptr if nothing is registered at
/// that address.
[[nodiscard]] std::shared_ptr<const Buffer> remove_buffer(const void* base);

/// The memory at base + offset, of `size` bytes: a registered buffer, or one for this I/O.
/// INVALID_MAPPING_RANGE: it exceeds the buffer that base is in.
[[nodiscard]] std::expected<Place, CUfileOpError> find_buffer(const void* base, off_t offset,
                                                              std::size_t size);

} // namespace weft::cufile
