// SPDX-License-Identifier: GPL-2.0-only
#include "members.hpp"
#include "nvmet.hpp"
#include "verbs.hpp"

#include <cstring>

namespace weft
{

namespace
{

struct check_options {
    std::vector<std::string> devices;
    bool repair = false;
    bool dry_run = false;
};

struct device_to_check {
    std::string path;
    bool named = false; ///< by the user, and not found as a member
};

struct checked {
    check_finding finding;
    std::optional<weft_sb_info> sb;
    exit_code code = exit_code::ok;
};

/// The copy to rewrite and its source, if any.
std::optional<std::uint64_t> broken_copy(const sb_pair& copies, const block_device& device)
{
    if (copies.healthy() || !copies.best())
        return std::nullopt;
    if (!copies.first.info)
        return 0;
    // The first is valid. The copy is damaged or differs.
    const auto at = copies.first.info->copy_offset;
    return at + WEFT_SB_SIZE <= device.size() ? std::optional(at) : std::nullopt;
}

void describe(const sb_pair& copies, checked& result)
{
    auto& finding = result.finding;
    const auto* sb = copies.best();
    if (!sb) {
        finding.state = copies.absent() ? "absent" : "both-damaged";
        finding.text = copies.absent() ? "no weft superblock"
                                       : fmt::format("both superblocks are damaged ({}; {})",
                                                     copies.first.why, copies.second.why);
        result.code = copies.absent() ? exit_code::missing : exit_code::damaged;
        return;
    }
    result.sb = *sb;
    const auto member =
        fmt::format("member {} of {} of volume {}", sb->member_index, sb->member_count, sb->name);
    finding.healthy = copies.healthy();
    if (finding.healthy) {
        finding.state = "ok";
        finding.text = member + ": both superblocks are good";
        return;
    }
    result.code = exit_code::damaged;
    if (!copies.first.info) {
        finding.state = "first-damaged";
        finding.text = fmt::format("{}: the first superblock is damaged ({}), its copy is good", member,
                                   copies.first.why);
    } else if (!copies.second.info) {
        finding.state = "copy-damaged";
        finding.text = fmt::format("{}: the copy of the superblock is damaged ({}), the first is good",
                                   member, copies.second.why);
    } else {
        finding.state = "copy-differs";
        finding.text = member + ": the copy of the superblock differs from the first";
    }
}

/// Refuses to write over what another program put on a former member: its last MiB may still hold the copy.
result<void> check_unused(const block_device& device)
{
    const auto content = device.content();
    if (!content)
        return std::unexpected(content.error());
    if (!*content)
        return {};
    return fail(exit_code::occupied,
                "{}: its first superblock is damaged, and it holds {}; if it is still the member, remove "
                "that signature: 'wipefs --all {}'",
                device.path(), **content, device.path());
}

/// A member that the user did not name may be in use, and is only opened `exclusive` when it has to be
/// repaired.
result<checked> check_device(const device_to_check& member, const check_options& options, bool exclusive)
{
    const auto& path = member.path;
    auto device = block_device::open(path, exclusive ? block_device::access::write_exclusive
                                                     : block_device::access::read);
    if (!device)
        return std::unexpected(device.error());
    const auto copies = read_superblocks(*device);
    if (!copies)
        return std::unexpected(copies.error());
    checked result;
    result.finding.device = path;
    describe(*copies, result);
    const auto broken = broken_copy(*copies, *device);
    if (!broken || !options.repair)
        return result;
    // What has overwritten the start may be in use: only the user knows that it is a member still.
    const bool unreadable = copies->first.err == -EIO;
    if ((copies->first.absent() || unreadable) && !member.named) {
        result.finding.text +=
            fmt::format("; {}, so another program may use the device; if it is still the "
                        "member, name it: 'weftctl check --repair {}'",
                        unreadable ? "the first cannot be read" : "nothing is left of the first", path);
        return result;
    }
    if (!exclusive && !options.dry_run)
        return check_device(member, options, true);
    if (auto unserved = nvmet::check_unserved(path, device->number(), ""); !unserved)
        return std::unexpected(unserved.error());
    // libblkid needs what cannot be read.
    if (*broken == 0 && !unreadable)
        if (auto unused = check_unused(*device); !unused)
            return std::unexpected(unused.error());
    if (options.dry_run) {
        result.finding.text += fmt::format("; would write the good one to byte {}", *broken);
        return result;
    }
    if (auto done = write_superblock(*device, *copies->best(), *broken); !done)
        return std::unexpected(done.error());
    device->written();
    result.finding.repaired = true;
    result.finding.healthy = true;
    result.code = exit_code::ok;
    return result;
}

/// Do the members belong together? Compares each with the first of its volume.
void compare(std::vector<checked>& results)
{
    for (std::size_t i = 0; i < results.size(); i++) {
        for (std::size_t j = 0; j < i && results[i].sb; j++) {
            if (!results[j].sb ||
                std::memcmp(results[j].sb->volume_uuid, results[i].sb->volume_uuid, WEFT_UUID_SIZE))
                continue;
            weft_why why{};
            if (weft_sb_same_volume(&*results[j].sb, &*results[i].sb, &why)) {
                results[i].finding.text +=
                    fmt::format("; compared with {}, {}", results[j].finding.device, why.text);
                results[i].finding.healthy = false;
                results[i].code = exit_code::damaged;
                break;
            }
        }
    }
}

result<std::vector<device_to_check>> devices_to_check(const check_options& options)
{
    std::vector<device_to_check> devices;
    for (const auto& name : options.devices)
        if (!name.empty() && name[0] == '/')
            devices.push_back({name, true});
    const bool all_paths = devices.size() == options.devices.size();
    if (all_paths && !devices.empty())
        return devices;
    const auto sets = find_members();
    if (!sets)
        return std::unexpected(sets.error());
    for (const auto& name : options.devices) {
        if (!name.empty() && name[0] == '/')
            continue;
        auto set = pick_volume(*sets, name);
        if (!set)
            return std::unexpected(set.error());
        for (const auto& member : set->members)
            devices.push_back({member.path});
    }
    if (options.devices.empty())
        for (const auto& set : *sets)
            for (const auto& member : set.members)
                devices.push_back({member.path});
    return devices;
}

result<exit_code> run_check(const check_options& options, renderer& out)
{
    const auto devices = devices_to_check(options);
    if (!devices)
        return std::unexpected(devices.error());
    if (devices->empty())
        return fail(exit_code::missing, "no member of a weft volume was found on any block device");
    std::vector<checked> results;
    auto worst = exit_code::ok;
    for (const auto& device : *devices) {
        auto result = check_device(device, options, options.repair && !options.dry_run && device.named);
        if (result) {
            results.push_back(std::move(*result));
        } else {
            // The others are checked, and may have been repaired.
            out.failure(result.error());
            worst = result.error().code;
        }
    }
    compare(results);
    std::vector<check_finding> findings;
    for (const auto& result : results) {
        findings.push_back(result.finding);
        if (result.code != exit_code::ok)
            worst = result.code;
    }
    if (!findings.empty())
        out.findings(findings);
    return worst;
}

} // namespace

verb add_check(CLI::App& app)
{
    auto options = std::make_shared<check_options>();
    auto* command =
        app.add_subcommand("check", "compare the superblocks of members; repair the one damaged copy");
    command->add_option("DEVICE", options->devices,
                        "members, or names of volumes; default: all that weftctl finds");
    command->add_flag("--repair", options->repair,
                      "write the good superblock over the damaged one; the member must not be in use");
    command->add_flag("--dry-run", options->dry_run,
                      "with --repair: say what would be written, write nothing");
    command->footer(R"(If something else has overwritten the first superblock, another program may use the
device: it is repaired only if it is named. A device that this host exports is not repaired.

Examples:
  weftctl check data
  weftctl check /dev/nvme1n1 --repair)");
    return {command, [options](renderer& out) { return run_check(*options, out); }};
}

} // namespace weft
