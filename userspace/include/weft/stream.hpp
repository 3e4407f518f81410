// SPDX-License-Identifier: LGPL-2.1-or-later
/// Large sequential reads and writes with a window of them in flight: what a checkpoint does.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <memory>

namespace weft
{

struct StreamOptions {
    std::uint64_t offset = 0; ///< in the target, where it begins; whole blocks
    std::uint64_t length = 0; ///< of the whole stream; 0: to the target's end
    std::uint32_t window = 4; ///< pieces in flight at most
    /// Of a piece, which ends where a stripe does; 0: as many stripes as are 1 MiB, one at least.
    std::uint32_t piece = 0;
};

/// A range of the stream, and where in the memory it is.
struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t memory_offset = 0;
    std::uint32_t length = 0;
};

/// Reads a range in order, ahead of who takes it. The memory is its window: `window` pieces at least. One
/// thread's. Nothing is allocated after create().
class WEFT_API ReadStream
{
public:
    /// ENOSPC: the memory has less than one piece.
    [[nodiscard]] static Result<ReadStream> create(Engine& engine, const Target& target,
                                                   const Registration& memory,
                                                   const StreamOptions& options = {});
    ReadStream(ReadStream&& other) noexcept;
    ReadStream& operator=(ReadStream&& other) noexcept;
    /// Waits for what is in flight.
    ~ReadStream();
    /// The next piece, which is the caller's until the next call; one of length 0 is the end. An error is
    /// that piece's, and ends the stream; but for EBUSY, where the engine is full of completions that its
    /// poll() has to hand over first.
    [[nodiscard]] Result<Piece> next();

private:
    struct WEFT_HIDDEN Impl;
    explicit ReadStream(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

/// Writes a range in order. The caller fills a piece of the memory while others are written.
class WEFT_API WriteStream
{
public:
    [[nodiscard]] static Result<WriteStream> create(Engine& engine, const Target& target,
                                                    const Registration& memory,
                                                    const StreamOptions& options = {});
    WriteStream(WriteStream&& other) noexcept;
    WriteStream& operator=(WriteStream&& other) noexcept;
    /// Waits for what is in flight; what was not finished by finish() may not be on the medium.
    ~WriteStream();
    /// A piece to be filled: it is free now. One of length 0 is the end of the range.
    [[nodiscard]] Result<Piece> next();
    /// Begins to write the one that next() gave; fewer bytes than it has, in whole blocks, end the stream.
    [[nodiscard]] Result<void> put(std::uint32_t length);
    /// Waits for all, and for the medium.
    [[nodiscard]] Result<void> finish();

private:
    struct WEFT_HIDDEN Impl;
    explicit WriteStream(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

} // namespace weft
