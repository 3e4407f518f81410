// SPDX-License-Identifier: GPL-2.0-only
/// weft-bench: the same bytes by every route that this machine has, side by side.
#include "bench.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

namespace
{

constexpr auto footer = R"(Routes:
  direct  libweft, strictly: devices move the bytes to and from the memory itself
  staged  libweft through pinned memory, the copy of one piece beside the I/O of the next
  pread   pread() or pwrite() of one piece at a time, and a copy
  cufile  NVIDIA's cuFile, where libcufile is installed

A route that cannot be says why. CPU seconds are this process's; what the kernel's own threads do is not in them.
Writing overwrites what the source holds.

Examples:
  weft-bench data --gpu 0
  weft-bench /mnt/shard-0001.bin --size 1G --json bench.json --svg bench.svg
  weft-bench data --file /mnt/shard-0001.bin --gpu 0 --routes direct,staged)";

/// A bar on a terminal, and nothing elsewhere.
class Bar
{
public:
    Bar(std::string name, std::uint64_t total) : name_(std::move(name)), total_(total) {}
    ~Bar()
    {
        if (shown_)
            std::fprintf(stderr, "\r\033[K");
    }
    Bar(const Bar&) = delete;
    Bar& operator=(const Bar&) = delete;
    void operator()(std::uint64_t done)
    {
        const auto percent =
            static_cast<unsigned>(100.0 * static_cast<double>(done) / static_cast<double>(total_));
        if (!terminal_ || percent == percent_)
            return;
        percent_ = percent;
        shown_ = true;
        std::fprintf(stderr, "\r%-8s [%-50s] %3u%%", name_.c_str(), std::string(percent / 2, '#').c_str(),
                     percent);
    }

private:
    std::string name_;
    std::uint64_t total_;
    unsigned percent_ = 101;
    bool terminal_ = ::isatty(STDERR_FILENO) != 0;
    bool shown_ = false;
};

int give_up(const std::string& why)
{
    fmt::print(stderr, "weft-bench: {}\n", why);
    return 1;
}

/// The range, and pieces that fit it.
weft::Result<void> settle(bench::Job& job)
{
    const auto volume = weft::Volume::open(job.source);
    if (!volume)
        return std::unexpected(volume.error());
    auto size = volume->size();
    auto geometry = volume->geometry();
    if (!job.file.empty()) {
        const auto file = weft::File::open(*volume, job.file, false);
        if (!file)
            return std::unexpected(file.error());
        size = file->size();
        geometry = file->geometry();
    }
    const auto block = geometry.block_size;
    if (job.offset % block || job.piece % block || !job.piece || !job.depth)
        return std::unexpected(weft::Error{
            EINVAL, fmt::format("offset and block are multiples of {} bytes on {}", block, job.source)});
    if (job.offset >= size)
        return std::unexpected(weft::Error{EINVAL, fmt::format("{} ends at byte {}", job.source, size)});
    // Whole blocks, so that a file's end is no matter.
    const auto rest = (size - job.offset) / block * block;
    job.length = job.length ? std::min<std::uint64_t>(job.length / block * block, rest) : rest;
    if (!job.length)
        return std::unexpected(weft::Error{EINVAL, fmt::format("{} has no whole block there", job.source)});
    return {};
}

bool save(const std::string& path, const std::string& text)
{
    return path.empty() || static_cast<bool>(std::ofstream(path, std::ios::binary) << text << std::flush);
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app{
        "weft-bench: move a volume, a file or a range to and from GPU or host memory, by every route"};
    bench::Job job;
    std::vector<std::string> routes{"direct", "staged", "pread", "cufile"};
    std::string json, svg;
    std::uint64_t piece = 1 << 20;
    app.add_option("SOURCE", job.source, "a weft volume's name, or a path of a block device or file")
        ->required();
    app.add_option("--file", job.file, "a file on that volume, which is read instead");
    app.add_option("--offset", job.offset, "where to begin")->transform(CLI::AsSizeValue(false));
    app.add_option("--size", job.length, "how much; all otherwise")->transform(CLI::AsSizeValue(false));
    app.add_option("--block", piece, "bytes of an I/O")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    app.add_option("--depth", job.depth, "I/O in flight")->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--gpu", job.gpu, "memory of that GPU, by its number in CUDA, and not the host's");
    app.add_flag("--write", job.write, "from memory to the source");
    app.add_option("--routes", routes, "which, separated by commas")
        ->delimiter(',')
        ->check(CLI::IsMember({"direct", "staged", "pread", "cufile"}));
    app.add_option("--json", json, "also write the figures to this file");
    app.add_option("--svg", svg, "also draw them to this file");
    app.footer(footer);
    CLI11_PARSE(app, argc, argv);
    if (piece > (std::uint64_t{1} << 30))
        return give_up("a block has 1 GiB at most");
    job.piece = static_cast<std::uint32_t>(piece);
    if (job.write && !job.file.empty())
        return give_up("a sealed file is for reading");
    if (auto settled = settle(job); !settled)
        return give_up(settled.error().text);
    const auto bytes = std::size_t{job.piece} * job.depth;
    const auto memory =
        job.gpu ? weft::Memory::allocate_cuda(*job.gpu, bytes) : weft::Memory::allocate(bytes);
    if (!memory)
        return give_up(memory.error().text);
    std::vector<bench::Figures> all;
    for (const auto& route : routes) {
        Bar bar(route, job.length);
        const auto progress = [&bar](std::uint64_t done) { bar(done); };
        all.push_back(route == "pread"    ? bench::run_pread(job, *memory, progress)
                      : route == "cufile" ? bench::run_cufile(job, *memory, progress)
                                          : bench::run_engine(job, *memory, route, progress));
    }
    fmt::print("{}", bench::as_text(job, all));
    if (!save(json, bench::as_json(job, all)))
        return give_up(json + " cannot be written");
    if (!save(svg, bench::as_svg(job, all)))
        return give_up(svg + " cannot be written");
    return 0;
}
