// SPDX-License-Identifier: LGPL-2.1-or-later
/// weft.h, implemented with the C++ classes. No exception leaves these functions.
#include <weft/engine.hpp>
#include <weft/weft.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

// The layout of the interface that the soname stands for.
static_assert(sizeof(weft_error) == 516 && sizeof(weft_geometry) == 64 && sizeof(weft_completion) == 32);

struct weft_volume {
    weft::Volume volume;
};
struct weft_file {
    weft::File file;
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
        explain(error, ENOMEM, "there is no memory");
    }
    return nullptr;
}

weft::Result<weft::Policy> policy_of(unsigned int policy)
{
    constexpr unsigned int known =
        WEFT_ALLOW_VMAP | WEFT_ALLOW_BOUNCE | WEFT_ALLOW_STAGED | WEFT_READ_ONLY | WEFT_PERSISTENT;
    if (policy & ~known)
        return std::unexpected(weft::Error{EINVAL, "policy " + std::to_string(policy) + " has bits beyond " +
                                                       std::to_string(known) +
                                                       ": this libweft knows no more of enum weft_policy"});
    return weft::Policy{.vmap = (policy & WEFT_ALLOW_VMAP) != 0,
                        .bounce = (policy & WEFT_ALLOW_BOUNCE) != 0,
                        .staged = (policy & WEFT_ALLOW_STAGED) != 0,
                        .read_only = (policy & WEFT_READ_ONLY) != 0,
                        .persistent = (policy & WEFT_PERSISTENT) != 0};
}

weft::Result<weft::Registration> registered(const weft::Target& target, const weft_memory* memory,
                                            unsigned int policy)
{
    const auto known = policy_of(policy);
    if (!known)
        return std::unexpected(known.error());
    return target.add(memory->memory, *known);
}

void show(const weft::Geometry& from, weft_geometry* to)
{
    *to = {from.size, from.block_size, from.alignment, from.chunk_size, from.member_count, {}};
}

int begun(const std::optional<weft::Ticket>& ticket)
{
    return ticket ? 0 : -EBUSY;
}

size_t delivered(weft_engine* engine, weft_completion* completions, size_t count, bool wait) noexcept
{
    weft::Completion some[64];
    size_t total = 0;
    while (total < count) {
        const std::span<weft::Completion> room(some, std::min(count - total, std::size(some)));
        const bool first = wait && !total;
        const auto got = first ? engine->engine.wait(room) : engine->engine.poll(room);
        for (size_t i = 0; i < got; i++)
            completions[total++] = {
                some[i].token, some[i].result, static_cast<weft_route>(some[i].route), {}};
        // A step that completes no I/O does not count: wait again.
        if (got < room.size() && !(first && !got && engine->engine.in_flight()))
            break;
    }
    return total;
}

} // namespace

#pragma GCC visibility push(default)

extern "C" {

weft_volume* weft_volume_open(const char* name, weft_access access, weft_error* error)
{
    const auto bits = static_cast<unsigned>(access);
    const auto claim = bits & WEFT_SHARED ? weft::Claim::shared : weft::Claim::exclusive;
    // Map unknown bits to an invalid access, which open() refuses.
    const auto known = static_cast<weft::Access>(bits > 7 ? 0 : bits & 3);
    return made<weft_volume>(error, [&] { return weft::Volume::open(name, known, claim); });
}

void weft_volume_close(weft_volume* volume)
{
    delete volume;
}

void weft_volume_geometry(const weft_volume* volume, weft_geometry* geometry)
{
    show(volume->volume.geometry(), geometry);
}

weft_file* weft_file_open(const weft_volume* volume, const char* path, int strict, weft_error* error)
{
    return made<weft_file>(error, [&] { return weft::File::open(volume->volume, path, strict != 0); });
}

void weft_file_close(weft_file* file)
{
    delete file;
}

void weft_file_geometry(const weft_file* file, weft_geometry* geometry)
{
    show(file->file.geometry(), geometry);
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

weft_registration* weft_volume_add(const weft_volume* volume, const weft_memory* memory, unsigned int policy,
                                   weft_error* error)
{
    return made<weft_registration>(error, [&] { return registered(volume->volume, memory, policy); });
}

weft_registration* weft_file_add(const weft_file* file, const weft_memory* memory, unsigned int policy,
                                 weft_error* error)
{
    return made<weft_registration>(error, [&] { return registered(file->file, memory, policy); });
}

void weft_registration_end(weft_registration* registration)
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

weft_engine* weft_engine_create(unsigned int entries, weft_error* error)
{
    return made<weft_engine>(error, [&] { return weft::Engine::create({.entries = entries}); });
}

int weft_engine_attach(weft_engine* engine, const weft_volume* volume)
{
    try {
        const auto attached = engine->engine.attach(volume->volume);
        return attached ? 0 : -attached.error().code;
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
}

void weft_engine_detach(weft_engine* engine, const weft_volume* volume)
{
    engine->engine.detach(volume->volume);
}

void weft_engine_destroy(weft_engine* engine)
{
    delete engine;
}

int weft_read(weft_engine* engine, const weft_volume* volume, const weft_registration* memory,
              uint64_t offset, uint64_t memory_offset, uint32_t length, uint64_t token)
{
    return begun(
        engine->engine.read(volume->volume, memory->registration, {offset, memory_offset, length}, token));
}

int weft_write(weft_engine* engine, const weft_volume* volume, const weft_registration* memory,
               uint64_t offset, uint64_t memory_offset, uint32_t length, uint64_t token)
{
    return begun(
        engine->engine.write(volume->volume, memory->registration, {offset, memory_offset, length}, token));
}

int weft_read_file(weft_engine* engine, const weft_file* file, const weft_registration* memory,
                   uint64_t offset, uint64_t memory_offset, uint32_t length, uint64_t token)
{
    return begun(
        engine->engine.read(file->file, memory->registration, {offset, memory_offset, length}, token));
}

int weft_flush(weft_engine* engine, const weft_volume* volume, uint64_t token)
{
    return begun(engine->engine.flush(volume->volume, token));
}

int weft_submit(weft_engine* engine)
{
    return engine->engine.submit();
}

size_t weft_poll(weft_engine* engine, weft_completion* completions, size_t count)
{
    return delivered(engine, completions, count, false);
}

size_t weft_wait(weft_engine* engine, weft_completion* completions, size_t count)
{
    return delivered(engine, completions, count, true);
}

} // extern "C"

#pragma GCC visibility pop
