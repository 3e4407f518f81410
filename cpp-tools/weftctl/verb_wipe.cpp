// SPDX-License-Identifier: GPL-2.0-only
#include "members.hpp"
#include "nvmet.hpp"
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

/// Finds out if a host uses the volume of a member.
class usage
{
public:
    /// A reason not to wipe a device, if there is one.
    result<std::optional<std::string>> reason(const block_device& device, const sb_pair& copies)
    {
        const auto content = device.content();
        if (!content)
            return std::unexpected(content.error());
        // Another program has used it since: of a volume, only the useless copy is left.
        if (*content && copies.first.absent())
            return std::nullopt;
        if (*content)
            return fmt::format("and it holds {}", **content);
        const auto* sb = copies.best();
        if (sb && sb->member_index)
            return by_first_member(*sb);
        auto user = owner_of(device);
        if (user && !*user && !sb)
            return "so it is not known whether a host uses its volume";
        return user;
    }

private:
    /// Only member 0 has the record, so it is searched on this host.
    result<std::optional<std::string>> by_first_member(const weft_sb_info& sb)
    {
        if (!sets_) {
            // Devices that cannot be read are no error here: what matters is seen, or is missing.
            unsigned int unreadable = 0;
            auto found = find_members({}, &unreadable);
            if (!found)
                return std::unexpected(found.error());
            sets_ = std::move(*found);
        }
        bool seen = false;
        for (const auto& set : *sets_)
            for (const auto& member : set.members) {
                if (std::memcmp(member.sb.volume_uuid, sb.volume_uuid, WEFT_UUID_SIZE) ||
                    member.sb.member_index || member.copy_only)
                    continue;
                const auto first = block_device::open(member.path, block_device::access::read);
                if (!first)
                    return std::unexpected(first.error());
                auto user = owner_of(*first);
                if (!user || *user)
                    return user;
                seen = true;
            }
        if (seen)
            return std::nullopt;
        return "whose member 0 is not on this host; only member 0 says whether a host uses the volume";
    }

    std::optional<std::vector<member_set>> sets_;
};

result<wipe_plan> plan(const std::string& path, const wipe_options& options, usage& used)
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
    if (const auto* sb = copies->best())
        what = fmt::format("{} member {} of volume {} ({})",
                           copies->first.absent() ? "holds only the copy of the superblock of" : "is",
                           sb->member_index, sb->name, format_uuid(sb->volume_uuid));
    if (options.force)
        return wipe_plan{std::move(*device), *copies, what};
    if (auto unserved = nvmet::check_unserved(path, device->number(), ", --force wipes the device anyway");
        !unserved)
        return std::unexpected(unserved.error());
    const auto reason = used.reason(*device, *copies);
    if (!reason)
        return std::unexpected(reason.error());
    if (*reason)
        return fail(exit_code::busy, "{} {}, {}; --force wipes it anyway", path, what, **reason);
    return wipe_plan{std::move(*device), *copies, what};
}

bool is_first(const wipe_plan& planned)
{
    const auto* sb = planned.copies.best();
    return sb && !sb->member_index;
}

result<exit_code> run_wipe(const wipe_options& options, renderer& out)
{
    // Check all devices before changing the first.
    usage used;
    std::vector<wipe_plan> plans;
    std::vector<action> actions;
    for (const auto& path : options.devices) {
        auto planned = plan(path, options, used);
        if (!planned)
            return std::unexpected(planned.error());
        actions.push_back(
            {"wipe", path, fmt::format("wipe {}, which {}", path, planned->what), options.dry_run});
        plans.push_back(std::move(*planned));
    }
    // Member 0 is the last: after an interruption it still says that no host uses the others.
    for (const bool first : {false, true})
        for (const auto& planned : plans) {
            if (options.dry_run || is_first(planned) != first)
                continue;
            if (auto done = erase_superblocks(planned.device, planned.copies); !done)
                return std::unexpected(done.error());
            planned.device.written();
        }
    out.actions(actions);
    return exit_code::ok;
}

} // namespace

verb add_wipe(CLI::App& app)
{
    auto options = std::make_shared<wipe_options>();
    auto* command =
        app.add_subcommand("wipe", "remove the superblocks from members: this destroys the volume");
    command->add_option("DEVICE", options->devices, "members")->required();
    command->add_flag(
        "--force", options->force,
        "also if a host uses the volume or may use it, if this host exports the device, or if another "
        "program has put data on it");
    command->add_flag("--dry-run", options->dry_run, "say what would be wiped, write nothing");
    command->footer(
        R"(Name all members of a volume at once. A member of a volume that a host owns is refused. Only member 0
has the owner record: if it is not on this host, any other member is refused as well. If another program has
overwritten the first superblock, wipe erases only the copy. If a program has put data behind the superblock, wipe
refuses the device.

Examples:
  weftctl wipe /dev/nvme1n1 /dev/nvme2n1 --dry-run
  weftctl wipe /dev/nvme1n1 /dev/nvme2n1)");
    return {command, [options](renderer& out) { return run_wipe(*options, out); }};
}

} // namespace weft
