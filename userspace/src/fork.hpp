// SPDX-License-Identifier: LGPL-2.1-or-later
/// Detects objects that were copied by fork(): their kernel side belongs to the parent.
#pragma once

#include <atomic>
#include <sys/types.h>
#include <unistd.h>

namespace weft
{

/// Differs between a child and its parent, once watch_forks() was called.
extern std::atomic<unsigned> fork_count;
void watch_forks() noexcept;

/// A part of an object that shows if the object was copied by fork().
class Origin
{
public:
    Origin() noexcept
    {
        watch_forks();
        made_ = fork_count.load(std::memory_order_relaxed);
    }
    [[nodiscard]] bool is_parents() const noexcept
    {
        return made_ != fork_count.load(std::memory_order_relaxed);
    }

private:
    unsigned made_;
};

/// This thread's id in the kernel, which no other thread has while it lives.
[[nodiscard]] inline pid_t own_task() noexcept
{
    struct Known {
        unsigned forks;
        pid_t task;
    };
    thread_local Known known{0, 0};
    // A child of fork() has a thread of its own.
    const auto forks = fork_count.load(std::memory_order_relaxed);
    if (!known.task || known.forks != forks)
        known = {forks, ::gettid()};
    return known.task;
}

} // namespace weft
