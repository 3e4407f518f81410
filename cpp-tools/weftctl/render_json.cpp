// SPDX-License-Identifier: GPL-2.0-only
#include "render.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace weft
{

namespace
{

using json = nlohmann::ordered_json;

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

json to_json(const load_row& row, bool qos)
{
    json line = {{"member", row.member ? json(*row.member) : json(nullptr)},
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

json to_json(const nvme_address& at)
{
    return {{"transport", at.transport}, {"address", at.address}, {"port", at.port}};
}

json to_json(const examined_block& block)
{
    return {{"offset", block.offset}, {"valid", block.valid}, {"why", block.why}};
}

constexpr const char* severity_names[] = {"good", "note", "warning", "problem"};

// Names may not be valid UTF-8, but JSON has to be.
std::string dump(const json& document, int indent)
{
    return document.dump(indent, ' ', false, json::error_handler_t::replace);
}

class json_renderer final : public renderer
{
public:
    void list(const std::vector<volume_status>& assembled, const std::vector<found_volume>& found) override
    {
        json all = json::array();
        for (const auto& volume : assembled)
            all.push_back(to_json(volume));
        for (const auto& volume : found)
            all.push_back(to_json(volume));
        add("volumes", std::move(all));
    }

    void status(const std::vector<volume_status>& volumes) override
    {
        json all = json::array();
        for (const auto& volume : volumes)
            all.push_back(to_json(volume));
        add("volumes", std::move(all));
    }

    void paths(const volume_status& volume) override
    {
        json all = json::array();
        for (const auto& member : volume.members)
            for (const auto& path : member.paths)
                all.push_back(to_json(path, member.index));
        add("paths", std::move(all));
    }

    void qos(const qos_status& status) override { document_["qos"] = to_json(status); }

    void load(const volume_load& load) override { add("loads", json::array({to_json(load)})); }

    void actions(const std::vector<action>& actions) override
    {
        json all = json::array();
        for (const auto& action : actions)
            all.push_back({{"verb", action.verb},
                           {"object", action.object},
                           {"text", action.text},
                           {"dry_run", action.dry_run},
                           {"done", action.done && !action.dry_run}});
        add("actions", std::move(all));
    }

    void findings(const std::vector<check_finding>& findings) override
    {
        json all = json::array();
        for (const auto& finding : findings)
            all.push_back({{"device", finding.device},
                           {"state", finding.state},
                           {"healthy", finding.healthy},
                           {"repaired", finding.repaired},
                           {"text", finding.text}});
        add("findings", std::move(all));
    }

    void examined(const std::vector<examined_member>& members,
                  const std::vector<examined_owner>& owners) override
    {
        json all = json::array(), records = json::array();
        for (const auto& member : members) {
            json blocks = json::array();
            for (const auto& block : member.superblocks)
                blocks.push_back(to_json(block));
            all.push_back({{"device", member.device},
                           {"superblocks", std::move(blocks)},
                           {"volume", member.volume},
                           {"volume_uuid", member.volume_uuid},
                           {"member_uuid", member.member_uuid},
                           {"index", member.index},
                           {"member_count", member.member_count},
                           {"chunk_size", member.chunk_size},
                           {"block_size", member.block_size},
                           {"data_offset", member.data_offset},
                           {"data_size", member.data_size},
                           {"generation", member.generation},
                           {"created", member.created}});
        }
        for (const auto& owner : owners) {
            json line = to_json(owner.block);
            line.update({{"device", owner.device},
                         {"record", owner.record},
                         {"held", owner.held},
                         {"host_nqn", owner.host_nqn},
                         {"instance", owner.instance},
                         {"generation", owner.generation},
                         {"sequence", owner.sequence},
                         {"beat_time", owner.beat_time},
                         {"interval_ms", owner.interval_ms}});
            records.push_back(std::move(line));
        }
        add("members", std::move(all));
        add("owners", std::move(records));
    }

    void host(const std::string& nqn) override { document_["host_nqn"] = nqn; }

    void exports(const std::vector<export_status>& exports) override
    {
        json all = json::array();
        for (const auto& row : exports) {
            json line = to_json(row.spec.at);
            line.update({{"device", row.spec.device},
                         {"subnqn", row.spec.subnqn},
                         {"uri", member_uri{row.spec.at, row.spec.subnqn, 1}.text()},
                         {"uuid", row.spec.uuid},
                         {"any_host", row.spec.any_host},
                         {"hosts", row.spec.hosts},
                         {"p2pmem", row.spec.p2pmem},
                         {"saved", row.saved},
                         {"serving", row.serving},
                         {"text", row.why}});
            all.push_back(std::move(line));
        }
        add("exports", std::move(all));
    }

    void discovered(const std::vector<weft::discovered>& found) override
    {
        json all = json::array();
        for (const auto& row : found) {
            json line = to_json(row.at);
            line.update({{"subnqn", row.subnqn},
                         {"uri", member_uri{row.at, row.subnqn, 1}.text()},
                         {"discovery", row.discovery}});
            all.push_back(std::move(line));
        }
        add("subsystems", std::move(all));
    }

    void connections(const std::vector<connection>& connections) override
    {
        json all = json::array();
        for (const auto& row : connections) {
            json line = to_json(row.at);
            line.update({{"controller", row.controller},
                         {"state", row.state},
                         {"subnqn", row.subnqn},
                         {"disks", row.disks},
                         {"made", row.made},
                         {"notes", row.notes}});
            all.push_back(std::move(line));
        }
        add("connections", std::move(all));
    }

    void diagnosed(const std::vector<diagnosis>& found) override
    {
        json all = json::array();
        for (const auto& row : found)
            all.push_back({{"severity", severity_names[static_cast<int>(row.level)]},
                           {"check", row.check},
                           {"text", row.what},
                           {"why", row.why},
                           {"fix", row.fix}});
        add("findings", std::move(all));
    }

    void drawn(const topology& topology) override
    {
        json devices = json::array(), pairs = json::array();
        for (const auto& endpoint : topology.endpoints)
            devices.push_back({{"address", endpoint.address},
                               {"kind", endpoint.kind},
                               {"name", endpoint.name},
                               {"driver", endpoint.driver},
                               {"bridges", endpoint.bridges},
                               {"numa_node", endpoint.numa_node},
                               {"memory", endpoint.has_memory}});
        for (const auto& pair : topology.pairs)
            pairs.push_back({{"memory", pair.memory.address},
                             {"device", pair.device.address},
                             {"bridges", pair.bridges ? json(*pair.bridges) : json(nullptr)},
                             {"possible", pair.possible ? json(*pair.possible) : json(nullptr)},
                             {"why", pair.why}});
        document_["devices"] = std::move(devices);
        document_["software_rdma"] = topology.software;
        document_["pairs"] = std::move(pairs);
        document_["iommu"] = topology.iommu;
    }

    void metrics(const std::string& text) override { document_["metrics"] = text; }

    void event(const event_report& event) override
    {
        json line = {
            {"time", event.time}, {"volume", event.volume}, {"type", event.type}, {"text", event.text}};
        if (event.member)
            line["member"] = *event.member;
        if (event.errnum)
            line["errno"] = event.errnum;
        line["ownership"] = event.ownership;
        lines_ = true;
        fmt::print("{}\n", dump(line, -1)); // one line for each event, so that a reader can follow
        std::fflush(stdout);
    }

    void failure(const error& error) override
    {
        document_["errors"].push_back({{"code", static_cast<int>(error.code)}, {"text", error.text}});
    }

    void next() override
    {
        lines_ = true;
        fmt::print("{}\n", dump(document_, -1));
        std::fflush(stdout);
        document_ = empty();
    }

    void end() override
    {
        // After events this is one more line, only if there is a message.
        if (!lines_ || !document_["errors"].empty())
            fmt::print("{}\n", dump(document_, lines_ ? -1 : 2));
    }

private:
    void add(const char* name, json rows)
    {
        auto& all = document_[name];
        if (all.is_null())
            all = json::array();
        for (auto& row : rows)
            all.push_back(std::move(row));
    }
    static json empty() { return {{"schema", 1}, {"errors", json::array()}}; }

    json document_ = empty();
    bool lines_ = false;
};

} // namespace

std::unique_ptr<renderer> make_json_renderer()
{
    return std::make_unique<json_renderer>();
}

} // namespace weft
