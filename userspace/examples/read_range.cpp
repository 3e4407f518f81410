// SPDX-License-Identifier: LGPL-2.1-or-later
/// Reads any bytes of a file, a volume or a block device into the memory of a GPU (or of the host).
///
///   read_range FILE OFFSET LENGTH
#include "device_memory.hpp"
#include "must.hpp"

#include <weft/engine.hpp>

#include <cstring>

int main(int argc, char** argv)
{
    if (argc != 4)
        give_up("usage: read_range FILE OFFSET LENGTH");
    const auto offset = std::strtoull(argv[2], nullptr, 10), length = std::strtoull(argv[3], nullptr, 10);

    const auto file = must(weft::open(argv[1]));
    const auto memory = must(device_memory(length));
    const auto registration = must(file.add(memory, {.staged = true}));
    auto engine = must(weft::Engine::create());
    engine.read(file, registration, {.offset = offset, .length = length}, 0);
    weft::Completion done;
    engine.wait({&done, 1});

    if (done.result < 0)
        give_up(file.path() + ": " + std::strerror(static_cast<int>(-done.result)));
    std::printf("%lld bytes by the route %s\n", static_cast<long long>(done.result),
                weft::name_of(done.route));
    return 0;
}
