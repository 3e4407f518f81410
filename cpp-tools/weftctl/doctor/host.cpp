// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "host.hpp"
#include "size.hpp"
#include "sysfile.hpp"
#include <shim/uring.hpp>

#include <cstring>
#include <sys/resource.h>
#include <sys/timex.h>

namespace weft
{

namespace
{

constexpr rlim_t memlock_wanted = 64UL << 20;

void diagnose_memlock(diagnoses& found)
{
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        found.push_back({severity::good, "memlock", "locked memory is not limited in this session", "", ""});
    else if (limit.rlim_cur < memlock_wanted)
        found.push_back(
            {severity::warning, "memlock",
             fmt::format("at most {} may be locked in this session", format_size(limit.rlim_cur)),
             "programs that register buffers (io_uring, RDMA) get ENOMEM",
             "'* - memlock unlimited' in /etc/security/limits.d/weft.conf; LimitMEMLOCK=infinity in a unit"});
    else
        found.push_back({severity::good, "memlock",
                         fmt::format("up to {} may be locked in this session", format_size(limit.rlim_cur)),
                         "", ""});
}

void diagnose_io_uring(diagnoses& found)
{
    const auto disabled = read_text("/proc/sys/kernel/io_uring_disabled").value_or("0");
    const int refusal = try_io_uring();
    const auto why = why_io_uring_fails(refusal);
    if (refusal)
        found.push_back({severity::problem, "io_uring",
                         fmt::format("io_uring cannot be used here: {}", std::strerror(refusal)),
                         "fio jobs and programs that use libweft fail",
                         why.empty() ? "see io_uring_setup(2)" : why});
    else if (disabled == "1")
        found.push_back(
            {severity::warning, "io_uring", "only the group in kernel.io_uring_group can use io_uring",
             "fio jobs and programs of other users fail with EPERM", "sysctl kernel.io_uring_disabled=0"});
    else
        found.push_back({severity::good, "io_uring", "io_uring is allowed", "", ""});
}

void diagnose_names(diagnoses& found)
{
    const auto nqn = host_nqn();
    if (!nqn)
        found.push_back({severity::problem, "host-nqn", nqn.error().text,
                         "a volume records its owner by this name", "nvme gen-hostnqn >/etc/nvme/hostnqn"});
    else if (!std::filesystem::exists("/etc/nvme/hostnqn"))
        found.push_back(
            {severity::note, "host-nqn", fmt::format("this host is {}", *nqn),
             "made from /etc/machine-id, because /etc/nvme/hostnqn is missing; nvme-cli would use another "
             "name",
             fmt::format("echo {} >/etc/nvme/hostnqn", *nqn)});
    else
        found.push_back({severity::good, "host-nqn", fmt::format("this host is {}", *nqn), "", ""});
    const auto id = read_text("/etc/nvme/hostid");
    if (nqn && id && nqn->find("uuid:") != std::string::npos && nqn->find(*id) == std::string::npos)
        found.push_back({severity::note, "host-nqn", "/etc/nvme/hostid is not the UUID in /etc/nvme/hostnqn",
                         "some targets and kernels refuse two names for one host", "make them the same"});
}

void diagnose_clock(diagnoses& found)
{
    timex state{};
    if (::adjtimex(&state) == TIME_ERROR && state.status & STA_UNSYNC)
        found.push_back({severity::note, "clock", "this host's clock is not synchronized",
                         "weft compares clocks only to print the age of another host's heartbeat",
                         "apt-get install chrony"});
    else
        found.push_back({severity::good, "clock", "this host's clock is synchronized", "", ""});
}

} // namespace

void diagnose_host(diagnoses& found)
{
    diagnose_memlock(found);
    diagnose_io_uring(found);
    diagnose_names(found);
    diagnose_clock(found);
}

} // namespace weft
