// SPDX-License-Identifier: LGPL-2.1-or-later
/// The header of a safetensors file: the length of the JSON in 8 bytes, little-endian; the JSON; the tensors.
#pragma once

#include <cstdint>
#include <cstring>
#include <expected>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin; ///< in the file
    std::uint64_t end;
};

/// The format's limit for the length of a header.
constexpr std::uint64_t safetensors_header_max = 100'000'000;

/// The length of the header, from the first 8 bytes of a file.
inline std::expected<std::uint64_t, std::string> safetensors_header_size(std::span<const std::byte> first,
                                                                         std::uint64_t file_size)
{
    std::uint64_t size = 0;
    if (first.size() < sizeof(size) || file_size < sizeof(size))
        return std::unexpected("it is too short");
    std::memcpy(&size, first.data(), sizeof(size));
    if (size > safetensors_header_max || size > file_size - sizeof(size))
        return std::unexpected("a header of " + std::to_string(size) + " bytes cannot be");
    return size;
}

/// Parses the header. Every tensor is within the file.
inline std::expected<std::vector<Tensor>, std::string> parse_safetensors(std::string_view header,
                                                                         std::uint64_t file_size)
{
    const auto document = nlohmann::json::parse(header, nullptr, false);
    if (!document.is_object())
        return std::unexpected("its header is not a JSON object");
    const auto start = sizeof(std::uint64_t) + header.size();
    std::vector<Tensor> tensors;
    for (const auto& [name, entry] : document.items()) {
        if (name == "__metadata__")
            continue;
        const auto bad = std::unexpected("tensor '" + name + "' is not described as one");
        if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
            !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
            !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
            return bad;
        Tensor tensor{name, entry["dtype"].get<std::string>(), {}, 0, 0};
        for (const auto& side : entry["shape"]) {
            if (!side.is_number_unsigned())
                return bad;
            tensor.shape.push_back(side.get<std::uint64_t>());
        }
        for (const auto& offset : entry["data_offsets"])
            if (!offset.is_number_unsigned())
                return bad;
        const auto begin = entry["data_offsets"][0].get<std::uint64_t>();
        const auto end = entry["data_offsets"][1].get<std::uint64_t>();
        if (begin > end || end > file_size - start)
            return std::unexpected("tensor '" + name + "' is not within the file");
        tensor.begin = start + begin;
        tensor.end = start + end;
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}
