// SPDX-License-Identifier: GPL-2.0-only
/// Keys for TLS 1.3 on NVMe/TCP, in the interchange format of NVMe/TCP 1.1, 3.6.1.5:
/// "NVMeTLSkey-1:01:BASE64:". The kernel's handshake is done by tlshd, which finds the keys in the keyring
/// .nvme.
#pragma once

#include "secret_text.hpp"

namespace weft
{

/// 32 or 48 bytes.
struct tls_key : secret_bytes {
    [[nodiscard]] std::string text() const;
};

/// `where` is what an error names: the key itself is in no message.
[[nodiscard]] result<tls_key> parse_tls_key(std::string_view text, const std::string& where);

/// Reads a file, or a key of the user's keyring. Refuses one that users other than its owner may read.
[[nodiscard]] result<tls_key> read_tls_key(const std::string& path);

/// A new key of 32 random bytes for SHA-256, or 48 for SHA-384.
[[nodiscard]] result<tls_key> new_tls_key(std::size_t size);

/// The two between which a connection is.
struct tls_pair {
    std::string host_nqn, subnqn;
};

/// A change of the keyring .nvme, which its destructor undoes unless it is kept.
class tls_change
{
public:
    /// Puts the key of a pair there, derived from `key`, in place of the pair's other keys. A key that is
    /// there already stays as it is: connections use it. nvme-tcp or nvmet-tcp is loaded, which make that
    /// keyring.
    [[nodiscard]] static result<tls_change> insert(const tls_key& key, const tls_pair& pair);
    tls_change() = default;
    tls_change(tls_change&& other) noexcept;
    tls_change& operator=(tls_change&& other) noexcept;
    tls_change(const tls_change&) = delete;
    tls_change& operator=(const tls_change&) = delete;
    ~tls_change();
    void keep();

private:
    long made_ = 0;              ///< its number; 0 for one that was there
    std::vector<long> replaced_; ///< their numbers
};

/// Takes away all keys of a pair. Connections that are there go on, and do not come back.
void remove_tls_keys(const tls_pair& pair);

/// The subsystem that every discovery service has (NVMe base 2.1, 3.1.3.3).
inline constexpr auto discovery_nqn = "nqn.2014-08.org.nvmexpress.discovery";

/// The two together are refused.
inline constexpr auto tls_without_dhchap = "a TLS key and a secret for DH-HMAC-CHAP contradict each other: "
                                           "with TLS, targets of newer kernels do not request the secret";

/// What a failed connection with TLS may lack.
inline constexpr auto tls_needs =
    "TLS needs tlshd on both hosts (package ktls-utils), with 'keyrings=.nvme' in its configuration, and the "
    "same key there and here";

} // namespace weft
