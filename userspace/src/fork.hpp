// SPDX-License-Identifier: LGPL-2.1-or-later
/// Detects objects that were copied by fork(): their kernel side belongs to the parent.
#pragma once

#include <atomic>

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

} // namespace weft
