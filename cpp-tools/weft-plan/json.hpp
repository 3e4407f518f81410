// SPDX-License-Identifier: GPL-2.0-only
/// A plan for programs: numbers in bytes, seconds and parts of 1.
#pragma once

#include "plan.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::plan
{

/// A document with all plans: {"schema": 1, "plans": [{"name": ..., ...}]}.
[[nodiscard]] std::string json_of(const std::vector<std::pair<std::string, outcome>>& plans,
                                  bool with_sensitivity);
/// What others publish, as a document.
[[nodiscard]] std::string published_json();

} // namespace weft::plan
