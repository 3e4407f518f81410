// SPDX-License-Identifier: GPL-2.0-only
/// Saved volumes that a command waits for, as others see them: status and the doctor.
#pragma once

#include <fd.hpp>

#include <ctime>
#include <string>
#include <vector>

namespace weft
{

struct awaited_volume {
    std::string name;
    std::time_t since = 0; ///< UNIX time
    std::string reason;    ///< a sentence; which member is missing, and why
};

/// Those that some command of this host waits for now, by name.
[[nodiscard]] std::vector<awaited_volume> awaited_volumes();

/// While this lives, others see that its volume is awaited. Without the privilege for /run/weft they do not.
class awaiting
{
public:
    explicit awaiting(std::string name) : name_(std::move(name)) {}
    awaiting(const awaiting&) = delete;
    awaiting& operator=(const awaiting&) = delete;
    ~awaiting() { end(); }

    /// Changes the reason; the time is that of the first one.
    void say(const std::string& reason);
    /// The volume is there, or is not waited for any more.
    void end();

private:
    std::string name_;
    std::time_t since_ = 0;
    OwnedFd fd_; ///< its lock shows that this process lives
};

} // namespace weft
