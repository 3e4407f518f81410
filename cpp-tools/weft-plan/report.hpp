// SPDX-License-Identifier: GPL-2.0-only
/// One HTML file that people keep: no scripts, and nothing from elsewhere.
#pragma once

#include "plan.hpp"

#include <string>

namespace weft::plan
{

[[nodiscard]] std::string report_of(const outcome& of, const std::string& title);

} // namespace weft::plan
