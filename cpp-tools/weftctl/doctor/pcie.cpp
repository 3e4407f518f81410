// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "sysfile.hpp"
#include "topology.hpp"

#include <cstdlib>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

void diagnose_link(diagnoses& found, const pci_endpoint& endpoint)
{
    const auto& kind = endpoint.kind;
    const auto& address = endpoint.address;
    const auto device = fs::path("/sys/bus/pci/devices") / address;
    const auto speed = read_text(device / "current_link_speed").value_or("");
    const auto speed_max = read_text(device / "max_link_speed").value_or("");
    const auto width =
        std::strtoul(read_text(device / "current_link_width").value_or("0").c_str(), nullptr, 10);
    const auto width_max =
        std::strtoul(read_text(device / "max_link_width").value_or("0").c_str(), nullptr, 10);
    found.push_back(
        {severity::good, "pcie",
         fmt::format("{} {}{}{}{}{}", kind, fmt::join(endpoint.bridges, " > "),
                     endpoint.bridges.empty() ? "" : " > ", address,
                     width && width < 255 ? fmt::format(", x{} {}", width, speed) : "",
                     endpoint.numa_node < 0 ? "" : fmt::format(", NUMA node {}", endpoint.numa_node)),
         "", ""});
    const bool narrow = width && width < width_max && width_max < 255;
    const bool slow = std::strtod(speed.c_str(), nullptr) < std::strtod(speed_max.c_str(), nullptr) &&
                      std::strtod(speed.c_str(), nullptr) > 0;
    // An idle GPU lowers its link speed.
    if (narrow || (slow && kind != "GPU"))
        found.push_back({severity::warning, "pcie",
                         fmt::format("{} {} runs at x{} {}, and supports x{} {}", kind, address, width, speed,
                                     width_max, speed_max),
                         "its bandwidth is reduced",
                         "check slot, riser and the firmware's settings for the slot"});
}

} // namespace

void diagnose_pcie(diagnoses& found)
{
    for (const auto& endpoint : find_endpoints())
        diagnose_link(found, endpoint);
    std::error_code ignored;
    const bool iommu = fs::directory_iterator("/sys/class/iommu", ignored) != fs::directory_iterator();
    found.push_back({severity::good, "pcie",
                     iommu ? "an IOMMU translates device addresses" : "no IOMMU is in use", "", ""});
}

} // namespace weft
