// SPDX-License-Identifier: GPL-2.0-only
#include "waiting.hpp"

#include "result.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace weft
{

namespace
{

/// Is standard error a terminal where a line can be written again?
bool can_rewrite()
{
    const char* kind = std::getenv("TERM");
    return isatty(STDERR_FILENO) && kind && std::string_view(kind) != "dumb";
}

} // namespace

waiting::waiting(std::string what) : what_(std::move(what))
{
    if (can_rewrite())
        thread_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
}

void waiting::tell(const std::stop_token& stop)
{
    bool told = false;
    std::unique_lock lock(mutex_);
    for (unsigned int seconds = 1;; seconds++) {
        changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
        if (stop.stop_requested())
            break;
        if (seconds < 2)
            continue;
        complain("\r{}, {} s", what_, seconds);
        told = true;
    }
    if (told)
        complain("\r\x1b[K"); // erases the line
}

} // namespace weft
