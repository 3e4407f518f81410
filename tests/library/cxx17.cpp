// SPDX-License-Identifier: GPL-2.0-only
/// A program in C++17: all headers, and what a user calls most. It is compiled, and not run.
#include <weft/gather.hpp>
#include <weft/new_file.hpp>
#include <weft/stream.hpp>
#include <weft/weft.h>

#include <cerrno>
#include <vector>

static_assert(__cplusplus == 201703L);

weft::Result<std::uint64_t> read_and_save(const char* from, const char* to);

weft::Result<std::uint64_t> read_and_save(const char* from, const char* to)
{
    const auto source = weft::open(from);
    if (!source)
        return source.error();
    const auto memory = weft::Memory::allocate(source->size());
    if (!memory)
        return memory.error();
    weft::Policy policy;
    policy.staged = true;
    const auto registration = source->add(*memory, policy);
    auto engine = weft::Engine::create();
    if (!registration || !engine)
        return registration ? engine.error() : registration.error();
    weft::Io io;
    io.length = source->size();
    engine->read(*source, *registration, io, 1);
    weft::Completion done;
    engine->wait({&done, 1});

    auto gather = weft::Gather::create(*engine);
    std::vector<std::int32_t> results(1);
    const weft::Extent extents[] = {{0, 0, 4096, 0}};
    if (!gather || !gather->run(*source, *registration, extents, results))
        return weft::Error{EIO, "a gather has failed"};

    auto file = weft::NewFile::create(to, source->size());
    if (!file)
        return file.error();
    const auto lent = file->add(*memory, policy);
    if (!lent)
        return lent.error();
    if (auto written = file->write(*engine, *lent, 0, 0, source->size()); !written)
        return written.error();
    if (auto finished = file->finish(); !finished)
        return finished.error();
    return source->size();
}
