// SPDX-License-Identifier: GPL-2.0-only
#include "measure.hpp"

#include <shim/cuda.hpp>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <unistd.h>

namespace bench
{

namespace
{

using weft::shim::cuda;
/// The targets of the job: a volume, and a file on it if one is given.
struct Opened {
    std::optional<weft::Volume> volume;
    std::optional<weft::File> file;
    [[nodiscard]] const weft::Target& target() const
    {
        return file ? static_cast<const weft::Target&>(*file) : *volume;
    }
};

weft::Result<Opened> open_target(const Job& job)
{
    Opened opened;
    auto volume = weft::Volume::open(job.source, job.write ? weft::Access::read_write : weft::Access::read);
    if (!volume)
        return std::unexpected(volume.error());
    opened.volume = std::move(*volume);
    if (!job.file.empty()) {
        auto file = weft::File::open(*opened.volume, job.file, false);
        if (!file)
            return std::unexpected(file.error());
        opened.file = std::move(*file);
    }
    return opened;
}

} // namespace

std::uint32_t Figures::latency(double part) const
{
    if (latencies.empty())
        return 0;
    const auto at = static_cast<std::size_t>(part * static_cast<double>(latencies.size()));
    return latencies[std::min(at, latencies.size() - 1)];
}

Figures run_engine(const Job& job, const weft::Memory& memory, const std::string& name,
                   const Progress& progress)
{
    const auto opened = open_target(job);
    if (!opened)
        return refused(name, opened.error().text);
    const auto& target = opened->target();
    const bool staged = name == "staged";
    auto registration = target.add(memory, {.direct = !staged, .staged = staged});
    if (!registration)
        return refused(name, registration.error().text);
    auto engine = weft::Engine::create({.entries = job.depth,
                                        .staging_slots = staged ? job.depth : 0,
                                        .staging_bytes = (job.piece + 4095) / 4096 * 4096});
    if (!engine)
        return refused(name, engine.error().text);
    static_cast<void>(engine->attach(target));

    Figures figures;
    figures.name = name;
    figures.route = weft::name_of(registration->route());
    const auto pieces = pieces_of(job);
    std::vector<clock::time_point> begun(job.depth);
    std::vector<std::uint32_t> free(job.depth);
    for (std::uint32_t i = 0; i < job.depth; i++)
        free[i] = i;
    std::vector<weft::Completion> done(job.depth);
    Watch watch(figures, pieces);
    for (std::uint64_t sent = 0, back = 0; back < pieces;) {
        for (; sent < pieces && !free.empty(); sent++) {
            const auto slot = free.back();
            free.pop_back();
            begun[slot] = clock::now();
            const weft::Io io{job.offset + sent * job.piece, std::uint64_t{slot} * job.piece,
                              length_of(job, sent)};
            if (job.write)
                engine->write(target, *registration, io, slot);
            else
                engine->read(target, *registration, io, slot);
        }
        const auto count = engine->wait(done);
        for (std::size_t i = 0; i < count; i++) {
            if (!done[i].result)
                return refused(name, path_of(job) + ": it ends early");
            if (done[i].result < 0)
                return refused(name, std::string("an I/O failed: ") +
                                         std::strerror(static_cast<int>(-done[i].result)));
            const auto slot = static_cast<std::uint32_t>(done[i].token);
            figures.latencies.push_back(microseconds_since(begun[slot]));
            figures.bytes += static_cast<std::uint64_t>(done[i].result);
            free.push_back(slot);
            back++;
        }
        progress(figures.bytes);
    }
    watch.finish();
    return figures;
}

Figures run_pread(const Job& job, const weft::Memory& memory, const Progress& progress)
{
    const std::string name = "pread";
    const auto path = path_of(job);
    auto fd = open_source(job, true);
    if (!fd && fd.error() == EINVAL)
        fd = open_source(job, false);
    if (!fd)
        return refused(name, path + ": " + std::strerror(fd.error()));
    // One piece for each thread.
    const auto threads = std::min(job.depth, most_threads);
    auto buffer = weft::Memory::allocate(std::size_t{job.piece} * threads);
    if (!buffer)
        return refused(name, buffer.error().text);
    const auto* api = job.gpu ? cuda() : nullptr;
    const bool pinned = api && !api->host_register(buffer->data(), buffer->size(), 1);

    Figures figures;
    figures.name = name;
    figures.route = (pinned ? "pinned host memory, and a copy, " : "host memory, and a copy, ") +
                    std::to_string(threads) + " threads";
    using Moved = std::expected<std::size_t, std::string>;
    const auto move = [&](std::uint32_t number, std::uint32_t length, off_t offset) -> Moved {
        const auto at = std::size_t{number} * job.piece;
        auto* data = buffer->data() + at;
        if (job.write && memory.copy_out(at, data, length))
            return std::unexpected("the copy fails");
        const auto moved =
            job.write ? ::pwrite(fd->get(), data, length, offset) : ::pread(fd->get(), data, length, offset);
        if (moved <= 0)
            return std::unexpected(path + ": " + (moved ? std::strerror(errno) : "it ends early"));
        if (!job.write && memory.copy_in(at, data, static_cast<std::size_t>(moved)))
            return std::unexpected("the copy fails");
        return static_cast<std::size_t>(moved);
    };
    move_pieces(figures, job, threads, progress, move);
    if (pinned)
        api->host_unregister(buffer->data());
    return figures;
}

} // namespace bench
