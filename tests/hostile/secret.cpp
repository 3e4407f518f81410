// SPDX-License-Identifier: GPL-2.0-only
#include "secret.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <openssl/evp.h>
#include <openssl/hmac.h>
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
