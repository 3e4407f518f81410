// SPDX-License-Identifier: GPL-2.0-only
/// A plan in words: what the text, the report and a comparison show.
#pragma once

#include "plan.hpp"

#include <string>
#include <vector>

namespace weft::plan
{

/// One line of the result.
struct row {
    std::string section;
    std::string label;
    std::string value;
    std::string why; ///< the reason or the formula's inputs; may be empty
};

[[nodiscard]] std::vector<row> rows_of(const outcome& of);

/// The result in three sentences: the checkpoint and its cost, the best interval, the feed and the risk.
[[nodiscard]] std::vector<std::string> sentences_of(const outcome& of);

/// What does not work, and what to do.
[[nodiscard]] std::string sentence_of(problem what, const outcome& of);
[[nodiscard]] std::string name_of(problem what);

/// "the targets' network is the limit: ...".
[[nodiscard]] std::string limit_sentence(const limits& at);
[[nodiscard]] std::string name_of(part what);
[[nodiscard]] std::string name_of(reason what);
[[nodiscard]] std::string name_of(breach what);

/// The lines side by side. They have the same sections and labels, except where one plan lacks a line.
[[nodiscard]] std::string text_of(const std::vector<row>& rows);
[[nodiscard]] std::string text_of(const std::string& left, const std::vector<row>& a,
                                  const std::string& right, const std::vector<row>& b);
/// What the simulations say of 'weft-plan --published'.
[[nodiscard]] std::string published_text();
/// The first lines of the sensitivity.
[[nodiscard]] std::string sensitivity_text(const outcome& of);

} // namespace weft::plan
