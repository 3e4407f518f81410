// SPDX-License-Identifier: GPL-2.0-only
#include "report.hpp"

#include "chart.hpp"
#include "fields.hpp"
#include "words.hpp"

#include <algorithm>
#include <cmath>

namespace weft::plan
{

namespace
{

constexpr auto style =
    R"(:root { color-scheme: light dark; --line: #8886; --weak: #888; --bad: #c8372d; --a: #2b6cb0; --b: #b7791f; --c: #2a8f4d; --d: #c8372d; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; } .weak { color: var(--weak); } .bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; } td, th { padding: .15rem .8rem .15rem 0; vertical-align: top; text-align: left; }
th { font-weight: normal; color: var(--weak); } tr { border-bottom: 1px solid var(--line); }
td.value { white-space: nowrap; font-variant-numeric: tabular-nums; } td.label { width: 13rem; } td.value { width: 9rem; }
svg { width: 100%; display: block; } svg text { font: 13px system-ui, sans-serif; fill: currentColor; }
svg text.weak { fill: var(--weak); } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--line); } svg .mark { stroke: var(--weak); stroke-dasharray: 4 4; }
svg .curve { fill: none; stroke-width: 2.5; } svg .c0 { stroke: var(--a); } svg .c1 { stroke: var(--b); }
svg .c2 { stroke: var(--c); } svg .c3 { stroke: var(--d); stroke-dasharray: 6 4; }
.bar { display: block; height: .7rem; background: var(--a); min-width: 1px; margin-top: .3rem; }
.inputs { columns: 2; } .inputs table { break-inside: avoid; margin-bottom: 1rem; }
@media print { h2 { break-after: avoid; } svg { break-inside: avoid; } })";

/// So that no line ends between a number and its percent sign.
std::string unbroken(std::string text)
{
    for (auto at = text.find(" %"); at != text.npos; at = text.find(" %", at))
        text.replace(at, 1, "&nbsp;");
    return text;
}

std::string result_tables(const outcome& of)
{
    std::string html, section;
    for (const auto& one : rows_of(of)) {
        if (one.section != section)
            html +=
                fmt::format("{}<h3>{}</h3><table>", section.empty() ? "" : "</table>", escaped(one.section));
        section = one.section;
        html += fmt::format(
            "<tr><td class=\"label\">{}</td><td class=\"value\">{}</td><td class=\"weak\">{}</td></tr>\n",
            escaped(one.label), escaped(one.value), escaped(one.why));
    }
    return html + "</table>\n";
}

std::string input_tables(const outcome& of)
{
    const inputs usual;
    std::string html, group;
    for (const auto& one : fields()) {
        if (one.group != group)
            html += fmt::format("{}<table><tr><th colspan=\"2\">{}</th></tr>",
                                group.empty() ? "" : "</table>", escaped(one.group));
        group = one.group;
        const auto value = show_field(of.from, one);
        html += fmt::format(
            "<tr><td>{}</td><td class=\"value\">{}{}</td></tr>\n", escaped(one.name), escaped(value),
            value != "-" && value == show_field(usual, one) ? " <span class=\"weak\">(default)</span>" : "");
    }
    return html + "</table>\n";
}

std::string sensitivity_table(const outcome& of)
{
    const auto all = sensitivity(of);
    const double most = all.empty() ? 0 : all.front().swing;
    std::string html = "<table id=\"sensitivity\"><tr><th>input</th><th>now</th><th>lost GPU time with a "
                       "tenth less</th><th>with a "
                       "tenth more</th><th>targets needed</th><th>how much it changes</th></tr>\n";
    for (const auto& one : all)
        html += fmt::format(
            "<tr><td>{}</td><td class=\"value\">{}</td><td>{}</td><td>{}</td><td>{} to {}</td><td><span "
            "class=\"bar\" "
            "style=\"width: {:.1f}%\"></span></td></tr>\n",
            escaped(one.of->name), escaped(show_field(of.from, *one.of)), show_part(one.lost_less),
            show_part(one.lost_more), std::min(one.targets_less, one.targets_more),
            std::max(one.targets_less, one.targets_more), most > 0 ? 100 * one.swing / most : 0);
    return html + "</table>\n";
}

} // namespace

std::string report_of(const outcome& of, const std::string& title)
{
    std::string html =
        fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
                    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                    "'unsafe-inline'\">\n"
                    "<style>\n{1}\n</style></head>\n<body>\n<h1>{0}</h1>\n<div id=\"result\">\n",
                    escaped(title), style);
    for (const auto& one : sentences_of(of))
        html += fmt::format("<p>{}</p>\n", unbroken(escaped(one)));
    for (const auto what : of.problems)
        html += fmt::format("<p class=\"bad\">{}</p>\n", escaped(sentence_of(what, of)));
    html += "</div>\n<h2>Plots</h2>\n";
    for (const auto& one : {interval_chart(of), targets_chart(of)})
        html += fmt::format("<h3>{}</h3>\n{}\n", escaped(one.title), svg_of(one));
    html += "<h2>What would change the answer most</h2>\n<p class=\"weak\">Targets stay as planned for the "
            "lost GPU time, and are "
            "sized again for the targets needed. Inputs that change less than a 1000th are left out.</p>\n" +
            sensitivity_table(of) + "<h2>Result</h2>\n" + result_tables(of) +
            "<h2>Inputs</h2>\n<div class=\"inputs\">" + input_tables(of) + "</div>\n";
    html += fmt::format(
        "<p class=\"weak\">Made by weft-plan {}. weft-plan(1) and docs/planning.md have each formula and its "
        "source.</p>\n</body></html>\n",
        WEFT_VERSION);
    return html;
}

} // namespace weft::plan
