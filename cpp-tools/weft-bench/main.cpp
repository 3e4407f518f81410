// SPDX-License-Identifier: GPL-2.0-only
/// weft-bench: compares all routes of this machine with the same bytes.
#include "memory.hpp"
#include "options.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <shim/cuda.hpp>
#include <unistd.h>

namespace
{

/// A progress bar on a terminal; prints nothing elsewhere.
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

/// Exit statuses, as its --help says.
enum class Status { done = 0, failed = 1, usage = 2, refused = 3 };

int give_up(const std::string& why, Status status = Status::failed)
{
    fmt::print(stderr, "weft-bench: {}\n", why);
    return static_cast<int>(status);
}

/// Were the requested routes measured? All that the user named, else at least one.
Status status_of(const std::vector<bench::Figures>& all, bool named)
{
    const auto ran = std::count_if(all.begin(), all.end(), [](const auto& one) { return one.ran(); });
    const bool good = named ? static_cast<std::size_t>(ran) == all.size() : ran > 0;
    return good ? Status::done : Status::refused;
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
    const auto& name = job.file.empty() ? job.source : job.file;
    const auto block = geometry.block_size;
    if (job.offset % block || job.piece % block || !job.piece || !job.depth)
        return std::unexpected(weft::Error{
            EINVAL, fmt::format("--offset and --block must be multiples of {} bytes on {}, and --block not 0",
                                block, name)});
    if (job.offset >= size)
        return std::unexpected(weft::Error{EINVAL, fmt::format("{} ends at byte {}", name, size)});
    // Whole blocks, so that a file may end within a block.
    const auto rest = (size - job.offset) / block * block;
    job.length = job.length ? std::min<std::uint64_t>(job.length / block * block, rest) : rest;
    if (!job.length)
        return std::unexpected(weft::Error{EINVAL, fmt::format("{} has no whole block there", name)});
    return {};
}

bool save(const std::string& path, const std::string& text)
{
    return path.empty() || static_cast<bool>(std::ofstream(path, std::ios::binary) << text << std::flush);
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app{std::string("weft-bench: ") + bench::description};
    bench::Options options;
    bench::add_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        return app.exit(problem) ? static_cast<int>(Status::usage) : 0;
    }
    if (options.block > (std::uint64_t{1} << 30))
        return give_up("a block has 1 GiB at most", Status::usage);
    auto& job = options.job;
    job.piece = static_cast<std::uint32_t>(options.block);
    if (job.write && !job.file.empty())
        return give_up("a sealed file is for reading", Status::usage);
    if (job.write && !job.destroy)
        return give_up("--write overwrites what " + job.source + " holds; add --destroy to allow it",
                       Status::usage);
    if (auto settled = settle(job); !settled)
        return give_up(settled.error().text, settled.error().code == EINVAL ? Status::usage : Status::failed);
    const auto memory = bench::make_memory(job);
    if (!memory)
        return give_up(memory.error().text);
    // cuFile and pinned copies need a current context, as every CUDA program has.
    std::optional<weft::shim::CurrentContext> current;
    if (job.gpu)
        current.emplace(*weft::shim::cuda(), memory->cuda_context());
    std::vector<bench::Figures> all;
    for (const auto& route : options.routes) {
        Bar bar(route, job.length);
        const auto progress = [&bar](std::uint64_t done) { bar(done); };
        all.push_back(route == "pread"    ? bench::run_pread(job, *memory, progress)
                      : route == "cufile" ? bench::run_cufile(job, *memory, progress)
                                          : bench::run_engine(job, *memory, route, progress));
    }
    fmt::print("{}", bench::as_text(job, all));
    if (!save(options.json, bench::as_json(job, all)))
        return give_up(options.json + " cannot be written");
    if (!save(options.svg, bench::as_svg(job, all)))
        return give_up(options.svg + " cannot be written");
    return static_cast<int>(status_of(all, app.count("--routes") > 0));
}
