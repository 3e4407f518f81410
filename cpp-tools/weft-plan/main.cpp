// SPDX-License-Identifier: GPL-2.0-only
/// Says what a model needs of a cluster's storage, from arithmetic that is written down.
#include "calibrate.hpp"
#include "chart.hpp"
#include "fields.hpp"
#include "json.hpp"
#include "options.hpp"
#include "published.hpp"
#include "report.hpp"
#include "words.hpp"

#include <process.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace
{

using namespace weft;
using namespace weft::plan;

result<void> set_all(inputs& to, const settings& values)
{
    for (const auto& [name, text] : values)
        if (auto done = set_field(to, name, text); !done)
            return done;
    return {};
}

/// The presets: those that are installed, and those of --profiles. The installed ones are needed by name
/// alone.
result<std::vector<profile>> all_profiles(const options& given)
{
    std::vector<profile> all;
    std::vector<std::string> paths{WEFT_PLAN_PROFILES};
    std::error_code problem;
    if (!given.profiles.empty() && !std::filesystem::exists(paths.front(), problem))
        paths.clear();
    paths.insert(paths.end(), given.profiles.begin(), given.profiles.end());
    for (const auto& path : paths) {
        auto some = read_profiles(path);
        if (!some)
            return std::unexpected(some.error());
        all.insert(all.end(), some->begin(), some->end());
    }
    return all;
}

result<void> apply_preset(inputs& to, const options& given, std::string_view family, const std::string& name)
{
    if (name.empty())
        return {};
    const auto all = all_profiles(given);
    if (!all)
        return std::unexpected(all.error());
    const auto found = find_profile(*all, family, name);
    if (!found)
        return std::unexpected(found.error());
    return set_all(to, found->values);
}

/// The inputs of a plan's file: its presets first.
result<void> apply_plan(inputs& to, const options& given, const std::string& path)
{
    if (path.empty())
        return {};
    const auto values = read_plan(path);
    if (!values)
        return std::unexpected(values.error());
    settings own;
    for (const auto& [name, text] : *values) {
        if (find_field(name)) {
            own.emplace_back(name, text);
            continue;
        }
        if (auto done = apply_preset(to, given, name, text); !done)
            return done;
    }
    if (auto done = set_all(to, own); !done)
        return fail(done.error().code, "{}: {}", path, done.error().text);
    return {};
}

/// What the command line says of inputs.
settings typed(const options& given)
{
    settings own;
    std::size_t at = 0;
    for (const auto& one : fields()) {
        if (!given.values[at].empty())
            own.emplace_back(std::string(one.name), given.values[at]);
        at++;
    }
    return own;
}

result<void> apply_measured(inputs& to, const options& given)
{
    if (!given.watch.empty() && given.from.empty())
        return fail(exit_code::usage, "--watch needs --from, which names the volume");
    count members = 0;
    if (!given.from.empty()) {
        seconds watch;
        if (!given.watch.empty()) {
            const auto time = parse_value(kind::time, given.watch);
            if (!time || *time <= 0 || *time > 86400)
                return fail(exit_code::usage, "--watch {}: {}", given.watch,
                            time ? "write a time up to 1d" : time.error().text);
            watch = seconds(*time);
        }
        const auto found = measure(given.from, watch, std::min(to.gpus, to.gpus_per_node));
        if (!found)
            return std::unexpected(found.error());
        if (auto done = set_all(to, found->values); !done)
            return fail(exit_code::failure, "volume {} has a value that a plan cannot have: {}", given.from,
                        done.error().text);
        members = found->members;
    }
    if (given.fio.empty())
        return {};
    if (!members && to.targets)
        members = *to.targets * to.disks;
    if (!members)
        return fail(
            exit_code::usage,
            "--fio needs --from, or --targets and --ssds: figures of a volume are divided by its members");
    const auto figures = fio_settings(given.fio, members);
    if (!figures)
        return std::unexpected(figures.error());
    return set_all(to, *figures);
}

/// All sources in the order that the man page says.
result<inputs> inputs_of(const options& given, const std::string& plan)
{
    inputs all;
    const auto own = typed(given);
    const auto in_turn = [&]() -> result<void> {
        if (auto done = apply_plan(all, given, plan); !done)
            return done;
        const std::string* const names[] = {&given.model, &given.gpu, &given.nic, &given.ssd};
        for (std::size_t i = 0; i < std::size(names); i++)
            if (auto done = apply_preset(all, given, families[i], *names[i]); !done)
                return done;
        // Twice: what is measured is divided by members and GPUs, which may be typed.
        if (auto done = set_all(all, own); !done)
            return done;
        if (auto done = apply_measured(all, given); !done)
            return done;
        return set_all(all, own);
    };
    if (auto done = in_turn(); !done)
        return std::unexpected(done.error());
    return all;
}

using plans = std::vector<std::pair<std::string, outcome>>;

result<void> add_plan(plans& to, const std::string& name, const inputs& from,
                      const cluster* size_by = nullptr)
{
    auto made = evaluate(from, size_by);
    if (!made)
        return std::unexpected(made.error());
    to.emplace_back(name, std::move(*made));
    return {};
}

result<plans> plans_of(const options& given)
{
    plans all;
    if (!given.compare.empty()) {
        if (!given.plan.empty() || !given.what_if.empty() || !given.report.empty())
            return fail(exit_code::usage, "--compare takes two plans, and no --plan, --what-if or --report");
        for (const auto& path : given.compare) {
            const auto from = inputs_of(given, path);
            if (!from)
                return std::unexpected(from.error());
            if (auto done = add_plan(all, path, *from); !done)
                return fail(done.error().code, "{}: {}", path, done.error().text);
        }
        return all;
    }
    auto from = inputs_of(given, given.plan);
    if (!from)
        return std::unexpected(from.error());
    if (auto done = add_plan(all, "plan", *from); !done)
        return std::unexpected(done.error());
    if (given.what_if.empty())
        return all;
    std::string name;
    const auto built = all.front().second.built;
    for (const auto& one : given.what_if) {
        if (auto done = change(*from, built, one); !done)
            return std::unexpected(done.error());
        name.append(name.empty() ? "" : " ").append(one);
    }
    if (auto done = add_plan(all, name, *from, &built); !done)
        return fail(done.error().code, "--what-if {}: {}", name, done.error().text);
    return all;
}

result<std::string> list_of(const options& given)
{
    const auto all = all_profiles(given);
    if (!all)
        return std::unexpected(all.error());
    std::string text;
    for (const auto& one : *all) {
        text += fmt::format("--{} {}\n  {}\n ", one.family, one.name, one.source);
        for (const auto& [name, value] : one.values)
            text += fmt::format(" {} {}", name, value);
        text += '\n';
    }
    return text;
}

std::string problems_of(const outcome& of)
{
    std::string text;
    for (const auto what : of.problems)
        text += "! " + sentence_of(what, of) + '\n';
    return text;
}

std::string text_of_plans(const plans& all, const options& given)
{
    const auto& first = all.front().second;
    if (all.size() == 2)
        return text_of(all[0].first, rows_of(first), all[1].first, rows_of(all[1].second)) +
               (problems_of(first).empty() ? "" : "\n" + all[0].first + ":\n" + problems_of(first)) +
               (problems_of(all[1].second).empty()
                    ? ""
                    : "\n" + all[1].first + ":\n" + problems_of(all[1].second));
    std::string text;
    for (const auto& one : sentences_of(first))
        text += one + '\n';
    text += problems_of(first) + '\n' + text_of(rows_of(first));
    if (given.plot)
        text += '\n' + text_of(interval_chart(first)) + '\n' + text_of(targets_chart(first));
    if (given.sensitivity)
        text += '\n' + sensitivity_text(first);
    return text;
}

result<void> write_report(const std::string& path, const outcome& of)
{
    std::ofstream file(path, std::ios::trunc);
    file << report_of(of, "A plan by weft");
    file.close();
    if (!file)
        return fail(exit_code::failure, "the report cannot be written to {}", path);
    return {};
}

result<std::string> run(const options& given)
{
    if (given.list)
        return list_of(given);
    if (given.published)
        return given.json ? published_json() : published_text();
    const auto all = plans_of(given);
    if (!all)
        return std::unexpected(all.error());
    if (!given.report.empty())
        if (auto done = write_report(given.report, all->back().second); !done)
            return std::unexpected(done.error());
    return given.json ? json_of(*all, given.sensitivity) : text_of_plans(*all, given);
}

} // namespace

int main(int argc, char** argv)
{
    plan::options given;
    if (const auto status = plan::parse(argc, argv, given))
        return *status;
    const auto text = run(given);
    if (!text) {
        complain("weft-plan: {}\n", text.error().text);
        end_as_signalled();
        return static_cast<int>(text.error().code);
    }
    if (std::fputs(text->c_str(), stdout) >= 0 && std::fflush(stdout) == 0)
        return 0;
    complain("weft-plan: the output cannot be written\n");
    return static_cast<int>(exit_code::failure);
}
