// SPDX-License-Identifier: GPL-2.0-only
#include "members.hpp"
#include "verbs.hpp"

#include <cstring>

namespace weft
{

namespace
{

struct wipe_options {
    std::vector<std::string> devices;
    bool force = false;
    bool dry_run = false;
};

struct wipe_plan {
    block_device device;
    sb_pair copies;
    std::string what;
};

/// What the owner record of a member 0 says of a host that may use the volume.
result<std::optional<std::string>> user_of(const block_device& device)
{
    auto record = read_owner(device);
    // The claim counts where the record is lost.
    if (record && record->absent())
        record = read_owner(device, WEFT_CLAIM_OFFSET);
    if (!record)
        return std::unexpected(record.error());
    if (record->held())
        return fmt::format("which host {} owns", record->info->host_nqn);
    if (!record->info && !record->absent())
        return fmt::format("whose owner record is damaged ({}), so a host may use it", record->why);
    return std::nullopt;
}

/// The same for a member of a volume. Only member 0 has the record, so it is searched on this host.
result<std::optional<std::string>> user_of(const block_device& device, const weft_sb_info& sb)
{
    if (!sb.member_index)
        return user_of(device);
    // Devices that cannot be read are not an error: those that matter are among the others, or are missing.
    unsigned int unreadable = 0;
    const auto sets = find_members({}, &unreadable);
    if (!sets)
        return std::unexpected(sets.error());
    bool seen = false;
    for (const auto& set : *sets)
        for (const auto& member : set.members) {
            if (std::memcmp(member.sb.volume_uuid, sb.volume_uuid, WEFT_UUID_SIZE) || member.sb.member_index)
                continue;
            const auto first = block_device::open(member.path, block_device::access::read);
            if (!first)
                return std::unexpected(first.error());
            auto user = user_of(*first);
            if (!user || *user)
                return user;
            seen = true;
        }
    if (seen)
        return std::nullopt;
    return "whose member 0 is not on this host; only that one says whether a host uses the volume";
}

result<wipe_plan> plan(const std::string& path, const wipe_options& options)
{
    auto device = block_device::open(path, block_device::access::write_exclusive);
    if (!device)
        return std::unexpected(device.error());
    auto copies = read_superblocks(*device);
    if (!copies)
        return std::unexpected(copies.error());
    if (copies->absent())
        return fail(exit_code::missing, "{}: no weft superblock", path);
    std::string what = "holds a damaged weft superblock";
    const auto* sb = copies->best();
    if (sb)
        what = fmt::format("{} member {} of volume {} ({})",
                           copies->first.absent() ? "holds only the copy of the superblock of" : "is",
                           sb->member_index, sb->name, format_uuid(sb->volume_uuid));
    if (options.force)
        return wipe_plan{std::move(*device), *copies, what};
    const auto user = sb ? user_of(*device, *sb) : user_of(*device);
    if (!user)
        return std::unexpected(user.error());
    if (*user)
        return fail(exit_code::busy, "{} {}, {}; --force wipes it all the same", path, what, **user);
    return wipe_plan{std::move(*device), *copies, what};
}

result<exit_code> run_wipe(const wipe_options& options, renderer& out)
{
    // Check all devices before changing the first.
    std::vector<wipe_plan> plans;
    for (const auto& path : options.devices) {
        auto planned = plan(path, options);
        if (!planned)
            return std::unexpected(planned.error());
        plans.push_back(std::move(*planned));
    }
    std::vector<action> actions;
    for (const auto& planned : plans) {
        if (!options.dry_run) {
            if (auto done = erase_superblocks(planned.device, planned.copies); !done)
                return std::unexpected(done.error());
            planned.device.written();
        }
        actions.push_back({"wipe", planned.device.path(),
                           fmt::format("wipe {}, which {}", planned.device.path(), planned.what),
                           options.dry_run});
    }
    out.actions(actions);
    return exit_code::ok;
}

} // namespace

verb add_wipe(CLI::App& app)
{
    auto options = std::make_shared<wipe_options>();
    auto* command = app.add_subcommand("wipe", "remove the superblocks from members: the volume is lost");
    command->add_option("DEVICE", options->devices, "members")->required();
    command->add_flag("--force", options->force, "also when a host uses the volume, or that is not known");
    command->add_flag("--dry-run", options->dry_run, "say what would be wiped, write nothing");
    command->footer(
        R"(A member of a volume that a host owns is refused. Only member 0 says so: if it is not on this
host, any other member is refused as well. If another program has used the device since, only the copy of the
superblock is erased.

Examples:
  weftctl wipe /dev/nvme1n1 /dev/nvme2n1 --dry-run
  weftctl wipe /dev/nvme1n1 /dev/nvme2n1)");
    return {command, [options](renderer& out) { return run_wipe(*options, out); }};
}

} // namespace weft
