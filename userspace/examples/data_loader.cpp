// SPDX-License-Identifier: LGPL-2.1-or-later
/// The loop of a data loader: it gathers batches of samples from random places in a data set, each one while
/// the previous one is in use.
///
///   data_loader VOLUME-OR-FILE SAMPLE-BYTES BATCH BATCHES
#include "device_memory.hpp"

#include <weft/gather.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

namespace
{

template <typename T>
T must(weft::Result<T> result)
{
    if (!result) {
        std::fprintf(stderr, "data_loader: %s\n", result.error().text.c_str());
        std::exit(1);
    }
    return std::move(*result);
}

/// Makes batches in its own thread, which owns the engine.
class Loader
{
public:
    Loader(const weft::Volume& volume, std::uint32_t sample, std::uint32_t batch)
        : volume_(volume), sample_(sample), batch_(batch),
          memory_(must(device_memory(2 * std::size_t{sample} * batch))),
          registration_(must(volume.add(memory_, {.staged = true}))),
          thread_([this](const std::stop_token& stop) { run(stop); })
    {
    }
    /// Begins the next batch, in the half that is not in use. Returns its number of bytes.
    std::future<std::size_t> next()
    {
        wanted_ = std::promise<std::size_t>();
        auto coming = wanted_.get_future();
        go_.release();
        return coming;
    }
    ~Loader()
    {
        thread_.request_stop();
        go_.release();
    }
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;
    [[nodiscard]] weft::Route route() const { return registration_.route(); }

private:
    void run(const std::stop_token& stop)
    {
        auto engine = must(weft::Engine::create({.entries = 256}));
        auto gather = must(weft::Gather::create(engine, {.capacity = batch_, .depth = 256}));
        std::vector<weft::Extent> extents(batch_);
        std::vector<std::int32_t> results(batch_);
        for (std::uint64_t half = 0;; half = 1 - half) {
            go_.acquire();
            if (stop.stop_requested())
                return;
            auto wanted = std::move(wanted_);
            const auto samples = volume_.size() / sample_;
            for (std::uint32_t i = 0; i < batch_; i++)
                extents[i] = {random_() % samples * sample_, (half * batch_ + i) * sample_, sample_, 0};
            const auto done = must(gather.run(volume_, registration_, extents, results));
            for (std::uint32_t i = 0; i < batch_; i++)
                if (results[i] < 0)
                    std::fprintf(stderr, "data_loader: the sample at %llu: %s\n",
                                 static_cast<unsigned long long>(extents[i].offset),
                                 std::strerror(-results[i]));
            wanted.set_value(done.bytes);
        }
    }

    const weft::Volume& volume_;
    std::uint32_t sample_;
    std::uint32_t batch_;
    weft::Memory memory_;
    weft::Registration registration_;
    std::mt19937_64 random_{1};
    std::promise<std::size_t> wanted_; ///< of the batch that begins next
    std::binary_semaphore go_{0};
    std::jthread thread_;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc < 5) {
        std::fprintf(stderr, "usage: data_loader VOLUME-OR-FILE SAMPLE-BYTES BATCH BATCHES\n");
        return 1;
    }
    for (const auto* number : {argv[2], argv[3]})
        if (std::atoi(number) <= 0) {
            std::fprintf(stderr, "data_loader: '%s' has to be 1 or more\n", number);
            return 1;
        }
    const auto volume = must(weft::Volume::open(argv[1]));
    if (volume.size() < static_cast<std::uint64_t>(std::atoi(argv[2]))) {
        std::fprintf(stderr, "data_loader: %s has no sample of %s bytes\n", argv[1], argv[2]);
        return 1;
    }
    Loader loader(volume, static_cast<std::uint32_t>(std::atoi(argv[2])),
                  static_cast<std::uint32_t>(std::atoi(argv[3])));
    std::size_t bytes = 0;
    auto coming = loader.next();
    for (int left = std::atoi(argv[4]); left > 0; left--) {
        bytes += coming.get();
        if (left > 1)
            coming = loader.next();
        // A training step would use this half here.
    }
    std::printf("%zu bytes by the route %s\n", bytes, weft::name_of(loader.route()));
    return 0;
}
