// SPDX-License-Identifier: GPL-2.0-only
#include "support.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "userspace/src/faults.hpp"

namespace weft::test
{

Faults faults;

} // namespace weft::test

namespace weft::faults
{

namespace
{

bool take(std::atomic<unsigned>& left)
{
    auto now = left.load();
    while (now && !left.compare_exchange_weak(now, now - 1))
        ;
    return now != 0;
}

} // namespace

std::uint32_t shorten(std::uint32_t length) noexcept
{
    const auto longest = test::faults.longest.load();
    return longest ? std::min(length, longest) : length;
}

int replace(int result) noexcept
{
    if (take(test::faults.transient))
        return test::faults.transient % 2 ? -EINTR : -EAGAIN;
    if (test::faults.broken && !take(test::faults.broken_after) && take(test::faults.broken))
        return -EIO;
    if (test::faults.ended && !take(test::faults.broken_after) && take(test::faults.ended))
        return 0;
    if (test::faults.odd && result > 0 && !take(test::faults.broken_after) && take(test::faults.odd))
        return result - 1;
    return result;
}

void synced(unsigned long long flags) noexcept
{
    test::faults.synced[flags & 7]++;
}

bool full() noexcept
{
    return take(test::faults.full);
}

int stalled() noexcept
{
    // Nobody writes to it.
    static const int fd = [] {
        int ends[2];
        return ::pipe2(ends, O_CLOEXEC) ? -1 : ends[0];
    }();
    return take(test::faults.stalled) ? fd : -1;
}

// liburing maps rings by system calls that the thread sanitizer does not see: where one ring was, another
// thread's may be.
#ifdef __SANITIZE_THREAD__
namespace
{
int rings;
}

void ring_made() noexcept
{
    __tsan_acquire(&rings);
}

void ring_ends() noexcept
{
    __tsan_release(&rings);
}
#else
void ring_made() noexcept {}
void ring_ends() noexcept {}
#endif

} // namespace weft::faults
