// SPDX-License-Identifier: LGPL-2.1-or-later
/// What a Memory is made of, for who does I/O on it.
#pragma once

#include "fd.hpp"

#include <weft/memory.hpp>

#include <string>

namespace weft
{

struct Memory::Impl {
    std::size_t size = 0;
    std::byte* data = nullptr;        ///< for the CPU
    void* mapping = nullptr;          ///< ours, to be unmapped
    std::size_t mapped = 0;           ///< bytes of it
    OwnedFd dmabuf;                   ///< where there is one
    std::uint64_t dmabuf_offset = 0;  ///< of the memory in it
    std::uint64_t device_pointer = 0; ///< CUDA's
    void* context = nullptr;          ///< CUDA's
    std::uint64_t allocated = 0;      ///< ours of CUDA's, to be freed
    std::string reason;               ///< why a GPU's memory has no dma-buf

    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();
    [[nodiscard]] int reach(std::size_t offset, std::size_t bytes) const noexcept;
};

} // namespace weft
