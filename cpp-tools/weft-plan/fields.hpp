// SPDX-License-Identifier: GPL-2.0-only
/// The inputs by name. An option of the command line, a key of a file, a part of --what-if and a line of the
/// report are the same field.
#pragma once

#include "plan.hpp"
#include "units_text.hpp"

#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace weft::plan
{

struct field {
    std::string_view name; ///< "gpu-mtbf": the option is --gpu-mtbf
    std::string_view group;
    kind what;
    double least; ///< smaller values are refused
    double most;  ///< larger ones are a mistake in the unit
    std::string_view help;
    /// The value in bytes, seconds and so on; of a word its place. NaN if it is not set.
    double (*get)(const inputs&);
    void (*put)(inputs&, double);
    std::span<const std::string_view> words;
};

[[nodiscard]] std::span<const field> fields();
[[nodiscard]] const field* find_field(std::string_view name);

/// Sets a field of a text. The error names the option, the text and what to write.
[[nodiscard]] result<void> set_field(inputs& of, std::string_view name, std::string_view text);
[[nodiscard]] result<void> set_field(inputs& of, const field& which, std::string_view text);
/// What set_field() takes; "-" if it is not set.
[[nodiscard]] std::string show_field(const inputs& of, const field& which);

/// "+2-nodes", "-1-targets", "interval=30m": a change of a plan's inputs. Things are nodes, gpus, targets,
/// rails, ssds.
[[nodiscard]] result<void> change(inputs& of, const cluster& built, std::string_view text);

/// How the answer changes with one input.
struct effect {
    const field* of = nullptr;
    double lost_less = 0; ///< fraction of GPU time that is lost with a tenth less of the input
    double lost_more = 0; ///< and with a tenth more
    count targets_less = 0;
    count targets_more = 0;
    /// The largest change of the two, as a part of what there is.
    double swing = 0;
};
/// Of each input that has a number, is set and changes more than a 1000th, the largest swing first. Storage
/// stays as it is for the lost time; for the targets it is sized again.
[[nodiscard]] std::vector<effect> sensitivity(const outcome& of);

} // namespace weft::plan
