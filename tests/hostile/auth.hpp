// SPDX-License-Identifier: GPL-2.0-only
/// The controller's side of DH-HMAC-CHAP (NVMe base 2.1, 8.3.5), as one that knows no secret plays it: it
/// accepts every host, and can prove nothing of itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

class auth_dialog
{
public:
    static constexpr std::size_t message_size = 2048;

    /// @fault is one of the kinds below, or any other word for none:
    /// "auth-hash", "auth-length", "auth-group", "auth-value": the challenge has a hash or a group that was
    /// not offered, or a length that is not the hash's or the group's; "auth-degenerate": its public value is
    /// 1; "auth-transaction": it belongs to another transaction; "auth-order": Success1 comes in its place;
    /// "auth-wild": it has random bytes; "auth-refuse": Failure1 answers the host's response; "auth-forge":
    /// Success1 has a random response; "auth-reflect": it has the host's own.
    explicit auth_dialog(std::string fault) : fault_(std::move(fault)) {}

    /// The host has sent a message. Returns a sentence about it, for the log.
    std::string sent(const std::uint8_t* message, std::size_t size);
    /// The host wants one: @to has message_size bytes, which are set. Returns whether one is due.
    bool answer(std::uint8_t* to);
    /// The host has answered the challenge.
    bool replied() const { return replied_; }

private:
    void challenge(std::uint8_t* to);
    void success(std::uint8_t* to) const;
    /// The header of a message of this transaction.
    void begin(std::uint8_t* to, std::uint8_t type, std::uint8_t id) const;

    std::string fault_;
    std::uint16_t transaction_ = 0;
    bool negotiated_ = false;
    bool replied_ = false;
    std::array<std::uint8_t, 32> response_{};
};
