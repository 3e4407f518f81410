// SPDX-License-Identifier: GPL-2.0-only
#include "metrics.hpp"

#include "late_reading.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <numeric>
#include <utility>

namespace weft
{

namespace
{

using labels = std::vector<std::pair<const char*, std::string>>;

std::string escape(const std::string& text)
{
    std::string safe;
    for (const char c : text) {
        if (c == '\\' || c == '"')
            safe += '\\';
        safe += c == '\n' ? "\\n" : std::string(1, c);
    }
    return safe;
}

/// Writes the samples of one family: all of them stand together, below its head.
class family
{
public:
    family(std::string& text, const char* name, const char* type, const char* help)
        : text_(text), name_(name), type_(type), help_(help)
    {
    }

    template <typename Number>
    void add(const labels& of, Number value, const char* suffix = "")
    {
        if (!begun_)
            text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name_, type_, help_);
        begun_ = true;
        text_ += name_;
        text_ += suffix;
        const char* separator = "{";
        for (const auto& [label, word] : of) {
            text_ += fmt::format("{}{}=\"{}\"", separator, label, escape(word));
            separator = ",";
        }
        text_ += fmt::format("{} {}\n", of.empty() ? "" : "}", value);
    }

private:
    std::string& text_;
    const char *name_, *type_, *help_;
    bool begun_ = false;
};

double seconds(std::uint64_t nanoseconds)
{
    return static_cast<double>(nanoseconds) / 1e9;
}

labels joined(labels all, const labels& more)
{
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

labels of_volume(const load_sample& sample, const labels& more = {})
{
    return joined({{"volume", sample.volume.name}}, more);
}

labels of_member(const load_sample& sample, std::uint32_t member, const labels& more = {})
{
    return joined(of_volume(sample, {{"member", fmt::format("{}", member)}}), more);
}

labels of_path(const load_sample& sample, const member_status& member, const path_status& path,
               const labels& more = {})
{
    return joined(of_member(sample, member.index, {{"path", path.disk}}), more);
}

/// A family with samples for each volume.
struct volume_family {
    const char *name, *type, *help;
    std::function<void(family&, const load_sample&)> add;
};

/// A family with samples for each member.
struct member_family {
    const char *name, *type, *help;
    std::function<void(family&, const load_sample&, const member_status&)> add;
};

/// A family with samples for each path.
struct path_family {
    const char *name, *type, *help;
    std::function<void(family&, const load_sample&, const member_status&, const path_status&)> add;
};

/// A family with samples for each member while QoS is on.
struct qos_family {
    const char *name, *type, *help;
    std::function<void(family&, const load_sample&, const qos_member_status&)> add;
};

/// The kernel counts by powers of two of 1,024 ns. The first are below what a network takes.
constexpr std::size_t first_bucket = 3, last_bucket = 24;

/// The commands of a class on all members, by latency. Of commands the kernel counts no sum of latencies.
void add_latencies(family& out, const load_sample& sample, std::size_t kind)
{
    const labels of = of_volume(sample, {{"class", io_classes[kind]}});
    std::vector<std::uint64_t> counts(last_bucket + 1);
    for (const auto& member : sample.qos.members) {
        const auto& latency = member.classes[kind].latency;
        counts.resize(std::max(counts.size(), latency.size()));
        for (std::size_t i = 0; i < latency.size(); i++)
            counts[i] += latency[i];
    }
    std::uint64_t below = 0;
    for (std::size_t i = 0; i <= last_bucket; i++) {
        below += counts[i];
        const auto end = fmt::format("{}", std::ldexp(1.024e-6, static_cast<int>(i)));
        if (i >= first_bucket)
            out.add(joined(of, {{"le", end}}), below, "_bucket");
    }
    const auto all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    out.add(joined(of, {{"le", "+Inf"}}), all, "_bucket");
    out.add(of, all, "_count");
}

const volume_family volume_families[] = {
    {"weft_volume_info", "gauge", "An assembled volume, 1.",
     [](family& out, const load_sample& of) {
         out.add(of_volume(of, {{"uuid", of.volume.uuid}, {"iopolicy", of.volume.iopolicy}}), 1);
     }},
    {"weft_volume_state", "gauge", "The state of a volume, 1: assembling, live, failed or stopping.",
     [](family& out, const load_sample& of) {
         out.add(of_volume(of, {{"state", of.volume.state}}), 1);
     }},
    {"weft_volume_ownership", "gauge", "How this host owns a volume, 1.",
     [](family& out, const load_sample& of) {
         out.add(of_volume(of, {{"ownership", of.volume.ownership}}), 1);
     }},
    {"weft_volume_lease_left_seconds", "gauge",
     "For how long this host may write to a volume if no heartbeat succeeds.",
     [](family& out, const load_sample& of) {
         if (of.volume.lease_left_ms)
             out.add(of_volume(of), *of.volume.lease_left_ms / 1e3);
     }},
    {"weft_volume_read_only", "gauge", "Whether a volume is read-only.",
     [](family& out, const load_sample& of) { out.add(of_volume(of), of.volume.read_only ? 1 : 0); }},
    {"weft_volume_size_bytes", "gauge", "The size of a volume.",
     [](family& out, const load_sample& of) { out.add(of_volume(of), of.volume.size); }},
    {"weft_volume_members", "gauge", "The number of members of a volume.",
     [](family& out, const load_sample& of) { out.add(of_volume(of), of.volume.member_count); }},
    {"weft_volume_openers", "gauge", "How often a volume's disk is open.",
     [](family& out, const load_sample& of) { out.add(of_volume(of), of.volume.openers); }},
    {"weft_memory_io_bytes_total", "counter",
     "Bytes of I/O on registered memory, by the route that they took.",
     [](family& out, const load_sample& of) {
         out.add(of_volume(of, {{"route", "direct"}}), of.volume.mem_direct);
         out.add(of_volume(of, {{"route", "vmap"}}), of.volume.mem_vmap);
         out.add(of_volume(of, {{"route", "bounce"}}), of.volume.mem_bounce);
     }},
    {"weft_qos_on", "gauge", "Whether a volume has QoS.",
     [](family& out, const load_sample& of) { out.add(of_volume(of), of.qos.on ? 1 : 0); }},
    {"weft_qos_feed_latency_target_seconds", "gauge", "The latency of feed commands that QoS aims at.",
     [](family& out, const load_sample& of) {
         if (of.qos.on && of.qos.feed_latency)
             out.add(of_volume(of), of.qos.feed_latency / 1e6);
     }},
    {"weft_class_latency_seconds", "histogram", "Latencies of the commands of a class on all members.",
     [](family& out, const load_sample& of) {
         for (std::size_t i = 0; of.qos.on && i < io_classes.size(); i++)
             add_latencies(out, of, i);
     }},
};

template <typename Value>
void add_operations(family& out, const load_sample& of, const member_status& member, const Value& value)
{
    out.add(of_member(of, member.index, {{"operation", "read"}}), value(member.reads));
    out.add(of_member(of, member.index, {{"operation", "write"}}), value(member.writes));
    out.add(of_member(of, member.index, {{"operation", "discard"}}), value(member.discards));
    out.add(of_member(of, member.index, {{"operation", "flush"}}), value(member.flushes));
}

const member_family member_families[] = {
    {"weft_member_state", "gauge", "The state of a member, 1: ok, gone or stalled.",
     [](family& out, const load_sample& of, const member_status& member) {
         out.add(of_member(of, member.index, {{"state", member.state}}), 1);
     }},
    {"weft_member_paths", "gauge", "The number of paths to a member.",
     [](family& out, const load_sample& of, const member_status& member) {
         out.add(of_member(of, member.index), member.paths.size());
     }},
    {"weft_member_usable_paths", "gauge", "The number of paths to a member that can carry I/O now.",
     [](family& out, const load_sample& of, const member_status& member) {
         out.add(of_member(of, member.index), std::ranges::count_if(member.paths, &path_status::usable));
     }},
    {"weft_member_ios_total", "counter", "Commands that completed on a member.",
     [](family& out, const load_sample& of, const member_status& member) {
         add_operations(out, of, member, [](const io_counter& io) { return io.ios; });
     }},
    {"weft_member_io_bytes_total", "counter", "Bytes of the commands that completed on a member.",
     [](family& out, const load_sample& of, const member_status& member) {
         add_operations(out, of, member, [](const io_counter& io) { return io.bytes; });
     }},
    {"weft_member_io_seconds_total", "counter", "The latencies of the commands on a member, added up.",
     [](family& out, const load_sample& of, const member_status& member) {
         add_operations(out, of, member, [](const io_counter& io) { return seconds(io.nsecs); });
     }},
    {"weft_member_errors_total", "counter", "Commands that failed on a member.",
     [](family& out, const load_sample& of, const member_status& member) {
         out.add(of_member(of, member.index), member.errors);
     }},
    {"weft_member_retried_total", "counter", "Commands that a path gave back, so that they were sent again.",
     [](family& out, const load_sample& of, const member_status& member) {
         out.add(of_member(of, member.index), member.retried);
     }},
};

const path_family path_families[] = {
    {"weft_path_info", "gauge", "A path to a member, 1.",
     [](family& out, const load_sample& of, const member_status& member, const path_status& path) {
         out.add(of_path(of, member, path,
                         {{"transport", path.transport},
                          {"controller", path.controller},
                          {"target", path.target},
                          {"rail", path.rail},
                          {"ana_state", path.ana_state}}),
                 1);
     }},
    {"weft_path_usable", "gauge", "Whether a path can carry I/O now.",
     [](family& out, const load_sample& of, const member_status& member, const path_status& path) {
         out.add(of_path(of, member, path), path.usable ? 1 : 0);
     }},
    {"weft_path_io_bytes_total", "counter", "Bytes that a path's disk moved.",
     [](family& out, const load_sample& of, const member_status& member, const path_status& path) {
         out.add(of_path(of, member, path, {{"operation", "read"}}), path.reads.bytes);
         out.add(of_path(of, member, path, {{"operation", "write"}}), path.writes.bytes);
     }},
    {"weft_path_reconnects_total", "counter", "How often a path's controller connected again.",
     [](family& out, const load_sample& of, const member_status& member, const path_status& path) {
         if (!path.controller.empty())
             out.add(of_path(of, member, path), path.reconnects);
     }},
    {"weft_path_errors_total", "counter", "Associations of a path that ended by an error.",
     [](family& out, const load_sample& of, const member_status& member, const path_status& path) {
         if (!path.controller.empty())
             out.add(of_path(of, member, path), path.errors);
     }},
    {"weft_path_association_ends_total", "counter", "The same by reason, since the first one.",
     [](family& out, const load_sample& of, const member_status& member, const path_status& path) {
         for (const auto& end : path.ends)
             out.add(of_path(of, member, path, {{"reason", end.reason}}), end.count);
     }},
};

template <typename Value>
void add_classes(family& out, const load_sample& of, const qos_member_status& member, const Value& value)
{
    for (std::size_t i = 0; i < io_classes.size(); i++)
        out.add(of_member(of, member.index, {{"class", io_classes[i]}}), value(member.classes[i]));
}

const qos_family qos_families[] = {
    {"weft_class_ios_total", "counter", "Commands of a class that completed on a member.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         add_classes(out, of, member, [](const qos_class_status& status) { return status.ios; });
     }},
    {"weft_class_io_bytes_total", "counter", "Bytes of the commands of a class on a member.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         add_classes(out, of, member, [](const qos_class_status& status) { return status.bytes; });
     }},
    {"weft_class_in_flight_bytes", "gauge",
     "Bytes of a class that were sent to a member and have not completed.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         add_classes(out, of, member, [](const qos_class_status& status) { return status.in_flight; });
     }},
    {"weft_class_held", "gauge", "Commands of a class that QoS holds.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         add_classes(out, of, member, [](const qos_class_status& status) { return status.held; });
     }},
    {"weft_class_stalls_total", "counter", "Commands of a class that QoS held for a time.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         add_classes(out, of, member, [](const qos_class_status& status) { return status.stalls; });
     }},
    {"weft_class_stalled_seconds_total", "counter",
     "For how long QoS held the commands of a class, added up.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         add_classes(out, of, member, [](const qos_class_status& status) { return seconds(status.stalled); });
     }},
    {"weft_background_rate_bytes", "gauge",
     "Bytes per second of background commands that the latency of feed commands allows.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         if (member.rate)
             out.add(of_member(of, member.index), member.rate);
     }},
    {"weft_background_window_bytes", "gauge",
     "Bytes of background commands in flight that --background-latency allows.",
     [](family& out, const load_sample& of, const qos_member_status& member) {
         if (member.window)
             out.add(of_member(of, member.index), member.window);
     }},
};

/// A family with at most one sample for each GPU.
struct gpu_family {
    const char *name, *type, *help;
    std::function<void(family&, const labels&, const gpu_status&)> add;
};

const gpu_family gpu_families[] = {
    {"weft_gpu_info", "gauge", "A GPU of this host, 1.",
     [](family& out, const labels& of, const gpu_status& gpu) {
         out.add(joined(of, {{"uuid", gpu.uuid}, {"model", gpu.model}}), 1);
     }},
    {"weft_gpu_utilization_ratio", "gauge",
     "The part of the last sample period in which a kernel ran on a GPU.",
     [](family& out, const labels& of, const gpu_status& gpu) {
         if (gpu.utilization)
             out.add(of, *gpu.utilization);
     }},
};

/// A family with samples for each RDMA port.
struct port_family {
    const char *name, *type, *help;
    std::function<void(family&, const labels&, const rdma_port&)> add;
};

void add_counters(family& out, const labels& of, const std::vector<named_counter>& counters)
{
    for (const auto& counter : counters)
        out.add(joined(of, {{"counter", counter.name}}), counter.value);
}

const port_family port_families[] = {
    {"weft_rdma_port_info", "gauge", "A port of an RDMA device of this host, 1.",
     [](family& out, const labels& of, const rdma_port& port) {
         out.add(joined(of, {{"netdev", port.netdev}}), 1);
     }},
    {"weft_rdma_port_active", "gauge", "Whether a port is active.",
     [](family& out, const labels& of, const rdma_port& port) { out.add(of, port.active ? 1 : 0); }},
    {"weft_rdma_port_rate_bytes", "gauge", "Bytes per second that the link of a port carries each way.",
     [](family& out, const labels& of, const rdma_port& port) {
         if (port.rate)
             out.add(of, *port.rate);
     }},
    {"weft_rdma_port_received_bytes_total", "counter", "Bytes that a port received.",
     [](family& out, const labels& of, const rdma_port& port) {
         if (port.received)
             out.add(of, *port.received);
     }},
    {"weft_rdma_port_sent_bytes_total", "counter", "Bytes that a port sent.",
     [](family& out, const labels& of, const rdma_port& port) {
         if (port.sent)
             out.add(of, *port.sent);
     }},
    {"weft_rdma_port_events_total", "counter", "What a port counts, by the name that the kernel gives it.",
     [](family& out, const labels& of, const rdma_port& port) { add_counters(out, of, port.counters); }},
    {"weft_rdma_port_flow_control_total", "counter",
     "Pause frames of a port's network interface and how long they lasted, by the names of its driver.",
     [](family& out, const labels& of, const rdma_port& port) { add_counters(out, of, port.flow_control); }},
};

} // namespace

node_status read_node()
{
    // What else a host tells is more urgent. By default, Prometheus waits for 10 s and comes each minute.
    constexpr std::chrono::seconds patience(5);
    constexpr std::chrono::minutes fresh(2);
    static std::mutex one_at_a_time;
    static late_reading<std::vector<gpu_status>> of_gpus(gpus, fresh);
    static late_reading<std::vector<rdma_port>> of_ports(rdma_ports, fresh);
    const std::lock_guard guard(one_at_a_time);
    of_gpus.begin();
    of_ports.begin();
    const auto until = std::chrono::steady_clock::now() + patience;
    node_status node;
    node.awaited = awaited_volumes();
    node.gpus = of_gpus.take(until).value_or(std::vector<gpu_status>());
    node.ports = of_ports.take(until).value_or(std::vector<rdma_port>());
    return node;
}

std::string metrics_text(const load_samples& samples, const node_status& node, const std::string& version)
{
    std::string text;
    family(text, "weft_build_info", "gauge", "The version of weftctl, 1.").add({{"version", version}}, 1);
    family waits(text, "weft_volume_awaited_since_seconds", "gauge",
                 "Since when a saved volume is awaited, as UNIX time.");
    for (const auto& volume : node.awaited)
        waits.add({{"volume", volume.name}}, volume.since);
    for (const auto& row : volume_families) {
        family out(text, row.name, row.type, row.help);
        for (const auto& [name, sample] : samples)
            row.add(out, sample);
    }
    for (const auto& row : member_families) {
        family out(text, row.name, row.type, row.help);
        for (const auto& [name, sample] : samples)
            for (const auto& member : sample.volume.members)
                row.add(out, sample, member);
    }
    for (const auto& row : path_families) {
        family out(text, row.name, row.type, row.help);
        for (const auto& [name, sample] : samples)
            for (const auto& member : sample.volume.members)
                for (const auto& path : member.paths)
                    row.add(out, sample, member, path);
    }
    for (const auto& row : qos_families) {
        family out(text, row.name, row.type, row.help);
        for (const auto& [name, sample] : samples)
            for (std::size_t i = 0; sample.qos.on && i < sample.qos.members.size(); i++)
                row.add(out, sample, sample.qos.members[i]);
    }
    for (const auto& row : gpu_families) {
        family out(text, row.name, row.type, row.help);
        for (const auto& gpu : node.gpus)
            row.add(out, {{"gpu", fmt::format("{}", gpu.index)}}, gpu);
    }
    for (const auto& row : port_families) {
        family out(text, row.name, row.type, row.help);
        for (const auto& port : node.ports)
            row.add(out, {{"device", port.device}, {"port", port.port}}, port);
    }
    return text;
}

} // namespace weft
