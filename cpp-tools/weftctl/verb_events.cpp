// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"
#include "verbs.hpp"

#include <csignal>

namespace weft
{

namespace
{

result<exit_code> run_events(unsigned int count, renderer& out)
{
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    if (auto done = connection->subscribe(); !done)
        return std::unexpected(done.error());
    // No SA_RESTART: a signal ends the wait, and with it the command.
    struct sigaction action {
    };
    action.sa_handler = [](int) {};
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);

    unsigned int seen = 0;
    auto done = connection->receive_events([&](const event_report& event) {
        out.event(event);
        return !count || ++seen < count;
    });
    if (!done)
        return std::unexpected(done.error());
    return exit_code::ok;
}

} // namespace

verb add_events(CLI::App& app)
{
    auto count = std::make_shared<unsigned int>(0);
    auto* command = app.add_subcommand("events", "print what happens to volumes, as it happens");
    command->add_option("--count", *count, "end after that many");
    command->footer(R"(With --json each event is one line. Ends at a signal.

Examples:
  weftctl events
  weftctl events --count 1 --json)");
    return {command, [count](renderer& out) { return run_events(*count, out); }};
}

} // namespace weft
