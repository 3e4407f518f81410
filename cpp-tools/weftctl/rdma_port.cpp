// SPDX-License-Identifier: GPL-2.0-only
#include "rdma_port.hpp"

#include "sysfile.hpp"

#include <cstdlib>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

constexpr const char* devices_folder = "/sys/class/infiniband";

/// The kernel counts in units of four bytes (InfiniBand Architecture Specification, PortCounters).
std::optional<std::uint64_t> bytes(const fs::path& counter)
{
    const auto words = read_number<std::uint64_t>(counter);
    return words ? std::optional(4 * *words) : std::nullopt;
}

/// Bytes have metrics of their own; lifespan says how often the kernel asks the device; others are what there
/// is now, or was at most.
bool is_counter(const std::string& name)
{
    return name != "port_rcv_data" && name != "port_xmit_data" && name != "lifespan" &&
           !name.starts_with("active_") && !name.starts_with("watermark_");
}

std::vector<named_counter> port_counters(const fs::path& port)
{
    std::vector<named_counter> found;
    for (const auto* folder : {"counters", "hw_counters"})
        for (const auto& counter : children(port / folder)) {
            const auto name = counter.filename().string();
            const auto value = is_counter(name) ? read_number<std::uint64_t>(counter) : std::nullopt;
            if (value)
                found.push_back({name, *value});
        }
    // A few drivers have a counter in both folders.
    keep_one_each(found);
    return found;
}

/// Is the interface of that name, in this network namespace, the device's? In another one the name may be
/// that of another interface.
bool is_of_device(const std::string& netdev, const std::string& device)
{
    std::error_code problem;
    return fs::equivalent(fs::path(devices_folder) / device / "device",
                          fs::path("/sys/class/net") / netdev / "device", problem);
}

} // namespace

fs::path rdma_port::folder() const
{
    return fs::path(devices_folder) / device / "ports" / port;
}

std::optional<rdma_port> read_rdma_port(const std::string& device, const std::string& port)
{
    rdma_port found;
    found.device = device;
    found.port = port;
    const auto folder = found.folder();
    const auto state = read_text(folder / "state");
    if (!state)
        return std::nullopt;
    found.active = state->contains("ACTIVE");
    found.netdev = read_text(folder / "gid_attrs/ndevs/0").value_or("");
    found.received = bytes(folder / "counters/port_rcv_data");
    found.sent = bytes(folder / "counters/port_xmit_data");
    std::error_code ignored;
    // "100 Gb/sec (4X EDR)". A device in software says something as well.
    const double gigabits = fs::exists(fs::path(devices_folder) / device / "device", ignored)
                                ? std::strtod(read_text(folder / "rate").value_or("").c_str(), nullptr)
                                : 0;
    if (gigabits > 0)
        found.rate = static_cast<std::uint64_t>(gigabits * 1e9 / 8);
    return found;
}

std::vector<rdma_port> rdma_ports()
{
    std::vector<rdma_port> found;
    for (const auto& device : children(devices_folder))
        for (const auto& port : children(device / "ports")) {
            auto one = read_rdma_port(device.filename(), port.filename());
            if (!one)
                continue;
            one->counters = port_counters(port);
            if (!one->netdev.empty() && is_of_device(one->netdev, one->device))
                one->flow_control = flow_control_counters(one->netdev);
            found.push_back(std::move(*one));
        }
    return found;
}

} // namespace weft
