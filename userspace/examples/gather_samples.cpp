// SPDX-License-Identifier: LGPL-2.1-or-later
/// Reads random samples of 4 KiB of a file, a volume or a block device into one memory of a GPU (or of the
/// host).
///
///   gather_samples FILE [SAMPLES]
#include "device_memory.hpp"
#include "must.hpp"

#include <weft/gather.hpp>

#include <random>
#include <vector>

int main(int argc, char** argv)
{
    if (argc < 2)
        give_up("usage: gather_samples FILE [SAMPLES]");
    const std::size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100000;

    const auto file = must(weft::open(argv[1]));
    const weft::Records samples{0, file.size() / 4096, 4096};
    if (!samples.count)
        give_up(file.path() + " has no sample of 4096 bytes");
    std::vector<std::int64_t> numbers(count);
    std::mt19937_64 random(1);
    for (auto& number : numbers)
        number = static_cast<std::int64_t>(random() % samples.count);

    const auto memory = must(device_memory(count * samples.length));
    const auto registration = must(file.add(memory, {.staged = true}));
    auto engine = must(weft::Engine::create());
    auto gather = must(weft::Gather::create(engine, {.capacity = static_cast<std::uint32_t>(count)}));
    std::vector<std::int32_t> results(count);
    const auto done = must(gather.run(file, registration, samples, numbers, 0, results));

    std::printf("%llu bytes by the route %s, %u samples failed\n",
                static_cast<unsigned long long>(done.bytes), weft::name_of(done.route), done.failed);
    return done.failed != 0;
}
