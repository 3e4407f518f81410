// SPDX-License-Identifier: GPL-2.0-only
/// What weftctl speaks of: filled by the verbs, shown by the renderers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// What a disk, or a member, did of one kind: commands, bytes, and the time they took together.
struct io_counter {
    std::uint64_t ios = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nsecs = 0;
};

/// One way to a member of an assembled volume.
struct path_status {
    std::string disk; ///< as in /sys/block
    std::string address;
    std::string transport;
    bool usable = false;
    io_counter reads, writes; ///< of the disk, since it is there; in milliseconds, as the kernel counts them
    /// Of its controller, from sysfs; empty where it has none.
    std::string controller;
    std::string state;
    std::string target; ///< "10.0.0.1:4420"
    std::string rail;   ///< local RDMA device and port
    std::uint32_t queues = 0;
    std::uint32_t reconnects = 0;
    std::uint32_t errors = 0; ///< times its association ended otherwise than it was asked to
};

/// A member of an assembled volume.
struct member_status {
    std::uint32_t index = 0;
    std::string uuid;
    std::string transport;
    std::string address;
    std::string disk;
    std::string state;
    std::uint64_t size = 0;                      ///< bytes of its device
    io_counter reads, writes, discards, flushes; ///< of this assembly
    std::uint64_t errors = 0;
    std::uint64_t retried = 0; ///< times a path gave requests back
    std::vector<path_status> paths;
};

/// An assembled volume.
struct volume_status {
    std::string name;
    std::string uuid;
    std::string state;
    std::string ownership;
    std::string iopolicy; ///< which of several paths I/O takes
    bool read_only = false;
    bool iostats = true;
    std::uint64_t size = 0;
    std::uint32_t chunk_size = 0;
    std::uint32_t block_size = 0;
    std::uint32_t member_count = 0;
    std::uint64_t generation = 0;
    std::uint64_t created = 0; ///< seconds since 1970 UTC
    std::uint32_t openers = 0;
    std::uint64_t mem_direct = 0, mem_vmap = 0, mem_bounce = 0; ///< bytes on registered memory, by route
    std::vector<member_status> members;
    std::vector<std::string> users; ///< who has it open
};

/// A volume whose superblocks were found on devices; it may be assembled or not.
struct found_volume {
    std::string name;
    std::string uuid;
    std::uint64_t size = 0;
    std::uint32_t member_count = 0;
    std::vector<std::string> devices; ///< by member index, empty where missing
    [[nodiscard]] std::uint32_t present() const
    {
        std::uint32_t count = 0;
        for (const auto& device : devices)
            count += !device.empty();
        return count;
    }
};

/// What a verb that changes something did, or with --dry-run would do.
struct action {
    std::string verb;   ///< "create", "wipe", ...
    std::string object; ///< a volume or a device
    std::string text;   ///< the sentence for people
    bool dry_run = false;
    bool done = true; ///< false: there was nothing to do, or it is for --repair to do
};

/// What `check` found of one member.
struct check_finding {
    std::string device;
    std::string state; ///< "ok", "first damaged", "copy damaged", "both damaged", ...
    std::string text;
    bool healthy = false;
    bool repaired = false;
};

/// How much a finding of doctor matters.
enum class severity { good, note, warning, problem };

/// A finding of doctor.
struct diagnosis {
    severity level = severity::good;
    std::string check; ///< "kernel", "dkms", "rdma", ...
    std::string what;  ///< it is
    std::string why;   ///< it matters; empty when all is well
    std::string mend;  ///< the command or change that mends it; may be empty
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
