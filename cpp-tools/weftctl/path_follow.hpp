// SPDX-License-Identifier: GPL-2.0-only
/// Paths that appear by themselves: a volume follows what its targets announce.
#pragma once

#include "fabrics.hpp"
#include "render.hpp"

#include <string>
#include <vector>

namespace weft
{

struct follow_options {
    std::string volume;
    std::vector<std::string> services; ///< URIs of discovery services
    bool saved = false;                ///< the services, and the options of connections, of the volume's file
    bool once = false;                 ///< look once, and end
    bool dry_run = false;              ///< with once: add no path, say which would be added
    connect_options connecting;        ///< of the paths, and of the connections to the services
};

/// Keeps a connection to each discovery service, and adds each announced address of the members' subsystems
/// as a path. Ends when a signal comes, or when the volume is stopped. A path that the user removes stays
/// away until its target stops and starts to announce it.
[[nodiscard]] result<exit_code> follow_paths(const follow_options& options, renderer& out);

} // namespace weft
