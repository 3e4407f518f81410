// SPDX-License-Identifier: GPL-2.0-only
/// TOML files: presets with the source of each figure, and plans.
#pragma once

#include "plan.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::plan
{

/// Names of inputs with their texts, in order.
using settings = std::vector<std::pair<std::string, std::string>>;

struct profile {
    std::string family; ///< model, gpu, nic or ssd
    std::string name;
    settings values;
    std::string source;
};

/// The families in which a plan may name a preset.
inline constexpr std::string_view families[] = {"model", "gpu", "nic", "ssd"};

/// The presets of a file: each value is one that set_field() takes, and each preset has a source.
[[nodiscard]] result<std::vector<profile>> read_profiles(const std::string& path);

/// The preset, or an error that lists those of the family.
[[nodiscard]] result<profile> find_profile(const std::vector<profile>& among, std::string_view family,
                                           std::string_view name);

/// The keys of a plan's file. They are inputs or families.
[[nodiscard]] result<settings> read_plan(const std::string& path);

} // namespace weft::plan
