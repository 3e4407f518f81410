// SPDX-License-Identifier: GPL-2.0-only
#include "exports.hpp"
#include "process.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

struct change_options {
    std::vector<std::string> names;
    bool all = false;
    std::vector<std::string> add_hosts, remove_hosts;
    std::vector<std::string> add_addresses, remove_addresses;
    bool dry_run = false;
};

/// What is to be done with one export.
struct export_change {
    std::size_t index;
    bool live; ///< it is served now; otherwise only the saved export changes
    std::vector<std::string> add_hosts, remove_hosts;
    std::vector<nvme_address> add_addresses, remove_addresses;
};

result<void> check_options(const change_options& options)
{
    if (options.all == !options.names.empty())
        return fail(exit_code::usage, "name devices or subsystems, or give --all");
    if (options.add_hosts.empty() && options.remove_hosts.empty() && options.add_addresses.empty() &&
        options.remove_addresses.empty())
        return fail(exit_code::usage,
                    "give at least one of --add-host, --remove-host, --add-address and --remove-address");
    for (const auto* hosts : {&options.add_hosts, &options.remove_hosts})
        for (const auto& host : *hosts)
            if (auto good = check_nqn(host); !good)
                return good;
    for (const auto& host : options.add_hosts)
        if (std::ranges::count(options.remove_hosts, host))
            return fail(exit_code::usage, "--add-host and --remove-host both name {}", host);
    return {};
}

result<void> plan_hosts(export_change& change, const export_spec& spec, const change_options& options)
{
    if (spec.any_host && !(options.add_hosts.empty() && options.remove_hosts.empty()))
        return fail(exit_code::usage,
                    "every host may connect to {}: to name hosts, unexport it and export it with --host",
                    spec.device);
    for (const auto& host : options.add_hosts)
        if (!std::ranges::count(spec.hosts, host) && !std::ranges::count(change.add_hosts, host))
            change.add_hosts.push_back(host);
    for (const auto& host : options.remove_hosts) {
        if (!std::ranges::count(spec.hosts, host))
            return fail(exit_code::missing, "{} is not a host that may connect to {}", host, spec.device);
        if (!std::ranges::count(change.remove_hosts, host))
            change.remove_hosts.push_back(host);
    }
    if (!spec.any_host && spec.hosts.size() + change.add_hosts.size() == change.remove_hosts.size())
        return fail(exit_code::usage, "no host could connect to {}: use 'weftctl unexport' to end an export",
                    spec.device);
    return {};
}

result<void> plan_addresses(export_change& change, export_spec& spec, const change_options& options)
{
    const auto& like = spec.addresses.front().at;
    auto added = parse_addresses(options.add_addresses, like);
    if (!added)
        return std::unexpected(added.error());
    auto removed = parse_addresses(options.remove_addresses, like);
    if (!removed)
        return std::unexpected(removed.error());
    std::size_t more = 0;
    for (const auto& at : *added) {
        if (std::ranges::count(*removed, at))
            return fail(exit_code::usage, "--add-address and --remove-address both name {}", at.text());
        more += !spec.find(at);
        // One that is saved and not served is tried again.
        if (!spec.find(at) || (change.live && !nvmet::listens(spec, at)))
            change.add_addresses.push_back(at);
    }
    for (const auto& at : *removed)
        if (!spec.find(at))
            return fail(exit_code::missing, "{} is not exported at {}", spec.device, at.text());
    if (spec.addresses.size() + more == removed->size())
        return fail(exit_code::usage,
                    "{} would not be served at any address: 'weftctl unexport' ends an export", spec.device);
    const bool stays_heard = std::ranges::any_of(spec.addresses, [&](const export_address& address) {
        return !std::ranges::count(*removed, address.at) && nvmet::listens(spec, address.at);
    });
    if (change.live && !removed->empty() && change.add_addresses.empty() && !stays_heard)
        return fail(exit_code::usage, "{} is not served at its other addresses now: this is its last address",
                    spec.device);
    change.remove_addresses = std::move(*removed);
    return {};
}

result<export_change> plan(export_book& book, const nvmet& target, std::size_t index,
                           const change_options& options)
{
    auto& spec = book.entry(index);
    const auto presence = target.presence_of(spec);
    if (presence == nvmet::presence::foreign)
        return fail(exit_code::busy, "a subsystem called {} serves something else", spec.subnqn);
    if (presence == nvmet::presence::broken)
        return fail(exit_code::busy,
                    "the subsystem of {} is disabled or has no listener: run 'weftctl export --saved', then "
                    "change it",
                    spec.device);
    export_change change{
        index, presence == nvmet::presence::serving || presence == nvmet::presence::incomplete, {}, {}, {},
        {}};
    auto good = plan_hosts(change, spec, options);
    if (good)
        good = plan_addresses(change, spec, options);
    if (!good)
        return std::unexpected(good.error());
    // Those that it has were checked when they were added.
    auto added = spec;
    added.hosts = change.add_hosts;
    if (good = book.check_tls_key(added); !good)
        return std::unexpected(good.error());
    return change;
}

result<void> add_address(export_spec& spec, const nvme_address& at, bool live)
{
    const bool known = spec.find(at);
    if (!known)
        spec.addresses.push_back({at});
    auto done = live ? nvmet::listen(spec, *spec.find(at)) : result<void>();
    if (!done && !known)
        spec.addresses.pop_back();
    return done;
}

result<void> remove_address(export_spec& spec, const nvme_address& at, bool live)
{
    if (live)
        if (auto done = nvmet::end_listening(spec, *spec.find(at)); !done)
            return done;
    std::erase_if(spec.addresses, [&](const auto& address) { return address.at == at; });
    return {};
}

result<void> add_host(export_spec& spec, const std::string& host, bool live)
{
    if (live)
        return nvmet::allow(spec, host);
    spec.hosts.push_back(host);
    return {};
}

result<void> remove_host(export_spec& spec, const std::string& host, bool live)
{
    if (live)
        return nvmet::forbid(spec, host);
    std::erase(spec.hosts, host);
    return {};
}

/// Adds before it removes, so that hosts which have both the old and the new address keep a path.
result<void> apply(export_spec& spec, const export_change& change, bool dry_run, std::vector<action>& actions)
{
    const auto each = [&](const auto& what, auto step, auto text) -> result<void> {
        for (const auto& one : what) {
            if (!dry_run)
                if (auto done = step(spec, one, change.live); !done)
                    return done;
            actions.push_back({"change-export", spec.device, text(one), dry_run});
        }
        return {};
    };
    auto done = each(change.add_hosts, add_host, [&](const auto& host) {
        return fmt::format("{} may connect to {}", host, spec.device);
    });
    if (done)
        done = each(change.add_addresses, add_address, [&](const auto& at) {
            return fmt::format("{} is exported as {}, too", spec.device, spec.uri(at));
        });
    if (done)
        done = each(change.remove_addresses, remove_address, [&](const auto& at) {
            return fmt::format("{} is no longer exported as {}", spec.device, spec.uri(at));
        });
    if (done)
        done = each(change.remove_hosts, remove_host, [&](const auto& host) {
            return fmt::format("{} may no longer connect to {}; a connection that it has stays until it ends",
                               host, spec.device);
        });
    return done;
}

result<exit_code> run_change(const change_options& options, renderer& out)
{
    if (auto good = check_options(options); !good)
        return std::unexpected(good.error());
    // As with 'weftctl export': a change is also in the file of exports.
    end_waits_at_signals();
    const auto target = nvmet::open("");
    if (!target)
        return std::unexpected(target.error());
    auto book = export_book::open();
    if (!book)
        return std::unexpected(book.error());

    // All is checked before the first change.
    const auto selected = book->select(options.names, options.all);
    if (!selected)
        return std::unexpected(selected.error());
    std::vector<export_change> changes;
    for (std::size_t i = 0; i < selected->size(); i++) {
        const auto index = (*selected)[i];
        if (std::ranges::count(changes, index, &export_change::index))
            return fail(exit_code::usage, "{} is given twice", options.names[i]);
        auto change = plan(*book, *target, index, options);
        if (!change)
            return std::unexpected(change.error());
        changes.push_back(std::move(*change));
    }

    // All of them get the added hosts, which have one TLS key each.
    for (const auto& change : changes)
        for (const auto& other : changes)
            if (const auto& one = book->entry(change.index), &two = book->entry(other.index);
                !options.add_hosts.empty() && !one.tls_key_file.empty() && !two.tls_key_file.empty() &&
                one.tls_key_file != two.tls_key_file)
                return fail(exit_code::usage, "{} and {} have different TLS keys: change one after the other",
                            one.device, two.device);

    std::vector<action> actions;
    result<void> done;
    for (const auto& change : changes) {
        done = apply(book->entry(change.index), change, options.dry_run, actions);
        if (options.dry_run)
            continue;
        book->share(*target, change.index);
        // Also what was done before a failure.
        if (const auto saved = book->save(); done && !saved)
            done = saved;
        if (!done)
            break;
    }
    if (done && actions.empty())
        actions.push_back({"change-export", "", "the export has these hosts and addresses already",
                           options.dry_run, false});
    out.actions(actions);
    if (!done)
        return std::unexpected(done.error());
    return exit_code::ok;
}

} // namespace

verb add_change_export(CLI::App& app)
{
    auto options = std::make_shared<change_options>();
    auto* command =
        app.add_subcommand("change-export", "change the hosts and addresses of an export that is in use");
    command->add_option("NAME", options->names, "devices or NQNs, as 'weftctl exports' shows them");
    command->add_flag("--all", options->all, "everything that weftctl exports");
    command->add_option("--add-host", options->add_hosts, "NQN of one more host that may connect");
    command->add_option("--remove-host", options->remove_hosts, "NQN of a host that may no longer connect");
    command->add_option(
        "--add-address", options->add_addresses,
        "one more ADDRESS[:PORT] of this host to listen on; without a port, the export's first port");
    command->add_option("--remove-address", options->remove_addresses, "ADDRESS[:PORT] to stop listening on");
    command->add_flag("--dry-run", options->dry_run, "check, say what would be done, change nothing");
    for (const auto* name : {"--add-host", "--remove-host", "--add-address", "--remove-address"})
        command->get_option(name)->allow_extra_args(false);
    command->footer(
        R"(Each option may be repeated. Other hosts are not affected. Hosts that are connected by an address
that is removed lose that path. The kernel's target keeps the connections of a host that is removed:
make sure that the host has stopped its volumes. A host that is added has the secrets and keys of the
export's other hosts.

Examples:
  weftctl change-export --all --add-address 10.1.0.1
  weftctl change-export /dev/nvme0n1 \
      --add-host nqn.2014-08.org.nvmexpress:uuid:7ae4e2b7-6a2c-4d1c-9d52-8a1fbbb0a9a1)");
    return {command, [options](renderer& out) { return run_change(*options, out); }};
}

} // namespace weft
