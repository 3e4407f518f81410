// SPDX-License-Identifier: GPL-2.0-only
/// Plans beside a plan: what if, and what matters.
#include "fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace weft::plan
{

namespace
{

/// The thing that "+2-THING" counts.
struct thing {
    std::string_view name;
    std::string_view field;
};
constexpr std::array things{thing{"nodes", "gpus"},      thing{"node", "gpus"},      thing{"gpus", "gpus"},
                            thing{"targets", "targets"}, thing{"target", "targets"}, thing{"rails", "rails"},
                            thing{"rail", "rails"},      thing{"ssds", "ssds"},      thing{"ssd", "ssds"}};

std::unexpected<error> no_change(std::string_view text)
{
    return fail(
        exit_code::usage,
        "--what-if {}: write +2-nodes, -1-targets (or gpus, rails, ssds), or a field as interval=30min",
        text);
}

count now(const inputs& of, const cluster& built, std::string_view name)
{
    if (name == "targets")
        return built.targets;
    return name == "rails" ? built.rails : static_cast<count>(find_field(name)->get(of));
}

/// The larger of two changes, as a part of what there was.
double swing_of(double was, double less, double more)
{
    const double most = std::max(std::fabs(more - was), std::fabs(less - was));
    return was > 0 ? most / was : most;
}

/// Inputs that change less than this part are not worth a line.
constexpr double least_swing = 0.001;

} // namespace

result<void> change(inputs& of, const cluster& built, std::string_view text)
{
    if (const auto equals = text.find('='); equals != text.npos)
        return set_field(of, text.substr(0, equals), text.substr(equals + 1));
    if (text.size() < 4 || (text[0] != '+' && text[0] != '-'))
        return no_change(text);
    count number = 0;
    const auto [rest, errc] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
    const std::string_view left(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    if (errc != std::errc{} || !left.starts_with('-') || number > 10'000'000)
        return no_change(text);
    const auto what = std::ranges::find(things, left.substr(1), &thing::name);
    if (what == things.end())
        return no_change(text);
    if (what->name.starts_with("node"))
        number *= of.gpus_per_node;
    const auto before = now(of, built, what->field);
    if (text[0] == '-' && number >= before)
        return fail(exit_code::usage, "--what-if {}: nothing would be left", text);
    if (what->field == "gpus")
        of.by.data = 0; // replicas come and go with nodes
    return set_field(of, what->field, fmt::format("{}", text[0] == '+' ? before + number : before - number));
}

std::vector<effect> sensitivity(const outcome& of)
{
    std::vector<effect> all;
    for (const auto& one : fields()) {
        const double value = one.get(of.from);
        if (one.what == kind::word || one.name == "seed" || std::isnan(value) || value == 0)
            continue;
        effect found{&one, 0, 0, 0, 0, 0};
        bool known = true;
        for (const bool more : {false, true}) {
            auto changed = of.from;
            double now = more ? value * 1.1 : value / 1.1;
            if (one.what == kind::number) // by a whole one at least
                now = more ? std::max(std::ceil(now), value + 1)
                           : std::max(1.0, std::min(std::floor(now), value - 1));
            now = std::clamp(now, one.least, one.most);
            one.put(changed, now);
            if (one.name == "gpus") { // in whole nodes and replicas
                const auto unit = std::max(of.by.tensor * of.by.pipeline, of.from.gpus_per_node);
                const auto whole = static_cast<count>(std::llround(now / static_cast<double>(unit)));
                changed.gpus = std::max<count>(1, whole) * unit;
                changed.by.data = 0;
            }
            const auto fixed = evaluate(changed, &of.built, false);
            changed.targets.reset();
            const auto sized = evaluate(changed, nullptr, false);
            if (!fixed || !sized) { // such as a parallelism that does not divide the GPUs
                known = false;
                break;
            }
            (more ? found.lost_more : found.lost_less) = fixed->chosen().lost.total();
            (more ? found.targets_more : found.targets_less) = sized->needed.targets;
        }
        if (!known)
            continue;
        // Other shapes are simulated, so they are compared with a simulation.
        const auto& by = of.chosen();
        const double lost = one.name == "failure-shape" ? by.check.lost : by.lost.total();
        const auto targets = static_cast<double>(of.needed.targets);
        found.swing = std::max(swing_of(lost, found.lost_less, found.lost_more),
                               swing_of(targets, static_cast<double>(found.targets_less),
                                        static_cast<double>(found.targets_more)));
        if (found.swing < least_swing)
            continue;
        all.push_back(found);
    }
    std::ranges::sort(all, [](const effect& a, const effect& b) {
        return a.swing != b.swing ? a.swing > b.swing : a.of < b.of;
    });
    return all;
}

} // namespace weft::plan
