// SPDX-License-Identifier: LGPL-2.1-or-later
/// One I/O, checked and prepared: the same for calls, batches and streams.
#pragma once

#include "files.hpp"

#include <weft/engine.hpp>

#include <cstdint>
#include <expected>
#include <memory>
#include <string>

namespace weft::cufile
{

/// What an I/O ends with: bytes, a negative errno, or a negative CUfileOpError.
using Outcome = std::int64_t;

struct Request {
    bool write;
    void* handle;
    const void* base;
    std::size_t size;
    off_t file_offset;
    off_t memory_offset;
    bool in_stream = false; ///< a CUDA stream waits for it, so it must not use CUDA
};

/// An I/O that can begin. It keeps all that the I/O uses.
class Transfer
{
public:
    /// Checks the request, and finds its file, its memory and the registration. The error is an outcome.
    [[nodiscard]] static std::expected<Transfer, Outcome> prepare(const Request& request);

    /// Is there nothing to do: no bytes, or a read at the file's end?
    [[nodiscard]] bool is_empty() const noexcept { return !io_.length; }
    /// Can an engine do all of it at once?
    [[nodiscard]] bool is_whole() const noexcept;
    /// Is it in whole blocks? What is not is staged.
    [[nodiscard]] bool is_in_blocks() const noexcept;
    /// The CUDA context of its memory; nullptr for host memory. An engine stages memory of one context.
    [[nodiscard]] void* context() const noexcept { return place_.buffer->memory.cuda_context(); }

    /// Begins it, if it is whole.
    std::optional<Ticket> begin(Engine& engine, std::uint64_t token, Sink* sink) const noexcept;
    /// Counts what it has moved, and returns its outcome.
    [[nodiscard]] Outcome end(const Completion& completion) const noexcept;
    /// Does it in this thread.
    [[nodiscard]] Outcome run() const;

private:
    Transfer() = default;
    [[nodiscard]] Outcome run_pieces(Engine& engine) const;
    [[nodiscard]] Outcome settle(Engine& engine, Outcome wrote) const;
    [[nodiscard]] Outcome run_range(Engine& engine, std::uint64_t offset, std::uint64_t length) const;
    [[nodiscard]] Outcome write_edge(Engine& engine, std::uint64_t offset, std::uint64_t length) const;
    [[nodiscard]] Outcome write_cached(std::uint64_t offset, std::uint64_t length) const;
    [[nodiscard]] Outcome change_block(Engine& engine, std::uint64_t offset, std::uint64_t length) const;
    [[nodiscard]] std::uint64_t memory_at(std::uint64_t offset) const noexcept;

    bool write_ = false;
    std::shared_ptr<Handle> handle_;
    std::shared_ptr<Opened> opened_;
    Place place_;
    std::shared_ptr<const Registration> registration_;
    Io io_;
};

/// Does the whole request in this thread.
[[nodiscard]] Outcome transfer(const Request& request) noexcept;

/// Can the I/O go directly, to memory that is registered? Then it uses no CUDA.
[[nodiscard]] bool goes_directly(const Request& request);

} // namespace weft::cufile
