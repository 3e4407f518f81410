// SPDX-License-Identifier: LGPL-2.1-or-later
#include "uring.hpp"

#include <cerrno>
#include <fstream>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft
{

int try_io_uring() noexcept
{
    io_uring_params parameters{};
    const auto ring = ::syscall(__NR_io_uring_setup, 1, &parameters);
    if (ring < 0)
        return errno;
    ::close(static_cast<int>(ring));
    return 0;
}

std::string why_io_uring_fails(int errnum)
{
    if (errnum != EPERM && errnum != ENOSYS)
        return {};
    std::string disabled;
    if (errnum == EPERM && std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled && disabled != "0")
        return "the sysctl kernel.io_uring_disabled is " + disabled + "; set it to 0";
    // Container runtimes refuse a system call as if the kernel did not have it.
    if (::prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER)
        return "a seccomp filter, such as that of a container, refuses it; allow io_uring_setup, "
               "io_uring_enter and io_uring_register";
    return errnum == ENOSYS ? "this kernel is built without io_uring (CONFIG_IO_URING)"
                            : "a security module of the kernel refuses it";
}

} // namespace weft
