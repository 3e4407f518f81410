// SPDX-License-Identifier: GPL-2.0-only
/// keyctl(2), which libc does not wrap.
#pragma once

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft
{

/// Returns what the operation returns, or -1 with errno.
template <typename... Arguments>
long keyctl(int operation, Arguments... arguments)
{
    return ::syscall(SYS_keyctl, operation, arguments...);
}

} // namespace weft
