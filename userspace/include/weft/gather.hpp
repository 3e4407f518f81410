// SPDX-License-Identifier: LGPL-2.1-or-later
/// Many small reads at once: what a data loader does.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace weft
{

/// A piece of the target and where it goes.
struct Extent {
    std::uint64_t offset = 0;        ///< in the target; whole blocks, as the length
    std::uint64_t memory_offset = 0; ///< in the memory
    std::uint32_t length = 0;
    std::uint32_t order = 0; ///< those of a lower one are begun first
};

struct GatherOptions {
    std::uint32_t capacity = 4096;     ///< extents of a run() at most
    std::uint32_t depth = 64;          ///< I/O in flight, of all members together
    std::uint32_t largest = 128 << 10; ///< neighbours are joined up to this many bytes
};

/// What a run did.
struct Gathered {
    std::uint64_t bytes = 0;
    std::uint32_t failed = 0; ///< extents
    std::uint32_t reads = 0;  ///< that were sent; fewer than extents where neighbours were joined
    Route route = Route::direct;
};

/// Reads thousands of extents by one engine, and keeps the queues of all members evenly full. One thread's,
/// as the engine is, which outlives it. Nothing is allocated after create().
class WEFT_API Gather
{
public:
    [[nodiscard]] static Result<Gather> create(Engine& engine, const GatherOptions& options = {});
    Gather(Gather&& other) noexcept;
    Gather& operator=(Gather&& other) noexcept;
    ~Gather();

    /// Reads all of them, and returns when that is done. `results` gets, for each extent, its bytes (fewer
    /// where the target ends within it) or a negative errno; one that fails keeps none of the others from
    /// being read. E2BIG: more extents than the capacity. Other completions of the engine wait for its
    /// poll(); EBUSY where these are all that it has room for.
    [[nodiscard]] Result<Gathered> run(const Target& target, const Registration& memory,
                                       std::span<const Extent> extents,
                                       std::span<std::int32_t> results) noexcept;

private:
    struct WEFT_HIDDEN Impl;
    explicit Gather(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

} // namespace weft
