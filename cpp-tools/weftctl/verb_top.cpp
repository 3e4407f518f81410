// SPDX-License-Identifier: GPL-2.0-only
#include "load.hpp"
#include "netlink.hpp"
#include "process.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct top_options {
    std::vector<std::string> volumes; ///< all if it is empty
    unsigned int interval = 1;        ///< seconds
    unsigned int count = 0;           ///< tables; 0: until a signal
};

void show(const load_samples& before, const load_samples& after, renderer& out)
{
    clear_screen();
    for (const auto& [name, sample] : after)
        if (const auto was = before.find(name); was != before.end())
            out.load(load_between(was->second, sample));
    out.next();
}

result<exit_code> run_top(const top_options& options, renderer& out)
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    end_waits_at_signals();
    auto before = take_samples(*kernel, options.volumes);
    if (!before)
        return std::unexpected(before.error());
    for (unsigned int shown = 0; !options.count || shown < options.count; shown++) {
        if (!wait_for(std::chrono::seconds(options.interval)))
            break;
        auto after = take_samples(*kernel, options.volumes);
        if (!after)
            return std::unexpected(after.error());
        show(*before, *after, out);
        before = std::move(after);
    }
    return exit_code::ok;
}

} // namespace

verb add_top(CLI::App& app)
{
    auto options = std::make_shared<top_options>();
    auto* command = app.add_subcommand("top", "show the current I/O of volumes and their members");
    command->add_option("VOLUME", options->volumes, "names of assembled volumes; default: all");
    command->add_option("--interval", options->interval, "seconds from one table to the next; default 1")
        ->check(CLI::Range(1, 3600));
    command->add_option("--count", options->count, "exit after this number of tables; default: at a signal");
    command->footer(
        R"(If QoS is on (weftctl-qos(8)), each member has a row for feed and one for background commands:

  IOPS, THROUGHPUT  commands and bytes per second
  P50, P99, P99.9   the time from sending to completion that 50 %, 99 % and 99.9 % of the commands did not exceed.
                    Times are counted in powers of two, and interpolated between them
  IN-FLIGHT         bytes that were sent and have not completed; of feed commands only if they have a limit
  HELD              commands that wait for the rate or for a limit
  STALLS            commands per second that had to wait
  RATE              of background commands, that the latency of feed commands allows
  WINDOW            bytes of background commands in flight that --background-latency allows

Otherwise it has a row for reads and one for writes, with the mean of their times; they are zero with --no-iostats.
A member is called slow if its feed commands (the median) or its reads (the mean) take at least four times as long as
the median of the others. On a terminal each table replaces the one before. With --json each is one line.

Examples:
  weftctl top
  weftctl top data --interval 5
  weftctl top data --count 1 --json)");
    return {command, [options](renderer& out) { return run_top(*options, out); }};
}

} // namespace weft
