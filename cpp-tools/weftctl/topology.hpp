// SPDX-License-Identifier: GPL-2.0-only
/// Where the devices are that data moves between, and which of them reach which others' memory.
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
    std::string name;                 ///< the kernel's: "mlx5_0", "nvme0"; may be empty
    std::string driver;               ///< may be empty
    std::vector<std::string> bridges; ///< above it, from the root on
    int numa_node = -1;
    bool has_memory = false; ///< that others may want to read and write
};

/// One device's memory and another device.
struct peer_pair {
    pci_endpoint memory;
    pci_endpoint device;
    std::optional<unsigned> bridges; ///< between the two, where both are below one
    std::optional<bool> possible;    ///< nothing where nobody can be asked
    std::string why;                 ///< not, or not known
};

struct topology {
    std::vector<pci_endpoint> endpoints; ///< by address
    std::vector<std::string> software;   ///< RDMA devices without a PCI device
    std::vector<peer_pair> pairs;
    bool iommu = false; ///< translates
};

/// The PCI device behind a link like /sys/class/infiniband/mlx5_0/device; empty where it is none.
[[nodiscard]] std::string pci_address_of(const std::filesystem::path& link);

/// All of them, from sysfs, by address.
[[nodiscard]] std::vector<pci_endpoint> find_endpoints();

/// Reads sysfs, and asks weft_p2p.ko about each pair where it is loaded and may be asked.
[[nodiscard]] topology read_topology();

} // namespace weft
