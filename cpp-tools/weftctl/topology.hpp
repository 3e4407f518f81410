// SPDX-License-Identifier: GPL-2.0-only
/// The PCI devices that data moves between, and which of them can access other devices' memory.
#pragma once

#include "result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// A PCI device that data moves from or to.
struct pci_endpoint {
    std::string address;              ///< "0000:03:00.0"
    std::string kind;                 ///< "GPU", "accelerator", "BAR", "NVMe", "RDMA"
    std::string name;                 ///< the kernel's name: "mlx5_0", "nvme0"; may be empty
    std::string driver;               ///< may be empty
    std::vector<std::string> bridges; ///< the bridges above it, from the root
    int numa_node = -1;
    bool has_memory = false; ///< it has memory that other devices can use
};

/// One device's memory and another device.
struct peer_pair {
    pci_endpoint memory;
    pci_endpoint device;
    std::optional<unsigned> bridges; ///< number between the two, if both are below one bridge
    std::optional<bool> possible;    ///< unset if it is not known
    std::string why;                 ///< why it is not possible, or not known
};

struct topology {
    std::vector<pci_endpoint> endpoints; ///< by address
    std::vector<std::string> software;   ///< RDMA devices without a PCI device
    std::vector<peer_pair> pairs;
    bool iommu = false; ///< an IOMMU translates addresses
};

/// The PCI device behind a link like /sys/class/infiniband/mlx5_0/device; empty if it is not one.
[[nodiscard]] std::string pci_address_of(const std::filesystem::path& link);

/// All of them, from sysfs, by address.
[[nodiscard]] std::vector<pci_endpoint> find_endpoints();

/// Reads sysfs, and asks weft_p2p.ko about each pair if it is loaded and the user may ask it.
[[nodiscard]] topology read_topology();

} // namespace weft
