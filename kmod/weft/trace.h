/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM weft

#if !defined(WEFT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define WEFT_TRACE_H

#include <linux/tracepoint.h>

#include "pace.h"
#include "weft.h"

TRACE_EVENT(weft_map,
	TP_PROTO(const struct weft_member *member, const struct bio *bio,
		 sector_t sector),
	TP_ARGS(member, bio, sector),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, member)
		__field(u32, op)
		__field(u64, from)
		__field(u64, to)
		__field(u32, sectors)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(member->volume->disk);
		__entry->member = member->index;
		__entry->op = (__force u32)bio->bi_opf;
		__entry->from = bio->bi_iter.bi_sector;
		__entry->to = sector;
		__entry->sectors = bio_sectors(bio);
	),
	TP_printk("%d,%d op 0x%x sector %llu + %u -> member %u sector %llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->op,
		  __entry->from, __entry->sectors, __entry->member, __entry->to)
);

TRACE_EVENT(weft_done,
	TP_PROTO(const struct weft_member *member, u64 nsecs,
		 blk_status_t status),
	TP_ARGS(member, nsecs, status),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, member)
		__field(u64, nsecs)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(member->volume->disk);
		__entry->member = member->index;
		__entry->nsecs = nsecs;
		__entry->error = blk_status_to_errno(status);
	),
	TP_printk("%d,%d member %u took %llu ns error %d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->member,
		  __entry->nsecs, __entry->error)
);

TRACE_EVENT(weft_flush,
	TP_PROTO(const struct weft_volume *vol, u32 members, u32 bios),
	TP_ARGS(vol, members, bios),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, members)
		__field(u32, bios)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(vol->disk);
		__entry->members = members;
		__entry->bios = bios;
	),
	TP_printk("%d,%d flush of %u members for %u bios",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->members,
		  __entry->bios)
);

TRACE_EVENT(weft_ownership,
	TP_PROTO(const struct weft_volume *vol, enum weft_ownership from,
		 enum weft_ownership to),
	TP_ARGS(vol, from, to),
	TP_STRUCT__entry(
		__array(char, name, WEFT_NAME_SIZE)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		memcpy(__entry->name, vol->name, WEFT_NAME_SIZE);
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("%s %u -> %u", __entry->name, __entry->from, __entry->to)
);

TRACE_EVENT(weft_state,
	TP_PROTO(const struct weft_volume *vol, enum weft_volume_state from,
		 enum weft_volume_state to),
	TP_ARGS(vol, from, to),
	TP_STRUCT__entry(
		__array(char, name, WEFT_NAME_SIZE)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		memcpy(__entry->name, vol->name, WEFT_NAME_SIZE);
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("%s %u -> %u", __entry->name, __entry->from, __entry->to)
);

TRACE_EVENT(weft_qos_rate,
	TP_PROTO(const struct weft_volume *vol, u32 member, const struct weft_pace_sample *sample,
		 u64 rate),
	TP_ARGS(vol, member, sample, rate),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, member)
		__field(u32, done)
		__field(u32, late)
		__field(u64, least)
		__field(u64, rate)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(vol->disk);
		__entry->member = member;
		__entry->done = sample->done;
		__entry->late = sample->late;
		__entry->least = sample->least;
		__entry->rate = rate;
	),
	TP_printk("%d,%d member %u %u feed commands, %u late, least %llu ns -> %llu bytes/s",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->member, __entry->done,
		  __entry->late, __entry->least, __entry->rate)
);

TRACE_EVENT(weft_qos_held,
	TP_PROTO(const struct weft_volume *vol, u32 member, u32 class, u32 bytes, u64 nsecs),
	TP_ARGS(vol, member, class, bytes, nsecs),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, member)
		__field(u32, class)
		__field(u32, bytes)
		__field(u64, nsecs)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(vol->disk);
		__entry->member = member;
		__entry->class = class;
		__entry->bytes = bytes;
		__entry->nsecs = nsecs;
	),
	TP_printk("%d,%d member %u %s command of %u bytes was held for %llu ns",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->member,
		  __entry->class == WEFT_IO_CLASS_FEED ? "feed" : "background",
		  __entry->bytes, __entry->nsecs)
);

#endif /* WEFT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
