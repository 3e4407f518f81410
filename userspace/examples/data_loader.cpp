// SPDX-License-Identifier: LGPL-2.1-or-later
/// The loop of a data loader: it gathers batches of samples from random places in a data set, each one while
/// the previous one is in use.
///
///   data_loader VOLUME-OR-FILE SAMPLE-BYTES BATCH BATCHES
#include "device_memory.hpp"
#include "must.hpp"

#include <weft/gather.hpp>

#include <cstring>
#include <future>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

namespace
{

/// Makes batches in its own thread, which owns the engine.
class Loader
{
public:
    Loader(const weft::Target& target, std::uint32_t sample, std::uint32_t batch)
        : target_(target), sample_(sample), batch_(batch),
          memory_(must(device_memory(2 * std::size_t{sample} * batch))),
          registration_(must(target.add(memory_, {.staged = true}))),
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
            const auto samples = target_.size() / sample_;
            for (std::uint32_t i = 0; i < batch_; i++)
                extents[i] = {random_() % samples * sample_, (half * batch_ + i) * sample_, sample_, 0};
            const auto done = must(gather.run(target_, registration_, extents, results));
            for (std::uint32_t i = 0; i < batch_; i++)
                if (results[i] < 0)
                    std::fprintf(stderr, "data_loader: the sample at %llu: %s\n",
                                 static_cast<unsigned long long>(extents[i].offset),
                                 std::strerror(-results[i]));
            wanted.set_value(done.bytes);
        }
    }

    const weft::Target& target_;
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
    if (argc < 5)
        give_up("usage: data_loader VOLUME-OR-FILE SAMPLE-BYTES BATCH BATCHES");
    for (const auto* number : {argv[2], argv[3]})
        if (std::atoi(number) <= 0)
            give_up("'" + std::string(number) + "' has to be 1 or more");
    const auto target = must(weft::open(argv[1]));
    if (target.size() < static_cast<std::uint64_t>(std::atoi(argv[2])))
        give_up(target.path() + " has no sample of " + argv[2] + " bytes");
    Loader loader(target, static_cast<std::uint32_t>(std::atoi(argv[2])),
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
