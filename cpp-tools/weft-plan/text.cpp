// SPDX-License-Identifier: GPL-2.0-only
#include "fields.hpp"
#include "published.hpp"
#include "words.hpp"

#include <algorithm>

namespace weft::plan
{

namespace
{

using rows = std::vector<row>;

template <typename Of>
std::size_t widest(const rows& of, Of text)
{
    std::size_t width = 0;
    for (const auto& one : of)
        width = std::max(width, text(one).size());
    return width;
}

const std::string& label_of(const row& of)
{
    return of.label;
}

const std::string& value_of(const row& of)
{
    return of.value;
}

const row* find(const rows& among, const row& like)
{
    const auto at = std::ranges::find_if(
        among, [&](const row& one) { return one.section == like.section && one.label == like.label; });
    return at == among.end() ? nullptr : &*at;
}

std::string trimmed(std::string line)
{
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
}

} // namespace

std::string text_of(const rows& all)
{
    const auto label = widest(all, label_of), value = widest(all, value_of);
    std::string text, section;
    for (const auto& one : all) {
        if (one.section != section)
            text += fmt::format("{}{}\n", section.empty() ? "" : "\n", one.section);
        section = one.section;
        text += trimmed(fmt::format("  {:<{}}  {:<{}}  {}", one.label, label, one.value, value, one.why));
    }
    return text;
}

std::string text_of(const std::string& left, const rows& a, const std::string& right, const rows& b)
{
    // Lines that only one plan has go where they are in that plan.
    rows all = a;
    for (auto at = b.begin(); at != b.end(); ++at)
        if (!find(all, *at)) {
            auto place = all.end();
            if (at != b.begin())
                place = std::ranges::find_if(all,
                                             [&](const row& one) {
                                                 return one.section == (at - 1)->section &&
                                                        one.label == (at - 1)->label;
                                             }) +
                        1;
            all.insert(place, *at);
        }
    const auto label = widest(all, label_of);
    const auto width = std::max(left.size(), widest(a, value_of));
    std::string section, text = trimmed(fmt::format("  {:<{}}  {:<{}}  {}", "", label, left, width, right));
    for (const auto& one : all) {
        if (one.section != section)
            text += fmt::format("\n{}\n", one.section);
        section = one.section;
        const auto* in_a = find(a, one);
        const auto* in_b = find(b, one);
        text += trimmed(fmt::format("{} {:<{}}  {:<{}}  {}",
                                    in_a && in_b && in_a->value == in_b->value ? ' ' : '*', one.label, label,
                                    in_a ? in_a->value : "-", width, in_b ? in_b->value : "-"));
    }
    return text;
}

std::string published_text()
{
    std::string text;
    for (const auto& one : published_figures()) {
        const auto shown = [&](double of) {
            if (one.unit == "B")
                return show(bytes(of));
            if (one.unit == "B/s")
                return show(bytes_per_second(of));
            return one.unit == "part" ? show_part(of) : fmt::format("{:.3g} {}", of, one.unit);
        };
        text += fmt::format("{}\n  {} by the formulas, for {}: it {}\n", one.claim, shown(one.computed),
                            one.assumes, one.follows() ? "follows" : "does not follow");
        if (!one.differs.empty())
            text += fmt::format("  what differs: {}\n", one.differs);
    }
    return text;
}

std::string sensitivity_text(const outcome& of)
{
    const double lost = of.chosen().lost.total();
    std::string text = fmt::format(
        "Lost GPU time: {}. Targets needed: {}. With a tenth less or more of an input:\n\n"
        "  {:<18} {:>12}   {:>10} {:>10}   {:>8} {:>8}\n",
        show_part(lost), of.needed.targets, "input", "now", "lost, less", "more", "targets", "more");
    for (const auto& one : sensitivity(of))
        text += fmt::format("  {:<18} {:>12}   {:>10} {:>10}   {:>8} {:>8}\n", one.of->name,
                            show_field(of.from, *one.of), show_part(one.lost_less), show_part(one.lost_more),
                            one.targets_less, one.targets_more);
    return text;
}

} // namespace weft::plan
