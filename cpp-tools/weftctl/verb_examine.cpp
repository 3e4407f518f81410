// SPDX-License-Identifier: GPL-2.0-only
#include "superblock.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

examined_block describe(const sb_copy& copy)
{
    return {copy.offset, copy.info.has_value(), copy.why};
}

examined_member describe(const std::string& device, const sb_pair& copies)
{
    examined_member member;
    member.device = device;
    member.superblocks = {describe(copies.first), describe(copies.second)};
    const auto* sb = copies.best();
    if (!sb)
        return member;
    member.volume = sb->name;
    member.volume_uuid = format_uuid(sb->volume_uuid);
    member.member_uuid = format_uuid(sb->member_uuid);
    member.index = sb->member_index;
    member.member_count = sb->member_count;
    member.chunk_size = sb->chunk_size;
    member.block_size = sb->block_size;
    member.data_offset = sb->data_offset;
    member.data_size = sb->data_size;
    member.generation = sb->generation;
    member.created = sb->created;
    return member;
}

examined_owner describe(const std::string& device, const char* record, std::uint64_t offset,
                        const owner_copy& copy)
{
    examined_owner owner;
    owner.device = device;
    owner.record = record;
    owner.block = {offset, copy.info.has_value(), copy.why};
    if (!copy.info)
        return owner;
    owner.held = copy.held();
    owner.host_nqn = copy.info->host_nqn;
    owner.instance = format_uuid(copy.info->instance);
    if (std::ranges::any_of(copy.info->machine, [](auto byte) { return byte != 0; }))
        owner.machine = format_uuid(copy.info->machine);
    owner.generation = copy.info->generation;
    owner.sequence = copy.info->sequence;
    owner.beat_time = copy.info->beat_time;
    owner.interval_ms = copy.info->interval_ms;
    owner.outlast_ms = copy.info->outlast_ms;
    return owner;
}

/// The record and the claim. Only member 0 has them; if the index is not known, they are shown as well.
result<void> read_owners(const block_device& device, const examined_member& member,
                         std::vector<examined_owner>& owners)
{
    if (member.member_count && member.index)
        return {};
    for (const auto& [record, offset] :
         {std::pair{"owner", std::uint64_t{WEFT_OWNER_OFFSET}}, {"claim", WEFT_CLAIM_OFFSET}}) {
        const auto copy = read_owner(device, offset);
        if (!copy)
            return std::unexpected(copy.error());
        owners.push_back(describe(member.device, record, offset, *copy));
    }
    return {};
}

result<exit_code> run_examine(const std::vector<std::string>& devices, renderer& out)
{
    std::vector<examined_member> members;
    std::vector<examined_owner> owners;
    auto worst = exit_code::ok;
    for (const auto& path : devices) {
        const auto device = block_device::open(path, block_device::access::read);
        if (!device)
            return std::unexpected(device.error());
        const auto copies = read_superblocks(*device);
        if (!copies)
            return std::unexpected(copies.error());
        if (copies->absent()) {
            out.failure({exit_code::missing, fmt::format("{}: no weft superblock", path)});
            worst = exit_code::missing;
            continue;
        }
        members.push_back(describe(path, *copies));
        if (auto done = read_owners(*device, members.back(), owners); !done)
            return std::unexpected(done.error());
        if (!copies->healthy())
            worst = exit_code::damaged;
    }
    out.examined(members, owners);
    return worst;
}

} // namespace

verb add_examine(CLI::App& app)
{
    auto devices = std::make_shared<std::vector<std::string>>();
    auto* command = app.add_subcommand("examine", "show the superblocks and the owner record of a device");
    command->add_option("DEVICE", *devices, "block devices")->required();
    command->footer(
        R"(Reads the device, and changes nothing. The owner record and the claim are on member 0. A claim
of a host that crashed still says that the host owns the volume.

Examples:
  weftctl examine /dev/nvme1n1
  weftctl examine /dev/nvme1n1 /dev/nvme2n1 --json)");
    return {command, [devices](renderer& out) { return run_examine(*devices, out); }};
}

} // namespace weft
