// SPDX-License-Identifier: GPL-2.0-only
/// What the routes share: clocks, and where data is.
#pragma once

#include "bench.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <expected>
#include <sys/resource.h>
#include <thread>

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

/// All pieces, by threads that each take the next one. `move` is given a thread's number, a length and an
/// offset, and gives the bytes it moved, or why it did not, and then all end.
template <typename Move>
void move_pieces(Figures& figures, const Job& job, std::uint32_t threads, const Progress& progress, Move move)
{
    struct Share {
        std::vector<std::uint32_t> latencies;
        std::string why;
    };
    const auto pieces = pieces_of(job);
    std::vector<Share> shares(threads);
    for (auto& share : shares)
        share.latencies.reserve(pieces / threads + 1);
    std::atomic<std::uint64_t> next = 0, bytes = 0;
    std::atomic<bool> failed = false;
    const auto work = [&](std::uint32_t number) {
        auto& share = shares[number];
        for (auto i = next++; i < pieces && !failed; i = next++) {
            const auto start = clock::now();
            const std::expected<std::size_t, std::string> moved =
                move(number, length_of(job, i), static_cast<off_t>(job.offset + i * job.piece));
            if (!moved) {
                share.why = moved.error();
                failed = true;
                return;
            }
            share.latencies.push_back(microseconds_since(start));
            bytes += *moved;
            if (!number)
                progress(bytes);
        }
    };
    Watch watch(figures, pieces);
    {
        std::vector<std::jthread> others;
        for (std::uint32_t i = 1; i < threads; i++)
            others.emplace_back(work, i);
        work(0);
    }
    figures.bytes = bytes;
    for (const auto& share : shares) {
        figures.latencies.insert(figures.latencies.end(), share.latencies.begin(), share.latencies.end());
        if (figures.why.empty())
            figures.why = share.why;
    }
    watch.finish();
}

} // namespace bench
