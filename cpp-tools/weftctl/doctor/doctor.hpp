// SPDX-License-Identifier: GPL-2.0-only
/// What can be wrong with a node, looked at one thing after another. Nothing here changes anything.
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
/// What programs may do here: locked memory, io_uring; this host's NVMe name and its clock.
void diagnose_host(diagnoses& found);
/// RDMA devices: links, MTU, counters of errors.
void diagnose_rdma(diagnoses& found);
/// NVMe, RDMA and display or accelerator devices: links slower than they could be, where they sit.
void diagnose_pcie(diagnoses& found);
/// Which devices reach which others' memory, proved where there is memory to try with.
void diagnose_routes(diagnoses& found);
/// Assembled volumes, owner records of found ones, saved exports.
void diagnose_volumes(diagnoses& found);

/// All of the above.
[[nodiscard]] diagnoses diagnose();

/// The routes between a volume and other devices' memory: each path, and a registration of each memory there
/// is to try with.
[[nodiscard]] result<void> diagnose_volume_routes(diagnoses& found, const std::string& name);

} // namespace weft
