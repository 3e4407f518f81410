// SPDX-License-Identifier: LGPL-2.1-or-later
/// The state of a Memory and of its registrations.
#pragma once

#include "fd.hpp"
#include "fork.hpp"

#include <weft/memory.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace weft
{

struct Memory::Impl {
    std::size_t size = 0;
    std::byte* data = nullptr;        ///< pointer for the CPU
    void* mapping = nullptr;          ///< a mapping to unmap
    std::size_t mapped = 0;           ///< size of the mapping in bytes
    OwnedFd dmabuf;                   ///< if there is one
    std::uint64_t dmabuf_offset = 0;  ///< offset of the memory in the dma-buf
    std::uint64_t device_pointer = 0; ///< CUDA's
    void* context = nullptr;          ///< CUDA's
    bool flush = false;               ///< what arrives in it by DMA is visible to its GPU after a flush
    std::uint64_t allocated = 0;      ///< CUDA memory to free
    std::string reason;               ///< why GPU memory has no dma-buf
    Origin origin;

    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();
    [[nodiscard]] int reach(std::size_t offset, std::size_t bytes) const noexcept;
    /// Copies with the CPU, after the range was checked; an errno if the exporter refuses.
    [[nodiscard]] int copy_in_now(std::size_t offset, const void* from, std::size_t bytes) const noexcept;
    [[nodiscard]] int copy_out_now(std::size_t offset, void* to, std::size_t bytes) const noexcept;
};

/// The state of a registration. Its address is constant when the Registration is moved.
struct Registration::State {
    State(std::shared_ptr<Memory::Impl> memory_in, Route route_in, std::uint64_t home_in,
          const Policy& policy)
        : memory(std::move(memory_in)), route(route_in), home(home_in), read_only(policy.read_only),
          may_stage(policy.staged)
    {
    }
    Memory memory;
    Route route;
    std::uint64_t home;                 ///< Target::home_ of its target
    bool read_only;                     ///< I/O must not change the memory
    bool may_stage;                     ///< reads may be staged
    std::shared_ptr<const OwnedFd> mem; ///< /dev/weft/NAME.mem, if it is registered there
    std::uint32_t id = 0;               ///< id there; 0 if it is not registered
    std::string reason;
    Origin origin;
};

/// Waits for the I/O that uses it; see Registration.
void wait_for_io(const Registration::State& memory) noexcept;

} // namespace weft
