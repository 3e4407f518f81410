// SPDX-License-Identifier: GPL-2.0-only
/// The data of weftctl: verbs fill them, renderers show them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// I/O of one kind on a disk or member: commands, bytes, and their total time.
struct io_counter {
    std::uint64_t ios = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nsecs = 0;
};

/// How many associations of a controller ended for one reason.
struct end_count {
    std::string reason; ///< a word of weft_rdma.ko, such as "timeout"
    std::uint32_t count = 0;
};

/// Whether a target carries I/O by a path in this ANA state; empty for a path without ANA.
inline bool is_accessible(std::string_view ana_state)
{
    return ana_state.empty() || ana_state == "optimized" || ana_state == "non-optimized";
}

/// A path to a member of an assembled volume.
struct path_status {
    std::string disk; ///< as in /sys/block
    std::string address;
    std::string transport;
    bool usable = false;
    io_counter reads, writes; ///< of the disk since it was added; times in milliseconds
    /// From its controller's sysfs attributes; empty without a controller.
    std::string controller;
    std::string state;
    std::string ana_state; ///< how well the target reaches the namespace by this path, in NVMe's words
    std::string target;    ///< "10.0.0.1:4420"
    std::string rail;      ///< local RDMA device and port
    std::uint32_t queues = 0;
    std::uint32_t reconnects = 0;
    std::uint32_t errors = 0;    ///< number of associations that ended by an error
    std::vector<end_count> ends; ///< the same by reason; only reasons that occurred
};

/// A member of an assembled volume.
struct member_status {
    std::uint32_t index = 0;
    std::string uuid;
    std::string transport;
    std::string address;
    std::string disk;
    std::string state;
    std::uint64_t size = 0;                      ///< size of its device in bytes
    io_counter reads, writes, discards, flushes; ///< since the assembly
    std::uint64_t errors = 0;
    std::uint64_t retried = 0; ///< how often a path gave requests back
    std::vector<path_status> paths;
};

/// An assembled volume.
struct volume_status {
    std::string name;
    std::string uuid;
    std::string state;
    std::string ownership;
    std::optional<std::uint32_t> lease_left_ms; ///< how long it may write without another heartbeat
    std::string iopolicy;                       ///< which of several paths I/O takes
    bool read_only = false;
    bool iostats = true;
    std::uint64_t size = 0;
    std::uint32_t chunk_size = 0;
    std::uint32_t block_size = 0;
    std::uint32_t member_count = 0;
    std::uint64_t generation = 0;
    std::uint64_t created = 0; ///< seconds since 1970 UTC
    std::uint32_t openers = 0;
    std::uint64_t mem_direct = 0, mem_vmap = 0,
                  mem_bounce = 0; ///< bytes moved by I/O on registered memory, by route
    std::vector<member_status> members;
    std::vector<std::string> users; ///< processes and kernel users that have it open
};

/// A volume whose superblocks were found on devices; it may be assembled or not.
struct found_volume {
    std::string name;
    std::string uuid;
    std::uint64_t size = 0;
    std::uint32_t member_count = 0;
    std::vector<std::string> devices; ///< by member index; empty if missing
    [[nodiscard]] std::uint32_t present() const
    {
        std::uint32_t count = 0;
        for (const auto& device : devices)
            count += !device.empty();
        return count;
    }
};

/// A change that a verb made, or with --dry-run would make.
struct action {
    std::string verb;   ///< "create", "wipe", ...
    std::string object; ///< a volume or a device
    std::string text;   ///< the sentence for the user
    bool dry_run = false;
    bool done = true; ///< false: nothing was changed, or --repair is needed
};

/// The result of `check` for one member.
struct check_finding {
    std::string device;
    std::string state; ///< "ok", "first damaged", "copy damaged", "both damaged", ...
    std::string text;
    bool healthy = false;
    bool repaired = false;
};

/// A copy of a superblock, or an owner record, as `examine` found it.
struct examined_block {
    std::uint64_t offset = 0;
    bool valid = false;
    std::string why; ///< unless it is valid
};

/// What `examine` read from a member's device.
struct examined_member {
    std::string device;
    std::vector<examined_block> superblocks; ///< the first and its copy
    /// From the valid superblock, if there is one; else all zero.
    std::string volume, volume_uuid, member_uuid;
    std::uint32_t index = 0, member_count = 0, chunk_size = 0, block_size = 0;
    std::uint64_t data_offset = 0, data_size = 0, generation = 0;
    std::uint64_t created = 0; ///< seconds since 1970 UTC
};

/// The owner record of a volume, or its claim, on member 0.
struct examined_owner {
    std::string device;
    std::string record; ///< "owner" or "claim"
    examined_block block;
    /// Unless it is valid, all zero.
    bool held = false;
    std::string host_nqn, instance;
    std::string machine; ///< UUID; empty if the owner has none
    std::uint64_t generation = 0, sequence = 0;
    std::uint64_t beat_time = 0; ///< by the owner's clock, seconds since 1970 UTC
    std::uint32_t interval_ms = 0;
    std::uint32_t outlast_ms = 0; ///< a write may be so late after its connection
};

/// Classes of I/O, as in the kernel's enum weft_io_class.
constexpr std::array<const char*, 2> io_classes{"feed", "background"};

/// Commands of one class on a member.
struct qos_class_status {
    std::uint64_t ios = 0;
    std::uint64_t bytes = 0;
    /// Commands by latency: number b counts those below 2^b units of 1,024 ns.
    std::vector<std::uint64_t> latency;
    std::uint32_t held = 0;      ///< that wait now
    std::uint64_t stalls = 0;    ///< that had to wait
    std::uint64_t stalled = 0;   ///< how long in sum, in nanoseconds
    std::uint64_t in_flight = 0; ///< bytes
};

/// What QoS knows of a member.
struct qos_member_status {
    std::uint32_t index = 0;
    std::uint64_t rate = 0;   ///< of background commands while feed commands come, in bytes per second
    std::uint64_t best = 0;   ///< of background commands of late, in bytes per second
    std::uint64_t window = 0; ///< bytes of background commands in flight; 0: no limit
    std::array<qos_class_status, io_classes.size()> classes;
};

/// The QoS settings of a volume, and its members if the caller requested them.
struct qos_status {
    std::string volume;
    bool on = false;
    std::uint32_t feed_latency = 0;                           ///< microseconds; 0: no target
    std::uint32_t floor = 0;                                  ///< percent
    std::array<std::uint64_t, io_classes.size()> max_bytes{}; ///< per second; 0: no limit
    std::array<std::uint32_t, io_classes.size()> max_ios{};   ///< per second; 0: no limit
    std::array<std::string, io_classes.size()> cgroup;        ///< empty: none
    std::uint32_t reads = 0;                                  ///< class, index into io_classes
    std::uint32_t writes = 0;                                 ///< likewise
    std::uint32_t background_from = 0;                        ///< bytes; 0: none
    std::uint32_t background_latency = 0;                     ///< microseconds; 0: no target
    std::uint32_t background_weight = 0;                      ///< against other hosts
    std::vector<qos_member_status> members;
};

/// What one kind of I/O did on a member, or on all, over a time.
struct load_row {
    std::optional<std::uint32_t> member;   ///< none: all members
    std::string kind;                      ///< "feed" and "background", or "read" and "write"
    double ios = 0, bytes = 0;             ///< per second
    double mean = 0;                       ///< microseconds; of reads and writes alone, 0 without any
    double p50 = 0, p99 = 0, p999 = 0;     ///< microseconds; of classes alone, 0 without commands
    std::vector<std::uint64_t> latency;    ///< the commands, as in qos_class_status; of classes alone
    double stalls = 0;                     ///< commands that had to wait, per second
    std::uint64_t rate = 0, window = 0;    ///< of background commands on a member, as in qos_member_status
    std::uint64_t in_flight = 0, held = 0; ///< bytes and commands at the end of it
};

/// What a volume did over a time.
struct volume_load {
    std::string volume;
    bool qos = false;               ///< rows are by class
    std::uint32_t feed_latency = 0; ///< microseconds; 0: no target
    double seconds = 0;
    std::vector<load_row> rows; ///< of all members, then by member
    std::vector<std::uint32_t>
        slow; ///< members whose feed commands or reads take far longer than the others'
};

/// What limits a volume.
struct explanation {
    struct reason {
        std::string subject; ///< "member", "load", "qos", "route", "rail", "processor", "depth" or "members"
        std::string text;
    };
    std::string volume;
    double seconds = 0;
    std::string load;            ///< what it did, as words
    std::vector<reason> reasons; ///< the first one counts, the others hold, too
};

/// The severity of a finding of doctor.
enum class severity { good, note, warning, problem };

/// A finding of doctor.
struct diagnosis {
    severity level = severity::good;
    std::string check; ///< "kernel", "dkms", "rdma", ...
    std::string what;  ///< what was found
    std::string why;   ///< why it matters; empty if all is well
    std::string fix;   ///< the command or change that fixes it; may be empty
};

/// A message of the event group.
struct event_report {
    std::string type;
    std::string volume;
    std::optional<std::uint32_t> member;
    std::string text;
    std::uint32_t errnum = 0;
    std::string ownership;
    std::string time; ///< ISO 8601, local
};

} // namespace weft
