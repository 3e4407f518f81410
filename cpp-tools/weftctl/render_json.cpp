// SPDX-License-Identifier: GPL-2.0-only
#include "render.hpp"
#include "to_json.hpp"

#include <algorithm>
#include <cstdio>

namespace weft
{

namespace
{

json to_json(const nvme_address& at)
{
    return {{"transport", at.transport}, {"address", at.address}, {"port", at.port}};
}

json to_json(const examined_block& block)
{
    return {{"offset", block.offset}, {"valid", block.valid}, {"why", block.why}};
}

constexpr const char* severity_names[] = {"good", "note", "warning", "problem"};

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

    void status(const std::vector<volume_status>& volumes,
                const std::vector<awaited_volume>& awaited) override
    {
        json all = json::array(), missed = json::array();
        for (const auto& volume : volumes)
            all.push_back(to_json(volume));
        for (const auto& one : awaited)
            missed.push_back({{"name", one.name}, {"since", one.since}, {"reason", one.reason}});
        add("volumes", std::move(all));
        add("awaited", std::move(missed));
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

    void explained(const explanation& found) override
    {
        json reasons = json::array();
        for (const auto& reason : found.reasons)
            reasons.push_back({{"subject", reason.subject}, {"text", reason.text}});
        add("explanations", json::array({{{"volume", found.volume},
                                          {"seconds", found.seconds},
                                          {"load", found.load},
                                          {"reasons", std::move(reasons)}}}));
    }

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
                         {"machine", owner.machine},
                         {"generation", owner.generation},
                         {"sequence", owner.sequence},
                         {"beat_time", owner.beat_time},
                         {"interval_ms", owner.interval_ms},
                         {"outlast_ms", owner.outlast_ms}});
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
            json addresses = json::array();
            for (const auto& [at, own] : row.spec.addresses) {
                json address = to_json(at);
                address.update({{"uri", row.spec.uri(at)},
                                {"serving", row.serving && std::ranges::count(row.heard, at)}});
                addresses.push_back(std::move(address));
            }
            // Of the first address, beside the list of all.
            json line = addresses.front();
            line.update({{"device", row.spec.device},
                         {"subnqn", row.spec.subnqn},
                         {"addresses", addresses},
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

    void cdi(const std::vector<volume_status>& volumes) override
    {
        document_["cdi"] = cdi_specification(volumes);
    }

    void event(const event_report& event) override
    {
        lines_ = true;
        fmt::print("{}\n", dump(to_json(event), -1)); // one line for each event, so that a reader can follow
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
