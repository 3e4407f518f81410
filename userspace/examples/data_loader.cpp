// SPDX-License-Identifier: LGPL-2.1-or-later
/// The loop of a data loader: batches of samples from all over a data set, each gathered while the one before
/// is worked on.
///
///   data_loader VOLUME-OR-FILE SAMPLE-BYTES BATCH BATCHES
#include "device_memory.hpp"

#include <weft/gather.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
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

/// Makes batches on a thread of its own: an engine is one thread's.
class Loader
{
public:
    Loader(const weft::Volume& volume, std::uint32_t sample, std::uint32_t batch)
        : volume_(volume), sample_(sample), batch_(batch),
          memory_(must(device_memory(2 * std::size_t{sample} * batch))),
          registration_(must(volume.add(memory_, {.staged = true})))
    {
    }
    /// Begins the next batch, into the half that is not being worked on.
    std::future<std::size_t> next()
    {
        half_ = !half_;
        return std::async(std::launch::async, [this, half = half_] { return load(half); });
    }
    [[nodiscard]] weft::Route route() const { return registration_.route(); }

private:
    std::size_t load(bool half)
    {
        auto engine = must(weft::Engine::create({.entries = 256}));
        auto gather = must(weft::Gather::create(engine, {.capacity = batch_, .depth = 256}));
        std::vector<weft::Extent> extents(batch_);
        std::vector<std::int32_t> results(batch_);
        const auto samples = volume_.size() / sample_;
        for (std::uint32_t i = 0; i < batch_; i++)
            extents[i] = {random_() % samples * sample_,
                          (half ? std::uint64_t{batch_} * sample_ : 0) + std::uint64_t{i} * sample_, sample_,
                          0};
        const auto done = must(gather.run(volume_, registration_, extents, results));
        for (std::uint32_t i = 0; i < batch_; i++)
            if (results[i] < 0)
                std::fprintf(stderr, "data_loader: the sample at %llu: %s\n",
                             static_cast<unsigned long long>(extents[i].offset), std::strerror(-results[i]));
        return done.bytes;
    }

    const weft::Volume& volume_;
    std::uint32_t sample_;
    std::uint32_t batch_;
    weft::Memory memory_;
    weft::Registration registration_;
    std::mt19937_64 random_{1};
    bool half_ = false;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc < 5) {
        std::fprintf(stderr, "usage: data_loader VOLUME-OR-FILE SAMPLE-BYTES BATCH BATCHES\n");
        return 1;
    }
    const auto volume = must(weft::Volume::open(argv[1]));
    Loader loader(volume, static_cast<std::uint32_t>(std::atoi(argv[2])),
                  static_cast<std::uint32_t>(std::atoi(argv[3])));
    std::size_t bytes = 0;
    auto coming = loader.next();
    for (int left = std::atoi(argv[4]); left > 0; left--) {
        bytes += coming.get();
        if (left > 1)
            coming = loader.next();
        // Here a training step would use the half that is there.
    }
    std::printf("%zu bytes by the route %s\n", bytes, weft::name_of(loader.route()));
    return 0;
}
