// SPDX-License-Identifier: GPL-2.0-only
#include "chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::plan
{

namespace
{

constexpr int points = 80;

/// What people call a round time.
constexpr double round_times[] = {1,     2,      5,      10,     30,      60,      120,
                                  300,   600,    1800,   3600,   7200,    21600,   43200,
                                  86400, 172800, 432000, 864000, 2592000, 7776000, 31557600};

std::pair<double, double> x_range(const chart& of)
{
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const auto& one : of.curves)
        for (const auto& [x, y] : one.points) {
            low = std::min(low, x);
            high = std::max(high, x);
        }
    return {low, high};
}

/// Where x is on the axis, from 0 to 1.
double place(const chart& of, double x)
{
    const auto [low, high] = x_range(of);
    if (high <= low)
        return 0.5;
    return of.x_logarithmic ? std::log(x / low) / std::log(high / low) : (x - low) / (high - low);
}

double height(const chart& of, double y)
{
    return std::clamp(y / of.y_most, 0.0, 1.0);
}

/// 1, 2 or 5 times a power of ten.
double round_step(double range, int steps)
{
    const double raw = range / steps, power = std::pow(10, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (raw <= factor * power)
            return factor * power;
    return 10 * power;
}

std::vector<double> x_ticks(const chart& of)
{
    const auto [low, high] = x_range(of);
    std::vector<double> ticks;
    if (of.x_logarithmic) {
        for (const double one : round_times)
            if (one >= low && one <= high &&
                (ticks.empty() || place(of, one) - place(of, ticks.back()) > 0.07))
                ticks.push_back(one);
        return ticks;
    }
    const double step = std::max(1.0, round_step(high - low, 8));
    for (double x = std::ceil(low / step) * step; x <= high; x += step)
        ticks.push_back(x);
    return ticks;
}

std::vector<double> y_ticks(const chart& of)
{
    const double step = round_step(of.y_most, 5);
    std::vector<double> ticks;
    for (double y = 0; y <= of.y_most * 1.0001; y += step)
        ticks.push_back(y);
    return ticks;
}

} // namespace

chart interval_chart(const outcome& of)
{
    chart made{"Interval against lost GPU time",
               "interval from checkpoint to checkpoint",
               "lost GPU time",
               kind::time,
               kind::percent,
               true,
               0,
               {},
               {}};
    const auto best = std::min(of.synchronous.best.found, of.asynchronous.best.found).value();
    const auto last =
        std::max({of.synchronous.best.found, of.asynchronous.best.found, of.from.interval}).value();
    const double low = std::min(best / 10, of.from.interval.value() / 4), high = last * 10;
    for (const auto* by : {&of.synchronous, &of.asynchronous}) {
        curve one{by == &of.synchronous ? "synchronous" : "asynchronous", {}};
        for (int i = 0; i <= points; i++) {
            const double x = low * std::pow(high / low, static_cast<double>(i) / points);
            if (seconds(x) > by->when.shortest())
                one.points.emplace_back(x, lost_at(of, *by, seconds(x)));
        }
        made.curves.push_back(std::move(one));
    }
    const double shown =
        std::max({of.synchronous.best.lost, of.asynchronous.best.lost, of.chosen().lost.total()});
    made.y_most = std::min(1.0, std::max(0.01, shown * 3));
    made.marks = {{"planned", of.from.interval.value()}, {"best", of.chosen().best.found.value()}};
    return made;
}

chart targets_chart(const outcome& of)
{
    chart made{
        "Targets against feed", "targets", "feed of all GPUs", kind::number, kind::rate, false, 0, {}, {}};
    curve alone{"without checkpoints", {}}, paced{"beside a slow checkpoint", {}},
        full{"beside one at full rate", {}}, wanted{"wanted", {}};
    auto built = of.built;
    const count last = std::max<count>(4, 2 * std::max(of.built.targets, of.needed.targets));
    for (int i = 0; i <= points; i++) {
        const auto targets = 1 + static_cast<count>(std::llround(static_cast<double>(last - 1) * i / points));
        if (!alone.points.empty() && alone.points.back().first == static_cast<double>(targets))
            continue;
        built.targets = targets;
        const auto x = static_cast<double>(targets);
        const auto rate = write_limits(built).rate();
        alone.points.emplace_back(x, read_limits(built).rate().value());
        full.points.emplace_back(x, feed_beside(built, rate).value());
        paced.points.emplace_back(
            x, feed_beside(built, std::min(rate, of.checkpoint / of.from.interval)).value());
        wanted.points.emplace_back(x, of.feed.value());
    }
    for (const auto* one : {&alone, &wanted})
        for (const auto& [x, y] : one->points)
            made.y_most = std::max(made.y_most, y * 1.1);
    made.curves = {alone, paced, full};
    if (of.feed > bytes_per_second())
        made.curves.push_back(wanted);
    made.marks = {{"planned", static_cast<double>(of.built.targets)}};
    return made;
}

std::string escaped(std::string_view text)
{
    std::string safe;
    for (const char c : text) {
        switch (c) {
        case '<':
            safe += "&lt;";
            break;
        case '>':
            safe += "&gt;";
            break;
        case '&':
            safe += "&amp;";
            break;
        case '"':
            safe += "&quot;";
            break;
        default:
            safe += c;
        }
    }
    return safe;
}

std::string svg_of(const chart& of)
{
    constexpr double left = 90, top = 40, wide = 640, high = 260, full_width = 970, full_height = 350;
    const auto x_at = [&](double x) { return left + wide * place(of, x); };
    const auto y_at = [&](double y) { return top + high * (1 - height(of, y)); };
    std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", full_width,
                                  full_height, escaped(of.title));
    for (const double y : y_ticks(of))
        svg +=
            fmt::format(R"(<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>)"
                        R"(<text class="end" x="{}" y="{:.1f}">{}</text>)",
                        left, y_at(y), left + wide, y_at(y), left - 8, y_at(y) + 4, show_value(of.y_kind, y));
    for (const double x : x_ticks(of))
        svg += fmt::format(R"(<text class="middle" x="{:.1f}" y="{}">{}</text>)", x_at(x), top + high + 20,
                           show_value(of.x_kind, x));
    for (const auto& one : of.marks)
        svg += fmt::format(R"(<line class="mark" x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}"/>)"
                           R"(<text class="middle weak" x="{0:.1f}" y="{3}">{4}</text>)",
                           x_at(one.x), top, top + high, one.name == "best" ? top - 22 : top - 8,
                           escaped(one.name));
    int number = 0;
    for (const auto& one : of.curves) {
        std::string line;
        for (const auto& [x, y] : one.points)
            if (y <= of.y_most)
                line += fmt::format("{:.1f},{:.1f} ", x_at(x), y_at(y));
        svg += fmt::format(
            R"(<polyline class="curve c{0}" points="{1}"/><line class="curve c{0}" x1="{2}" y1="{3}" x2="{4}" )"
            R"(y2="{3}"/><text x="{5}" y="{6}">{7}</text>)",
            number, line, left + wide + 12, top + 10 + 22 * number, left + wide + 32, left + wide + 38,
            top + 14 + 22 * number, escaped(one.name));
        number++;
    }
    svg += fmt::format(
        R"(<text class="middle weak" x="{}" y="{}">{}</text><text class="weak" x="{}" y="{}">{}</text></svg>)",
        left + wide / 2, top + high + 42, escaped(of.x_label), 4, top - 22, escaped(of.y_label));
    return svg;
}

std::string text_of(const chart& of)
{
    constexpr int width = 66, lines = 16;
    constexpr char signs[] = "*o+-";
    std::vector<std::string> grid(lines, std::string(width, ' '));
    const auto column = [&](double x) {
        const auto at = std::lround(place(of, x) * (width - 1));
        return static_cast<std::size_t>(std::clamp<long>(at, 0, width - 1));
    };
    for (const auto& one : of.marks)
        for (auto& line : grid)
            line[column(one.x)] = one.name == "best" ? ':' : '|';
    for (std::size_t i = of.curves.size(); i-- > 0;) // the first is on top
        for (const auto& [x, y] : of.curves[i].points)
            if (y <= of.y_most)
                grid[static_cast<std::size_t>(std::lround((1 - height(of, y)) * (lines - 1)))][column(x)] =
                    signs[i % 4];
    std::string text = fmt::format("{}\n", of.title);
    for (int i = 0; i < lines; i++) {
        const double y = of.y_most * (lines - 1 - i) / (lines - 1);
        text += fmt::format("{:>10} |{}\n", i % 5 ? "" : show_value(of.y_kind, y),
                            grid[static_cast<std::size_t>(i)]);
    }
    text += fmt::format("{:>10} +{}\n", "", std::string(width, '-'));
    std::string axis(width + 12, ' ');
    std::size_t free = 0;
    for (const double x : x_ticks(of)) {
        const auto label = show_value(of.x_kind, x);
        const auto at = 12 + column(x);
        if (at < free || at + label.size() > axis.size())
            continue;
        axis.replace(at, label.size(), label);
        free = at + label.size() + 2;
    }
    axis.erase(axis.find_last_not_of(' ') + 1);
    text += axis + "\n";
    for (std::size_t i = 0; i < of.curves.size(); i++)
        text += fmt::format("{:>10} {} {}\n", "", signs[i % 4], of.curves[i].name);
    for (const auto& one : of.marks)
        text += fmt::format("{:>10} {} {}: {}\n", "", one.name == "best" ? ':' : '|', one.name,
                            show_value(of.x_kind, one.x));
    return text;
}

} // namespace weft::plan
