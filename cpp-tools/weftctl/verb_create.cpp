// SPDX-License-Identifier: GPL-2.0-only
#include "member_links.hpp"
#include "nvmet.hpp"
#include "size.hpp"
#include "superblock.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace weft
{

namespace
{

struct create_options {
    std::string name;
    std::vector<std::string> devices;
    std::string chunk = "128K";
    bool force = false;
    bool dry_run = false;
    bool no_assemble = false;
    connect_options connecting;
    assemble_options assembly;
};

result<std::uint32_t> parse_chunk(const std::string& text)
{
    auto chunk = parse_size(text);
    if (!chunk)
        return std::unexpected(chunk.error());
    if (*chunk < WEFT_CHUNK_MIN || *chunk > WEFT_CHUNK_MAX || (*chunk & (*chunk - 1)))
        return fail(exit_code::usage, "--chunk {} must be a power of two from {} to {}", text,
                    format_size(WEFT_CHUNK_MIN), format_size(WEFT_CHUNK_MAX));
    return static_cast<std::uint32_t>(*chunk);
}

// Opens all members exclusively, and refuses duplicates.
result<std::vector<block_device>> open_members(const std::vector<std::string>& paths)
{
    std::vector<block_device> devices;
    for (const auto& path : paths) {
        if (auto distinct = check_distinct(devices, path); !distinct)
            return std::unexpected(distinct.error());
        auto device = block_device::open(path, block_device::access::write_exclusive);
        if (!device)
            return std::unexpected(device.error());
        devices.push_back(std::move(*device));
    }
    return devices;
}

// The reason not to overwrite a device, if any.
result<void> check_content(const block_device& device, bool force)
{
    if (force)
        return {};
    if (auto unserved = nvmet::check_unserved(device.path(), device.number(), ", --force overwrites it");
        !unserved)
        return unserved;
    auto copies = read_superblocks(device);
    if (!copies)
        return std::unexpected(copies.error());
    auto content = device.content();
    if (!content)
        return std::unexpected(content.error());
    // Of a former member that another program has used since, the copy of the superblock may be left.
    if (*content && copies->first.absent())
        return fail(exit_code::occupied, "{} holds {}; --force overwrites it", device.path(), **content);
    if (const auto* sb = copies->best())
        return fail(exit_code::occupied, "{} is member {} of volume {} ({}); --force overwrites it",
                    device.path(), sb->member_index, sb->name, format_uuid(sb->volume_uuid));
    if (!copies->absent())
        return fail(exit_code::occupied, "{} has a damaged weft superblock; --force overwrites it",
                    device.path());
    return {};
}

// The fields that are the same for all members.
result<weft_sb_info> plan(const std::vector<block_device>& devices, const std::string& name,
                          std::uint32_t chunk)
{
    weft_sb_info info{};
    make_uuid(info.volume_uuid);
    std::memcpy(info.name, name.c_str(), name.size());
    info.member_count = static_cast<std::uint32_t>(devices.size());
    info.chunk_size = chunk;
    info.block_size = devices.front().block_size();
    info.data_offset = WEFT_DATA_OFFSET;
    info.generation = 1;
    info.created = static_cast<std::uint64_t>(std::time(nullptr));

    if (info.block_size != 512 && info.block_size != 4096)
        return fail(exit_code::usage,
                    "{} has blocks of {} bytes; a member must have blocks of 512 or 4096 bytes",
                    devices.front().path(), info.block_size);
    const block_device* smallest = &devices.front();
    for (const auto& device : devices) {
        if (device.block_size() != info.block_size)
            return fail(exit_code::usage,
                        "{} has blocks of {} bytes and {} of {}: all members of a volume must have the same "
                        "block size",
                        devices.front().path(), info.block_size, device.path(), device.block_size());
        if (device.size() < smallest->size())
            smallest = &device;
    }
    info.data_size = weft_sb_data_size(smallest->size(), chunk);
    if (!info.data_size)
        return fail(exit_code::usage,
                    "{} is too small: it has {}, and must hold the superblocks and a chunk of {}",
                    smallest->path(), format_size(smallest->size()), format_size(chunk));
    weft_map map{};
    if (weft_map_init(&map, info.member_count, chunk, info.data_offset, info.data_size))
        return fail(exit_code::usage, "a volume of {} members with {} each is too large", info.member_count,
                    format_size(info.data_size));
    return info;
}

// Erases what other programs would recognize on the device, and writes the superblocks.
result<void> write_member(const block_device& device, weft_sb_info info, std::uint32_t index)
{
    info.member_index = index;
    make_uuid(info.member_uuid);
    info.copy_offset = weft_sb_copy_offset(device.size());
    auto done = device.erase_signatures();
    // A new volume has no owner and no claim. A signature may be right behind the superblock, too.
    if (done)
        done = device.erase(WEFT_OWNER_OFFSET, 17 * WEFT_SB_SIZE);
    // The first block comes last: only then it is a member.
    if (done)
        done = write_superblock(device, info, info.copy_offset);
    if (done)
        done = write_superblock(device, info, 0);
    device.written();
    return done;
}

result<exit_code> run_create(const create_options& options, renderer& out)
{
    weft_why why{};
    if (weft_name_check(options.name.c_str(), &why))
        return fail(exit_code::usage, "{}", why.text);
    const auto chunk = parse_chunk(options.chunk);
    if (!chunk)
        return std::unexpected(chunk.error());
    if (options.devices.size() > WEFT_MEMBERS_MAX)
        return fail(exit_code::usage, "{} members given; a volume has at most {}", options.devices.size(),
                    WEFT_MEMBERS_MAX);
    if (std::filesystem::exists("/sys/block/weft!" + options.name))
        return fail(exit_code::busy, "a volume called {} is assembled already", options.name);

    auto links = member_links::resolve(options.devices, options.connecting);
    if (!links)
        return std::unexpected(links.error());
    std::vector<action> actions;
    {
        auto devices = open_members(links->devices());
        if (!devices)
            return std::unexpected(devices.error());
        const auto info = plan(*devices, options.name, *chunk);
        if (!info)
            return std::unexpected(info.error());
        for (const auto& device : *devices)
            if (auto free = check_content(device, options.force); !free)
                return std::unexpected(free.error());

        actions.push_back(
            {"create", options.name,
             fmt::format("create volume {} ({}) of {} in chunks of {} over {} members, {}", options.name,
                         format_uuid(info->volume_uuid), format_size(info->data_size * devices->size()),
                         format_size(*chunk), devices->size(), fmt::join(options.devices, " ")),
             options.dry_run});
        for (std::size_t i = 0; i < devices->size() && !options.dry_run; i++)
            if (auto done = write_member((*devices)[i], *info, static_cast<std::uint32_t>(i)); !done)
                return fail(done.error().code,
                            "{}; the members before it are written: run 'weftctl create' again with --force",
                            done.error().text);
    }
    // The members are closed now, because the kernel opens them exclusively.
    if (!options.no_assemble) {
        actions.push_back({"assemble", options.name, fmt::format("assemble it as /dev/weft/{}", options.name),
                           options.dry_run});
        if (!options.dry_run)
            if (auto done = assemble_volume(options.name, links->devices(), options.assembly); !done)
                return fail(done.error().code, "the volume is created, but not assembled: {}",
                            done.error().text);
    }
    if (!options.dry_run)
        links->keep();
    out.actions(actions);
    return exit_code::ok;
}

} // namespace

verb add_create(CLI::App& app)
{
    auto options = std::make_shared<create_options>();
    auto* command = app.add_subcommand("create", "create a striped volume from members and assemble it");
    command->add_option("NAME", options->name, "letters, digits, '-' and '_', at most 26")->required();
    command
        ->add_option(
            "MEMBER", options->devices,
            "block devices, or rdma://ADDRESS[:PORT]/SUBNQN[?ns=1] and tcp://..., in the order of the stripe")
        ->required();
    command
        ->add_option("--chunk", options->chunk, "consecutive bytes on one member: a power of two, 4K to 16M")
        ->capture_default_str();
    command->add_flag(
        "--force", options->force,
        "overwrite the contents of the devices, also members of a volume that another host uses, and "
        "disks that this host exports");
    command->add_flag("--dry-run", options->dry_run,
                      "check everything, say what would be done, write nothing");
    command->add_flag("--no-assemble", options->no_assemble, "only write the superblocks");
    command->add_flag("--no-iostats", options->assembly.no_iostats,
                      "do not count I/O, for the least cost per I/O");
    add_connect_options(*command, options->connecting);
    command->footer(R"(Everything is checked before anything is written. A device that holds something that
libblkid knows is refused, and the message names it.

Examples:
  weftctl create data /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1
  weftctl create data rdma://10.0.0.1/nqn.2014-08.org.example:a rdma://10.0.0.2/nqn.2014-08.org.example:b
  weftctl create scratch /dev/nvme1n1 /dev/nvme2n1 --chunk 1MiB --force
  weftctl create data /dev/nvme1n1 /dev/nvme2n1 --dry-run --json)");
    return {command, [options](renderer& out) {
                options->assembly.host_nqn = options->connecting.host_nqn;
                return run_create(*options, out);
            }};
}

} // namespace weft
