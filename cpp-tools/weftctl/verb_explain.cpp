// SPDX-License-Identifier: GPL-2.0-only
#include "explain.hpp"
#include "netlink.hpp"
#include "process.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct explain_options {
    std::vector<std::string> volumes; ///< all if it is empty
    unsigned int seconds = 5;
};

result<exit_code> run_explain(const explain_options& options, renderer& out)
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    end_waits_at_signals();
    const auto before = take_samples(*kernel, options.volumes);
    if (!before)
        return std::unexpected(before.error());
    const auto host_before = take_host_sample(*before);
    if (!wait_for(std::chrono::seconds(options.seconds)))
        return std::unexpected(interruption());
    const auto after = take_samples(*kernel, options.volumes);
    if (!after)
        return std::unexpected(after.error());
    const auto host_after = take_host_sample(*after);
    for (const auto& [name, sample] : *after)
        if (const auto was = before->find(name); was != before->end())
            out.explained(explain(was->second, sample, host_before, host_after));
    return exit_code::ok;
}

} // namespace

verb add_explain(CLI::App& app)
{
    auto options = std::make_shared<explain_options>();
    auto* command = app.add_subcommand("explain", "report what limits volumes now");
    command->add_option("VOLUME", options->volumes, "names of assembled volumes; default: all");
    command->add_option("--seconds", options->seconds, "seconds to watch the counters; default 5")
        ->check(CLI::Range(1, 3600));
    command->footer(
        R"(It watches the counters for some seconds, while the load runs, and prints for each volume what it did and what limits
it. The first line is the limit now. The other lines are true, too, and become the limit after the first one is removed:

  member     a member is stalled or gone, or takes at least four times as long as the others
  load       no command was sent, or none completed
  route      a tenth or more of the bytes on registered memory went through host memory
  qos        commands wait for a limit of 'weftctl qos', or for the latency of feed commands
  rail       an RDMA port carries 85 % or more of its rate in one direction, of all programs together
  processor  all processors together are busy for 90 % of the time; or, as the last line, one is for 95 %
  depth      members work on less than two commands at a time: the program sends too few at once
  members    the members, or their targets, are at their limit; as the first line: nothing else limits the volume

Without iostats (--no-iostats) the kernel does not count I/O, and the command can report little.

Examples:
  weftctl explain
  weftctl explain data --seconds 2
  weftctl explain data --json)");
    return {command, [options](renderer& out) { return run_explain(*options, out); }};
}

} // namespace weft
