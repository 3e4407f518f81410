// SPDX-License-Identifier: GPL-2.0-only
#include "topology.hpp"

#include "sysfile.hpp"
#include <fd.hpp>

#include "uapi/weft_p2p.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/ioctl.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

// "0000:03:00.0", as sysfs writes it.
bool is_pci_address(const std::string& text)
{
    return text.size() >= 12 && std::count(text.begin(), text.end(), ':') == 2 &&
           text[text.size() - 2] == '.';
}

std::string first_entry(const fs::path& folder)
{
    const auto all = children(folder);
    return all.empty() ? "" : all.front().filename().string();
}

std::string driver_of(const fs::path& device)
{
    std::error_code missing;
    const auto driver = fs::read_symlink(device / "driver", missing);
    return missing ? std::string() : driver.filename().string();
}

// PCI class codes: PCI Code and ID Assignment Specification, 1.0.
bool classify(pci_endpoint& endpoint, const fs::path& device)
{
    const auto code = std::strtoul(read_text(device / "class").value_or("0").c_str(), nullptr, 16);
    std::error_code ignored;
    if (fs::exists(device / "infiniband", ignored)) {
        endpoint.kind = "RDMA";
        endpoint.name = first_entry(device / "infiniband");
    } else if (code == 0x010802) {
        endpoint.kind = "NVMe";
        endpoint.name = first_entry(device / "nvme");
        endpoint.has_memory = fs::exists(device / "p2pmem", ignored);
    } else if (endpoint.driver == "weft_p2p") {
        endpoint.kind = "BAR";
        endpoint.name = "bar-" + endpoint.address;
        endpoint.has_memory = true;
    } else if (code >> 16 == 0x03) {
        endpoint.kind = "GPU";
        endpoint.has_memory = true;
    } else if (code >> 16 == 0x12) {
        endpoint.kind = "accelerator";
        endpoint.has_memory = true;
    }
    return !endpoint.kind.empty();
}

std::vector<std::string> bridges_above(const fs::path& device)
{
    std::error_code ignored;
    std::vector<std::string> above;
    for (const auto& part : fs::canonical(device, ignored))
        if (is_pci_address(part.string()))
            above.push_back(part.string());
    if (!above.empty())
        above.pop_back();
    return above;
}

// All bridges on the path between the two, with the one above both.
std::optional<unsigned> bridges_between(const pci_endpoint& a, const pci_endpoint& b)
{
    const auto differ = std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
    const auto common = static_cast<std::size_t>(differ.first - a.bridges.begin());
    if (!common)
        return std::nullopt;
    return static_cast<unsigned>(a.bridges.size() + b.bridges.size() - 2 * common + 1);
}

// The answer of weft_p2p.ko, which decides.
class judge
{
public:
    judge() : fd_(::open("/dev/weft-p2p", O_RDWR | O_CLOEXEC)), errnum_(fd_ ? 0 : errno) {}
    void decide(peer_pair& pair) const
    {
        weft_p2p_route route{};
        if (!fd_) {
            pair.why = errnum_ == ENOENT ? "weft_p2p is not loaded and has to answer this (modprobe weft_p2p)"
                                         : fmt::format("/dev/weft-p2p: {}", std::strerror(errnum_));
            return;
        }
        pair.memory.address.copy(route.memory, sizeof(route.memory) - 1);
        pair.device.address.copy(route.device, sizeof(route.device) - 1);
        if (!::ioctl(fd_.get(), WEFT_P2P_IOC_ROUTE, &route)) {
            pair.possible = true;
            return;
        }
        if (errno == EOPNOTSUPP)
            pair.possible = false;
        pair.why = route.why[0] ? route.why : std::strerror(errno);
    }

private:
    OwnedFd fd_;
    int errnum_;
};

} // namespace

std::string pci_address_of(const fs::path& link)
{
    std::error_code missing;
    auto device = fs::canonical(link, missing);
    if (missing)
        return {};
    // A scalable function of mlx5 is a device on the auxiliary bus, below the adapter.
    while (fs::canonical(device / "subsystem", missing).filename() == "auxiliary")
        device = device.parent_path();
    const auto name = device.filename().string();
    return is_pci_address(name) ? name : std::string();
}

std::vector<pci_endpoint> find_endpoints()
{
    std::vector<pci_endpoint> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/sys/bus/pci/devices", ignored)) {
        pci_endpoint endpoint;
        endpoint.address = entry.path().filename();
        endpoint.driver = driver_of(entry.path());
        if (!classify(endpoint, entry.path()))
            continue;
        endpoint.bridges = bridges_above(entry.path());
        endpoint.numa_node = std::atoi(read_text(entry.path() / "numa_node").value_or("-1").c_str());
        found.push_back(std::move(endpoint));
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
    return found;
}

topology read_topology()
{
    topology all;
    all.endpoints = find_endpoints();
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/sys/class/infiniband", ignored))
        if (pci_address_of(entry.path() / "device").empty())
            all.software.push_back(entry.path().filename());
    std::sort(all.software.begin(), all.software.end());
    all.iommu = fs::directory_iterator("/sys/class/iommu", ignored) != fs::directory_iterator();
    const judge kernel;
    for (const auto& memory : all.endpoints)
        for (const auto& device : all.endpoints) {
            if (!memory.has_memory || memory.address == device.address ||
                (device.kind != "RDMA" && device.kind != "NVMe"))
                continue;
            peer_pair pair{memory, device, bridges_between(memory, device), std::nullopt, ""};
            kernel.decide(pair);
            all.pairs.push_back(std::move(pair));
        }
    return all;
}

} // namespace weft
