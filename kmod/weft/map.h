/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The stripe map: the member, and the place on it, of a sector of the volume.
 *
 * Pure arithmetic. Chunk c of the volume (chunks counted from 0) is row
 * c / members of member c % members; a member's rows lie one after another
 * from data_start on. All numbers are 512-byte sectors.
 */
#ifndef WEFT_MAP_H
#define WEFT_MAP_H

#include "portable.h"

/**
 * struct weft_map - geometry of a volume
 * @members: how many, 1 to 256
 * @chunk_shift: log2 of a chunk in sectors
 * @member_shift: log2 of @members; -1 if @members is not a power of two
 * @chunk_mask: sectors of a chunk, less one
 * @data_start: first sector of data on each member
 * @data_sectors: sectors of data on each member, whole chunks
 * @capacity: size of the volume in sectors
 */
struct weft_map {
	u32		members;
	u8		chunk_shift;
	signed char	member_shift;
	u32		chunk_mask;
	sector_t	data_start;
	sector_t	data_sectors;
	sector_t	capacity;
};

/**
 * struct weft_place - a place on a member
 * @member: index of the member
 * @sector: sector on that member, counted from its start
 */
struct weft_place {
	u32		member;
	sector_t	sector;
};

int weft_map_init(struct weft_map *map, u32 members, u64 chunk_bytes,
		  u64 data_offset, u64 data_size);
sector_t weft_map_volume_sector(const struct weft_map *map,
				const struct weft_place *place);
sector_t weft_map_member_range(const struct weft_map *map, sector_t start,
			       sector_t end, u32 member, sector_t *member_start);
u32 weft_map_io_opt(const struct weft_map *map);

/**
 * weft_map_sector() - find a sector of the volume
 * @map: the geometry
 * @sector: below @map->capacity
 *
 * Runs for every I/O: it is inline, and shifts where it can. The masks tell the
 * compiler that the shifts are in range.
 *
 * Return: its place.
 */
static inline struct weft_place weft_map_sector(const struct weft_map *map,
						sector_t sector)
{
	u64 chunk = sector >> (map->chunk_shift & 63);
	struct weft_place place;
	u64 row;

	if (map->member_shift >= 0) {
		place.member = chunk & (map->members - 1);
		row = chunk >> (map->member_shift & 63);
	} else {
		row = div_u64_rem(chunk, map->members, &place.member);
	}
	place.sector = map->data_start + (row << (map->chunk_shift & 63)) +
		       (sector & map->chunk_mask);
	return place;
}

/**
 * weft_map_contiguous() - length of the run that starts at a sector
 * @map: the geometry
 * @sector: below @map->capacity
 *
 * Return: number of sectors from @sector that are contiguous on one member.
 */
static inline sector_t weft_map_contiguous(const struct weft_map *map,
					   sector_t sector)
{
	if (map->members == 1)
		return map->capacity - sector;
	return map->chunk_mask + 1 - (sector & map->chunk_mask);
}

/**
 * weft_map_whole() - the longest command that no member's queue splits anywhere
 * @max_sectors: largest command that every member takes
 * @boundary: members may split at multiples of it; 0 if none does
 * @physical_mask: sectors of a physical block of the members, less one: a queue ends
 *	a command that is too long at such a block
 *
 * Return: in sectors; 0 if it depends on where the command begins.
 */
static inline u32 weft_map_whole(u32 max_sectors, u32 boundary, u32 physical_mask)
{
	return boundary || max_sectors <= physical_mask ? 0 : max_sectors - physical_mask;
}

#endif /* WEFT_MAP_H */
