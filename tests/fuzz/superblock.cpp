// SPDX-License-Identifier: GPL-2.0-only
/// What a disk says of itself, in the kernel's own code: what passes is a volume whose every sector has a
/// place.
#include "fuzz.hpp"

#include <algorithm>
#include <cstring>

extern "C" {
#include <kmod/weft/map.h>
#include <kmod/weft/superblock.h>
}

namespace
{

void map(const weft_sb_info& info, std::uint64_t choice)
{
    weft_map map{};
    if (weft_map_init(&map, info.member_count, info.chunk_size, info.data_offset, info.data_size))
        return;
    must(map.capacity / map.members == map.data_sectors, "the volume is as large as its members' data");
    const auto sector = choice % map.capacity;
    const auto place = weft_map_sector(&map, sector);
    must(place.member < map.members, "a sector is on a member");
    must(place.sector >= map.data_start && place.sector - map.data_start < map.data_sectors,
         "and within its data");
    must(weft_map_volume_sector(&map, &place) == sector, "and is found again");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    weft_superblock sb{};
    weft_owner owner{};
    weft_sb_info info{};
    weft_owner_info owner_info{};
    weft_why why{};
    std::uint64_t device_size = 0;

    // What is behind the fields is reserved; the checksum is right, or nothing would get past it.
    std::memcpy(&device_size, data, std::min(size, sizeof(device_size)));
    data += std::min(size, sizeof(device_size));
    size -= std::min(size, sizeof(device_size));
    std::memcpy(&sb, data, std::min(size, sizeof(sb)));
    std::memcpy(sb.magic, WEFT_SB_MAGIC, sizeof(sb.magic));
    sb.checksum = htole32(weft_sb_checksum(&sb));
    if (weft_sb_decode(&sb, &info, &why)) {
        must(why.text[0], "who refuses a superblock says why");
    } else {
        weft_superblock again{};
        weft_sb_info same{};
        weft_sb_encode(&info, &again);
        must(!weft_sb_decode(&again, &same, &why) && !std::memcmp(&info, &same, sizeof(info)),
             "what is read is what is written");
        must(std::memchr(info.name, 0, sizeof(info.name)), "a name ends");
        if (!weft_sb_fits(&info, device_size, info.block_size, &why)) {
            must(info.data_offset + info.data_size <= device_size, "data is within the device");
            map(info, device_size * 0x9e3779b97f4a7c15U);
        }
    }
    std::memcpy(&owner, data, std::min(size, sizeof(owner)));
    std::memcpy(owner.magic, WEFT_OWNER_MAGIC, sizeof(owner.magic));
    owner.checksum = 0;
    owner.checksum = htole32(~crc32c(~0U, &owner, sizeof(owner)));
    if (!weft_owner_decode(&owner, &owner_info, &why))
        must(std::memchr(owner_info.host_nqn, 0, sizeof(owner_info.host_nqn)), "a host's name ends");
    return 0;
}
