// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"
#include "process.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

struct events_options {
    std::vector<std::string> volumes; ///< all if it is empty
    unsigned int count = 0;
    std::string command;
};

/// Is an event of a volume that the user named? Events that were lost may be of any.
bool is_wanted(const events_options& options, const event_report& event)
{
    return options.volumes.empty() || event.volume.empty() ||
           std::ranges::find(options.volumes, event.volume) != options.volumes.end();
}

/// Runs the user's command for an event. If it fails, that is reported and false is returned.
bool run_command(const std::string& command, const event_report& event, renderer& out)
{
    std::vector<std::string> environment = {"WEFT_TIME=" + event.time,
                                            "WEFT_VOLUME=" + event.volume,
                                            "WEFT_TYPE=" + event.type,
                                            "WEFT_TEXT=" + event.text,
                                            fmt::format("WEFT_ERRNO={}", event.errnum),
                                            "WEFT_OWNERSHIP=" + event.ownership};
    if (event.member)
        environment.push_back(fmt::format("WEFT_MEMBER={}", *event.member));
    const auto done = run_process({"/bin/sh", "-c", command}, environment);
    complain("{}", done.output);
    if (!done.status)
        return true;
    out.failure({exit_code::failure, fmt::format("the command for event {} of volume {} ended with status {}",
                                                 event.type, event.volume, done.status)});
    return false;
}

/// How soon a module that was loaded again is seen.
constexpr std::chrono::milliseconds look_again = std::chrono::seconds(2);

result<netlink> subscribed()
{
    auto connection = netlink::open();
    if (!connection)
        return connection;
    if (auto done = connection->subscribe(); !done)
        return std::unexpected(done.error());
    return connection;
}

result<exit_code> run_events(const events_options& options, renderer& out)
{
    auto connection = subscribed();
    if (!connection)
        return std::unexpected(connection.error());
    end_waits_at_signals();
    unsigned int seen = 0;
    auto worst = exit_code::ok;
    const auto is_over = [&] { return a_signal_came() || (options.count && seen >= options.count); };
    while (!is_over()) {
        // After weft.ko was unloaded, this connection gets no event, also when it is loaded again. To open
        // one meanwhile would load it.
        if (!netlink::is_served()) {
            if (!wait_for(look_again))
                break;
            continue;
        }
        if (connection->is_stale()) {
            connection = subscribed();
            if (!connection)
                return std::unexpected(connection.error());
        }
        const auto done = connection->receive_events(
            [&](const event_report& event) {
                if (is_wanted(options, event)) {
                    out.event(event);
                    if (!options.command.empty() && !run_command(options.command, event, out))
                        worst = exit_code::failure;
                    seen++;
                }
                return !is_over();
            },
            look_again);
        if (!done)
            return std::unexpected(done.error());
    }
    return worst;
}

} // namespace

verb add_events(CLI::App& app)
{
    auto options = std::make_shared<events_options>();
    auto* command = app.add_subcommand("events", "print events of volumes as they occur");
    command->add_option("VOLUME", options->volumes, "only these volumes; they need not be assembled yet");
    command->add_option("--count", options->count, "exit after this number of events");
    command->add_option("--exec", options->command, "shell command to run for each event, one after another");
    command->footer(R"(With --json each event is one line. Ends at a signal.

The command of --exec has the event in its environment: WEFT_TYPE, WEFT_VOLUME, WEFT_TEXT, WEFT_TIME,
WEFT_ERRNO, WEFT_OWNERSHIP and, for an event of a member, WEFT_MEMBER. What it prints goes to standard
error. If it fails, that is reported, the next event is handled, and the exit status is 1 in the end.
Events that come while it runs wait; those for which the kernel has no room are lost, and an event
of type overrun reports that.

Examples:
  weftctl events
  weftctl events data
  weftctl events --exec 'logger -t weft "$WEFT_VOLUME: $WEFT_TEXT"'
  weftctl events --count 1 --json)");
    return {command, [options](renderer& out) { return run_events(*options, out); }};
}

} // namespace weft
