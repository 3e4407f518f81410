// SPDX-License-Identifier: GPL-2.0-only
/// What is measured, by which route, and what came of it.
#pragma once

#include <weft/engine.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench
{

/// What to move, and how.
struct Job {
    std::string source;       ///< volume, device or file
    std::uint64_t offset = 0; ///< where the range begins
    std::uint64_t length = 0; ///< of the range; bytes moved by each route
    std::uint32_t piece = 0;  ///< of an I/O
    std::uint32_t depth = 16; ///< I/O in flight
    bool write = false;       ///< from memory to the source
    std::optional<int> gpu;   ///< this one's memory, and not the host's
    std::string file;         ///< on the volume, where that is what is read
};

/// One route's figures, or why it has none.
struct Figures {
    std::string name;  ///< as asked for: "direct", "staged", "pread", "cufile"
    std::string route; ///< that it really was
    std::string why;   ///< it did not run
    double seconds = 0;
    double cpu_seconds = 0; ///< of this process; what the kernel's threads do is not in it
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> latencies; ///< of each I/O, in microseconds, sorted
    [[nodiscard]] bool ran() const { return why.empty(); }
    [[nodiscard]] double gb_per_second() const { return static_cast<double>(bytes) / seconds / 1e9; }
    [[nodiscard]] double cpu_per_gb() const { return cpu_seconds / (static_cast<double>(bytes) / 1e9); }
    [[nodiscard]] std::uint32_t latency(double part) const;
};

/// Told of progress: bytes moved so far.
using Progress = std::function<void(std::uint64_t)>;

// Data is moved to or from a memory of `depth` pieces.

/// By an engine, with a registration that is direct, or staged.
[[nodiscard]] Figures run_engine(const Job& job, const weft::Memory& memory, const std::string& name,
                                 const Progress& progress);
/// By pread() or pwrite() into pinned memory, and a copy: what people write without a library.
[[nodiscard]] Figures run_pread(const Job& job, const weft::Memory& memory, const Progress& progress);
/// By cuFile, where libcufile is there.
[[nodiscard]] Figures run_cufile(const Job& job, const weft::Memory& memory, const Progress& progress);

/// For people, for programs, and as a picture.
[[nodiscard]] std::string as_text(const Job& job, const std::vector<Figures>& all);
[[nodiscard]] std::string as_json(const Job& job, const std::vector<Figures>& all);
[[nodiscard]] std::string as_svg(const Job& job, const std::vector<Figures>& all);

} // namespace bench
