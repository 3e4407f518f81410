// SPDX-License-Identifier: GPL-2.0-only
#include "secret_text.hpp"

#include "keyctl.hpp"
#include "sysfile.hpp"
#include <fd.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <isa-l/crc.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft
{

namespace
{

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t check_size = 4;
/// A secret has one line of at most 107 characters.
constexpr std::size_t text_most = 256;

result<void> check_owner(const std::string& name, uid_t owner)
{
    if (owner == 0 || owner == ::geteuid())
        return {};
    return fail(exit_code::permission, "the secret {} belongs to user {}, and that user can change it", name,
                owner);
}

/// Bits of a key's permissions (keyctl_setperm(3)).
constexpr unsigned int others_may_read = 0x0202;

/// Finds a key of the type "user", and makes it this process's to read: a service has a session keyring of
/// its own, in which the user's keyring is not.
long find_key(const std::string& description)
{
    const auto found =
        keyctl(KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", description.c_str(), KEY_SPEC_PROCESS_KEYRING);
    return found >= 0
               ? found
               : ::syscall(SYS_request_key, "user", description.c_str(), nullptr, KEY_SPEC_PROCESS_KEYRING);
}

result<std::string> text_of_key(const std::string& name)
{
    const auto description = name.substr(keyring_prefix.size());
    const auto key = find_key(description);
    if (key < 0 && (errno == ENOKEY || errno == EKEYREVOKED || errno == EKEYEXPIRED))
        return fail(
            exit_code::missing,
            "the secret {} is not in the keyring of this user: 'keyctl padd user {} @u <FILE' puts it "
            "there",
            name, description);
    std::array<char, 512> about{};
    if (key < 0 || keyctl(KEYCTL_DESCRIBE, key, about.data(), about.size()) < 0)
        return fail(exit_code_of(errno), "the secret {} cannot be read: {}", name, std::strerror(errno));
    // "user;0;0;3f010000;description"
    unsigned int owner = 0, permissions = 0;
    if (std::sscanf(about.data(), "user;%u;%*u;%x;", &owner, &permissions) != 2)
        return fail(exit_code::failure, "the secret {} cannot be read: the kernel describes no key", name);
    if (auto good = check_owner(name, owner); !good)
        return std::unexpected(good.error());
    if (permissions & others_may_read)
        return fail(
            exit_code::permission,
            "users other than its owner may read the secret {}: run 'keyctl setperm {} 0x3f3f0000', and "
            "make a new secret if they read it",
            name, key);
    std::string text(text_most, '\0');
    const auto size = keyctl(KEYCTL_READ, key, text.data(), text.size());
    if (size < 0)
        return fail(exit_code_of(errno), "the secret {} cannot be read: {}", name, std::strerror(errno));
    // It says how long the key is, which may be longer than what it has read.
    text.resize(std::min(static_cast<std::size_t>(size), text.size()));
    return text;
}

result<std::string> text_of_file(const std::string& path)
{
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat st {
    };
    if (!fd || ::fstat(fd.get(), &st))
        return fail(exit_code_of(errno), "the secret {} cannot be read: {}", path, std::strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail(exit_code::usage, "the secret {} is not a file", path);
    if (auto good = check_owner(path, st.st_uid); !good)
        return std::unexpected(good.error());
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return fail(
            exit_code::permission,
            "users other than its owner may read the secret {}: run 'chmod 600 {}', and make a new secret "
            "if they read it",
            path, path);
    std::string text(text_most, '\0');
    const auto size = ::read(fd.get(), text.data(), text.size());
    if (size < 0)
        return fail(exit_code_of(errno), "the secret {} cannot be read: {}", path, std::strerror(errno));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

/// Bytes of base64 (RFC 4648, 4) with its padding; unset for anything else.
std::optional<std::vector<std::uint8_t>> from_base64(std::string_view text)
{
    std::vector<std::uint8_t> bytes;
    std::uint32_t bits = 0;
    unsigned int count = 0;
    if (text.size() % 4)
        return std::nullopt;
    const auto padded = text.find_first_of('=');
    const auto body = text.substr(0, padded);
    if (text.size() - body.size() > 2 || text.substr(body.size()).find_first_not_of('=') != text.npos)
        return std::nullopt;
    for (const char one : body) {
        const auto digit = digits.find(one);
        if (digit == digits.npos)
            return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(digit);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes.push_back(static_cast<std::uint8_t>(bits >> count));
        }
    }
    return bytes;
}

std::string to_base64(const std::vector<std::uint8_t>& bytes)
{
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto left = bytes.size() - i;
        const std::uint32_t bits = static_cast<std::uint32_t>(bytes[i]) << 16 |
                                   (left > 1 ? static_cast<std::uint32_t>(bytes[i + 1]) << 8 : 0U) |
                                   (left > 2 ? bytes[i + 2] : 0U);
        for (std::size_t digit = 0; digit < 4; digit++)
            text += digit <= left ? digits[bits >> (18 - 6 * digit) & 63] : '=';
    }
    return text;
}

/// CRC-32 of the key, its lowest byte first.
std::array<std::uint8_t, check_size> check_of(const std::vector<std::uint8_t>& key)
{
    const std::uint32_t crc = ::crc32_gzip_refl(0, key.data(), key.size());
    return {static_cast<std::uint8_t>(crc), static_cast<std::uint8_t>(crc >> 8),
            static_cast<std::uint8_t>(crc >> 16), static_cast<std::uint8_t>(crc >> 24)};
}

} // namespace

std::string secret_bytes::text(std::string_view prefix) const
{
    auto bytes = key;
    const auto check = check_of(key);
    bytes.insert(bytes.end(), check.begin(), check.end());
    return fmt::format("{}{:02}:{}:", prefix, hash, to_base64(bytes));
}

result<secret_bytes> parse_secret(const secret_form& form, std::string_view text, const std::string& where)
{
    const auto bad = [&](const std::string& why) {
        return fail(exit_code::usage, "{} is not a {}: {}", where, form.what, why);
    };
    if (!text.starts_with(form.prefix) || !text.ends_with(':') || text.size() < form.prefix.size() + 4)
        return bad(fmt::format("it is not of the form {}NN:BASE64:", form.prefix));
    text.remove_prefix(form.prefix.size());
    if (text[0] != '0' || text[1] < '0' || text[1] > static_cast<char>('0' + form.hashes) || text[2] != ':')
        return bad(fmt::format("the two digits after {} must be 00 to 0{}", form.prefix, form.hashes));
    secret_bytes secret;
    secret.hash = static_cast<unsigned int>(text[1] - '0');
    auto bytes = from_base64(text.substr(3, text.size() - 4));
    if (!bytes)
        return bad("its third field is not base64");
    if (bytes->size() < check_size ||
        std::ranges::find(form.sizes, bytes->size() - check_size) == form.sizes.end())
        return bad(fmt::format("its key must have {} bytes", form.sizes_text));
    secret.key.assign(bytes->begin(), bytes->end() - check_size);
    if (!std::equal(bytes->end() - check_size, bytes->end(), check_of(secret.key).begin()))
        return bad("its checksum is wrong");
    // A hash of that length, or none.
    if (secret.hash && secret.key.size() != hash_size(secret.hash))
        return bad("its key must be as long as its hash");
    return secret;
}

result<std::string> read_secret(const std::string& path)
{
    auto text = path.starts_with(keyring_prefix) ? text_of_key(path) : text_of_file(path);
    if (text)
        text->erase(text->find_last_not_of(" \t\r\n") + 1);
    return text;
}

bool is_full_name(const std::string& path)
{
    return path.starts_with('/') || path.starts_with(keyring_prefix);
}

std::string full_name(const std::string& path)
{
    return path.empty() || is_full_name(path) ? path : std::filesystem::absolute(path).string();
}

result<secret_bytes> new_secret(std::size_t size, unsigned int hash)
{
    secret_bytes secret;
    secret.hash = hash;
    secret.key.resize(size);
    if (::getrandom(secret.key.data(), size, 0) != static_cast<ssize_t>(size))
        return fail(exit_code::failure, "the kernel gives no random bytes: {}", std::strerror(errno));
    return secret;
}

} // namespace weft
