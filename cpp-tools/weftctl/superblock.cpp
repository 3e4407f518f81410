// SPDX-License-Identifier: GPL-2.0-only
#include "superblock.hpp"

#include <cstring>
#include <uuid/uuid.h>
#include <vector>

namespace weft
{

const weft_sb_info* sb_pair::best() const
{
    if (first.info)
        return &*first.info;
    return second.info ? &*second.info : nullptr;
}

bool sb_pair::healthy() const
{
    if (!first.info || !second.info)
        return false;
    weft_superblock a{};
    weft_superblock b{};
    weft_sb_encode(&*first.info, &a);
    weft_sb_encode(&*second.info, &b);
    return !std::memcmp(&a, &b, sizeof(a));
}

namespace
{

result<sb_copy> read_copy(const block_device& device, std::uint64_t offset)
{
    sb_copy copy;
    copy.offset = offset;
    auto block = device.read_block(offset);
    if (!block)
        return std::unexpected(block.error());
    weft_superblock sb{};
    static_assert(sizeof(sb) == WEFT_SB_SIZE);
    std::memcpy(&sb, block->data(), sizeof(sb));
    weft_sb_info info{};
    weft_why why{};
    copy.err = weft_sb_decode(&sb, &info, &why);
    if (copy.err)
        copy.why = why.text;
    else
        copy.info = info;
    return copy;
}

} // namespace

result<sb_pair> read_superblocks(const block_device& device)
{
    if (device.size() < WEFT_DATA_OFFSET)
        return sb_pair{{0, {}, -ENODATA, "no weft superblock"}, {0, {}, -ENODATA, "no weft superblock"}};
    auto first = read_copy(device, 0);
    // The first superblock has the place of its copy. Without it, the device's size gives the place.
    auto at = weft_sb_copy_offset(device.size());
    if (first && first->info && first->info->copy_offset <= at)
        at = first->info->copy_offset;
    auto second = read_copy(device, at);
    weft_why why{};
    if ((!first || !first->info) && second && second->info && weft_sb_is_copy(&*second->info, at, &why))
        second = sb_copy{at, {}, -ENODATA, why.text};
    // What cannot be read is damaged: for that there is the other.
    if (!first && second && second->info)
        first = sb_copy{0, {}, -EIO, first.error().text};
    if (!second && first && first->info)
        second = sb_copy{at, {}, -EIO, second.error().text};
    if (!first)
        return std::unexpected(first.error());
    if (!second)
        return std::unexpected(second.error());
    return sb_pair{*first, *second};
}

result<void> write_superblock(const block_device& device, const weft_sb_info& info, std::uint64_t offset)
{
    weft_superblock sb{};
    weft_sb_encode(&info, &sb);
    block_device::block block;
    std::memcpy(block.data(), &sb, sizeof(sb));
    return device.write_block(offset, block);
}

result<void> erase_superblocks(const block_device& device, const sb_pair& copies)
{
    // The copy first: after an interruption the first block is still found, and can be wiped again.
    std::vector<std::uint64_t> offsets{copies.second.offset};
    // Without a superblock the start of the device belongs to the program that has used it since.
    if (!copies.first.absent())
        offsets.insert(offsets.end(), {WEFT_OWNER_OFFSET, WEFT_CLAIM_OFFSET, 0});
    for (const auto offset : offsets)
        if (auto done = device.erase(offset, WEFT_SB_SIZE); !done)
            return done;
    return {};
}

result<owner_copy> read_owner(const block_device& device, std::uint64_t offset)
{
    owner_copy copy;
    auto block = device.read_block(offset);
    if (!block)
        return std::unexpected(block.error());
    weft_owner record{};
    static_assert(sizeof(record) == WEFT_OWNER_SIZE);
    std::memcpy(&record, block->data(), sizeof(record));
    weft_owner_info info{};
    weft_why why{};
    copy.err = weft_owner_decode(&record, &info, &why);
    if (copy.err)
        copy.why = why.text;
    else
        copy.info = info;
    return copy;
}

owner_copy deciding(const owner_copy& record, const owner_copy& claim)
{
    if (record.absent())
        return claim;
    // A former owner's late heartbeat may have overwritten the record.
    const bool is_late = record.info && claim.info &&
                         !std::memcmp(record.info->volume_uuid, claim.info->volume_uuid, WEFT_UUID_SIZE) &&
                         record.info->generation < claim.info->generation;
    return is_late ? claim : record;
}

result<std::optional<std::string>> owner_of(const block_device& first)
{
    const auto record = read_owner(first);
    if (!record)
        return std::unexpected(record.error());
    const auto claim = read_owner(first, WEFT_CLAIM_OFFSET);
    if (!claim)
        return std::unexpected(claim.error());
    const auto& owner = deciding(*record, *claim);
    if (owner.held())
        return fmt::format("which host {} owns", owner.info->host_nqn);
    if (!owner.info && !owner.absent())
        return fmt::format("and {}, so a host may use the volume", owner.why);
    return std::nullopt;
}

std::string format_uuid(const std::uint8_t (&uuid)[WEFT_UUID_SIZE])
{
    char text[UUID_STR_LEN];
    uuid_unparse_lower(uuid, text);
    return text;
}

void make_uuid(std::uint8_t (&uuid)[WEFT_UUID_SIZE])
{
    uuid_generate_random(uuid);
}

} // namespace weft
