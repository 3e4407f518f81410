// SPDX-License-Identifier: GPL-2.0-only
#include "connect_keys.hpp"
#include "identity.hpp"
#include "process.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

std::string option(std::string key)
{
    std::ranges::replace(key, '_', '-');
    return "--" + key;
}

} // namespace

void add_connect_options(CLI::App& command, connect_options& options)
{
    for (const auto& [key, value, help] : connect_text_keys) {
        auto* added = command.add_option(option(key), options.*value, help);
        if (value == &connect_options::initiator)
            added->check(CLI::IsMember(
                std::vector<std::string>(connect_transports.begin(), connect_transports.end())));
    }
    for (const auto& [key, value, least, most, help] : connect_number_keys)
        command.add_option(option(key), options.*value, help)->check(CLI::Range(least, most));
}

result<void> refuse_with_saved(const connect_options& options)
{
    const auto refuse = [](const char* key) {
        return fail(
            exit_code::usage,
            "--saved connects as the file of the volume says: leave {} out, or write {} into the file",
            option(key), key);
    };
    for (const auto& one : connect_text_keys)
        if (!(options.*one.value).empty())
            return refuse(one.key);
    for (const auto& one : connect_number_keys)
        if (options.*one.value)
            return refuse(one.key);
    return {};
}

namespace
{

struct discover_verb {
    std::string uri;
    connect_options options;
};

result<exit_code> run_discover(const discover_verb& verb, renderer& out)
{
    auto at = parse_service_uri(verb.uri);
    if (!at)
        return std::unexpected(at.error());
    end_waits_at_signals(); // so that its controller is disconnected
    const auto service = discovery_service::open(*at, verb.options, false);
    if (!service)
        return std::unexpected(service.error());
    unsigned int left_out = 0;
    auto found = service->ask(left_out);
    if (a_signal_came())
        return std::unexpected(interruption());
    if (!found)
        return std::unexpected(found.error());
    out.discovered(*found);
    if (left_out)
        return fail(exit_code::damaged,
                    "{}: {} of the entries are left out, because their address is not an IP address or their "
                    "NQN is not valid",
                    at->text(), left_out);
    return exit_code::ok;
}

struct connect_verb {
    std::vector<std::string> uris;
    bool dry_run = false;
    connect_options options;
};

result<exit_code> run_connect(const connect_verb& verb, renderer& out)
{
    std::vector<member_uri> uris;
    for (const auto& text : verb.uris) {
        auto uri = parse_member_uri(text);
        if (!uri)
            return std::unexpected(uri.error());
        uris.push_back(std::move(*uri));
    }
    if (uris.empty()) {
        out.connections(connections());
        return exit_code::ok;
    }
    if (verb.dry_run) {
        std::vector<action> actions;
        for (const auto& uri : uris)
            actions.push_back({"connect", uri.text(), fmt::format("connected to {}", uri.text()), true});
        out.actions(actions);
        return exit_code::ok;
    }
    end_waits_at_signals(); // so that a controller that was made has its secrets hidden
    std::vector<connection> links;
    auto worst = exit_code::ok;
    for (const auto& uri : uris) {
        if (a_signal_came())
            break;
        auto link = connect(uri.at, uri.subnqn, verb.options);
        if (link) {
            if (auto disk = namespace_disk(*link, uri); !disk) {
                out.failure(disk.error());
                worst = disk.error().code;
            }
            if (auto now = current(*link))
                link->disks = std::move(now->disks);
            for (const auto& doubtful : doubtful_namespaces(*link))
                link->notes.push_back(fmt::format("the identifier of {} may be made up ({}): {}; {}",
                                                  doubtful.disk, doubtful.identifier, made_up_why,
                                                  made_up_fix));
            links.push_back(std::move(*link));
        } else {
            out.failure(link.error());
            worst = link.error().code;
        }
    }
    if (!links.empty())
        out.connections(links);
    if (a_signal_came())
        return std::unexpected(interruption());
    return worst;
}

} // namespace

verb add_discover(CLI::App& app)
{
    auto verb = std::make_shared<discover_verb>();
    auto* command = app.add_subcommand("discover", "list the exports of a host");
    command
        ->add_option("URI", verb->uri,
                     "rdma://ADDRESS[:PORT] or tcp://ADDRESS[:PORT]; the port is 4420 unless given")
        ->required();
    add_connect_options(*command, verb->options);
    command->footer(
        R"(Shows a URI for each subsystem that this host may connect to. It asks once: 'weftctl path follow' stays connected to the
service, and adds the paths that it announces.

Examples:
  weftctl discover rdma://10.0.0.1
  weftctl discover tcp://10.0.0.1:8009 --json)");
    return {command, [verb](renderer& out) { return run_discover(*verb, out); }};
}

verb add_connect(CLI::App& app)
{
    auto verb = std::make_shared<connect_verb>();
    auto* command =
        app.add_subcommand("connect", "connect to exports of other hosts, or list what is connected");
    command->add_option("URI", verb->uris,
                        "rdma://ADDRESS[:PORT]/SUBNQN or tcp://...; none lists what is connected");
    command->add_flag("--dry-run", verb->dry_run,
                      "check the URIs, say what would be connected, change nothing");
    add_connect_options(*command, verb->options);
    command->footer(
        R"('weftctl create' and 'assemble' connect members that are URIs by themselves. This command connects
without a volume, or with other options.

Examples:
  weftctl connect rdma://10.0.0.1/nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427
  weftctl connect tcp://10.0.0.1/nqn.2014-08.org.example:disk1 --ctrl-loss-timeout -1
  weftctl connect)");
    return {command, [verb](renderer& out) { return run_connect(*verb, out); }};
}

} // namespace weft
