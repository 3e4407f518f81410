// SPDX-License-Identifier: LGPL-2.1-or-later
#include "transfer.hpp"

#include "forks.hpp"
#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <unistd.h>
#include <utility>
#include <vector>

namespace weft::cufile
{

namespace
{

/// The engines of a thread, one for each CUDA context.
struct Engines {
    unsigned forks = cufile::forks();
    std::vector<std::pair<void*, Engine>> by_context;
};

Result<Engine*> engine_of(void* context)
{
    thread_local Engines engines;
    // A child's are its parent's, and would fail.
    if (engines.forks != forks())
        engines = Engines{};
    for (auto& [known, engine] : engines.by_context)
        if (known == context)
            return &engine;
    // One I/O at a time; what is staged goes in pieces.
    auto made = Engine::create({.entries = 2});
    if (!made)
        return std::move(made.error());
    engines.by_context.emplace_back(context, *std::move(made));
    return &engines.by_context.back().second;
}

/// Waits for the only I/O of an engine.
Completion wait_for(Engine& engine)
{
    Completion completion;
    while (!engine.wait({&completion, 1}))
        ;
    return completion;
}

Completion run_io(Engine& engine, bool write, const Target& target, const Registration& memory, const Io& io)
{
    const auto began = write ? engine.write(target, memory, io, 0) : engine.read(target, memory, io, 0);
    return began ? wait_for(engine) : Completion{0, -EBUSY, Route::direct};
}

/// What is read or written whole. Pages of the page cache have 4096 bytes: a block of a file within a page
/// that another write changes there could be lost.
std::uint64_t grain_of(const Handle& handle, const Target& target, bool write) noexcept
{
    const std::uint64_t block = target.geometry().block_size;
    return handle.is_block() || !write ? block : std::max<std::uint64_t>(block, 4096);
}

const std::string not_in_blocks = "bytes that are not in whole blocks";

} // namespace

std::expected<Transfer, Outcome> Transfer::prepare(const Request& request)
{
    Transfer made;
    made.write_ = request.write;
    made.handle_ = find_handle(request.handle);
    if (!made.handle_)
        return std::unexpected(-CU_FILE_HANDLE_NOT_REGISTERED);
    auto& handle = *made.handle_;
    if (request.write ? !handle.writes() : !handle.reads())
        return std::unexpected(-CU_FILE_INVALID_FILE_OPEN_FLAG);
    const auto offset = static_cast<std::uint64_t>(request.file_offset);
    constexpr std::uint64_t most = INT64_MAX;
    if (request.file_offset < 0 || request.size > most || request.size > most - offset)
        return std::unexpected(-CU_FILE_INVALID_VALUE);
    made.io_ = {.offset = offset, .memory_offset = 0, .length = request.size};
    if (!request.size)
        return made;
    auto opened = request.write ? handle.writer() : handle.reader(offset + request.size);
    if (!opened) {
        say_once(handle.name(), handle.named(opened.error().text));
        return std::unexpected(-opened.error().code);
    }
    made.opened_ = *std::move(opened);
    const auto& target = made.opened_->target();
    if (!request.write && offset >= target.size())
        made.io_.length = 0;
    if (request.write && handle.is_block() && offset >= target.size())
        return std::unexpected(-ENOSPC);
    auto place = find_buffer(request.base, request.memory_offset, request.size);
    if (!place)
        return std::unexpected(-place.error());
    made.place_ = *std::move(place);
    made.io_.memory_offset = made.place_.offset;
    if (!made.io_.length)
        return made;
    auto registration = made.opened_->registration(*made.place_.buffer, request.write);
    if (!registration) {
        say_once(handle.name(), handle.named(registration.error().text));
        return std::unexpected(registration.error().code == EOPNOTSUPP ? Outcome{-CU_FILE_IO_NOT_SUPPORTED}
                                                                       : Outcome{-registration.error().code});
    }
    made.registration_ = *std::move(registration);
    if (is_strict() && made.registration_->route() != Route::direct) {
        say_once(handle.name(), handle.named(made.opened_->why(*made.registration_)));
        return std::unexpected(-CU_FILE_IO_NOT_SUPPORTED);
    }
    // The parts of a write that are in whole blocks go directly.
    const bool copies_all = !request.write && !made.is_in_blocks();
    // Its sizes and offsets may have changed since it was put into the stream.
    const bool waits_for_itself = request.in_stream && made.context() && !made.is_in_blocks();
    if ((is_strict() && copies_all) || waits_for_itself) {
        say_once(handle.name(), not_in_blocks);
        return std::unexpected(-CU_FILE_IO_NOT_SUPPORTED);
    }
    return made;
}

bool Transfer::is_in_blocks() const noexcept
{
    const auto grain = grain_of(*handle_, opened_->target(), write_);
    return io_.offset % grain == 0 && io_.length % grain == 0;
}

bool Transfer::is_whole() const noexcept
{
    return !write_ || (is_in_blocks() && !handle_->is_synchronous());
}

/// What was written is on the medium then.
Outcome Transfer::settle(Engine& engine, Outcome wrote) const
{
    if (wrote <= 0 || !handle_->is_synchronous())
        return wrote;
    const auto flushed = engine.flush(opened_->target(), 0) ? wait_for(engine).result : -EBUSY;
    return flushed < 0 ? flushed : wrote;
}

std::optional<Ticket> Transfer::begin(Engine& engine, std::uint64_t token, Sink* sink) const noexcept
{
    const auto& target = opened_->target();
    return write_ ? engine.write(target, *registration_, io_, token, sink)
                  : engine.read(target, *registration_, io_, token, sink);
}

Outcome Transfer::end(const Completion& completion) const noexcept
{
    if (completion.result <= 0)
        return completion.result;
    const auto& reason = opened_->why(*registration_);
    static const std::string unaligned = "bytes that are not in whole blocks, or memory that is not aligned";
    count(completion.route, static_cast<std::uint64_t>(completion.result), handle_->name(),
          reason.empty() && completion.route == Route::staged ? unaligned : handle_->named(reason));
    return completion.result;
}

std::uint64_t Transfer::memory_at(std::uint64_t offset) const noexcept
{
    return io_.memory_offset + (offset - io_.offset);
}

/// Whole blocks, or a read of any bytes.
Outcome Transfer::run_range(Engine& engine, std::uint64_t offset, std::uint64_t length) const
{
    const Io io{.offset = offset, .memory_offset = memory_at(offset), .length = length};
    return end(run_io(engine, write_, opened_->target(), *registration_, io));
}

/// A part of a block of a regular file, or what is behind its end.
Outcome Transfer::write_cached(std::uint64_t offset, std::uint64_t length) const
{
    const int fd = handle_->cached_fd();
    if (fd < 0)
        return fd;
    std::vector<std::byte> bytes(length);
    if (const int wrong = place_.buffer->memory.copy_out(memory_at(offset), bytes.data(), length))
        return -std::abs(wrong);
    std::uint64_t done = 0;
    while (done < length) {
        const auto wrote =
            ::pwrite(fd, bytes.data() + done, length - done, static_cast<off_t>(offset + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return done ? static_cast<Outcome>(done) : -errno;
        done += static_cast<std::uint64_t>(wrote);
    }
    return static_cast<Outcome>(done);
}

/// A part of a block of a device: the block is read, changed and written, past the page cache.
Outcome Transfer::change_block(Engine& engine, std::uint64_t offset, std::uint64_t length) const
{
    const auto& target = opened_->target();
    const auto block = std::uint64_t{target.geometry().block_size};
    if (!handle_->reads())
        return -CU_FILE_INVALID_FILE_OPEN_FLAG;
    auto memory = Memory::allocate(block);
    if (!memory)
        return -memory.error().code;
    const auto registration = target.add(*memory, {.staged = true});
    if (!registration)
        return -registration.error().code;
    const Io io{.offset = offset / block * block, .memory_offset = 0, .length = block};
    const std::lock_guard held(edges());
    const auto read = run_io(engine, false, target, *registration, io).result;
    if (read != static_cast<Outcome>(block))
        return read < 0 ? read : -ENOSPC;
    if (const int wrong =
            place_.buffer->memory.copy_out(memory_at(offset), memory->data() + offset % block, length))
        return -std::abs(wrong);
    const auto wrote = run_io(engine, true, target, *registration, io).result;
    return wrote < 0 ? wrote : static_cast<Outcome>(length);
}

Outcome Transfer::write_edge(Engine& engine, std::uint64_t offset, std::uint64_t length) const
{
    if (is_strict()) {
        say_once(handle_->name(), not_in_blocks);
        return -CU_FILE_IO_NOT_SUPPORTED;
    }
    const auto wrote =
        handle_->is_block() ? change_block(engine, offset, length) : write_cached(offset, length);
    if (wrote > 0)
        count(Route::staged, static_cast<std::uint64_t>(wrote), handle_->name(), not_in_blocks);
    return wrote;
}

Outcome Transfer::run() const
{
    if (is_empty())
        return 0;
    const auto engine = engine_of(context());
    if (!engine) {
        say_once("engine", engine.error().text);
        return -CU_FILE_PLATFORM_NOT_SUPPORTED;
    }
    if (is_whole())
        return run_range(**engine, io_.offset, io_.length);
    return settle(**engine, run_pieces(**engine));
}

/// Whole blocks directly, and the parts of blocks.
Outcome Transfer::run_pieces(Engine& engine) const
{
    const auto grain = grain_of(*handle_, opened_->target(), true);
    const auto end = io_.offset + io_.length;
    for (auto at = io_.offset; at < end;) {
        // The part of a block, or all whole blocks.
        const bool whole = at % grain == 0 && end - at >= grain;
        const auto length = whole ? (end - at) / grain * grain : std::min(grain - at % grain, end - at);
        const auto wrote = whole ? run_range(engine, at, length) : write_edge(engine, at, length);
        const auto before = static_cast<Outcome>(at - io_.offset);
        if (wrote < 0)
            return before ? before : wrote;
        at += static_cast<std::uint64_t>(wrote);
        if (static_cast<std::uint64_t>(wrote) < length)
            return static_cast<Outcome>(at - io_.offset);
    }
    return static_cast<Outcome>(io_.length);
}

Outcome transfer(const Request& request) noexcept
{
    try {
        const auto prepared = Transfer::prepare(request);
        return prepared ? prepared->run() : prepared.error();
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
}

bool goes_directly(const Request& request)
{
    const auto found = find_handle(request.handle);
    if (!found || (request.write ? !found->writes() : !found->reads()))
        return false;
    const auto place = find_buffer(request.base, 0, 1);
    if (!place || !place->buffer->number)
        return false;
    const auto opened = request.write ? found->writer() : found->reader(0);
    if (!opened)
        return false;
    const auto registration = (*opened)->registration(*place->buffer, request.write);
    if (!registration || (*registration)->route() != Route::direct)
        return false;
    // Copies of host memory need no CUDA.
    const auto grain = grain_of(*found, (*opened)->target(), request.write);
    return !place->buffer->memory.cuda_context() ||
           (static_cast<std::uint64_t>(request.file_offset) % grain == 0 && request.size % grain == 0);
}

} // namespace weft::cufile
