// SPDX-License-Identifier: LGPL-2.1-or-later
/// Many small reads at once, for data loaders.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <memory>

namespace weft
{

/// A range of the target and its destination.
struct Extent {
    std::uint64_t offset = 0;        ///< in the target
    std::uint64_t memory_offset = 0; ///< in the memory
    std::uint32_t length = 0;        ///< below 2 GiB
    std::uint32_t order = 0;         ///< extents with a lower order are begun first
};

/// Records of one size, one behind the other in the target.
struct Records {
    std::uint64_t offset = 0; ///< of the first
    std::uint64_t count = 0;
    std::uint32_t length = 0; ///< of each, below 2 GiB
};

struct GatherOptions {
    std::uint32_t capacity = 4096;     ///< largest number of extents of a run()
    std::uint32_t depth = 64;          ///< I/Os in flight, over all members
    std::uint32_t largest = 128 << 10; ///< adjacent extents are joined up to this many bytes
};

/// The result of a run.
struct Gathered {
    std::uint64_t bytes = 0;
    std::uint32_t failed = 0;    ///< number of extents that failed
    std::uint32_t reads = 0;     ///< number of reads sent; fewer than extents if some were joined
    Route route = Route::direct; ///< that with the most copies
};

/// Reads thousands of extents with one engine, and keeps the queues of all members equally full. Use it in
/// the engine's thread. The engine may be moved, and has to exist until the last run(). It allocates nothing
/// after create(), but room for extents in the first run() of records.
class WEFT_API Gather
{
public:
    [[nodiscard]] static Result<Gather> create(Engine& engine, const GatherOptions& options = {});
    Gather(Gather&& other) noexcept;
    Gather& operator=(Gather&& other) noexcept;
    ~Gather();

    /// Reads all extents, and returns when all are done. `results` gets for each extent its number of bytes
    /// (fewer if the target ends within it) or a negative errno. If one extent fails, the others are still
    /// read. E2BIG: more extents than the capacity. Other completions of the engine stay for its poll().
    /// EBUSY: such completions fill the engine, or a sink called this during a run() of the same gather.
    [[nodiscard]] Result<Gathered> run(const Target& target, const Registration& memory,
                                       Span<const Extent> extents, Span<std::int32_t> results) noexcept;

    /// The same for records by their numbers: they go one behind the other into the memory, from
    /// `memory_offset` on. ERANGE: a number is outside of the records; the memory is unchanged.
    [[nodiscard]] Result<Gathered> run(const Target& target, const Registration& memory,
                                       const Records& records, Span<const std::int64_t> numbers,
                                       std::uint64_t memory_offset, Span<std::int32_t> results);

private:
    struct WEFT_HIDDEN Impl;
    explicit Gather(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

} // namespace weft
