// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "awaited.hpp"
#include "exports.hpp"
#include "host.hpp"
#include "members.hpp"
#include "netlink.hpp"
#include "sysfile.hpp"
#include "volume_file.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>

namespace weft
{

namespace
{

// Tolerance: a record is written once per interval, and the two clocks are not read at the same time.
constexpr long long clock_slack = 5;

void diagnose_paths(diagnoses& found, const std::string& volume, const member_status& member)
{
    const auto usable = std::ranges::count_if(member.paths, [](const auto& path) { return path.usable; });
    // The other paths of an active/passive target.
    const auto standby = std::ranges::count_if(
        member.paths, [](const auto& path) { return !path.usable && path.ana_state == "inaccessible"; });
    const auto count = std::ssize(member.paths);
    if (count && !usable)
        found.push_back({severity::problem, "volumes",
                         fmt::format("volume {}: no path to member {} ({}) is usable", volume, member.index,
                                     member.address),
                         "I/O on it waits, and fails after no_path_timeout",
                         fmt::format("weftctl path list {}; weftctl events", volume)});
    else if (usable + standby < count)
        found.push_back({severity::warning, "volumes",
                         fmt::format("volume {}: {} of {} paths to member {} are usable", volume, usable,
                                     count, member.index),
                         "if the others are lost as well, its I/O waits",
                         fmt::format("weftctl path list {}; weftctl events", volume)});
}

void diagnose_assembled(diagnoses& found, std::vector<volume_status>& volumes)
{
    auto connection = netlink::open();
    auto all = connection ? connection->volumes() : std::unexpected(connection.error());
    if (!all) {
        found.push_back({severity::problem, "volumes", "weft.ko does not answer: " + all.error().text,
                         "weftctl cannot see its volumes", "run this as root"});
        return;
    }
    volumes = *all;
    for (const auto& volume : volumes) {
        if (volume.state == "failed")
            found.push_back(
                {severity::problem, "volumes", fmt::format("volume {} has lost a member", volume.name),
                 "I/O to that member fails, and a striped volume has no other copy",
                 fmt::format("weftctl status {}; bring the member back, stop and assemble", volume.name)});
        else if (!volume.read_only && volume.ownership != "held" && volume.state == "live")
            found.push_back(
                {severity::problem, "volumes",
                 fmt::format("volume {}: ownership is {}", volume.name, volume.ownership),
                 "its writes wait or fail: no heartbeat reaches member 0, or another host took it over",
                 fmt::format("weftctl status {}; dmesg", volume.name)});
        else
            found.push_back({severity::good, "volumes",
                             fmt::format("volume {} is {}", volume.name, volume.state), "", ""});
        const auto detail = connection->volume(volume.name);
        for (const auto& member : detail ? detail->members : std::vector<member_status>{}) {
            diagnose_paths(found, volume.name, member);
            if (member.errors)
                found.push_back({severity::warning, "volumes",
                                 fmt::format("volume {}: member {} ({}) failed {} times", volume.name,
                                             member.index, member.address, member.errors),
                                 "its device or the path to it has a fault", "dmesg; weftctl events"});
        }
    }
}

// A heartbeat has the time of the other host's clock. Refusals show the difference of the two clocks.
void diagnose_owner(diagnoses& found, const member_set& set)
{
    const auto first = std::find_if(set.members.begin(), set.members.end(),
                                    [](const auto& member) { return member.sb.member_index == 0; });
    if (first == set.members.end())
        return;
    const auto device = block_device::open(first->path, block_device::access::read);
    const auto record = device ? read_owner(*device) : std::unexpected(device.error());
    const auto ours = host_nqn();
    if (!record || !record->held() || (ours && *ours == record->info->host_nqn))
        return;
    const auto& owner = *record->info;
    const auto ahead = static_cast<long long>(owner.beat_time) - static_cast<long long>(std::time(nullptr));
    if (ahead > clock_slack)
        found.push_back(
            {severity::warning, "clock",
             fmt::format("the clock of {}, owner of volume {}, is {} seconds ahead of this host's",
                         owner.host_nqn, set.name, ahead),
             "times in owner records and logs of the two hosts cannot be compared",
             "synchronize both clocks: apt-get install chrony"});
    else
        found.push_back(
            {severity::note, "volumes",
             fmt::format("volume {} is owned by {}; its last heartbeat was {} seconds ago by the two clocks",
                         set.name, owner.host_nqn, -ahead),
             "only its owner writes to a volume", ""});
}

/// Whether something on this host assembles a saved volume at boot: its service, or a mount that requires it.
bool is_wanted_at_boot(const std::string& name)
{
    const std::string unit = "weft-assemble@" + name + ".service";
    std::error_code problem;
    for (std::filesystem::directory_iterator folder("/etc/systemd/system", problem), end;
         !problem && folder != end; folder.increment(problem)) {
        const auto kind = folder->path().extension();
        std::error_code ignored;
        if ((kind == ".wants" || kind == ".requires") &&
            std::filesystem::is_symlink(folder->path() / unit, ignored))
            return true;
    }
    return read_text("/etc/fstab").value_or("").find(unit) != std::string::npos;
}

void diagnose_saved(diagnoses& found, const std::vector<volume_status>& assembled)
{
    const auto awaited = awaited_volumes();
    for (const auto& name : saved_volumes()) {
        const auto missed = std::ranges::find(awaited, name, &awaited_volume::name);
        if (const auto file = load_volume_file(name); !file)
            found.push_back({severity::problem, "volumes", file.error().text,
                             "the volume is not assembled at boot",
                             fmt::format("correct the file; weftctl config check {}", name)});
        else if (std::ranges::any_of(assembled, [&](const auto& one) { return one.name == name; }))
            continue;
        else if (missed != awaited.end())
            found.push_back({severity::warning, "volumes",
                             fmt::format("volume {} is awaited for {} seconds: {}", name,
                                         std::time(nullptr) - missed->since, missed->reason),
                             "it is assembled when its members are there", "make that member available"});
        else
            // Jobs and containers have theirs assembled when they begin.
            found.push_back(
                {is_wanted_at_boot(name) ? severity::warning : severity::note, "volumes",
                 fmt::format("volume {} is saved and not assembled", name),
                 "no service on this host waits for its members",
                 fmt::format("weftctl assemble {0} --saved; journalctl -u weft-assemble@{0}", name)});
    }
}

void diagnose_export(diagnoses& found, const export_spec& spec, nvmet::presence presence)
{
    std::vector<std::string> addresses, silent;
    for (const auto& [at, own] : spec.addresses)
        (nvmet::listens(spec, at) ? addresses : silent).push_back(at.text());
    if (presence != nvmet::presence::serving && presence != nvmet::presence::incomplete)
        found.push_back({severity::warning, "exports",
                         fmt::format("{} is saved as an export and not served", spec.device),
                         "hosts that have it as a member wait for it",
                         "weftctl export --saved; journalctl -u weft-exports"});
    else if (!silent.empty())
        found.push_back({severity::warning, "exports",
                         fmt::format("{} is not served at {}", spec.device, fmt::join(silent, ", ")),
                         "hosts have one path less to it", "weftctl export --saved prints the reason"});
    else
        found.push_back({severity::good, "exports",
                         fmt::format("{} is served at {}", spec.device, fmt::join(addresses, ", ")), "", ""});
    if (spec.any_host && !addresses.empty())
        found.push_back(
            {severity::note, "exports",
             fmt::format("{} is open to every host that reaches {}", spec.device, fmt::join(addresses, ", ")),
             "any host that connects can read and overwrite it", "unexport it and export it with --host"});
}

void diagnose_exports(diagnoses& found)
{
    const auto book = export_book::load();
    if (!book) {
        found.push_back({severity::problem, "exports", book.error().text, "nothing is exported at boot",
                         "fix the file, or remove it and export again"});
        return;
    }
    if (book->entries().empty())
        return;
    const auto served = std::filesystem::exists("/sys/kernel/config/nvmet")
                            ? nvmet::open("")
                            : fail(exit_code::missing, "no target");
    for (const auto& spec : book->entries())
        diagnose_export(found, spec, served ? served->presence_of(spec) : nvmet::presence::absent);
}

} // namespace

void diagnose_volumes(diagnoses& found)
{
    std::vector<volume_status> assembled;
    if (std::filesystem::exists("/sys/module/weft"))
        diagnose_assembled(found, assembled);
    if (const auto sets = find_members())
        for (const auto& set : *sets)
            if (std::none_of(assembled.begin(), assembled.end(),
                             [&](const auto& v) { return v.uuid == set.uuid; }))
                diagnose_owner(found, set);
    diagnose_saved(found, assembled);
    diagnose_exports(found);
}

diagnoses diagnose()
{
    diagnoses found;
    diagnose_kernel(found);
    diagnose_modules(found);
    diagnose_host(found);
    diagnose_rdma(found);
    diagnose_encryption(found);
    diagnose_pcie(found);
    diagnose_routes(found);
    diagnose_volumes(found);
    return found;
}

} // namespace weft
