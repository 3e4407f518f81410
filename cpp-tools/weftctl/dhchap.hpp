// SPDX-License-Identifier: GPL-2.0-only
/// Secrets for DH-HMAC-CHAP, in the representation of NVMe base 2.1, 8.3.5.8: "DHHC-1:01:BASE64:".
#pragma once

#include "secret_text.hpp"

#include <optional>

namespace weft
{

/// Of this host, and of the targets that have to authenticate, unless other files are named.
inline constexpr auto usual_dhchap_secret = "/etc/weft/dhchap-secret";
inline constexpr auto usual_dhchap_ctrl_secret = "/etc/weft/dhchap-ctrl-secret";

/// 32, 48 or 64 bytes.
struct dhchap_secret : secret_bytes {
    [[nodiscard]] std::string text() const;
};

/// `where` is what an error names: the secret itself is in no message.
[[nodiscard]] result<dhchap_secret> parse_dhchap_secret(std::string_view text, const std::string& where);

/// Reads a file, or a key of the user's keyring. Refuses one that users other than its owner may read.
[[nodiscard]] result<dhchap_secret> read_dhchap_secret(const std::string& path);

/// Secrets of a host and of a controller.
struct dhchap_secrets {
    std::optional<dhchap_secret> host, ctrl;
};

/// Reads their files. An empty name is that of no secret.
[[nodiscard]] result<dhchap_secrets> read_dhchap_secrets(const std::string& host, const std::string& ctrl);

/// A new secret of 32, 48 or 64 random bytes.
[[nodiscard]] result<dhchap_secret> new_dhchap_secret(std::size_t size, unsigned int hash);

} // namespace weft
