// SPDX-License-Identifier: GPL-2.0-only
/// Secrets for DH-HMAC-CHAP, in the representation of NVMe base 2.1, 8.3.5.8: "DHHC-1:01:BASE64:".
#pragma once

#include "result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// Of this host, and of the targets that have to authenticate, unless other files are named.
inline constexpr auto usual_dhchap_secret = "/etc/weft/dhchap-secret";
inline constexpr auto usual_dhchap_ctrl_secret = "/etc/weft/dhchap-ctrl-secret";

struct dhchap_secret {
    std::vector<std::uint8_t> key; ///< 32, 48 or 64 bytes
    unsigned int hash = 0;         ///< that transforms it: 0 for none, 1 to 3 for SHA-256, SHA-384, SHA-512

    [[nodiscard]] std::string text() const;
};

/// `where` is what an error names: the secret itself is in no message.
[[nodiscard]] result<dhchap_secret> parse_dhchap_secret(std::string_view text, const std::string& where);

/// Instead of a file: "keyring:weft-host" is the key of type "user" with the description weft-host.
inline constexpr std::string_view keyring_prefix = "keyring:";

/// Reads a file, or a key of the user's keyring. Refuses one that others than its owner may read.
[[nodiscard]] result<dhchap_secret> read_dhchap_secret(const std::string& path);

/// Secrets of a host and of a controller.
struct dhchap_secrets {
    std::optional<dhchap_secret> host, ctrl;
};

/// Reads their files. An empty name is that of no secret.
[[nodiscard]] result<dhchap_secrets> read_dhchap_secrets(const std::string& host, const std::string& ctrl);

/// Bytes of a secret that this hash transforms.
constexpr std::size_t dhchap_size(unsigned int hash)
{
    return 16 * (hash + 1);
}

/// A new secret of 32, 48 or 64 random bytes.
[[nodiscard]] result<dhchap_secret> new_dhchap_secret(std::size_t size, unsigned int hash);

} // namespace weft
