// SPDX-License-Identifier: GPL-2.0-only
#include "superblock.hpp"
#include "verbs.hpp"

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
    std::string what = "a damaged weft superblock";
    if (const auto* sb = copies->best())
        what = fmt::format("member {} of volume {} ({})", sb->member_index, sb->name,
                           format_uuid(sb->volume_uuid));
    const auto owner = read_owner(*device);
    if (!owner)
        return std::unexpected(owner.error());
    if (owner->held() && !options.force)
        return fail(exit_code::busy, "{} is {}, which host {} owns; --force wipes it all the same", path,
                    what, owner->info->host_nqn);
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
                           fmt::format("wipe {}, which is {}", planned.device.path(), planned.what),
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
    command->add_flag("--force", options->force, "also when a host owns the volume");
    command->add_flag("--dry-run", options->dry_run, "say what would be wiped, write nothing");
    command->footer(R"(Examples:
  weftctl wipe /dev/nvme1n1 /dev/nvme2n1 --dry-run
  weftctl wipe /dev/nvme1n1 /dev/nvme2n1)");
    return {command, [options](renderer& out) { return run_wipe(*options, out); }};
}

} // namespace weft
