// SPDX-License-Identifier: GPL-2.0-only
/// Curves of a plan, as SVG and as text.
#pragma once

#include "plan.hpp"
#include "units_text.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::plan
{

struct curve {
    std::string name;
    std::vector<std::pair<double, double>> points;
};

/// A place on the x axis that has a name.
struct mark {
    std::string name;
    double x = 0;
};

struct chart {
    std::string title;
    std::string x_label, y_label;
    kind x_kind = kind::number, y_kind = kind::number;
    bool x_logarithmic = false;
    double y_most = 0; ///< the upper end of the axis
    std::vector<curve> curves;
    std::vector<mark> marks;
};

/// Interval against lost GPU time, for both ways, with the interval that is planned and the best ones.
[[nodiscard]] chart interval_chart(const outcome& of);
/// Targets against the feed: without checkpoints, beside one, and what is wanted.
[[nodiscard]] chart targets_chart(const outcome& of);

/// One <svg> element, which needs no other file.
[[nodiscard]] std::string svg_of(const chart& of);
/// For a terminal, 78 columns wide.
[[nodiscard]] std::string text_of(const chart& of);

/// Text for HTML and SVG.
[[nodiscard]] std::string escaped(std::string_view text);

} // namespace weft::plan
