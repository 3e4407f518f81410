// SPDX-License-Identifier: LGPL-2.1-or-later
/// Reads a whole safetensors file into GPU memory (or host memory), and lists the addresses of its tensors.
///
///   load_safetensors FILE
///
/// If the file is sealed (chattr +i) and on a weft volume, its bytes go directly from the targets to the GPU,
/// without the filesystem.
#include "device_memory.hpp"
#include "must.hpp"
#include "safetensors.hpp"

#include <weft/engine.hpp>

#include <cstring>
#include <fstream>

namespace
{

/// Reads the header with ordinary file I/O.
std::vector<Tensor> read_header(const std::string& path, std::uint64_t size)
{
    std::ifstream file(path, std::ios::binary);
    std::byte first[8]{};
    file.read(reinterpret_cast<char*>(first), sizeof(first));
    const auto length = safetensors_header_size(first, size);
    if (!length)
        give_up(path + ": " + length.error());
    std::string header(*length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    auto tensors = parse_safetensors(header, size);
    if (!file || !tensors)
        give_up(path + ": " + (tensors ? "it cannot be read" : tensors.error()));
    return std::move(*tensors);
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 2)
        give_up("usage: load_safetensors FILE");
    const auto target = must(weft::open(argv[1]));
    if (!target.reason().empty())
        std::printf("through the filesystem: %s\n", target.reason().c_str());
    const auto tensors = read_header(argv[1], target.size());

    const auto block = target.geometry().block_size;
    const auto bytes = (target.size() + block - 1) / block * block;
    const auto memory = must(device_memory(bytes));
    const auto registration = must(target.add(memory, {.staged = true}));
    auto engine = must(weft::Engine::create({.entries = 64}));
    constexpr std::uint32_t piece = 4 << 20;
    std::uint64_t next = 0, read = 0;
    while (read < target.size()) {
        for (; next < bytes; next += piece)
            if (!engine.read(
                    target, registration,
                    {next, next, static_cast<std::uint32_t>(std::min<std::uint64_t>(piece, bytes - next))},
                    next))
                break;
        weft::Completion done[64];
        for (auto i = engine.wait(done); i > 0; i--) {
            if (done[i - 1].result <= 0)
                give_up(std::string(argv[1]) + ": " + std::strerror(static_cast<int>(-done[i - 1].result)));
            read += static_cast<std::uint64_t>(done[i - 1].result);
        }
    }
    std::printf("%llu bytes by the route %s\n", static_cast<unsigned long long>(read),
                weft::name_of(registration.route()));
    for (const auto& tensor : tensors)
        std::printf("%s %s at %llu, %llu bytes\n", tensor.name.c_str(), tensor.dtype.c_str(),
                    static_cast<unsigned long long>(tensor.begin),
                    static_cast<unsigned long long>(tensor.end - tensor.begin));
    return 0;
}
