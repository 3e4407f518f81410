// SPDX-License-Identifier: GPL-2.0-only
#include "members.hpp"
#include "nvmet.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"
#include "volume_file.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

namespace weft
{

namespace
{

struct rename_options {
    std::string volume; ///< name or UUID
    std::string name;   ///< the new one
    bool dry_run = false;
};

/// A member that can be written.
struct opened_member {
    block_device device;
    weft_sb_info sb;
};

/// The one volume of that UUID, or with a member that says that name: an interruption leaves members with
/// both.
result<member_set> pick(const std::vector<member_set>& sets, const rename_options& options)
{
    auto picked = pick_volume(sets, options.volume, has_member_called);
    if (picked)
        for (const auto& set : sets)
            if (set.uuid != picked->uuid && has_member_called(set, options.name))
                return fail(exit_code::busy, "another volume ({}) is called {}", set.uuid, options.name);
    return picked;
}

void set_name(weft_sb_info& sb, const std::string& name)
{
    std::memset(sb.name, 0, sizeof(sb.name));
    std::memcpy(sb.name, name.c_str(), name.size());
}

/// Opens all members exclusively. Reads them again: what was found before is what anybody may have changed.
result<std::vector<opened_member>> open_members(member_set set, const std::string& name)
{
    // Members with the old and with the new name belong together here.
    set_name(set.sb, name);
    for (auto& member : set.members)
        set_name(member.sb, name);
    const auto devices = set.complete();
    if (!devices)
        return std::unexpected(devices.error());
    std::vector<opened_member> members;
    for (std::uint32_t i = 0; i < devices->size(); i++) {
        const auto& path = (*devices)[i];
        auto device = block_device::open(path, block_device::access::write_exclusive);
        if (!device)
            return std::unexpected(device.error());
        if (auto unserved = nvmet::check_unserved(path, device->number(), ""); !unserved)
            return std::unexpected(unserved.error());
        const auto copies = read_superblocks(*device);
        if (!copies)
            return std::unexpected(copies.error());
        if (!copies->first.info || !copies->second.info)
            return fail(exit_code::damaged,
                        "{}: a superblock is damaged; 'weftctl check --repair {}' repairs it", path, path);
        auto sb = *copies->first.info;
        if (std::memcmp(sb.volume_uuid, set.sb.volume_uuid, WEFT_UUID_SIZE) || sb.member_index != i)
            return fail(
                exit_code::busy,
                "{} was member {} of volume {} a moment ago, and has changed since; run the command again",
                path, i, set.uuid);
        members.push_back({std::move(*device), sb});
    }
    return members;
}

/// Refuses a volume that a host has assembled read-write, or had when it crashed.
result<void> check_owner(const block_device& first, const std::string& volume)
{
    const auto owner = owner_of(first);
    if (!owner)
        return std::unexpected(owner.error());
    if (*owner)
        return fail(exit_code::busy,
                    "volume {}, {}; stop it there, or assemble it here with --take-over and stop it", volume,
                    **owner);
    return {};
}

/// The saved files of the volume under names that it had. Refuses those that would give different files.
result<std::vector<volume_file>> saved_files(const member_set& set, const std::string& name)
{
    std::vector<volume_file> files;
    std::optional<std::string> text; // an interruption leaves two files of one
    for (const auto& saved : saved_volumes()) {
        auto file = load_volume_file(saved);
        if (!file)
            return fail(file.error().code, "{}; the file may be of this volume", file.error().text);
        const bool is_its = file->uuid.empty() ? has_member_called(set, saved) : file->uuid == set.uuid;
        if (saved == name && !is_its)
            return fail(exit_code::busy, "{} is of another volume", volume_file_path(saved).string());
        if (!is_its)
            continue;
        auto renamed = *file;
        renamed.name = name;
        const auto renamed_text = format_volume_file(renamed);
        if (text && *text != renamed_text)
            return fail(exit_code::busy, "{} and another file are of volume {}, and differ; remove one",
                        volume_file_path(saved).string(), set.uuid);
        text = renamed_text;
        if (saved != name)
            files.push_back(std::move(*file));
    }
    return files;
}

/// The copy first: an interruption leaves a member with one of the names, whose other copy 'check' repairs.
result<void> write_name(const opened_member& member, const std::string& name)
{
    auto sb = member.sb;
    set_name(sb, name);
    auto done = write_superblock(member.device, sb, sb.copy_offset);
    if (done)
        done = write_superblock(member.device, sb, 0);
    member.device.written();
    return done;
}

/// Gives the file the new name, also in its text.
result<void> move_file(volume_file file, const std::string& name)
{
    const auto from = volume_file_path(std::exchange(file.name, name));
    if (auto done = replace_file(volume_file_path(name), format_volume_file(file)); !done)
        return done;
    std::error_code problem;
    std::filesystem::remove(from, problem);
    if (problem)
        return fail(exit_code::failure, "{} cannot be removed: {}", from.string(), problem.message());
    return {};
}

result<exit_code> run_rename(const rename_options& options, renderer& out)
{
    weft_why why{};
    if (weft_name_check(options.name.c_str(), &why))
        return fail(exit_code::usage, "{}", why.text);
    const auto sets = find_members();
    if (!sets)
        return std::unexpected(sets.error());
    const auto set = pick(*sets, options);
    if (!set)
        return std::unexpected(set.error());
    const auto files = saved_files(*set, options.name);
    if (!files)
        return std::unexpected(files.error());
    // An interruption may have left the file alone.
    if (files->empty() && std::ranges::all_of(set->members, [&](const found_member& member) {
            return options.name == member.sb.name;
        }))
        return fail(exit_code::busy, "volume {} is called {} already", set->uuid, options.name);
    const auto members = open_members(*set, options.name);
    if (!members)
        return std::unexpected(members.error());
    if (auto free = check_owner(members->front().device, options.volume); !free)
        return std::unexpected(free.error());
    std::vector<action> actions = {{"rename", options.volume,
                                    fmt::format("renamed volume {} to {}", options.volume, options.name),
                                    options.dry_run}};
    for (const auto& member : *members)
        if (!options.dry_run)
            if (auto done = write_name(member, options.name); !done)
                return fail(done.error().code, "{}; run 'weftctl rename {} {}' to continue",
                            done.error().text, set->uuid, options.name);
    for (const auto& file : *files) {
        if (!options.dry_run)
            if (auto done = move_file(file, options.name); !done)
                return std::unexpected(done.error());
        const auto from = volume_file_path(file.name).string();
        actions.push_back(
            {"rename", from,
             fmt::format("moved {} to {}; weft-assemble@{}.service and /etc/fstab are unchanged", from,
                         volume_file_path(options.name).string(), file.name),
             options.dry_run});
    }
    out.actions(actions);
    return exit_code::ok;
}

} // namespace

verb add_rename(CLI::App& app)
{
    auto options = std::make_shared<rename_options>();
    auto* command = app.add_subcommand("rename", "give a stopped volume another name");
    command->add_option("VOLUME", options->volume, "name or UUID of a volume that no host has assembled")
        ->required();
    command->add_option("NAME", options->name, "the new name")->required();
    command->add_flag("--dry-run", options->dry_run, "say what would be done, write nothing");
    command->footer(
        R"(The name is in the superblocks of all members, and all of them have to be connected to this host. The data and
the UUID stay as they are. A host that has the volume assembled read-only keeps the old name until it stops it.

If the command is interrupted, some members have the new name and some the old one, and the volume cannot be
assembled. To continue, run the same command with the UUID instead of the old name.

The file of a saved volume (weftctl-save(8)) gets the new name. Change /etc/fstab and the enabled
units yourself.

Examples:
  weftctl rename data archive
  weftctl rename 7c9e6679-7425-40de-944b-e07fc1f90ae7 archive --dry-run)");
    return {command, [options](renderer& out) { return run_rename(*options, out); }};
}

} // namespace weft
