// SPDX-License-Identifier: GPL-2.0-only
/// A secret of DH-HMAC-CHAP and what it proves (NVMe base 2.1, 8.3.5), by OpenSSL: the target shares no code
/// with the host that it tests.
#pragma once

#include <cstdint>
#include <memory>
#include <openssl/evp.h>
#include <string>

/// A key of Diffie-Hellman in the group ffdhe2048 (RFC 7919).
class dh_key
{
public:
    static constexpr std::size_t size = 256;

    /// Throws if OpenSSL makes none.
    dh_key();
    /// Its public value, of @size bytes.
    std::string value() const;
    /// SHA-256 of what this key and another one's public value of @size bytes give; empty for a value that
    /// is not one of the group.
    std::string session(const std::uint8_t* other) const;

private:
    struct freed {
        void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
        void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
    };
    std::unique_ptr<EVP_PKEY, freed> key_;
};

/// A challenge with what a session has, by HMAC-SHA-256 (8.3.5.5.5).
std::string augmented(const std::string& session, const std::string& challenge);

struct auth_secret {
    std::string key;   ///< bytes; none if the secret is not known
    unsigned hash = 0; ///< that transforms it: 0 for none, 1 to 3 for SHA-256, SHA-384, SHA-512

    /// Reads what "weftctl gen-dhchap-key" writes. An empty name is that of no secret. Returns false, and
    /// says so, if the file has none.
    bool read(const std::string& file);

    /// The response with SHA-256. @question is what the challenger has chosen, @role
    /// "HostHost" or "Controller", @own the NQN of the one that answers, @other that of the challenger.
    std::string answer(std::string question, const char* role, const std::string& own,
                       const std::string& other) const;
};
