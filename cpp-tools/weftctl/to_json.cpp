// SPDX-License-Identifier: GPL-2.0-only
#include "to_json.hpp"

#include <optional>
#include <sys/stat.h>

namespace weft
{

namespace
{

json or_null(const std::optional<std::uint32_t>& number)
{
    return number ? json(*number) : json(nullptr);
}

json to_json(const io_counter& counter)
{
    return {{"ios", counter.ios}, {"bytes", counter.bytes}, {"nsecs", counter.nsecs}};
}

json to_json(const std::vector<end_count>& ends)
{
    json counts = json::object();
    for (const auto& end : ends)
        counts[end.reason] = end.count;
    return counts;
}

} // namespace

json to_json(const path_status& path, std::uint32_t member)
{
    return {{"member", member},
            {"disk", path.disk},
            {"address", path.address},
            {"transport", path.transport},
            {"usable", path.usable},
            {"read", to_json(path.reads)},
            {"write", to_json(path.writes)},
            {"controller", path.controller},
            {"state", path.state},
            {"ana_state", path.ana_state},
            {"target", path.target},
            {"rail", path.rail},
            {"queues", path.queues},
            {"reconnects", path.reconnects},
            {"errors", path.errors},
            {"ends", to_json(path.ends)}};
}

namespace
{

json to_json(const member_status& member)
{
    json paths = json::array();
    for (const auto& path : member.paths)
        paths.push_back(to_json(path, member.index));
    return {{"index", member.index},
            {"uuid", member.uuid},
            {"transport", member.transport},
            {"address", member.address},
            {"disk", member.disk},
            {"state", member.state},
            {"size", member.size},
            {"read", to_json(member.reads)},
            {"write", to_json(member.writes)},
            {"discard", to_json(member.discards)},
            {"flush", to_json(member.flushes)},
            {"errors", member.errors},
            {"retried", member.retried},
            {"paths", paths}};
}

json to_json(const qos_class_status& status)
{
    return {{"ios", status.ios},
            {"bytes", status.bytes},
            {"latency", status.latency},
            {"held", status.held},
            {"stalls", status.stalls},
            {"stalled_ns", status.stalled},
            {"in_flight", status.in_flight}};
}

json to_json(const load_row& row, bool qos)
{
    json line = {{"member", or_null(row.member)},
                 {"kind", row.kind},
                 {"ios_per_second", row.ios},
                 {"bytes_per_second", row.bytes}};
    if (!qos) {
        line["mean_us"] = row.mean;
        return line;
    }
    line.update({{"p50_us", row.p50},
                 {"p99_us", row.p99},
                 {"p999_us", row.p999},
                 {"rate", row.rate},
                 {"window", row.window},
                 {"in_flight", row.in_flight},
                 {"held", row.held},
                 {"stalls_per_second", row.stalls}});
    return line;
}

} // namespace

json to_json(const volume_status& volume)
{
    json members = json::array();
    for (const auto& member : volume.members)
        members.push_back(to_json(member));
    return {
        {"name", volume.name},
        {"state", volume.state},
        {"device", "/dev/weft/" + volume.name},
        {"uuid", volume.uuid},
        {"read_only", volume.read_only},
        {"ownership", volume.ownership},
        {"lease_left_ms", or_null(volume.lease_left_ms)},
        {"iostats", volume.iostats},
        {"iopolicy", volume.iopolicy},
        {"size", volume.size},
        {"chunk_size", volume.chunk_size},
        {"block_size", volume.block_size},
        {"member_count", volume.member_count},
        {"generation", volume.generation},
        {"created", volume.created},
        {"openers", volume.openers},
        {"memory", {{"direct", volume.mem_direct}, {"vmap", volume.mem_vmap}, {"bounce", volume.mem_bounce}}},
        {"users", volume.users},
        {"members", members}};
}

json to_json(const qos_status& status)
{
    json members = json::array(), classes = json::object();
    for (std::size_t i = 0; i < io_classes.size(); i++)
        classes[io_classes[i]] = {
            {"max_bytes", status.max_bytes[i]}, {"max_ios", status.max_ios[i]}, {"cgroup", status.cgroup[i]}};
    for (const auto& member : status.members) {
        json line = {
            {"index", member.index}, {"rate", member.rate}, {"best", member.best}, {"window", member.window}};
        for (std::size_t i = 0; i < io_classes.size(); i++)
            line[io_classes[i]] = to_json(member.classes[i]);
        members.push_back(std::move(line));
    }
    return {{"on", status.on},
            {"feed_latency_us", status.feed_latency},
            {"background_floor", status.floor},
            {"background_from", status.background_from},
            {"background_latency_us", status.background_latency},
            {"background_weight", status.background_weight},
            {"reads", io_classes[status.reads]},
            {"writes", io_classes[status.writes]},
            {"classes", std::move(classes)},
            {"members", std::move(members)}};
}

json to_json(const volume_load& load)
{
    json rows = json::array();
    for (const auto& row : load.rows)
        rows.push_back(to_json(row, load.qos));
    return {{"volume", load.volume},   {"qos", load.qos},   {"feed_latency_us", load.feed_latency},
            {"seconds", load.seconds}, {"slow", load.slow}, {"rows", std::move(rows)}};
}

json to_json(const found_volume& volume)
{
    json devices = json::array();
    for (const auto& device : volume.devices)
        devices.push_back(device.empty() ? json(nullptr) : json(device));
    return {{"name", volume.name},
            {"state", volume.present() == volume.member_count ? "stopped" : "incomplete"},
            {"uuid", volume.uuid},
            {"size", volume.size},
            {"member_count", volume.member_count},
            {"devices", devices}};
}

json to_json(const event_report& event)
{
    json line = {{"time", event.time}, {"volume", event.volume}, {"type", event.type}, {"text", event.text}};
    if (event.member)
        line["member"] = *event.member;
    if (event.errnum)
        line["errno"] = event.errnum;
    line["ownership"] = event.ownership;
    return line;
}

namespace
{

/// The container gets a node with the owner and permissions that it has on the host. Without them, runtimes
/// make one that every user of the container can open.
json with_owner(json node)
{
    struct stat at {
    };
    if (!::stat(node["path"].get<std::string>().c_str(), &at)) {
        node["fileMode"] = at.st_mode & 0777;
        node["uid"] = at.st_uid;
        node["gid"] = at.st_gid;
    }
    return node;
}

} // namespace

json cdi_specification(const std::vector<volume_status>& volumes)
{
    json devices = json::array();
    for (const auto& volume : volumes) {
        json nodes = json::array();
        nodes.push_back(with_owner({{"path", "/dev/weft/" + volume.name},
                                    {"type", "b"},
                                    {"permissions", volume.read_only ? "r" : "rw"}}));
        // What commands may do there depends on how the block device was opened.
        nodes.push_back(with_owner(
            {{"path", "/dev/weft/" + volume.name + ".mem"}, {"type", "c"}, {"permissions", "rw"}}));
        devices.push_back({{"name", volume.name}, {"containerEdits", {{"deviceNodes", std::move(nodes)}}}});
    }
    // The oldest version that has all of this: runtimes refuse those that are newer than they are.
    return {{"cdiVersion", "0.5.0"}, {"kind", "weft/volume"}, {"devices", std::move(devices)}};
}

std::string dump(const json& document, int indent)
{
    return document.dump(indent, ' ', false, json::error_handler_t::replace);
}

} // namespace weft
