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
    dev_t device = 0;   ///< of the filesystem
    std::string source; ///< as it was named when it was mounted
    std::string root;   ///< what of the filesystem is mounted
    bool read_only = false;
};

/// What is mounted at a path, on top; unset if nothing is. It asks nothing of the filesystem, which may have
/// failed.
[[nodiscard]] result<std::optional<mount_point>> mounted_at(const std::string& path);

/// Whether options of mount(8) ask for a mount to read only.
[[nodiscard]] bool says_read_only(const std::string& options);

/// Mounts a filesystem; `options` are mount(8)'s, with commas between them. Fails where it can only be
/// mounted read-only, unless that is one of the options.
[[nodiscard]] result<void> mount_filesystem(const std::string& device, const std::string& path,
                                            const std::string& type, const std::string& options);

/// Makes a folder or file visible at another path, too, with more of mount(8)'s options.
[[nodiscard]] result<void> mount_bind(const std::string& from, const std::string& path,
                                      const std::string& options);

/// Unmounts what is on top of a path.
[[nodiscard]] result<void> unmount_top(const std::string& path);

} // namespace weft
