// SPDX-License-Identifier: LGPL-2.1-or-later
/// weft.h, implemented with the C++ classes. No exception leaves these functions.
#include <weft/gather.hpp>
#include <weft/new_file.hpp>
#include <weft/stream.hpp>
#include <weft/weft.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <isa-l/crc.h>
#include <new>
#include <variant>

// The layout of the interface that the soname stands for.
static_assert(sizeof(void*) != 8 ||
              (sizeof(weft_error) == 516 && sizeof(weft_geometry) == 64 && sizeof(weft_completion) == 32 &&
               sizeof(weft_engine_options) == 32 && sizeof(weft_io) == 48 && sizeof(weft_ticket) == 8 &&
               sizeof(weft_extent) == 24 && sizeof(weft_gather_options) == 24 &&
               sizeof(weft_gathered) == 32 && sizeof(weft_records) == 24 &&
               sizeof(weft_stream_options) == 32 && sizeof(weft_piece) == 24));
// Fields that are passed on without a copy.
static_assert(sizeof(weft_extent) == sizeof(weft::Extent) &&
              offsetof(weft_extent, memory_offset) == offsetof(weft::Extent, memory_offset) &&
              offsetof(weft_extent, length) == offsetof(weft::Extent, length) &&
              offsetof(weft_extent, order) == offsetof(weft::Extent, order));

struct weft_target {
    std::variant<weft::Target, weft::NewFile> object;
    [[nodiscard]] const weft::Target& get() const
    {
        const auto* created = std::get_if<weft::NewFile>(&object);
        return created ? *created : *std::get_if<weft::Target>(&object);
    }
};
struct weft_memory {
    weft::Memory memory;
};
struct weft_registration {
    weft::Registration registration;
};
struct weft_engine {
    weft::Engine engine;
};
struct weft_gather {
    weft::Gather gather;
};
struct weft_read_stream {
    weft::ReadStream stream;
};
struct weft_write_stream {
    weft::WriteStream stream;
};

namespace
{

void explain(weft_error* error, int code, const char* text)
{
    if (!error)
        return;
    error->code = code;
    std::strncpy(error->text, text, sizeof(error->text) - 1);
    error->text[sizeof(error->text) - 1] = 0;
}

/// The result of `make` as an object for C; on failure nullptr and the error.
template <typename Object, typename Make>
Object* made(weft_error* error, Make make) noexcept
{
    try {
        auto result = make();
        if (result)
            return new Object{std::move(*result)};
        explain(error, result.error().code, result.error().text.c_str());
    } catch (const std::bad_alloc&) {
        explain(error, ENOMEM, "out of memory");
    }
    return nullptr;
}

/// The same for a call that makes nothing: 0 or a negative errno, and what it gives for `take`.
template <typename Call, typename Take>
int done(weft_error* error, Call call, Take take) noexcept
{
    try {
        auto result = call();
        if (result) {
            take(result);
            return 0;
        }
        explain(error, result.error().code, result.error().text.c_str());
        return -result.error().code;
    } catch (const std::bad_alloc&) {
        explain(error, ENOMEM, "out of memory");
        return -ENOMEM;
    }
}

weft::Result<weft::Policy> policy_of(unsigned int policy)
{
    constexpr unsigned int known =
        WEFT_ALLOW_VMAP | WEFT_ALLOW_BOUNCE | WEFT_ALLOW_STAGED | WEFT_READ_ONLY | WEFT_PERSISTENT;
    if (policy & ~known)
        return std::unexpected(weft::Error{
            EINVAL, "policy " + std::to_string(policy) + " has bits beyond " + std::to_string(known) +
                        ", the bits of enum weft_policy that this libweft knows"});
    return weft::Policy{.vmap = (policy & WEFT_ALLOW_VMAP) != 0,
                        .bounce = (policy & WEFT_ALLOW_BOUNCE) != 0,
                        .staged = (policy & WEFT_ALLOW_STAGED) != 0,
                        .read_only = (policy & WEFT_READ_ONLY) != 0,
                        .persistent = (policy & WEFT_PERSISTENT) != 0};
}

/// A struct of options as this libweft knows it, from one of another size. A size below that of its first
/// field is a caller's mistake.
template <typename Options>
int known_part(const Options* given, Options& known) noexcept
{
    known = {};
    if (!given)
        return 0;
    if (given->size < 2 * sizeof(given->size))
        return -EINVAL;
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (auto i = sizeof(known); i < given->size; i++)
        if (bytes[i])
            return -E2BIG;
    std::memcpy(&known, given, std::min(given->size, sizeof(known)));
    return 0;
}

template <typename Options>
weft::Result<Options> options_of(const Options* given)
{
    Options known;
    switch (known_part(given, known)) {
    case 0:
        return known;
    case -E2BIG:
        return std::unexpected(weft::Error{E2BIG, "the options have " + std::to_string(given->size) +
                                                      " bytes, and this libweft knows " +
                                                      std::to_string(sizeof(Options)) + " of them"});
    default:
        return std::unexpected(weft::Error{EINVAL, "the field size of the options is not set"});
    }
}

template <typename Number>
void set_unless_zero(Number& option, std::uint64_t given)
{
    if (given)
        option = static_cast<Number>(given);
}

weft::Result<weft::EngineOptions> engine_options(const weft_engine_options* given)
{
    const auto known = options_of(given);
    if (!known)
        return std::unexpected(known.error());
    constexpr std::uint32_t flags =
        WEFT_ENGINE_SQPOLL | WEFT_ENGINE_IOPOLL | WEFT_ENGINE_ANY_THREAD | WEFT_ENGINE_NO_STAGING;
    if (known->flags & ~flags)
        return std::unexpected(weft::Error{EINVAL, "engine flags " + std::to_string(known->flags) +
                                                       " have bits beyond " + std::to_string(flags) +
                                                       ", the flags that this libweft knows"});
    weft::EngineOptions options;
    set_unless_zero(options.entries, known->entries);
    options.sqpoll = known->flags & WEFT_ENGINE_SQPOLL;
    options.iopoll = known->flags & WEFT_ENGINE_IOPOLL;
    options.any_thread = known->flags & WEFT_ENGINE_ANY_THREAD;
    set_unless_zero(options.staging_slots, known->staging_slots);
    if (known->flags & WEFT_ENGINE_NO_STAGING)
        options.staging_slots = 0;
    set_unless_zero(options.staging_bytes, known->staging_bytes);
    options.stream = known->stream;
    return options;
}

weft::Result<weft::StreamOptions> stream_options(const weft_stream_options* given)
{
    const auto known = options_of(given);
    if (!known)
        return std::unexpected(known.error());
    weft::StreamOptions options;
    options.offset = known->offset;
    options.length = known->length;
    set_unless_zero(options.window, known->window);
    options.piece = known->piece;
    return options;
}

/// A stream with these options, or nullptr.
template <typename Object, typename Stream>
Object* made_stream(weft_engine* engine, const weft_target* target, const weft_registration* memory,
                    const weft_stream_options* options, weft_error* error) noexcept
{
    return made<Object>(error, [&]() -> weft::Result<Stream> {
        const auto known = stream_options(options);
        if (!known)
            return std::unexpected(known.error());
        return Stream::create(engine->engine, target->get(), memory->registration, *known);
    });
}

weft::Access access_of(unsigned int access)
{
    // Map unknown bits to an invalid access, which open() refuses.
    return static_cast<weft::Access>(access > 7 ? 0 : access & 3);
}

weft::Claim claim_of(unsigned int access)
{
    return access & WEFT_SHARED ? weft::Claim::shared : weft::Claim::exclusive;
}

/// Calls a function with the new file that a target is.
template <typename Call>
int on_new_file(weft_target* file, weft_error* error, Call call) noexcept
{
    return done(
        error,
        [&]() -> weft::Result<void> {
            if (auto* created = std::get_if<weft::NewFile>(&file->object))
                return call(*created);
            return weft::Error{EINVAL, file->get().path() + " was not made by weft_file_create()"};
        },
        [](const auto&) {});
}

void show(const weft::Piece& from, weft_piece* to)
{
    *to = {from.offset, from.memory_offset, from.length, 0};
}

void show(const weft::Gathered& from, weft_gathered* to)
{
    if (to)
        *to = {from.bytes, from.failed, from.reads, static_cast<weft_route>(from.route), {}};
}

int begun(const std::optional<weft::Ticket>& ticket, weft_ticket* to)
{
    if (ticket && to)
        *to = {ticket->slot, ticket->generation};
    return ticket ? 0 : -EBUSY;
}

template <typename Method>
int begin(Method method, weft_engine* engine, const weft_target* target, const weft_registration* memory,
          const weft_io* io, weft_ticket* ticket) noexcept
{
    weft_io known;
    if (!io)
        return -EINVAL;
    if (const int wrong = known_part(io, known))
        return wrong;
    weft::Io range{known.offset, known.memory_offset, known.length};
    // One that has passed already ends with ETIME, as a negative one does.
    if (known.deadline)
        range.deadline = std::chrono::nanoseconds(known.deadline);
    return begun((engine->engine.*method)(target->get(), memory->registration, range, known.token, nullptr),
                 ticket);
}

size_t delivered(weft_engine* engine, weft_completion* completions, size_t count, bool wait,
                 std::int64_t timeout) noexcept
{
    using clock = std::chrono::steady_clock;
    weft::Completion some[64];
    size_t total = 0;
    std::optional<std::chrono::nanoseconds> left;
    if (wait && timeout >= 0)
        left = std::chrono::nanoseconds(timeout);
    constexpr std::chrono::nanoseconds most = std::chrono::years(100);
    const auto until = clock::now() + std::min(left.value_or(most), most);
    while (total < count) {
        const weft::Span<weft::Completion> room(some, std::min(count - total, std::size(some)));
        const bool first = wait && !total;
        const auto got = first ? engine->engine.wait(room, left) : engine->engine.poll(room);
        for (size_t i = 0; i < got; i++)
            completions[total++] = {
                some[i].token, some[i].result, static_cast<weft_route>(some[i].route), {}};
        if (left)
            left = until - clock::now();
        // A step that completes no I/O does not count: wait again, unless only another thread can.
        const bool again = first && !got && engine->engine.in_flight() && (!left || left->count() > 0) &&
                           engine->engine.submit() != -EEXIST;
        if (got < room.size() && !again)
            break;
    }
    return total;
}

} // namespace

#pragma GCC visibility push(default)

extern "C" {

const char* weft_route_name(weft_route route)
{
    return weft::name_of(static_cast<weft::Route>(route));
}

weft_target* weft_open(const char* name, unsigned int access, weft_error* error)
{
    return made<weft_target>(error, [&] { return weft::open(name, access_of(access), claim_of(access)); });
}

weft_target* weft_volume_open(const char* name, unsigned int access, weft_error* error)
{
    return made<weft_target>(error,
                             [&] { return weft::Volume::open(name, access_of(access), claim_of(access)); });
}

weft_target* weft_file_open(const weft_target* volume, const char* path, int strict, weft_error* error)
{
    return made<weft_target>(error, [&] { return weft::File::open(volume->get(), path, strict != 0); });
}

weft_target* weft_file_create(const char* path, uint64_t size, weft_error* error)
{
    return made<weft_target>(error, [&] { return weft::NewFile::create(path, size); });
}

int weft_file_write(weft_engine* engine, weft_target* file, const weft_registration* memory, uint64_t offset,
                    uint64_t memory_offset, uint64_t length, weft_error* error)
{
    return on_new_file(file, error, [&](weft::NewFile& created) {
        return created.write(engine->engine, memory->registration, offset, memory_offset, length);
    });
}

int weft_file_finish(weft_target* file, weft_error* error)
{
    return on_new_file(file, error, [](weft::NewFile& created) { return created.finish(); });
}

void weft_close(weft_target* target)
{
    delete target;
}

void weft_target_geometry(const weft_target* target, weft_geometry* geometry)
{
    const auto& from = target->get().geometry();
    *geometry = {target->get().size_now(), from.block_size,   from.alignment,
                 from.chunk_size,          from.member_count, {}};
}

const char* weft_target_reason(const weft_target* target)
{
    return target->get().reason().c_str();
}

weft_memory* weft_memory_allocate(size_t bytes, weft_error* error)
{
    return made<weft_memory>(error, [&] { return weft::Memory::allocate(bytes); });
}

weft_memory* weft_memory_allocate_udmabuf(size_t bytes, weft_error* error)
{
    return made<weft_memory>(error, [&] { return weft::Memory::allocate_udmabuf(bytes); });
}

weft_memory* weft_memory_allocate_cuda(int gpu, size_t bytes, weft_error* error)
{
    return made<weft_memory>(error, [&] { return weft::Memory::allocate_cuda(gpu, bytes); });
}

weft_memory* weft_memory_of(void* data, size_t bytes, weft_error* error)
{
    return made<weft_memory>(error, [&] { return weft::Memory::of(data, bytes); });
}

weft_memory* weft_memory_from_dmabuf(int fd, uint64_t offset, size_t bytes, weft_error* error)
{
    return made<weft_memory>(error, [&] { return weft::Memory::from_dmabuf(fd, offset, bytes); });
}

weft_memory* weft_memory_from_cuda(uint64_t device_pointer, size_t bytes, weft_error* error)
{
    return made<weft_memory>(error, [&] { return weft::Memory::from_cuda(device_pointer, bytes); });
}

void weft_memory_free(weft_memory* memory)
{
    delete memory;
}

void* weft_memory_data(const weft_memory* memory)
{
    return memory->memory.data();
}

uint64_t weft_memory_device_pointer(const weft_memory* memory)
{
    return memory->memory.device_pointer();
}

size_t weft_memory_size(const weft_memory* memory)
{
    return memory->memory.size();
}

int weft_memory_copy_in(const weft_memory* memory, size_t offset, const void* from, size_t bytes)
{
    return -memory->memory.copy_in(offset, from, bytes);
}

int weft_memory_copy_out(const weft_memory* memory, size_t offset, void* to, size_t bytes)
{
    return -memory->memory.copy_out(offset, to, bytes);
}

weft_registration* weft_register(const weft_target* target, const weft_memory* memory, unsigned int policy,
                                 weft_error* error)
{
    return made<weft_registration>(error, [&]() -> weft::Result<weft::Registration> {
        const auto known = policy_of(policy);
        if (!known)
            return std::unexpected(known.error());
        return target->get().add(memory->memory, *known);
    });
}

void weft_unregister(weft_registration* registration)
{
    delete registration;
}

weft_route weft_registration_route(const weft_registration* registration)
{
    return static_cast<weft_route>(registration->registration.route());
}

const char* weft_registration_reason(const weft_registration* registration)
{
    return registration->registration.reason().c_str();
}

weft_engine* weft_engine_create(const weft_engine_options* options, weft_error* error)
{
    return made<weft_engine>(error, [&]() -> weft::Result<weft::Engine> {
        const auto known = engine_options(options);
        if (!known)
            return std::unexpected(known.error());
        return weft::Engine::create(*known);
    });
}

int weft_engine_attach(weft_engine* engine, const weft_target* target)
{
    return done(
        nullptr, [&] { return engine->engine.attach(target->get()); }, [](const auto&) {});
}

void weft_engine_detach(weft_engine* engine, const weft_target* target)
{
    engine->engine.detach(target->get());
}

int weft_engine_event_fd(weft_engine* engine)
{
    int fd = -1;
    const int wrong = done(
        nullptr, [&] { return engine->engine.event_fd(); }, [&](const auto& got) { fd = *got; });
    return wrong ? wrong : fd;
}

void weft_engine_destroy(weft_engine* engine)
{
    delete engine;
}

int weft_read(weft_engine* engine, const weft_target* target, const weft_registration* memory,
              const weft_io* io, weft_ticket* ticket)
{
    return begin(&weft::Engine::read, engine, target, memory, io, ticket);
}

int weft_write(weft_engine* engine, const weft_target* target, const weft_registration* memory,
               const weft_io* io, weft_ticket* ticket)
{
    return begin(&weft::Engine::write, engine, target, memory, io, ticket);
}

int weft_flush(weft_engine* engine, const weft_target* target, uint64_t token)
{
    return begun(engine->engine.flush(target->get(), token), nullptr);
}

void weft_cancel(weft_engine* engine, weft_ticket ticket)
{
    engine->engine.cancel({ticket.slot, ticket.generation});
}

int weft_submit(weft_engine* engine)
{
    return engine->engine.submit();
}

size_t weft_poll(weft_engine* engine, weft_completion* completions, size_t count)
{
    return delivered(engine, completions, count, false, 0);
}

size_t weft_wait(weft_engine* engine, weft_completion* completions, size_t count, int64_t timeout)
{
    return delivered(engine, completions, count, true, timeout);
}

weft_gather* weft_gather_create(weft_engine* engine, const weft_gather_options* options, weft_error* error)
{
    return made<weft_gather>(error, [&]() -> weft::Result<weft::Gather> {
        const auto known = options_of(options);
        if (!known)
            return std::unexpected(known.error());
        weft::GatherOptions wanted;
        set_unless_zero(wanted.capacity, known->capacity);
        set_unless_zero(wanted.depth, known->depth);
        set_unless_zero(wanted.largest, known->largest);
        return weft::Gather::create(engine->engine, wanted);
    });
}

int weft_gather_run(weft_gather* gather, const weft_target* target, const weft_registration* memory,
                    const weft_extent* extents, size_t count, int32_t* results, weft_gathered* gathered,
                    weft_error* error)
{
    return done(
        error,
        [&] {
            return gather->gather.run(target->get(), memory->registration,
                                      {reinterpret_cast<const weft::Extent*>(extents), count},
                                      {results, count});
        },
        [&](const auto& got) { show(*got, gathered); });
}

int weft_gather_run_records(weft_gather* gather, const weft_target* target, const weft_registration* memory,
                            const weft_records* records, const int64_t* numbers, size_t count,
                            uint64_t memory_offset, int32_t* results, weft_gathered* gathered,
                            weft_error* error)
{
    return done(
        error,
        [&]() -> weft::Result<weft::Gathered> {
            if (records->reserved)
                return std::unexpected(weft::Error{EINVAL, "the reserved field of weft_records is not 0"});
            return gather->gather.run(target->get(), memory->registration,
                                      weft::Records{records->offset, records->count, records->length},
                                      {numbers, count}, memory_offset, {results, count});
        },
        [&](const auto& got) { show(*got, gathered); });
}

void weft_gather_destroy(weft_gather* gather)
{
    delete gather;
}

uint32_t weft_crc32c(uint32_t crc, const void* data, size_t bytes)
{
    // ISA-L's parameter is not const, but it does not write to the buffer. Its length is an int.
    auto* at = static_cast<unsigned char*>(const_cast<void*>(data));
    constexpr std::size_t most = std::size_t{1} << 30;
    auto state = ~crc;
    for (; bytes; bytes -= std::min(bytes, most)) {
        const auto piece = std::min(bytes, most);
        state = crc32_iscsi(at, static_cast<int>(piece), state);
        at += piece;
    }
    return ~state;
}

size_t weft_crc32c_compare(const void* data, const uint64_t* offsets, const uint64_t* lengths,
                           const uint32_t* sums, size_t count)
{
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < count; i++)
        if (weft_crc32c(0, bytes + offsets[i], lengths[i]) != sums[i])
            return i;
    return count;
}

weft_read_stream* weft_read_stream_create(weft_engine* engine, const weft_target* target,
                                          const weft_registration* memory, const weft_stream_options* options,
                                          weft_error* error)
{
    return made_stream<weft_read_stream, weft::ReadStream>(engine, target, memory, options, error);
}

int weft_read_stream_next(weft_read_stream* stream, weft_piece* piece, weft_error* error)
{
    return done(
        error, [&] { return stream->stream.next(); }, [&](const auto& got) { show(*got, piece); });
}

void weft_read_stream_end(weft_read_stream* stream)
{
    delete stream;
}

weft_write_stream* weft_write_stream_create(weft_engine* engine, const weft_target* target,
                                            const weft_registration* memory,
                                            const weft_stream_options* options, weft_error* error)
{
    return made_stream<weft_write_stream, weft::WriteStream>(engine, target, memory, options, error);
}

int weft_write_stream_next(weft_write_stream* stream, weft_piece* piece, weft_error* error)
{
    return done(
        error, [&] { return stream->stream.next(); }, [&](const auto& got) { show(*got, piece); });
}

int weft_write_stream_put(weft_write_stream* stream, uint32_t length, weft_error* error)
{
    return done(
        error, [&] { return stream->stream.put(length); }, [](const auto&) {});
}

int weft_write_stream_finish(weft_write_stream* stream, weft_error* error)
{
    return done(
        error, [&] { return stream->stream.finish(); }, [](const auto&) {});
}

void weft_write_stream_end(weft_write_stream* stream)
{
    delete stream;
}

} // extern "C"

#pragma GCC visibility pop
