// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "result.hpp"

#include <filesystem>
#include <string>

namespace weft
{

/// Refuses a block device, also one that a link leads to.
[[nodiscard]] result<void> check_archive(const std::string& output);

/// Writes a gzip-compressed tar archive with the files of a folder, in a folder of that name. A file that
/// exists is replaced. After an error, the unfinished file is removed.
[[nodiscard]] result<void> write_archive(const std::string& output, const std::filesystem::path& folder);

} // namespace weft
