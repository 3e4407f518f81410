// SPDX-License-Identifier: LGPL-2.1-or-later
/// Large sequential reads and writes with several in flight, for checkpoints.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <memory>

namespace weft
{

struct StreamOptions {
    std::uint64_t offset = 0; ///< start in the target, in whole blocks
    std::uint64_t length = 0; ///< of the whole stream; 0: to the target's end
    std::uint32_t window = 4; ///< largest number of pieces in flight
    /// Size of a piece in bytes; pieces end at multiples of it. 0: whole stripes, as many as fit in 1 MiB but
    /// at least one. If a stripe exceeds 64 MiB, the limit of a command on registered memory: whole chunks.
    std::uint32_t piece = 0;
};

/// A range of the stream and its place in the memory.
struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t memory_offset = 0;
    std::uint32_t length = 0;
};

/// Reads a range in order, ahead of the caller. The pieces in flight are in the memory; with less than
/// `window` pieces of memory, fewer are in flight. Use it in the engine's thread: in another one it fails
/// with EEXIST, and the destructor waits until the engine's thread has polled. It allocates nothing after
/// create(). The target and the registration have to outlive it and must not be moved.
class WEFT_API ReadStream
{
public:
    /// ENOSPC: the memory is smaller than one piece.
    [[nodiscard]] static Result<ReadStream> create(Engine& engine, const Target& target,
                                                   const Registration& memory,
                                                   const StreamOptions& options = {});
    ReadStream(ReadStream&& other) noexcept;
    ReadStream& operator=(ReadStream&& other) noexcept;
    /// Waits for the reads in flight.
    ~ReadStream();
    /// The next piece. The caller may use it until the next call. Length 0 is the end of the stream. An error
    /// belongs to this piece, and ends the stream: each further call returns it again. EBUSY does not end it:
    /// call the engine's poll() first, because the engine is full of other completions.
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
    /// Waits for the writes in flight. Without finish() the data may not be on the medium.
    ~WriteStream();
    /// A free piece for the caller to fill. Length 0 is the end of the range.
    [[nodiscard]] Result<Piece> next();
    /// Begins to write the piece from next(). A `length` below the piece's, in whole blocks, ends the stream.
    [[nodiscard]] Result<void> put(std::uint32_t length);
    /// Waits for all writes, and until the data is on the medium.
    [[nodiscard]] Result<void> finish();

private:
    struct WEFT_HIDDEN Impl;
    explicit WriteStream(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

} // namespace weft
