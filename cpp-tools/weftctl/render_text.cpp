// SPDX-License-Identifier: GPL-2.0-only
#include "latency.hpp"
#include "load.hpp"
#include "render.hpp"
#include "size.hpp"
#include "to_json.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <libsmartcols.h>
#include <memory>
#include <new>
#include <set>
#include <string_view>
#include <unistd.h>

namespace weft
{

namespace
{

/// Columns as wide as their widest cell, whatever the width of the terminal: scripts and people cut it.
class table
{
public:
    explicit table(const std::vector<std::string>& head) : table_(scols_new_table(), scols_unref_table)
    {
        must(table_ ? 0 : -ENOMEM);
        must(scols_table_set_column_separator(table_.get(), "  "));
        must(scols_table_enable_minout(table_.get(), 1));
        must(scols_table_set_termforce(table_.get(), SCOLS_TERMFORCE_NEVER));
        for (const auto& name : head)
            must(scols_table_new_column(table_.get(), name.c_str(), 0, 0) ? 0 : -ENOMEM);
    }

    void add(const std::vector<std::string>& row)
    {
        auto* line = scols_table_new_line(table_.get(), nullptr);
        must(line ? 0 : -ENOMEM);
        for (std::size_t i = 0; i < row.size(); i++)
            must(scols_line_set_data(line, i, row[i].c_str()));
    }

    void print() const
    {
        std::fflush(stdout);
        must(scols_print_table(table_.get()));
    }

private:
    /// Only memory can be missing.
    static void must(int problem)
    {
        if (problem)
            throw std::bad_alloc();
    }

    std::unique_ptr<libscols_table, void (*)(libscols_table*)> table_;
};

std::string format_time(std::uint64_t seconds)
{
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts{};
    char text[32] = "";
    if (localtime_r(&time, &parts))
        std::strftime(text, sizeof(text), "%F %T %z", &parts);
    return text;
}

std::string format_mean(const io_counter& counter)
{
    return counter.ios ? fmt::format("{:.1f} us", mean_us(counter)) : "-";
}

// "associations ended: 3 (queue-pair 2, keep-alive 1)"
std::string describe_ends(const std::vector<end_count>& ends)
{
    std::uint64_t sum = 0;
    std::string reasons;
    for (const auto& end : ends) {
        sum += end.count;
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", end.reason, end.count);
    }
    return fmt::format("associations ended: {} ({})", sum, reasons);
}

/// "live", or "live, non-optimized", or "live, not used" of a path whose disk was not identified
std::string describe_state(const path_status& path)
{
    const auto state = !path.state.empty() ? path.state : path.usable ? "live" : "lost";
    const bool unused = state == "live" && is_accessible(path.ana_state) && !path.usable;
    const bool plain = path.ana_state.empty() || path.ana_state == "optimized";
    return state + (plain ? "" : ", " + path.ana_state) + (unused ? ", not used" : "");
}

class text_renderer final : public renderer
{
public:
    void list(const std::vector<volume_status>& assembled, const std::vector<found_volume>& found) override
    {
        if (assembled.empty() && found.empty()) {
            fmt::print("no volumes\n");
            return;
        }
        table rows({"NAME", "STATE", "MODE", "SIZE", "MEMBERS", "UUID"});
        for (const auto& volume : assembled)
            rows.add({volume.name, volume.state, volume.read_only ? "ro" : "rw", format_size(volume.size),
                      std::to_string(volume.member_count), volume.uuid});
        for (const auto& volume : found)
            rows.add({volume.name, volume.present() == volume.member_count ? "stopped" : "incomplete", "-",
                      format_size(volume.size), fmt::format("{}/{}", volume.present(), volume.member_count),
                      volume.uuid});
        rows.print();
    }

    void status(const std::vector<volume_status>& volumes,
                const std::vector<awaited_volume>& awaited) override
    {
        if (volumes.empty() && awaited.empty())
            fmt::print("no volumes are assembled\n");
        for (const auto& volume : volumes) {
            if (&volume != &volumes.front())
                fmt::print("\n");
            print_volume(volume);
        }
        for (const auto& one : awaited)
            fmt::print("{}{}: awaited since {}: {}\n", volumes.empty() ? "" : "\n", one.name,
                       format_time(one.since), one.reason);
    }

    void paths(const volume_status& volume) override
    {
        auto rows = path_table("");
        for (const auto& member : volume.members)
            for (const auto& path : member.paths)
                add_path(rows, "", member.index, path);
        rows.print();
    }

    void qos(const qos_status& status) override
    {
        if (!status.on) {
            fmt::print("{}: QoS is off\n", status.volume);
            return;
        }
        fmt::print("{}: QoS is on\n", status.volume);
        for (std::uint32_t i = 0; i < io_classes.size(); i++)
            fmt::print("  {:<11} {}\n", io_classes[i], describe_class(status, i));
        if (status.members.empty())
            return;
        table rows({"  MEMBER", "FEED", "F-P50", "F-P99", "BACKGROUND", "B-P99", "RATE", "HELD", "WAITED"});
        for (const auto& member : status.members) {
            const auto& [feed, background] = member.classes;
            rows.add({fmt::format("  {}", member.index), fmt::format("{} I/Os", feed.ios),
                      format_latency(feed, 0.5), format_latency(feed, 0.99), format_size(background.bytes),
                      format_latency(background, 0.99), member.rate ? format_size(member.rate) + "/s" : "-",
                      std::to_string(feed.held + background.held),
                      fmt::format("{:.1f} s", static_cast<double>(feed.stalled + background.stalled) / 1e9)});
        }
        rows.print();
    }

    void load(const volume_load& load) override
    {
        fmt::print("{}: {}\n", load.volume,
                   !load.qos           ? "QoS is off"
                   : load.feed_latency ? fmt::format("feed in at most {} us", load.feed_latency)
                                       : "QoS is on, feed has no target");
        print_rows(load);
        print_slow(load.slow, load.qos ? "feed commands" : "reads");
    }

    void explained(const explanation& found) override
    {
        fmt::print("{}: {}\n", found.volume, found.load);
        const char* mark = "->";
        for (const auto& reason : found.reasons) {
            fmt::print("{} {:<9}  {}\n", mark, reason.subject, reason.text);
            mark = "  ";
        }
    }

    void actions(const std::vector<action>& actions) override
    {
        for (const auto& action : actions)
            fmt::print("{}{}\n", action.dry_run ? "would: " : "", action.text);
    }

    void findings(const std::vector<check_finding>& findings) override
    {
        for (const auto& finding : findings)
            fmt::print("{}: {}{}\n", finding.device, finding.text, finding.repaired ? "; repaired" : "");
    }

    void examined(const std::vector<examined_member>& members,
                  const std::vector<examined_owner>& owners) override
    {
        for (const auto& member : members) {
            if (&member != &members.front())
                fmt::print("\n");
            print_examined(member);
            for (const auto& owner : owners)
                if (owner.device == member.device)
                    print_examined(owner);
        }
    }

    void host(const std::string& nqn) override { fmt::print("{}\n", nqn); }

    void exports(const std::vector<export_status>& exports) override
    {
        if (exports.empty()) {
            fmt::print("nothing is exported\n");
            return;
        }
        table rows({"DEVICE", "STATE", "HOSTS", "URI"});
        for (const auto& row : exports)
            for (const auto& [at, own] : row.spec.addresses)
                rows.add({row.spec.device,
                          row.serving && std::ranges::count(row.heard, at) ? row.saved ? "serving" : "others'"
                                                                           : "not served",
                          !row.saved          ? "-"
                          : row.spec.any_host ? "any"
                                              : std::to_string(row.spec.hosts.size()),
                          row.spec.uri(at)});
        rows.print();
        for (const auto& row : exports)
            if (row.saved && !row.why.empty())
                fmt::print("{}: {}\n", row.spec.device, row.why);
    }

    void discovered(const std::vector<weft::discovered>& found) override
    {
        // Not to standard output: see below.
        if (found.empty())
            complain(
                "nothing that this host may connect to: 'weftctl host-nqn' prints the name that an export "
                "has to admit\n");
        for (const auto& row : found)
            if (row.discovery)
                // Not a member, so not for 'weftctl create v $(weftctl discover ...)'.
                complain("{} is another discovery service\n", row.at.text());
            else
                fmt::print("{}\n", member_uri{row.at, row.subnqn, 1}.text());
    }

    void connections(const std::vector<connection>& connections) override
    {
        if (connections.empty()) {
            fmt::print("nothing is connected\n");
            return;
        }
        table rows({"CONTROLLER", "STATE", "DISKS", "URI"});
        for (const auto& row : connections)
            rows.add({row.controller, row.state, fmt::format("{}", fmt::join(row.disks, " ")),
                      member_uri{row.at, row.subnqn, 1}.text()});
        rows.print();
        for (const auto& row : connections)
            for (const auto& note : row.notes)
                fmt::print("note: {}\n", note);
    }

    void diagnosed(const std::vector<diagnosis>& found) override
    {
        static constexpr const char* marks[] = {"ok     ", "note   ", "warning", "PROBLEM"};
        unsigned int counts[4] = {};
        for (const auto& row : found) {
            counts[static_cast<int>(row.level)]++;
            fmt::print("{}  {:<10}  {}\n", marks[static_cast<int>(row.level)], row.check, row.what);
            if (!row.why.empty())
                fmt::print("                       {}\n", row.why);
            if (!row.fix.empty())
                fmt::print("                       fix: {}\n", row.fix);
        }
        if (found.empty())
            fmt::print("nothing to fix\n");
        else
            fmt::print("{} problems, {} warnings, {} notes\n", counts[3], counts[2], counts[1]);
    }

    void drawn(const topology& topology) override
    {
        std::vector<std::string> above;
        for (const auto& endpoint : topology.endpoints) {
            draw_bridges(above, endpoint.bridges);
            above = endpoint.bridges;
            std::string about;
            for (const auto& word : {endpoint.name, endpoint.driver.empty() ? "no driver" : endpoint.driver})
                about += (about.empty() || word.empty() ? "" : ", ") + word;
            fmt::print("{:{}}{}  {} ({}){}\n", "", 2 * above.size(), endpoint.address, endpoint.kind, about,
                       endpoint.numa_node < 0 ? "" : fmt::format(", NUMA node {}", endpoint.numa_node));
        }
        for (const auto& name : topology.software)
            fmt::print("{}  RDMA by the processor, no PCI device\n", name);
        if (topology.endpoints.empty() && topology.software.empty())
            fmt::print("no GPU, RDMA or NVMe device\n");
        if (topology.iommu)
            fmt::print("an IOMMU translates\n");
        if (topology.pairs.empty())
            return;
        fmt::print("\n");
        table rows({"MEMORY", "DEVICE", "BRIDGES", "PEER-TO-PEER"});
        for (const auto& pair : topology.pairs)
            rows.add({pair.memory.kind + " " + pair.memory.address,
                      pair.device.kind + " " + pair.device.address,
                      pair.bridges ? std::to_string(*pair.bridges) : "-",
                      !pair.possible   ? "unknown: " + pair.why
                      : *pair.possible ? "yes"
                                       : "no: " + pair.why});
        rows.print();
    }

    void metrics(const std::string& text) override { fmt::print("{}", text); }

    void cdi(const std::vector<volume_status>& volumes) override
    {
        fmt::print("{}\n", dump(cdi_specification(volumes), 2));
    }

    void event(const event_report& event) override
    {
        fmt::print("{} {} {}{}: {}\n", event.time, event.volume, event.type,
                   event.member ? fmt::format(" member {}", *event.member) : "", event.text);
        std::fflush(stdout);
    }

    void failure(const error& error) override { complain("weftctl: {}\n", error.text); }

    void next() override { std::fflush(stdout); }

    void end() override {}

private:
    static std::string format_latency(const qos_class_status& status, double share)
    {
        return format_time_us(latency_at(status.latency, share));
    }

    static std::string format_time_us(double microseconds)
    {
        return microseconds > 0 ? fmt::format("{:.0f} us", microseconds) : "-";
    }

    static void print_rows(const volume_load& load)
    {
        const std::vector<std::string> classes{"  MEMBER", "CLASS",  "IOPS",  "THROUGHPUT",
                                               "P50",      "P99",    "P99.9", "IN-FLIGHT",
                                               "HELD",     "STALLS", "RATE",  "WINDOW"};
        const std::vector<std::string> kinds{"  MEMBER", "I/O", "IOPS", "THROUGHPUT", "MEAN"};
        table rows(load.qos ? classes : kinds);
        for (const auto& row : load.rows) {
            std::vector<std::string> line{"  " + (row.member ? std::to_string(*row.member) : "all"), row.kind,
                                          fmt::format("{:.0f}", row.ios),
                                          format_size(static_cast<std::uint64_t>(row.bytes)) + "/s"};
            if (load.qos)
                line.insert(line.end(), {format_time_us(row.p50), format_time_us(row.p99),
                                         format_time_us(row.p999), format_size(row.in_flight),
                                         std::to_string(row.held), fmt::format("{:.0f}/s", row.stalls),
                                         row.rate ? format_size(row.rate) + "/s" : "-",
                                         row.window ? format_size(row.window) : "-"});
            else
                line.push_back(format_time_us(row.mean));
            rows.add(line);
        }
        rows.print();
    }

    // "writes, cgroup /backup, from 1 MiB; at least 5 %, at most 2 GiB/s"
    static std::string describe_class(const qos_status& status, std::uint32_t index)
    {
        const bool feed = !index;
        std::vector<std::string> which, how;
        if (status.reads == index)
            which.emplace_back("reads");
        if (status.writes == index)
            which.emplace_back("writes");
        if (!status.cgroup[index].empty())
            which.push_back("cgroup " + status.cgroup[index]);
        if (!feed && status.background_from)
            which.push_back("from " + format_size(status.background_from));
        if (feed && status.feed_latency)
            how.push_back(fmt::format("in at most {} us", status.feed_latency));
        if (!feed)
            how.push_back(fmt::format("at least {} % of each member", status.floor));
        if (!feed && status.background_latency)
            how.push_back(fmt::format("in {} us on average, with weight {}", status.background_latency,
                                      status.background_weight));
        if (status.max_bytes[index])
            how.push_back("at most " + format_size(status.max_bytes[index]) + "/s");
        if (status.max_ios[index])
            how.push_back(fmt::format("at most {} I/Os per second", status.max_ios[index]));
        return fmt::format("{}{}{}", fmt::join(which, ", "), which.empty() || how.empty() ? "" : "; ",
                           fmt::join(how, ", "));
    }

    static std::string describe(const examined_block& block)
    {
        return fmt::format("at byte {}: {}", block.offset, block.valid ? "valid" : block.why);
    }

    static void print_examined(const examined_member& member)
    {
        fmt::print("{}:\n", member.device);
        for (const auto& block : member.superblocks)
            fmt::print("  superblock  {}\n", describe(block));
        if (!member.member_count)
            return;
        fmt::print("  member      {} of {}, {}\n", member.index, member.member_count, member.member_uuid);
        fmt::print("  volume      {}, {}\n", member.volume, member.volume_uuid);
        fmt::print("  data        {} at byte {}, chunks of {}, blocks of {}\n", format_size(member.data_size),
                   member.data_offset, format_size(member.chunk_size), format_size(member.block_size));
        fmt::print("  created     {} (generation {})\n", format_time(member.created), member.generation);
    }

    static void print_examined(const examined_owner& owner)
    {
        fmt::print("  {:<11} {}\n", owner.record, describe(owner.block));
        if (!owner.block.valid)
            return;
        fmt::print("    host      {}, {}\n", owner.host_nqn, owner.held ? "owns the volume" : "released it");
        if (!owner.machine.empty())
            fmt::print("    machine   {}\n", owner.machine);
        fmt::print("    assembly  {}, {}\n", owner.generation, owner.instance);
        fmt::print("    heartbeat {}, {} ms apart, last at {}\n", owner.sequence, owner.interval_ms,
                   format_time(owner.beat_time));
        if (owner.outlast_ms)
            fmt::print("    writes    may be executed for {} ms after their connection was lost\n",
                       owner.outlast_ms);
    }

    /// Prints the bridges that are not above the previous device.
    static void draw_bridges(const std::vector<std::string>& before, const std::vector<std::string>& bridges)
    {
        const auto differ = std::mismatch(bridges.begin(), bridges.end(), before.begin(), before.end());
        for (auto at = differ.first; at != bridges.end(); ++at)
            fmt::print("{:{}}{}  bridge\n", "", 2 * (at - bridges.begin()), *at);
    }

    static void print_volume(const volume_status& volume)
    {
        fmt::print("{}: {}{}, {}\n", volume.name, volume.state, volume.read_only ? ", read-only" : "",
                   format_size(volume.size));
        if (volume.uuid.empty())
            return; // it is being assembled or stopped
        fmt::print("  device      /dev/weft/{}\n", volume.name);
        fmt::print("  uuid        {}\n", volume.uuid);
        fmt::print("  stripe      {} members, chunks of {}, blocks of {}\n", volume.member_count,
                   format_size(volume.chunk_size), format_size(volume.block_size));
        fmt::print("  created     {} (generation {})\n", format_time(volume.created), volume.generation);
        const auto left = volume.lease_left_ms.value_or(0);
        const auto lease = left ? fmt::format(", the lease ends in {:.1f} s", left / 1000.0) : "";
        fmt::print("  ownership   {}{}\n", volume.ownership, lease);
        fmt::print("  iostats     {}\n", volume.iostats ? "on" : "off");
        if (volume.mem_direct || volume.mem_vmap || volume.mem_bounce)
            fmt::print("  memory      {} direct, {} vmap, {} bounced\n", format_size(volume.mem_direct),
                       format_size(volume.mem_vmap), format_size(volume.mem_bounce));
        std::string users;
        for (const auto& user : volume.users)
            users += (users.empty() ? "" : ", ") + user;
        fmt::print("  in use by   {}\n", users.empty() ? "none" : users);
        table rows({"  MEMBER", "STATE", "DISK", "ADDRESS", "READ", "WRITTEN", "R-MEAN", "W-MEAN", "ERRORS"});
        for (const auto& member : volume.members)
            rows.add({fmt::format("  {}", member.index), member.state, member.disk, member.address,
                      format_size(member.reads.bytes), format_size(member.writes.bytes),
                      format_mean(member.reads), format_mean(member.writes), std::to_string(member.errors)});
        rows.print();
        std::vector<double> means;
        for (const auto& member : volume.members)
            means.push_back(mean_us(member.reads));
        print_slow(outliers(means), "reads");
        print_paths(volume);
    }

    static void print_slow(const std::vector<std::uint32_t>& members, std::string_view what)
    {
        for (const auto member : members)
            fmt::print(
                "  member {} is slow: its {} take at least four times as long as those of the others\n",
                member, what);
    }

    static table path_table(const std::string& indent)
    {
        return table({indent + "MEMBER", "PATH", "STATE", "TARGET", "RAIL", "QUEUES", "R-MEAN", "W-MEAN",
                      "ERRORS", "RECONNECTS"});
    }

    static void add_path(table& rows, const std::string& indent, std::uint32_t member,
                         const path_status& path)
    {
        rows.add({indent + std::to_string(member), path.disk, describe_state(path),
                  path.target.empty() ? path.address : path.target, path.rail, std::to_string(path.queues),
                  format_mean(path.reads), format_mean(path.writes), std::to_string(path.errors),
                  std::to_string(path.reconnects)});
    }

    // Only for members with several paths, or with a controller.
    static void print_paths(const volume_status& volume)
    {
        auto rows = path_table("  ");
        bool any = false;
        for (const auto& member : volume.members)
            for (const auto& path : member.paths) {
                if (path.controller.empty() && member.paths.size() == 1)
                    continue;
                any = true;
                add_path(rows, "  ", member.index, path);
            }
        if (!any)
            return;
        fmt::print("  paths       {}\n", volume.iopolicy);
        rows.print();
        print_ends(volume);
    }

    // Once for each controller: several members can be namespaces of one.
    static void print_ends(const volume_status& volume)
    {
        std::set<std::string> printed;
        for (const auto& member : volume.members)
            for (const auto& path : member.paths)
                if (!path.ends.empty() && printed.insert(path.controller).second)
                    fmt::print("  {:<11} {}\n", path.controller, describe_ends(path.ends));
    }
};

} // namespace

void clear_screen()
{
    if (isatty(STDOUT_FILENO))
        fmt::print("\x1b[H\x1b[2J");
}

std::unique_ptr<renderer> make_text_renderer()
{
    return std::make_unique<text_renderer>();
}

} // namespace weft
