// SPDX-License-Identifier: GPL-2.0-only
#include "memory.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace bench
{

namespace
{

std::string describe(const Job& job)
{
    return fmt::format("{} bytes {} {} memory, {} bytes at a time, {} in flight: {}{}", job.length,
                       job.write ? "from" : "to", memory_name(job), job.piece, job.depth, job.source,
                       job.file.empty() ? "" : " " + job.file);
}

/// Escapes text for XML.
std::string escaped(const std::string& text)
{
    std::string safe;
    for (const char c : text)
        safe += c == '<'   ? "&lt;"
                : c == '>' ? "&gt;"
                : c == '&' ? "&amp;"
                : c == '"' ? "&quot;"
                           : std::string(1, c);
    return safe;
}

} // namespace

std::string as_text(const Job& job, const std::vector<Figures>& all)
{
    auto text = describe(job) + "\n\n";
    text += fmt::format("{:8} {:>8} {:>10} {:>9} {:>9} {:>9}  {}\n", "ASKED", "GB/s", "CPU s/GB", "p50 us",
                        "p99 us", "max us", "ROUTE");
    for (const auto& one : all)
        if (one.ran())
            text +=
                fmt::format("{:8} {:8.3f} {:10.3f} {:9} {:9} {:9}  {}\n", one.name, one.gb_per_second(),
                            one.cpu_per_gb(), one.latency(0.5), one.latency(0.99), one.latency(1), one.route);
        else
            text += fmt::format("{:8} {:>8} {:>10} {:>9} {:>9} {:>9}  {}\n", one.name, "-", "-", "-", "-",
                                "-", one.why);
    return text;
}

std::string as_json(const Job& job, const std::vector<Figures>& all)
{
    auto rows = nlohmann::ordered_json::array();
    for (const auto& one : all) {
        nlohmann::ordered_json row = {{"asked", one.name}, {"ran", one.ran()}};
        if (one.ran())
            row.update({{"route", one.route},
                        {"bytes", one.bytes},
                        {"seconds", one.seconds},
                        {"gb_per_second", one.gb_per_second()},
                        {"cpu_seconds_per_gb", one.cpu_per_gb()},
                        {"latency_us",
                         {{"p50", one.latency(0.5)}, {"p99", one.latency(0.99)}, {"max", one.latency(1)}}}});
        else
            row["why"] = one.why;
        rows.push_back(row);
    }
    const nlohmann::ordered_json document = {
        {"source", job.source}, {"file", job.file},
        {"write", job.write},   {"memory", job.gpu ? "gpu" : job.bar.empty() ? "host" : "bar"},
        {"piece", job.piece},   {"depth", job.depth},
        {"routes", rows}};
    return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_svg(const Job& job, const std::vector<Figures>& all)
{
    constexpr int width = 720, left = 90, right = 250, row = 34, top = 56;
    double most = 0;
    for (const auto& one : all)
        if (one.ran())
            most = std::max(most, one.gb_per_second());
    const auto height = top + row * static_cast<int>(all.size()) + 16;
    auto svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" font-family="sans-serif" font-size="13">)"
        "\n"
        R"(<rect width="{0}" height="{1}" fill="white"/><text x="10" y="20" font-size="12">{2}</text>)"
        "\n"
        R"(<text x="10" y="40" fill="#555">GB/s, and CPU seconds a GB</text>)"
        "\n",
        width, height, escaped(describe(job)));
    for (std::size_t i = 0; i < all.size(); i++) {
        const auto& one = all[i];
        const auto y = top + row * static_cast<int>(i);
        const auto bar =
            one.ran() && most > 0 ? static_cast<int>((width - left - right) * one.gb_per_second() / most) : 0;
        svg += fmt::format(
            R"(<text x="10" y="{}">{}</text><rect x="{}" y="{}" width="{}" height="20" fill="#3a7"/>)",
            y + 15, escaped(one.name), left, y, bar);
        svg += fmt::format(R"(<text x="{}" y="{}">{}</text>)"
                           "\n",
                           left + bar + 8, y + 15,
                           escaped(one.ran() ? fmt::format("{:.2f} ({:.2f} s), {}", one.gb_per_second(),
                                                           one.cpu_per_gb(), one.route)
                                             : one.why.substr(0, 70)));
    }
    return svg + "</svg>\n";
}

} // namespace bench
