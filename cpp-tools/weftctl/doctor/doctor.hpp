// SPDX-License-Identifier: GPL-2.0-only
/// Checks of a node, one after another. They change nothing.
#pragma once

#include "model.hpp"
#include "result.hpp"

#include <string>
#include <vector>

namespace weft
{

using diagnoses = std::vector<diagnosis>;

/// Release, configuration, headers.
void diagnose_kernel(diagnoses& found);
/// weft's modules: built by DKMS, signed, loaded, of this version; and the modules it works with.
void diagnose_modules(diagnoses& found);
/// Limits of programs (locked memory, io_uring); this host's NVMe name and its clock.
void diagnose_host(diagnoses& found);
/// RDMA devices: links, MTU, counters of errors.
void diagnose_rdma(diagnoses& found);
/// Connections whose data is not encrypted, and what those with TLS need.
void diagnose_encryption(diagnoses& found);
/// NVMe, RDMA, display and accelerator devices: slow links, and their place in the PCIe tree.
void diagnose_pcie(diagnoses& found);
/// Which devices reach other devices' memory, with a test if there is memory for it.
void diagnose_routes(diagnoses& found);
/// Assembled volumes, owner records of found ones, saved exports.
void diagnose_volumes(diagnoses& found);

/// All of the above.
[[nodiscard]] diagnoses diagnose();

/// The routes between a volume and other devices' memory: each path, and a test registration of each
/// available memory.
[[nodiscard]] result<void> diagnose_volume_routes(diagnoses& found, const std::string& name);

} // namespace weft
