// SPDX-License-Identifier: GPL-2.0-only
/// The header of a safetensors file: what it says lies within the file.
#include "fuzz.hpp"

#include <safetensors.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    // The file is longer than what there is of it: the tensors themselves are not looked at.
    const std::uint64_t file_size = size + (size ? data[0] * 1000U : 0U);
    const auto length = safetensors_header_size({reinterpret_cast<const std::byte*>(data), size}, file_size);
    if (!length)
        return 0;
    must(*length <= file_size - 8, "a header is within its file");
    if (*length > size - 8)
        return 0;
    const auto tensors = parse_safetensors(text_of(data + 8, *length), file_size);
    if (!tensors)
        return 0;
    for (const auto& tensor : *tensors)
        must(tensor.begin >= 8 + *length && tensor.begin <= tensor.end && tensor.end <= file_size,
             "a tensor is within its file, behind the header");
    return 0;
}
