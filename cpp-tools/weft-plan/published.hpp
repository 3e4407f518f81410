// SPDX-License-Identifier: GPL-2.0-only
/// Figures that others publish, and what the formulas here make of their assumptions.
#pragma once

#include <string>
#include <vector>

namespace weft::plan
{

struct published {
    std::string claim;
    std::string assumes;
    std::string unit;
    double stated = 0;
    double computed = 0;
    double tolerance = 0; ///< as a part of what is stated: how it was rounded
    std::string differs;  ///< which assumption differs from what is usual or needed; empty if none
    [[nodiscard]] bool follows() const;
};

[[nodiscard]] std::vector<published> published_figures();

} // namespace weft::plan
