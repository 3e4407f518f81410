// SPDX-License-Identifier: GPL-2.0-only
/// What a volume that runs measures, as inputs of a plan.
#pragma once

#include "files.hpp"

#include <string>
#include <vector>

namespace weft::plan
{

/// What 'weftctl status NAME --json' says.
struct measured {
    settings values;
    count members = 0;
    double read_bytes = 0; ///< of all members, since the assembly
    double written_bytes = 0;
    bool counted = true; ///< the volume counts its I/O
};

/// Of that document. `text` may be anything.
[[nodiscard]] result<measured> measured_of(const std::string& text, const std::string& name);
/// Runs weftctl. With a time it looks twice, and the feed of each of this node's `gpus` is what was read
/// between.
[[nodiscard]] result<measured> measure(const std::string& name, seconds watch, count gpus);

/// What a member reads and writes, from the results of fio-jobs/run: a folder or a file of fio's JSON.
[[nodiscard]] result<settings> fio_settings(const std::string& path, count members);

} // namespace weft::plan
