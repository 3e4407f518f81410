// SPDX-License-Identifier: LGPL-2.1-or-later
#include "report.hpp"

#include "forks.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace weft::cufile
{

namespace
{

constexpr std::size_t most_reasons = 100;

struct State {
    ProcessLock<std::mutex> lock;
    std::map<std::pair<std::string, std::string>, std::uint64_t> reasons; ///< bytes by file and reason
    std::array<std::atomic<std::uint64_t>, 3> bytes{};                    ///< direct, staged, cached
    std::uint64_t summarized = 0;
};

/// Never destroyed: threads may do I/O until the process ends.
State& state() noexcept
{
    static auto* const once = new State;
    return *once;
}

const char* environment(const char* name) noexcept
{
    const char* value = ::secure_getenv(name);
    return value ? value : "";
}

std::size_t index_of(Route route) noexcept
{
    return route == Route::direct ? 0 : route == Route::cached ? 2 : 1;
}

} // namespace

bool is_strict() noexcept
{
    static const bool strict = std::strcmp(environment("WEFT_CUFILE_STRICT"), "1") == 0;
    return strict;
}

void say(const std::string& line) noexcept
{
    static const char* const log = environment("WEFT_CUFILE_LOG");
    if (std::strcmp(log, "none") == 0)
        return;
    try {
        const auto text = "weft-cufile: " + line + "\n";
        // One write, so that lines of several threads and processes stay whole.
        const int fd = log[0] ? ::open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : STDERR_FILENO;
        if (fd < 0 || ::write(fd, text.data(), text.size()) < 0)
            ::perror("weft-cufile: WEFT_CUFILE_LOG");
        if (log[0] && fd >= 0)
            ::close(fd);
    } catch (const std::exception&) {
        ::perror("weft-cufile");
    }
}

void say_once(const std::string& file, const std::string& reason) noexcept
{
    try {
        {
            const std::lock_guard held(state().lock);
            auto& reasons = state().reasons;
            if (reasons.size() >= most_reasons || !reasons.emplace(std::pair(file, reason), 0).second)
                return;
        }
        say(file + ": " + reason);
    } catch (const std::exception&) {
        ::perror("weft-cufile");
    }
}

void count(Route route, std::uint64_t bytes, const std::string& file, const std::string& reason) noexcept
{
    state().bytes[index_of(route)].fetch_add(bytes, std::memory_order_relaxed);
    if (route == Route::direct)
        return;
    try {
        const auto text = std::string(name_of(route)) + (reason.empty() ? "" : ": " + reason);
        say_once(file, text);
        const std::lock_guard held(state().lock);
        const auto found = state().reasons.find({file, text});
        if (found != state().reasons.end())
            found->second += bytes;
    } catch (const std::exception&) {
        ::perror("weft-cufile");
    }
}

Moved moved() noexcept
{
    const auto& bytes = state().bytes;
    return {bytes[0].load(std::memory_order_relaxed), bytes[1].load(std::memory_order_relaxed),
            bytes[2].load(std::memory_order_relaxed)};
}

void summarize() noexcept
{
    const auto bytes = moved();
    const auto all = bytes.direct + bytes.staged + bytes.cached;
    if (!environment("WEFT_CUFILE_LOG")[0] || !all)
        return;
    try {
        std::map<std::pair<std::string, std::string>, std::uint64_t> reasons;
        {
            const std::lock_guard held(state().lock);
            if (std::exchange(state().summarized, all) == all)
                return;
            reasons = state().reasons;
        }
        say("direct " + std::to_string(bytes.direct) + " bytes, staged " + std::to_string(bytes.staged) +
            " bytes, cached " + std::to_string(bytes.cached) + " bytes");
        for (const auto& [key, count] : reasons)
            if (count)
                say(key.first + ": " + key.second + ": " + std::to_string(count) + " bytes");
    } catch (const std::exception&) {
        ::perror("weft-cufile");
    }
}

} // namespace weft::cufile
