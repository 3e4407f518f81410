// SPDX-License-Identifier: GPL-2.0-only
/* The part of the stripe map that does not run for every I/O. See map.h. */
#include "map.h"

#include "../../uapi/weft_format.h"

/**
 * weft_map_init() - check a geometry and set up the map
 * @map: filled on success
 * @members: 1 to WEFT_MEMBERS_MAX
 * @chunk_bytes: a power of two, WEFT_CHUNK_MIN to WEFT_CHUNK_MAX
 * @data_offset: bytes before the data on each member
 * @data_size: bytes of data on each member, whole chunks, at least one
 *
 * Return: 0; -EINVAL for an invalid geometry; -EFBIG if the volume or a member
 * would reach 2^63 bytes.
 */
int weft_map_init(struct weft_map *map, u32 members, u64 chunk_bytes,
		  u64 data_offset, u64 data_size)
{
	u64 total, end;

	if (!members || members > WEFT_MEMBERS_MAX)
		return -EINVAL;
	if (chunk_bytes < WEFT_CHUNK_MIN || chunk_bytes > WEFT_CHUNK_MAX ||
	    !is_power_of_2(chunk_bytes))
		return -EINVAL;
	if (!data_size || data_size & (chunk_bytes - 1) ||
	    data_offset & (SECTOR_SIZE - 1))
		return -EINVAL;
	if (check_mul_overflow(data_size, (u64)members, &total) ||
	    check_add_overflow(data_size, data_offset, &end) ||
	    total >> 63 || end >> 63)
		return -EFBIG;

	map->members = members;
	map->chunk_shift = ilog2(chunk_bytes) - SECTOR_SHIFT;
	map->chunk_mask = (chunk_bytes >> SECTOR_SHIFT) - 1;
	map->member_shift = is_power_of_2(members) ? ilog2(members) : -1;
	map->data_start = data_offset >> SECTOR_SHIFT;
	map->data_sectors = data_size >> SECTOR_SHIFT;
	map->capacity = total >> SECTOR_SHIFT;
	return 0;
}

/**
 * weft_map_volume_sector() - the inverse of weft_map_sector()
 * @map: the geometry
 * @place: a place within a member's data
 *
 * Return: the sector of the volume at that place.
 */
sector_t weft_map_volume_sector(const struct weft_map *map,
				const struct weft_place *place)
{
	sector_t offset = place->sector - map->data_start;
	u64 chunk = (offset >> map->chunk_shift) * map->members + place->member;

	return (chunk << map->chunk_shift) + (offset & map->chunk_mask);
}

/*
 * The number of the member's sectors that precede @sector of the volume: the
 * complete rows below it, and the part of the member's chunk in its own row.
 */
static sector_t weft_map_sectors_before(const struct weft_map *map,
					sector_t sector, u32 member)
{
	u32 at;
	u64 row = div_u64_rem(sector >> map->chunk_shift, map->members, &at);
	sector_t before = row << map->chunk_shift;

	if (member < at)
		before += map->chunk_mask + 1;
	else if (member == at)
		before += sector & map->chunk_mask;
	return before;
}

/**
 * weft_map_member_range() - a member's share of a range of the volume
 * @map: the geometry
 * @start: first sector of the range
 * @end: first sector after the range, at most @map->capacity
 * @member: index
 * @member_start: set to the share's first sector on the member
 *
 * A member's share of any range is one contiguous run. Therefore a discard
 * becomes one command for each member.
 *
 * Return: size of the share in sectors; 0 if the member has no part of it.
 */
sector_t weft_map_member_range(const struct weft_map *map, sector_t start,
			       sector_t end, u32 member, sector_t *member_start)
{
	sector_t first = weft_map_sectors_before(map, start, member);

	*member_start = map->data_start + first;
	return weft_map_sectors_before(map, end, member) - first;
}

/**
 * weft_map_io_opt() - the preferred I/O size to advertise
 * @map: the geometry
 *
 * Return: the size of a stripe in bytes, or of a chunk if the stripe does not
 * fit the 32-bit limit of the block layer.
 */
u32 weft_map_io_opt(const struct weft_map *map)
{
	u64 chunk = 1ULL << (map->chunk_shift + SECTOR_SHIFT);
	u64 stripe = chunk * map->members;

	return stripe >> 32 ? chunk : stripe;
}
