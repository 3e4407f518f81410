// SPDX-License-Identifier: GPL-2.0-only
/// Mounts of this process's mount namespace.
#pragma once

#include <result.hpp>

#include <optional>
#include <string>
#include <sys/types.h>

namespace weft
{

struct mount_point {
    dev_t device = 0; ///< of the filesystem
    bool read_only = false;
};

/// What is mounted at a path, on top; unset if nothing is.
[[nodiscard]] result<std::optional<mount_point>> mounted_at(const std::string& path);

/// Mounts a filesystem; `options` are mount(8)'s, with commas between them.
[[nodiscard]] result<void> mount_filesystem(const std::string& device, const std::string& path,
                                            const std::string& type, const std::string& options);

/// Makes a folder or file visible at another path, too.
[[nodiscard]] result<void> mount_bind(const std::string& from, const std::string& path, bool read_only);

/// Unmounts all that is mounted at a path. Succeeds if nothing is.
[[nodiscard]] result<void> unmount_all(const std::string& path);

} // namespace weft
