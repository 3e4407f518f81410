// SPDX-License-Identifier: GPL-2.0-only
#include "tls.hpp"

#include "keyctl.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <libnvme.h>
#include <mutex>
#include <sstream>
#include <utility>

namespace weft
{

namespace
{

constexpr std::array<std::size_t, 2> sizes{32, 48};
constexpr secret_form form{"NVMeTLSkey-1:", "TLS key", 2, "32 or 48", sizes};
/// A key of the keyring, and what names it: "NVMe1R01 HOSTNQN SUBNQN DIGEST".
struct found_key {
    long number = 0;
    std::string identity;
    tls_pair pair;
};

#ifdef WEFT_LIBNVME_TLS

constexpr auto keyring = ".nvme";

/// One change at a time: each looks first.
std::mutex lock;

/// The keyring's number. libnvme links it to the session's keyring, which may be a user's: this thread gets
/// one of its own.
result<long> open_keyring()
{
    if (keyctl(KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0)
        return fail(exit_code_of(errno), "a session keyring cannot be made: {}", std::strerror(errno));
    const long number = nvme_lookup_keyring(keyring);
    if (!number)
        return fail(exit_code::usage,
                    "this kernel has no keys for TLS (it lacks CONFIG_NVME_TCP_TLS or, for a "
                    "target, CONFIG_NVME_TARGET_TCP_TLS)");
    if (nvme_set_keyring(number) < 0)
        return fail(exit_code_of(errno), "the keyring {} cannot be used: {}", keyring, std::strerror(errno));
    return number;
}

void take_key(long, long number, char* description, int size, void* data)
{
    found_key found;
    found.number = number;
    found.identity.assign(description, static_cast<std::size_t>(size < 0 ? 0 : size));
    // What keyctl(2) puts before it, if it is there.
    found.identity.erase(0, found.identity.find_last_of(';') + 1);
    found.identity.resize(std::strlen(found.identity.c_str()));
    std::istringstream words(found.identity);
    std::string kind;
    words >> kind >> found.pair.host_nqn >> found.pair.subnqn;
    static_cast<std::vector<found_key>*>(data)->push_back(std::move(found));
}

result<std::vector<found_key>> keys_of(const std::string& host_nqn)
{
    std::vector<found_key> all;
    if (nvme_scan_tls_keys(keyring, take_key, &all) < 0)
        return fail(exit_code_of(errno), "the keyring {} cannot be read: {}", keyring, std::strerror(errno));
    std::erase_if(all, [&](const found_key& key) { return key.pair.host_nqn != host_nqn; });
    return all;
}

/// The kernel of a host looks for a name that begins as the pair's.
result<void> check_prefix(const std::vector<found_key>& known, const tls_pair& pair)
{
    for (const auto& key : known)
        if (key.pair.subnqn != pair.subnqn && key.pair.subnqn.starts_with(pair.subnqn))
            return fail(exit_code::busy,
                        "the kernel would use the key of {}, because that name begins with {}: give one of "
                        "the two another name",
                        key.pair.subnqn, pair.subnqn);
    return {};
}

#endif

} // namespace

std::string tls_key::text() const
{
    return secret_bytes::text(form.prefix);
}

result<tls_key> parse_tls_key(std::string_view text, const std::string& where)
{
    auto secret = parse_secret(form, text, where);
    if (!secret)
        return std::unexpected(secret.error());
    return tls_key{std::move(*secret)};
}

result<tls_key> read_tls_key(const std::string& path)
{
    const auto text = read_secret(path);
    if (!text)
        return std::unexpected(text.error());
    return parse_tls_key(*text, path);
}

result<tls_key> new_tls_key(std::size_t size)
{
    auto secret = new_secret(size, size == hash_size(1) ? 1 : 2);
    if (!secret)
        return std::unexpected(secret.error());
    return tls_key{std::move(*secret)};
}

tls_change::tls_change(tls_change&& other) noexcept
    : made_(std::exchange(other.made_, 0)), replaced_(std::exchange(other.replaced_, {}))
{
}

tls_change& tls_change::operator=(tls_change&& other) noexcept
{
    std::swap(made_, other.made_);
    std::swap(replaced_, other.replaced_);
    return *this;
}

#ifdef WEFT_LIBNVME_TLS

result<tls_change> tls_change::insert(const tls_key& key, const tls_pair& pair)
{
    tls_change change; // before the lock, which undoing it takes
    const std::lock_guard held(lock);
    const auto ring = open_keyring();
    if (!ring)
        return std::unexpected(ring.error());
    const auto known = keys_of(pair.host_nqn);
    if (!known)
        return std::unexpected(known.error());
    if (auto good = check_prefix(*known, pair); !good)
        return std::unexpected(good.error());
    // A key without a hash is for SHA-256, or for SHA-384 if it is longer.
    const int hash = key.hash ? static_cast<int>(key.hash) : key.key.size() == hash_size(1) ? 1 : 2;
    auto bytes = key.key;
    // Version 1 of the identity has a digest of the key (NVMe/TCP 1.1, 3.6.1.3): the same name is the same
    // key.
    const std::unique_ptr<char, decltype(&std::free)> identity(
        nvme_generate_tls_key_identity(pair.host_nqn.c_str(), pair.subnqn.c_str(), 1, hash, bytes.data(),
                                       static_cast<int>(bytes.size())),
        &std::free);
    if (!identity)
        return fail(exit_code::failure, "libnvme derives no TLS key for {}: {}", pair.subnqn,
                    std::strerror(errno));
    long own = 0;
    for (const auto& one : *known)
        if (one.identity == identity.get())
            own = one.number;
    if (!own) {
        errno = 0;
        own = nvme_insert_tls_key_versioned(keyring, "psk", pair.host_nqn.c_str(), pair.subnqn.c_str(), 1,
                                            hash, bytes.data(), static_cast<int>(bytes.size()));
        if (own <= 0)
            return fail(exit_code_of(errno), "the TLS key for {} cannot be put into the keyring {}: {}",
                        pair.subnqn, keyring, errno ? std::strerror(errno) : "libnvme gives no reason");
        change.made_ = own;
    }
    for (const auto& one : *known) {
        if (one.number == own || one.pair.subnqn != pair.subnqn)
            continue;
        // This process keeps it, for undoing this.
        if (keyctl(KEYCTL_LINK, one.number, KEY_SPEC_PROCESS_KEYRING) >= 0 &&
            keyctl(KEYCTL_UNLINK, one.number, *ring) >= 0) {
            change.replaced_.push_back(one.number);
            continue;
        }
        // Another command has taken it out meanwhile.
        if (errno == ENOENT || errno == ENOKEY)
            continue;
        return fail(exit_code_of(errno),
                    "the former TLS key for {} cannot be taken out of the keyring {}: {}", pair.subnqn,
                    keyring, std::strerror(errno));
    }
    return change;
}

tls_change::~tls_change()
{
    if (!made_ && replaced_.empty())
        return;
    const std::lock_guard held(lock);
    const auto ring = open_keyring();
    if (!ring)
        return;
    if (made_)
        keyctl(KEYCTL_UNLINK, made_, *ring);
    for (const long one : replaced_)
        keyctl(KEYCTL_LINK, one, *ring);
}

void remove_tls_keys(const tls_pair& pair)
{
    const std::lock_guard held(lock);
    const auto ring = open_keyring();
    if (!ring)
        return;
    const auto known = keys_of(pair.host_nqn);
    for (const auto& one : known ? *known : std::vector<found_key>())
        if (one.pair.subnqn == pair.subnqn)
            keyctl(KEYCTL_UNLINK, one.number, *ring);
}

#else

result<tls_change> tls_change::insert(const tls_key&, const tls_pair&)
{
    return fail(exit_code::usage, "this weftctl was built with a libnvme that cannot make TLS keys; "
                                  "libnvme 1.9 or newer can");
}

tls_change::~tls_change() = default;

void remove_tls_keys(const tls_pair&) {}

#endif

void tls_change::keep()
{
    made_ = 0;
    replaced_.clear();
}

} // namespace weft
