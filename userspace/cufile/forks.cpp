// SPDX-License-Identifier: LGPL-2.1-or-later
#include "forks.hpp"

#include <atomic>
#include <pthread.h>

namespace weft::cufile
{

unsigned forks() noexcept
{
    static std::atomic<unsigned> count = 0;
    static const int once = ::pthread_atfork(nullptr, nullptr, [] { count++; });
    static_cast<void>(once);
    return count.load(std::memory_order_relaxed);
}

} // namespace weft::cufile
