// SPDX-License-Identifier: LGPL-2.1-or-later
/// Writes tensors to a file that appears whole or not at all.
///
///   save_tensors FILE BYTES-OF-A-TENSOR...
#include "device_memory.hpp"
#include "must.hpp"

#include <weft/new_file.hpp>

#include <vector>

int main(int argc, char** argv)
{
    if (argc < 3)
        give_up("usage: save_tensors FILE BYTES-OF-A-TENSOR...");
    // What a program has: tensors of a GPU, each filled with its number.
    std::vector<weft::Memory> tensors;
    std::uint64_t total = 0;
    for (int i = 2; i < argc; i++) {
        tensors.push_back(must(device_memory(std::strtoull(argv[i], nullptr, 10))));
        const std::vector<char> contents(tensors.back().size(), static_cast<char>(i - 1));
        if (tensors.back().copy_in(0, contents.data(), contents.size()))
            give_up("a tensor cannot be filled");
        total += tensors.back().size();
    }

    auto file = must(weft::NewFile::create(argv[1], total));
    auto engine = must(weft::Engine::create());
    std::uint64_t at = 0;
    for (const auto& tensor : tensors) {
        const auto registration = must(file.add(tensor, {.staged = true, .read_only = true}));
        must(file.write(engine, registration, at, 0, tensor.size()));
        at += tensor.size();
    }
    must(file.finish());

    std::printf("%s: %llu bytes are on the medium\n", argv[1], static_cast<unsigned long long>(total));
    return 0;
}
