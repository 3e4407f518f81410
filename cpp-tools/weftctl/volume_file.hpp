// SPDX-License-Identifier: GPL-2.0-only
/// The saved configuration of a volume: /etc/weft/volumes/NAME.toml.
#pragma once

#include "fabrics.hpp"
#include "model.hpp"
#include "qos_words.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// A path to a member: a device, or a URI with the options to connect it.
struct member_path {
    std::string at;
    connect_options options;
};

/// Whether both lead to the same place from the same place of this host.
[[nodiscard]] bool is_same_path(const member_path& one, const member_path& other);

struct volume_file {
    std::string name;
    std::string uuid;                ///< empty: the volume is found by its name
    std::vector<member_path> paths;  ///< all paths to all members, in any order
    std::vector<std::string> follow; ///< URIs of discovery services that announce further paths
    connect_options connect;         ///< of these, and of paths that lack one of their own
    bool read_only = false;
    bool iostats = true;
    std::string iopolicy; ///< empty: the kernel's default
    std::optional<int> no_path_timeout;
    std::optional<qos_words> qos; ///< valid
};

/// Where the file of a volume is.
[[nodiscard]] std::filesystem::path volume_file_path(const std::string& name);

/// Parses a file. `where` is its name for errors, which give line and column.
[[nodiscard]] result<volume_file> parse_volume_file(std::string_view text, const std::string& name,
                                                    const std::string& where);

/// The text of a file. parse_volume_file() makes the same of it.
[[nodiscard]] std::string format_volume_file(const volume_file& file);

[[nodiscard]] result<volume_file> load_volume_file(const std::string& name);

/// Refuses an assembled volume of that name that is another one, or that another command assembles or stops
/// now: the kernel tells nothing but its state then. Waiting mends that. weft-csi and weft-prolog know by
/// "is assembled already" that the volume is not theirs to stop.
[[nodiscard]] result<void> check_assembled(const volume_file& file, const volume_status& volume);

/// The names of the volumes that have a file, sorted.
[[nodiscard]] std::vector<std::string> saved_volumes();

} // namespace weft
