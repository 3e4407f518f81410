// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "sysfile.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

// PCI class codes (PCI Code and ID Assignment, 1.0): what weft moves data between.
std::string kind_of(const fs::path& device)
{
    const auto code = std::strtoul(read_text(device / "class").value_or("0").c_str(), nullptr, 16);
    std::error_code ignored;
    if (fs::exists(device / "infiniband", ignored))
        return "RDMA";
    if (code == 0x010802)
        return "NVMe";
    if (code >> 16 == 0x03)
        return "GPU";
    if (code >> 16 == 0x12)
        return "accelerator";
    return {};
}

// The devices above it, from the root: "0000:00:01.0 > 0000:01:00.0".
std::string path_of(const fs::path& device)
{
    std::error_code ignored;
    std::string text;
    for (const auto& part : fs::canonical(device, ignored))
        if (const auto name = part.string();
            name.size() == 12 && std::count(name.begin(), name.end(), ':') == 2)
            text += (text.empty() ? "" : " > ") + name;
    return text;
}

void diagnose_link(diagnoses& found, const std::string& kind, const fs::path& device)
{
    const auto address = device.filename().string();
    const auto speed = read_text(device / "current_link_speed").value_or("");
    const auto speed_max = read_text(device / "max_link_speed").value_or("");
    const auto width =
        std::strtoul(read_text(device / "current_link_width").value_or("0").c_str(), nullptr, 10);
    const auto width_max =
        std::strtoul(read_text(device / "max_link_width").value_or("0").c_str(), nullptr, 10);
    const auto numa = read_text(device / "numa_node").value_or("-1");
    found.push_back({severity::good, "pcie",
                     fmt::format("{} {}{}{}", kind, path_of(device),
                                 width && width < 255 ? fmt::format(", x{} {}", width, speed) : "",
                                 numa == "-1" ? "" : ", NUMA node " + numa),
                     "", ""});
    const bool narrow = width && width < width_max && width_max < 255;
    const bool slow = std::strtod(speed.c_str(), nullptr) < std::strtod(speed_max.c_str(), nullptr) &&
                      std::strtod(speed.c_str(), nullptr) > 0;
    // A GPU slows its link down while it has nothing to do.
    if (narrow || (slow && kind != "GPU"))
        found.push_back({severity::warning, "pcie",
                         fmt::format("{} {} runs at x{} {}, and could at x{} {}", kind, address, width, speed,
                                     width_max, speed_max),
                         "it moves less data than it could",
                         "check slot, riser and the firmware's settings for the slot"});
}

} // namespace

void diagnose_pcie(diagnoses& found)
{
    std::error_code ignored;
    std::map<std::string, fs::path> devices;
    for (const auto& entry : fs::directory_iterator("/sys/bus/pci/devices", ignored))
        devices[entry.path().filename()] = entry.path();
    for (const auto& [address, device] : devices)
        if (const auto kind = kind_of(device); !kind.empty())
            diagnose_link(found, kind, device);
    const bool iommu = fs::directory_iterator("/sys/class/iommu", ignored) != fs::directory_iterator();
    found.push_back({severity::good, "pcie",
                     iommu ? "an IOMMU translates device addresses" : "no IOMMU is in use", "", ""});
}

} // namespace weft
