// SPDX-License-Identifier: LGPL-2.1-or-later
/// Faults that tests inject into I/O by file. Empty in the installed library.
#pragma once

#include <cstdint>

namespace weft::faults
{

#ifdef WEFT_FAULTS
std::uint32_t shorten(std::uint32_t length) noexcept; ///< the length that a submission uses
int replace(int result) noexcept;                     ///< the result that a completion has
int stalled() noexcept;                               ///< a file whose I/O never ends, to use instead; or -1
bool full() noexcept;                                 ///< true: the ring has no room for a submission
void synced(unsigned long long flags) noexcept;       ///< reports DMA_BUF_IOCTL_SYNC
void ring_made() noexcept;                            ///< reports it to the thread checker
void ring_ends() noexcept;
#else
constexpr std::uint32_t shorten(std::uint32_t length) noexcept
{
    return length;
}
constexpr int replace(int result) noexcept
{
    return result;
}
constexpr int stalled() noexcept
{
    return -1;
}
constexpr bool full() noexcept
{
    return false;
}
constexpr void synced(unsigned long long) noexcept {}
constexpr void ring_made() noexcept {}
constexpr void ring_ends() noexcept {}
#endif

} // namespace weft::faults
