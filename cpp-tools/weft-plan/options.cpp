// SPDX-License-Identifier: GPL-2.0-only
#include "options.hpp"

#include "fields.hpp"

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdio>

namespace weft::plan
{

namespace
{

/// A heading of --help.
std::string heading(std::string_view group)
{
    std::string text(group);
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    return text;
}

} // namespace

void add_options(CLI::App& app, options& to)
{
    app.name("weft-plan");
    app.description(plan_description);
    app.set_version_flag("--version", std::string("weft-plan ") + WEFT_VERSION);
    app.add_option("--model", to.model, "preset of a model, as llama-70b; --list shows all");
    app.add_option("--gpu", to.gpu, "preset of a GPU, as h100");
    app.add_option("--nic", to.nic, "preset of the adapters of nodes and targets, as cx7");
    app.add_option("--ssd", to.ssd, "preset of an SSD, as micron-9400-pro");
    app.add_option("--profiles", to.profiles, "file with more presets; default " WEFT_PLAN_PROFILES " alone")
        ->allow_extra_args(false);
    app.add_flag("--list", to.list, "show the presets, with the source of each");
    app.add_option("--plan", to.plan,
                   "TOML file with inputs; its keys are the options' names, as interval = \"1h\"");
    app.add_option("--compare", to.compare, "two such files, side by side")->expected(2);
    app.add_option(
           "--what-if", to.what_if,
           "the plan beside one that differs: +2-nodes, -1-targets (or gpus, rails, ssds), or an input as "
           "interval=30min. Several make one other plan. Targets stay as many as before")
        ->allow_extra_args(false);
    app.add_option("--from", to.from,
                   "an assembled volume whose members, targets, rails, capacity and chunk are taken, from "
                   "'weftctl status'");
    app.add_option("--watch", to.watch, "with --from: the feed is what this node reads in this time, as 30s");
    app.add_option(
        "--fio", to.fio,
        "results of /usr/share/weft/fio-jobs/run, a folder or a file: what a member reads and writes");
    app.add_flag("--published", to.published,
                 "figures that others publish, and what follows from their assumptions");
    app.add_flag("--sensitivity", to.sensitivity, "what a tenth more or less of each input changes");
    app.add_flag("--plot", to.plot, "two plots: interval against lost GPU time, targets against feed");
    app.add_option("--report", to.report, "write one HTML file with inputs, results, plots and sensitivity");
    app.add_flag("--json", to.json, "for programs: numbers in bytes, seconds and parts of 1");
    to.values.resize(fields().size());
    std::size_t at = 0;
    for (const auto& one : fields())
        app.add_option("--" + std::string(one.name), to.values[at++], std::string(one.help))
            ->group(heading(one.group));
    app.footer(
        R"(It computes sizes of checkpoints, what they cost in GPU time, the best interval, and the targets, rails and members
that a cluster needs. Each formula and its source is in docs/planning.md and in the headers of the library.

Later sources win: defaults, --plan, presets, --from, --fio, other options, --what-if. A preset in a plan's file gives way to
the other keys of that file.

Units are never guessed. GB is 10^9 bytes and GiB 2^30; GB/s are bytes and Gbit/s bits; times have s, min, h or d; parts
have %. An input that is impossible or contradicts another one is refused with status 2. A file that is missing is status 4.

Examples:
  weft-plan --parameters 70e9 --precision fp16 --optimizer adamw --interval 1h --json
  weft-plan --model llama-405b --gpus 16384 --tensor 8 --pipeline 16 --states fp32 --master-weights yes --plot
  weft-plan --model llama-70b --gpus 1024 --feed 4GB/s --nic cx7 --ssd micron-9400-pro --report plan.html
  weft-plan --plan cluster.toml --what-if +2-nodes
  weft-plan --compare A.toml B.toml
  weft-plan --from data --fio results --model llama-7b --gpus 64)");
}

std::optional<int> parse(int argc, char** argv, options& to)
{
    CLI::App app;
    add_options(app, to);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        if (problem.get_exit_code() == 0)
            return app.exit(problem);
        complain("weft-plan: {}\n", problem.what());
        return static_cast<int>(exit_code::usage);
    }
    return {};
}

} // namespace weft::plan
