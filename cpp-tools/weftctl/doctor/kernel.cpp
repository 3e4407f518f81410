// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "host.hpp"
#include "process.hpp"
#include "sysfile.hpp"

#include <cstdio>

namespace weft
{

namespace
{

// The configuration of the kernel, from /proc or from the places of distributions.
std::string kernel_config(const std::string& release)
{
    if (auto text = read_text("/boot/config-" + release))
        return *text;
    return run_process({"zcat", "/proc/config.gz"}).output;
}

} // namespace

void diagnose_kernel(diagnoses& found)
{
    const auto release = kernel_release();
    int major = 0;
    int minor = 0;
    if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2 || major < 6 || (major == 6 && minor < 1))
        found.push_back({severity::problem, "kernel", fmt::format("Linux {} is older than 6.1", release),
                         "weft needs Linux 6.1 or newer", "boot a newer kernel of the distribution"});
    else
        found.push_back({severity::good, "kernel", fmt::format("Linux {}", release), "", ""});

    const auto config = kernel_config(release);
    if (config.find("CONFIG_BLK_DEV_NVME") == std::string::npos &&
        config.find("CONFIG_MODULES") == std::string::npos)
        found.push_back({severity::note, "kernel", "the kernel's configuration cannot be read",
                         "the features of this kernel are unknown", "modprobe configs"});
    else if (config.find("CONFIG_PCI_P2PDMA=y") == std::string::npos)
        found.push_back({severity::note, "kernel", "CONFIG_PCI_P2PDMA is off",
                         "block I/O cannot target the memory of PCI devices, and exports cannot use a "
                         "controller's memory",
                         "Debian enables it from 7.2 (trixie-backports); all other I/O works without it"});

    if (std::filesystem::exists("/lib/modules/" + release + "/build/Makefile"))
        found.push_back(
            {severity::good, "headers", fmt::format("headers of {} are installed", release), "", ""});
    else
        found.push_back({severity::warning, "headers",
                         fmt::format("headers of {} are not installed", release),
                         "DKMS cannot build weft for this kernel",
                         fmt::format("apt-get install linux-headers-{}", release)});
}

} // namespace weft
