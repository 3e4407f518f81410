// SPDX-License-Identifier: LGPL-2.1-or-later
/// Where tests make I/O by file go wrong; nothing in what is installed.
#pragma once

#include <cstdint>

namespace weft::faults
{

#ifdef WEFT_FAULTS
std::uint32_t shorten(std::uint32_t length) noexcept; ///< what a submission asks for
int replace(int result) noexcept;                     ///< what comes back
int stalled() noexcept;                               ///< a file without an end to go to instead, or -1
void ring_made() noexcept;                            ///< tell what watches over threads
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
constexpr void ring_made() noexcept {}
constexpr void ring_ends() noexcept {}
#endif

} // namespace weft::faults
