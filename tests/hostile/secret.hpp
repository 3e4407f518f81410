// SPDX-License-Identifier: GPL-2.0-only
/// A secret of DH-HMAC-CHAP and what it proves (NVMe base 2.1, 8.3.5), by OpenSSL: the target shares no code
/// with the host that it tests.
#pragma once

#include <string>

struct auth_secret {
    std::string key;   ///< bytes; none if the secret is not known
    unsigned hash = 0; ///< that transforms it: 0 for none, 1 to 3 for SHA-256, SHA-384, SHA-512

    /// Reads what "weftctl gen-dhchap-key" writes. An empty name is that of no secret. Returns false, and
    /// says so, if the file has none.
    bool read(const std::string& file);

    /// The response with SHA-256 and without a group. @question is what the challenger has chosen, @role
    /// "HostHost" or "Controller", @own the NQN of the one that answers, @other that of the challenger.
    std::string answer(std::string question, const char* role, const std::string& own,
                       const std::string& other) const;
};
