// SPDX-License-Identifier: GPL-2.0-only
/// The controller's side of DH-HMAC-CHAP (NVMe base 2.1, 8.3.5). One that knows no secret accepts every host,
/// and can prove nothing of itself. With the host's secret it refuses a host that does not know it; with its
/// own it answers the host's challenge.
#pragma once

#include "secret.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

/// What all connections of a target share.
struct auth_knowledge {
    auth_secret host, ctrl;
    bool dh = false;      ///< with a group
    std::string response; ///< that it gave last

    /// Reads the files of both secrets. Returns false, and says why, if that fails.
    bool read(const std::string& host_file, const std::string& ctrl_file)
    {
        return host.read(host_file) && ctrl.read(ctrl_file);
    }
};

class auth_dialog
{
public:
    static constexpr std::size_t message_size = 2048;
    /// Of the data of a Connect.
    static constexpr std::size_t connect_size = 1024;

    /// @fault is one of the kinds below, or any other word for none:
    /// "auth-hash", "auth-length", "auth-group", "auth-value": the challenge has a hash or a group that was
    /// not offered, or a length that is not the hash's or the group's; "auth-degenerate": its public value is
    /// 1; "auth-transaction": it belongs to another transaction; "auth-order": Success1 comes in its place;
    /// "auth-wild": it has random bytes; "auth-refuse": Failure1 answers the host's response; "auth-forge":
    /// Success1 has a random response; "auth-reflect": it has the host's own; "auth-replay": it has the one
    /// that was right when the target was first asked.
    auth_dialog(std::string fault, auth_knowledge& known) : fault_(std::move(fault)), known_(known) {}

    /// The data of the host's Connect are here: connect_size bytes.
    void connected(const std::uint8_t* data);
    /// The host has sent a message. Returns a sentence about it, for the log.
    std::string sent(const std::uint8_t* message, std::size_t size);
    /// The host wants one: @to has message_size bytes, which are set. Returns whether one is due.
    bool answer(std::uint8_t* to);
    /// The host has answered the challenge.
    bool replied() const { return replied_; }

private:
    void challenge(std::uint8_t* to);
    /// The host's reply has its public value: what is to be answered depends on the session from here on.
    /// Returns false if the value is not one of the group.
    bool agree(const std::uint8_t* message, std::size_t size);
    void success(std::uint8_t* to);
    /// The header of a message of this transaction.
    void begin(std::uint8_t* to, std::uint8_t type, std::uint8_t id) const;
    /// Does the host know its secret, as far as the target can tell?
    bool accepts() const;
    /// The controller's response; empty if it has none.
    std::string proof();

    std::string fault_;
    auth_knowledge& known_;
    std::string host_nqn_, subnqn_;
    std::uint16_t transaction_ = 0;
    std::optional<dh_key> dh_; ///< of the last challenge, if it has a group
    bool negotiated_ = false;
    bool replied_ = false;
    std::string asked_;    ///< what the host's response has to answer
    std::string response_; ///< the host's
    std::string question_; ///< of the host, for the controller; empty if it has none
};
