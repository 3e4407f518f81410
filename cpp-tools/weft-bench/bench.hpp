// SPDX-License-Identifier: GPL-2.0-only
/// Jobs, routes and results of a measurement.
#pragma once

#include <weft/engine.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench
{

/// A job: what to move, and how.
struct Job {
    std::string source;       ///< volume, device or file
    std::uint64_t offset = 0; ///< start of the range
    std::uint64_t length = 0; ///< length of the range: the bytes that each route moves
    std::uint32_t piece = 0;  ///< size of one I/O
    std::uint32_t depth = 16; ///< I/O in flight
    bool write = false;       ///< from memory to the source
    bool destroy = false;     ///< the user allows overwriting the source
    std::optional<int> gpu;   ///< use this GPU's memory, not host memory
    std::string bar;          ///< use the BAR of the PCI device at this address, not host memory
    std::string file;         ///< file on the volume to read, if any
};

/// One route's figures, or why it has none.
struct Figures {
    std::string name;  ///< as requested: "direct", "staged", "pread", "cufile"
    std::string route; ///< the route that was used
    std::string why;   ///< why it did not run
    double seconds = 0;
    double cpu_seconds = 0; ///< of this process, without kernel threads
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> latencies; ///< of each I/O, in microseconds, sorted
    [[nodiscard]] bool ran() const { return why.empty(); }
    [[nodiscard]] double gb_per_second() const { return static_cast<double>(bytes) / seconds / 1e9; }
    [[nodiscard]] double cpu_per_gb() const { return cpu_seconds / (static_cast<double>(bytes) / 1e9); }
    [[nodiscard]] std::uint32_t latency(double part) const;
};

/// Called with the progress: bytes moved so far.
using Progress = std::function<void(std::uint64_t)>;

// Data is moved to or from a memory of `depth` pieces.

/// With an engine, and a direct or a staged registration.
[[nodiscard]] Figures run_engine(const Job& job, const weft::Memory& memory, const std::string& name,
                                 const Progress& progress);
/// With pread() or pwrite() to pinned memory and a copy, with one thread for each I/O in flight: the usual
/// way without a library.
[[nodiscard]] Figures run_pread(const Job& job, const weft::Memory& memory, const Progress& progress);
/// With cuFile, if libcufile is installed.
[[nodiscard]] Figures run_cufile(const Job& job, const weft::Memory& memory, const Progress& progress);

/// Reports as text, as JSON and as a picture.
[[nodiscard]] std::string as_text(const Job& job, const std::vector<Figures>& all);
[[nodiscard]] std::string as_json(const Job& job, const std::vector<Figures>& all);
[[nodiscard]] std::string as_svg(const Job& job, const std::vector<Figures>& all);

} // namespace bench
