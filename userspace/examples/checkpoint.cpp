// SPDX-License-Identifier: LGPL-2.1-or-later
/// Writes a checkpoint while the program continues: it copies pieces of its state to the stream's window, and
/// writes them from there. Overwrites the start of the volume or file.
///
///   checkpoint VOLUME-OR-FILE BYTES
#include "must.hpp"

#include <weft/stream.hpp>

#include <algorithm>
#include <cstring>
#include <future>
#include <vector>

namespace
{

weft::Result<std::uint64_t> write_checkpoint(const weft::Volume& volume, const std::vector<std::byte>& state)
{
    const auto block = volume.geometry().block_size;
    auto memory = weft::Memory::allocate(8 << 20);
    if (!memory)
        return std::unexpected(memory.error());
    auto registration = volume.add(*memory, {});
    auto engine = weft::Engine::create({.entries = 16});
    if (!registration || !engine)
        return std::unexpected(registration ? engine.error() : registration.error());
    const auto whole = (state.size() + block - 1) / block * block;
    auto stream = weft::WriteStream::create(*engine, volume, *registration, {.length = whole});
    if (!stream)
        return std::unexpected(stream.error());
    for (;;) {
        auto piece = stream->next();
        if (!piece)
            return std::unexpected(piece.error());
        if (!piece->length)
            break;
        auto* to = memory->data() + piece->memory_offset;
        const auto bytes = std::min<std::size_t>(piece->length, state.size() - piece->offset);
        std::memcpy(to, state.data() + piece->offset, bytes);
        std::memset(to + bytes, 0, piece->length - bytes);
        if (auto put = stream->put(piece->length); !put)
            return std::unexpected(put.error());
    }
    if (auto done = stream->finish(); !done)
        return std::unexpected(done.error());
    return whole;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 3)
        give_up("usage: checkpoint VOLUME-OR-FILE BYTES");
    const auto volume = must(weft::Volume::open(argv[1], weft::Access::read_write));
    const auto bytes = std::atoll(argv[2]);
    if (bytes <= 0)
        give_up("BYTES is '" + std::string(argv[2]) + "', and has to be 1 or more");
    std::vector<std::byte> state(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < state.size(); i++)
        state[i] = static_cast<std::byte>(i * 7 + i / 4096);
    auto writing = std::async(std::launch::async, [&] { return write_checkpoint(volume, state); });
    // Training would continue here, as long as it does not change `state`.
    const auto written = must(writing.get());
    std::printf("%llu bytes are on the medium\n", static_cast<unsigned long long>(written));
    return 0;
}
