// SPDX-License-Identifier: GPL-2.0-only
/// What the routes share: clocks, and where data is.
#pragma once

#include "bench.hpp"

#include <algorithm>
#include <chrono>
#include <expected>
#include <sys/resource.h>

namespace bench
{

using clock = std::chrono::steady_clock;

[[nodiscard]] inline std::uint32_t microseconds_since(clock::time_point start)
{
    return static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - start).count());
}

/// Times a run from here to finish().
class Watch
{
public:
    Watch(Figures& figures, std::size_t pieces) : figures_(figures) { figures.latencies.reserve(pieces); }
    void finish()
    {
        figures_.seconds = std::chrono::duration<double>(clock::now() - start_).count();
        figures_.cpu_seconds = cpu_seconds() - cpu_;
        std::sort(figures_.latencies.begin(), figures_.latencies.end());
    }

private:
    static double cpu_seconds()
    {
        rusage usage{};
        ::getrusage(RUSAGE_SELF, &usage);
        const auto seconds = [](const timeval& time) {
            return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
        };
        return seconds(usage.ru_utime) + seconds(usage.ru_stime);
    }
    Figures& figures_;
    clock::time_point start_ = clock::now();
    double cpu_ = cpu_seconds();
};

[[nodiscard]] inline Figures refused(const std::string& name, std::string why)
{
    Figures figures;
    figures.name = name;
    figures.why = std::move(why);
    return figures;
}

/// The file or device itself, for who opens it without libweft.
[[nodiscard]] inline std::string path_of(const Job& job)
{
    if (!job.file.empty())
        return job.file;
    return job.source.find('/') == std::string::npos ? "/dev/weft/" + job.source : job.source;
}

[[nodiscard]] inline std::uint64_t pieces_of(const Job& job)
{
    return (job.length + job.piece - 1) / job.piece;
}

[[nodiscard]] inline std::uint32_t length_of(const Job& job, std::uint64_t number)
{
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(job.piece, job.length - number * job.piece));
}

/// Piece after piece; `move` is given a length and an offset, and gives the bytes it moved, or why it did
/// not.
template <typename Move>
void move_one_by_one(Figures& figures, const Job& job, const Progress& progress, Move move)
{
    const auto pieces = pieces_of(job);
    Watch watch(figures, pieces);
    for (std::uint64_t i = 0; i < pieces; i++) {
        const auto start = clock::now();
        const std::expected<std::size_t, std::string> moved =
            move(length_of(job, i), static_cast<off_t>(job.offset + i * job.piece));
        if (!moved) {
            figures.why = moved.error();
            return;
        }
        figures.latencies.push_back(microseconds_since(start));
        figures.bytes += *moved;
        progress(figures.bytes);
    }
    watch.finish();
}

} // namespace bench
