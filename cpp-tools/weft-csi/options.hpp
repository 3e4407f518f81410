// SPDX-License-Identifier: GPL-2.0-only
/// The command line of weft-csi, for main() and the man page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft
{

constexpr auto csi_description =
    "give weft volumes to containers, as a node plugin of the Container Storage Interface";

struct csi_options {
    std::string kubelet = "/var/lib/kubelet";
    std::string endpoint; ///< empty: in the kubelet's folder, with a registration
    std::string node_id;  ///< empty: the name of the host
};

void add_options(CLI::App& app, csi_options& options);

} // namespace weft
