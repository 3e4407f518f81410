// SPDX-License-Identifier: GPL-2.0-only
/// Secrets of NVMe in files and keyrings, and the form that they share: "PREFIX:HH:BASE64:", where HH is the
/// number of a hash, and BASE64 has the key and its CRC-32 (NVMe base 2.1, 8.3.5.8; NVMe/TCP 1.1, 3.6.1.5).
#pragma once

#include "result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// What differs between the kinds of secrets.
struct secret_form {
    std::string_view prefix;            ///< with its colon
    std::string_view what;              ///< a noun for messages
    unsigned int hashes;                ///< the greatest number of a hash
    std::string_view sizes_text;        ///< the sizes for messages
    std::span<const std::size_t> sizes; ///< that a key may have, in bytes
};

struct secret_bytes {
    std::vector<std::uint8_t> key;
    unsigned int hash = 0; ///< that transforms it: 0 for none, 1 to 3 for SHA-256, SHA-384, SHA-512

    [[nodiscard]] std::string text(std::string_view prefix) const;
};

/// Bytes of a key that this hash transforms.
constexpr std::size_t hash_size(unsigned int hash)
{
    return 16 * (hash + 1);
}

/// `where` is what an error names: the secret itself is in no message.
[[nodiscard]] result<secret_bytes> parse_secret(const secret_form& form, std::string_view text,
                                                const std::string& where);

/// A new one of random bytes.
[[nodiscard]] result<secret_bytes> new_secret(std::size_t size, unsigned int hash);

/// Instead of a file: "keyring:weft-host" is the key of type "user" with the description weft-host.
inline constexpr std::string_view keyring_prefix = "keyring:";

/// The text in a file, or of a key of the user's keyring, without the end of its line. Refuses one that
/// others than its owner may read.
[[nodiscard]] result<std::string> read_secret(const std::string& path);

/// Does it name the same file, or key, from every folder?
[[nodiscard]] bool is_full_name(const std::string& path);
/// The name that does; an empty name stays.
[[nodiscard]] std::string full_name(const std::string& path);

} // namespace weft
