// SPDX-License-Identifier: GPL-2.0-only
/// Small files: the kernel's attributes, and ours that must be whole after a crash.
#pragma once

#include "result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace weft
{

/// A file's content without white space at its end; nothing where it cannot be read.
[[nodiscard]] std::optional<std::string> read_text(const std::filesystem::path& path);

/// Writes an attribute of sysfs or configfs in one write(2). On failure the negative errno, as the caller
/// knows better than a path does what it meant.
[[nodiscard]] int write_attribute(const std::filesystem::path& path, std::string_view text);

/// A field of an NVMe controller's address attribute ("traddr=10.0.0.1,trsvcid=4420"), empty where it has
/// none.
[[nodiscard]] std::string address_field(const std::string& address, const std::string& name);

/// Replaces a file: after a crash the old or the new content is there. Makes its folder. Mode 0600.
[[nodiscard]] result<void> replace_file(const std::filesystem::path& path, std::string_view text);

} // namespace weft
