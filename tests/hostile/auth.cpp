// SPDX-License-Identifier: GPL-2.0-only
#include "auth.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <endian.h>
#include <random>

namespace
{

constexpr std::uint8_t common = 0x00;
constexpr std::uint8_t dhchap = 0x01;
constexpr std::uint8_t negotiate_id = 0x00;
constexpr std::uint8_t challenge_id = 0x01;
constexpr std::uint8_t reply_id = 0x02;
constexpr std::uint8_t success1_id = 0x03;
constexpr std::uint8_t success2_id = 0x04;
constexpr std::uint8_t failure1_id = 0xf1;
constexpr std::uint8_t failure2_id = 0xf0;

constexpr std::uint8_t sha256 = 1;
constexpr std::uint8_t hash_size = 32;
constexpr std::uint8_t ffdhe2048 = 1;
/// Where values begin in a challenge, in a reply and in a Success1.
constexpr std::size_t values = 16;
/// Where the names begin in the data of a Connect, and their size.
constexpr std::size_t subnqn_at = 256;
constexpr std::size_t host_nqn_at = 512;
constexpr std::size_t nqn_size = 256;

std::uint8_t random_byte()
{
    static std::random_device random;
    return static_cast<std::uint8_t>(random());
}

void store16(std::uint8_t* to, std::uint16_t value)
{
    value = htole16(value);
    std::memcpy(to, &value, sizeof(value));
}

std::string hex(const std::uint8_t* from, std::size_t size)
{
    std::string text;
    for (std::size_t i = 0; i < size; i++) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", from[i]);
        text += digits;
    }
    return text;
}

std::string nqn(const std::uint8_t* from)
{
    const auto* text = reinterpret_cast<const char*>(from);
    return std::string(text, strnlen(text, nqn_size));
}

/// What a response has to answer: the challenge at @at in a message, its sequence number, the transaction,
/// and SC_C 0: the connection has no secure channel (8.3.5.5.4).
std::string question(const std::uint8_t* message, std::size_t at)
{
    const auto* from = reinterpret_cast<const char*>(message);
    std::string text(from + at, hash_size);
    text.append(from + 12, 4).append(from + 4, 2).push_back('\0');
    return text;
}

} // namespace

void auth_dialog::connected(const std::uint8_t* data)
{
    subnqn_ = nqn(data + subnqn_at);
    host_nqn_ = nqn(data + host_nqn_at);
}

std::string auth_dialog::sent(const std::uint8_t* message, std::size_t size)
{
    if (size < 8)
        return "a message that is too short";
    if (message[0] == common && message[1] == negotiate_id) {
        std::uint16_t transaction;
        std::memcpy(&transaction, message + 4, sizeof(transaction));
        transaction_ = le16toh(transaction);
        negotiated_ = true;
        replied_ = false;
        return "negotiates transaction " + std::to_string(transaction_);
    }
    if (message[0] == dhchap && message[1] == reply_id && size >= values + 2 * hash_size) {
        replied_ = true;
        response_.assign(message + values, message + values + hash_size);
        // The host sends a challenge of its own, too.
        question_.clear();
        if (message[8])
            question_ = question(message, values + hash_size);
        if (dh_ && !agree(message, size))
            return "replies with a value that is not one of the group";
        return message[8] ? "replies with challenge " + hex(message + values + hash_size, hash_size)
                          : "replies";
    }
    if (message[0] == dhchap && message[1] == success2_id)
        return "is content";
    if (message[0] == common && message[1] == failure2_id)
        return "refuses the target";
    return "sends a message of an unknown kind";
}

bool auth_dialog::agree(const std::uint8_t* message, std::size_t size)
{
    constexpr auto value = values + 2 * hash_size;
    const auto session = size < value + dh_key::size ? std::string() : dh_->session(message + value);
    if (session.empty()) {
        response_.clear();
        return false;
    }
    for (auto* text : {&asked_, &question_})
        if (!text->empty())
            text->replace(0, hash_size, augmented(session, text->substr(0, hash_size)));
    return true;
}

void auth_dialog::begin(std::uint8_t* to, std::uint8_t type, std::uint8_t id) const
{
    to[0] = type;
    to[1] = id;
    store16(to + 4, static_cast<std::uint16_t>(transaction_ ^ (fault_ == "auth-transaction" ? 1 : 0)));
}

void auth_dialog::challenge(std::uint8_t* to)
{
    const bool group = known_.dh || fault_ == "auth-value" || fault_ == "auth-degenerate";
    std::uint16_t value_size = group ? dh_key::size : 0;
    begin(to, dhchap, challenge_id);
    to[6] = hash_size;
    to[8] = sha256;
    to[9] = group ? ffdhe2048 : 0;
    if (fault_ == "auth-hash")
        to[8] = 9;
    if (fault_ == "auth-length")
        to[6] = hash_size + 1;
    if (fault_ == "auth-group")
        to[9] = 9;
    if (fault_ == "auth-value")
        value_size--;
    store16(to + 10, value_size);
    std::generate_n(to + 12, 4 + hash_size, random_byte);
    if (known_.dh) {
        const auto value = dh_.emplace().value();
        std::copy(value.begin(), value.end(), to + values + hash_size);
    }
    if (fault_ == "auth-degenerate") // big-endian
        to[values + hash_size + dh_key::size - 1] = 1;
    if (fault_ == "auth-wild")
        std::generate_n(to + 6, message_size - 6, random_byte);
    asked_ = question(to, values);
}

bool auth_dialog::accepts() const
{
    if (known_.host.key.empty())
        return true;
    return known_.host.answer(asked_, "HostHost", host_nqn_, subnqn_) == response_;
}

std::string auth_dialog::proof()
{
    if (fault_ == "auth-reflect")
        return response_;
    if (fault_ == "auth-forge") {
        std::string forged(hash_size, '\0');
        std::generate(forged.begin(), forged.end(), random_byte);
        return forged;
    }
    if (known_.ctrl.key.empty() || question_.empty())
        return {};
    if (fault_ != "auth-replay" || known_.response.empty())
        known_.response = known_.ctrl.answer(question_, "Controller", subnqn_, host_nqn_);
    return known_.response;
}

void auth_dialog::success(std::uint8_t* to)
{
    begin(to, dhchap, success1_id);
    to[6] = hash_size;
    const auto response = proof();
    to[8] = !response.empty();
    std::copy(response.begin(), response.end(), to + values);
}

bool auth_dialog::answer(std::uint8_t* to)
{
    std::memset(to, 0, message_size);
    if (!negotiated_)
        return false;
    if (replied_ && (fault_ == "auth-refuse" || !accepts())) {
        begin(to, common, failure1_id);
        to[6] = to[7] = 1; // authentication failed
    } else if (replied_ || fault_ == "auth-order") {
        success(to);
    } else {
        challenge(to);
    }
    return true;
}
