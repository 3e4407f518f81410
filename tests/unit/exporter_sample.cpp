// SPDX-License-Identifier: GPL-2.0-only
/// Prints data.json of a host with two volumes after an hour: what tests/page shows in a browser. Feed
/// commands of "train" wait for a slow member for ten minutes, one path carries nothing, and "scratch" has no
/// QoS and a name that is markup.
///
/// usage: weft-exporter-sample [VOLUME]
#include "history.hpp"

#include <cmath>
#include <cstdio>
#include <random>

namespace
{

using namespace weft;

constexpr std::int64_t begin = 1790000000;
std::mt19937 noise(1);

/// Commands of that latency in microseconds, a bit less and a bit more.
void count(qos_class_status& status, double us, std::uint64_t commands, std::uint64_t size)
{
    std::lognormal_distribution<double> spread(std::log(us), 0.35);
    status.latency.resize(32);
    status.ios += commands;
    status.bytes += commands * size;
    for (std::uint64_t i = 0; i < 100; i++) {
        const auto bucket = std::max(0.0, std::ceil(std::log2(spread(noise) / 1.024)));
        status.latency[std::min<std::size_t>(31, static_cast<std::size_t>(bucket))] += commands / 100;
    }
}

path_status path(const std::string& disk, const std::string& rail, const std::string& target, bool usable)
{
    path_status one;
    one.disk = disk;
    one.rail = rail;
    one.target = target;
    one.usable = usable;
    one.state = usable ? "live" : "connecting";
    one.transport = "rdma";
    return one;
}

load_sample train()
{
    load_sample one;
    one.volume.name = "train";
    one.volume.uuid = "1";
    one.volume.state = "live";
    one.volume.ownership = "held";
    one.volume.size = 8ULL << 40;
    one.volume.mem_direct = 3ULL << 40;
    one.qos.volume = "train";
    one.qos.on = true;
    one.qos.feed_latency = 500;
    for (unsigned i = 0; i < 4; i++) {
        member_status member;
        member.index = i;
        member.state = "ok";
        member.disk = fmt::format("weft-rdma{}n1", 2 * i);
        for (unsigned rail = 0; rail < 2; rail++)
            member.paths.push_back(path(fmt::format("weft-rdma{}n1", 2 * i + rail),
                                        fmt::format("mlx5_{} port 1", rail),
                                        fmt::format("10.{}.0.{}:4420", rail, 1 + i), i != 2 || rail == 0));
        one.volume.members.push_back(member);
    }
    one.volume.member_count = 4;
    one.qos.members.resize(4);
    return one;
}

load_sample scratch()
{
    load_sample one;
    one.volume.name = "<b>scratch</b>";
    one.volume.uuid = "2";
    one.volume.state = "live";
    one.volume.ownership = "held";
    one.volume.size = 1ULL << 40;
    one.volume.mem_bounce = 5 << 20;
    for (unsigned i = 0; i < 2; i++) {
        member_status member;
        member.index = i;
        member.state = i ? "stalled" : "ok";
        member.disk = fmt::format("nvme{}n1", i);
        member.paths.push_back(path(member.disk, "", "", true));
        one.volume.members.push_back(member);
    }
    one.volume.member_count = 2;
    return one;
}

} // namespace

/// With the name of a volume, only that one.
int main(int argc, char** argv)
{
    history past;
    load_samples now{{"train", train()}, {"<b>scratch</b>", scratch()}};
    for (std::int64_t i = 0; i <= 360; i++) {
        for (auto& [name, sample] : now) {
            sample.at += history::interval;
            for (auto& member : sample.volume.members) {
                member.reads.ios += 2000;
                member.reads.bytes += 2000 * 65536;
                member.reads.nsecs += 2000 * static_cast<std::uint64_t>(150000 + 100000 * std::sin(i / 20.0));
            }
        }
        const bool checkpoint = i % 90 > 60, slow = i > 200 && i < 260;
        for (unsigned m = 0; m < 4; m++) {
            auto& member = now["train"].qos.members[m];
            member.index = m;
            count(member.classes[0], (checkpoint ? 240 : 110) * (slow && m == 1 ? 12 : 1), 20000, 4096);
            count(member.classes[1], 3000, checkpoint ? 8000 : 100, 262144);
        }
        past.add(now, begin + i * history::interval.count());
    }
    if (argc > 1)
        std::erase_if(now, [&](const auto& one) { return one.first != argv[1]; });
    event_report event;
    event.type = "path-lost";
    event.volume = "train";
    event.text = "path weft-rdma5n1 of member 2 is lost: the target ended the connection";
    event.time = "2026-09-21T14:05:13+0000";
    past.add(event);
    auto document = past.document(now, "1.0");
    document["time"] = begin + 360 * history::interval.count();
    std::puts(dump(document, -1).c_str());
    return 0;
}
