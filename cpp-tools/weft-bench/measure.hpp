// SPDX-License-Identifier: GPL-2.0-only
/// Common code of the routes: clocks, and access to the source.
#pragma once

#include "bench.hpp"

#include <fd.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <expected>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

/// The path of the file or device, for routes that do not use libweft.
[[nodiscard]] inline std::string path_of(const Job& job)
{
    if (!job.file.empty())
        return job.file;
    return job.source.find('/') == std::string::npos ? "/dev/weft/" + job.source : job.source;
}

/// Opens it. A device for writing is claimed, as libweft claims it. Returns an errno on failure.
[[nodiscard]] inline std::expected<weft::OwnedFd, int> open_source(const Job& job, bool direct)
{
    const auto path = path_of(job);
    struct stat status {
    };
    if (::stat(path.c_str(), &status))
        return std::unexpected(errno);
    weft::OwnedFd fd(::open(path.c_str(), (job.write ? O_RDWR : O_RDONLY) | O_CLOEXEC |
                                              (direct ? O_DIRECT : 0) |
                                              (job.write && S_ISBLK(status.st_mode) ? O_EXCL : 0)));
    if (!fd)
        return std::unexpected(errno);
    return fd;
}

[[nodiscard]] inline std::uint64_t pieces_of(const Job& job)
{
    return (job.length + job.piece - 1) / job.piece;
}

[[nodiscard]] inline std::uint32_t length_of(const Job& job, std::uint64_t number)
{
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(job.piece, job.length - number * job.piece));
}

/// More threads than this do not make synchronous I/O faster.
constexpr std::uint32_t most_threads = 16;

/// Moves all pieces with threads, each of which takes the next piece. `move` gets the thread's number, a
/// length and an offset. It returns the bytes moved, or an error, after which all threads end.
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
