// SPDX-License-Identifier: GPL-2.0-only
#include "secret.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <openssl/core_names.h>
#include <openssl/dh.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <stdexcept>
#include <vector>

namespace
{

const std::uint8_t* octets(const std::string& text)
{
    return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string hmac(const EVP_MD* hash, const std::string& key, const std::string& message)
{
    std::uint8_t out[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (!HMAC(hash, key.data(), static_cast<int>(key.size()), octets(message), message.size(), out, &size))
        throw std::runtime_error("OpenSSL computes no HMAC");
    return std::string(reinterpret_cast<const char*>(out), size);
}

/// By the number that a secret gives it.
const EVP_MD* transformation(unsigned hash)
{
    return hash == 1 ? EVP_sha256() : hash == 2 ? EVP_sha384() : EVP_sha512();
}

/// "DHHC-1:01:BASE64:", where BASE64 has the key and its checksum. Returns false for anything else. The host
/// tests the checksum of the same file.
bool parse(const std::string& text, auth_secret& secret)
{
    constexpr std::size_t begin = 10;
    constexpr std::ptrdiff_t checksum = 4;
    if (text.size() < begin + 2 || !text.starts_with("DHHC-1:0") || text[9] != ':' || text.back() != ':')
        return false;
    const auto base64 = text.substr(begin, text.size() - begin - 1);
    std::vector<std::uint8_t> bytes(base64.size());
    const auto padding = std::count(base64.begin(), base64.end(), '=');
    const auto size = static_cast<std::ptrdiff_t>(base64.size() / 4 * 3) - padding - checksum;
    const int decoded = EVP_DecodeBlock(bytes.data(), octets(base64), static_cast<int>(base64.size()));
    secret.hash = static_cast<unsigned>(text[8] - '0');
    if (decoded < 0 || secret.hash > 3 || (size != 32 && size != 48 && size != 64))
        return false;
    secret.key.assign(bytes.begin(), bytes.begin() + size);
    return true;
}

} // namespace

dh_key::dh_key()
{
    const std::unique_ptr<EVP_PKEY_CTX, freed> context(EVP_PKEY_CTX_new_from_name(nullptr, "DH", nullptr));
    char group[] = "ffdhe2048";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("group", group, 0), OSSL_PARAM_construct_end()};
    EVP_PKEY* made = nullptr;
    if (!context || EVP_PKEY_keygen_init(context.get()) <= 0 ||
        EVP_PKEY_CTX_set_params(context.get(), params) <= 0 || EVP_PKEY_generate(context.get(), &made) <= 0)
        throw std::runtime_error("OpenSSL makes no key of ffdhe2048");
    key_.reset(made);
}

std::string dh_key::value() const
{
    unsigned char* bytes = nullptr;
    const auto length = EVP_PKEY_get1_encoded_public_key(key_.get(), &bytes);
    const std::string value(reinterpret_cast<const char*>(bytes), length);
    OPENSSL_free(bytes);
    if (value.size() != size)
        throw std::runtime_error("a public value of ffdhe2048 has another size");
    return value;
}

std::string dh_key::session(const std::uint8_t* other) const
{
    const std::unique_ptr<EVP_PKEY, freed> peer(EVP_PKEY_new());
    const std::unique_ptr<EVP_PKEY_CTX, freed> context(
        EVP_PKEY_CTX_new_from_pkey(nullptr, key_.get(), nullptr));
    std::uint8_t shared[size], hash[EVP_MAX_MD_SIZE];
    std::size_t length = sizeof(shared);
    unsigned hashed = 0;
    if (EVP_PKEY_copy_parameters(peer.get(), key_.get()) <= 0 ||
        EVP_PKEY_set1_encoded_public_key(peer.get(), other, size) <= 0 ||
        EVP_PKEY_derive_init(context.get()) <= 0 || EVP_PKEY_CTX_set_dh_pad(context.get(), 1) <= 0 ||
        EVP_PKEY_derive_set_peer(context.get(), peer.get()) <= 0 ||
        EVP_PKEY_derive(context.get(), shared, &length) <= 0 ||
        !EVP_Digest(shared, length, hash, &hashed, EVP_sha256(), nullptr))
        return {};
    return std::string(reinterpret_cast<const char*>(hash), hashed);
}

std::string augmented(const std::string& session, const std::string& challenge)
{
    return hmac(EVP_sha256(), session, challenge);
}

bool auth_secret::read(const std::string& file)
{
    if (file.empty())
        return true;
    std::ifstream in(file);
    std::string text;
    std::getline(in, text);
    if (parse(text, *this))
        return true;
    std::fprintf(stderr, "hostile target: no secret is in %s\n", file.c_str());
    return false;
}

std::string auth_secret::answer(std::string question, const char* role, const std::string& own,
                                const std::string& other) const
{
    question.append(role).append(own);
    question.push_back('\0'); // between the names
    question.append(other);
    if (!hash)
        return hmac(EVP_sha256(), key, question);
    return hmac(EVP_sha256(), hmac(transformation(hash), key, own + "NVMe-over-Fabrics"), question);
}
