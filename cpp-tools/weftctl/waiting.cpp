// SPDX-License-Identifier: GPL-2.0-only
#include "waiting.hpp"

#include "result.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

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

/// How many characters fit into a line that does not wrap: a wrapped one could not be written again.
std::size_t columns()
{
    winsize size{};
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

std::mutex line_lock; // of the terminal's line, and of what follows
std::vector<const waiting*> alive;
bool is_written = false;

void erase_line()
{
    if (is_written)
        complain("\r\x1b[K");
    is_written = false;
}

} // namespace

waiting::waiting(std::string what) : what_(std::move(what))
{
    if (!can_rewrite())
        return;
    const std::lock_guard lock(line_lock);
    alive.push_back(this);
    thread_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
}

waiting::~waiting()
{
    if (!thread_.joinable())
        return;
    thread_.request_stop();
    thread_.join();
    const std::lock_guard lock(line_lock);
    if (alive.back() == this)
        erase_line();
    std::erase(alive, this);
}

void waiting::tell(const std::stop_token& stop)
{
    std::unique_lock lock(line_lock);
    for (unsigned int seconds = 1;; seconds++) {
        changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
        if (stop.stop_requested())
            return;
        if (seconds < 2 || alive.back() != this)
            continue;
        const auto time = fmt::format(", {} s", seconds);
        erase_line();
        complain("{}{}", what_.substr(0, std::max(columns(), time.size()) - time.size()), time);
        is_written = true;
    }
}

} // namespace weft
