// SPDX-License-Identifier: GPL-2.0-only
#include "explain.hpp"

#include <gtest/gtest.h>

namespace
{

using namespace weft;
using namespace std::chrono_literals;

/// Four members, and a host with two processors and one rail of 100 Gbit/s, before and after ten seconds.
struct moment {
    load_sample before, after;
    host_sample host_before, host_after;

    moment()
    {
        before.volume.name = "data";
        before.volume.members.resize(4);
        for (std::uint32_t i = 0; i < 4; i++) {
            before.volume.members[i].index = i;
            before.volume.members[i].state = "ok";
            before.volume.members[i].disk = "disk" + std::to_string(i);
        }
        after = before;
        after.at += 10s;
        host_before.processors = {{0, {}}, {1, {}}};
        host_before.rails["mlx5_0/1"].rate = 12.5e9;
        host_after = host_before;
        for (auto& [number, one] : host_after.processors)
            one = {300, 1000};
    }
    /// A member reads: so many commands at a time, which take so long each.
    void reads(std::size_t member, double in_flight, std::uint64_t us)
    {
        auto& counter = after.volume.members[member].reads;
        counter.nsecs = static_cast<std::uint64_t>(in_flight * 10e9);
        counter.ios = counter.nsecs / (us * 1000);
        counter.bytes = counter.ios * 4096;
    }
    void reads(double in_flight, std::uint64_t us)
    {
        for (std::size_t i = 0; i < 4; i++)
            reads(i, in_flight, us);
    }
    [[nodiscard]] std::string subjects() const
    {
        std::string all;
        for (const auto& reason : explain(before, after, host_before, host_after).reasons)
            all += (all.empty() ? "" : " ") + reason.subject;
        return all;
    }
    [[nodiscard]] std::string first() const
    {
        return explain(before, after, host_before, host_after).reasons.front().text;
    }
};

TEST(Explain, WithoutLoadTheVolumeWaits)
{
    moment of;
    EXPECT_EQ("load", of.subjects());
    EXPECT_EQ("no command was sent in 10 s: the volume waits for work", of.first());
    of.host_after.waiting["data"] = 3;
    EXPECT_EQ("3 commands wait, and none completed in 10 s", of.first());
    of.after.volume.members[2].state = "stalled";
    EXPECT_EQ("member", of.subjects());
    EXPECT_EQ("member 2 (disk2) is stalled: 'weftctl path list data' has its paths", of.first());
}

TEST(Explain, FewCommandsInFlight)
{
    moment of;
    of.reads(0.25, 100);
    EXPECT_EQ("depth", of.subjects());
    EXPECT_TRUE(of.first().starts_with("1.0 commands are in flight on 4 members, which take 100 us for one"))
        << of.first();
    of.reads(8, 100);
    EXPECT_EQ("members", of.subjects());
    EXPECT_TRUE(of.first().starts_with("each member works on 8.0 commands at a time, and takes 100 us"))
        << of.first();
    EXPECT_EQ("320000 reads/s, 1.2 GiB/s; 0 writes/s, 0 B/s", explain(of.before, of.after, {}, {}).load);
}

TEST(Explain, NothingIsCounted)
{
    moment of;
    of.after.volume.iostats = false;
    EXPECT_EQ("load", of.subjects());
    EXPECT_TRUE(of.first().starts_with("I/O is not counted (--no-iostats)")) << of.first();
    // Of QoS's classes it is.
    of.reads(8, 100);
    EXPECT_EQ("members", of.subjects());
}

TEST(Explain, OneSlowMember)
{
    moment of;
    of.reads(4, 100);
    of.reads(3, 16, 1000);
    EXPECT_EQ("member members", of.subjects());
    EXPECT_EQ("member 3 (disk3) takes 1000 us for a read, the others 100 us", of.first());
}

TEST(Explain, AFullRailOrProcessor)
{
    moment of;
    of.reads(4, 100);
    of.host_after.rails["mlx5_0/1"].received = 115'000'000'000;
    EXPECT_EQ("rail members", of.subjects());
    EXPECT_EQ("rail mlx5_0/1 carries 10.7 GiB/s, 92 % of its rate", of.first());
    of.host_after.rails["mlx5_0/1"].rate = 0;
    of.host_after.processors[1].busy = 990;
    // It may be another program's.
    EXPECT_EQ("members processor", of.subjects());
    of.host_after.processors[0].busy = 900;
    EXPECT_EQ("processor members processor", of.subjects());
    EXPECT_EQ("all 2 processors are busy, 94 % of the time", of.first());
    // One that was not there before says nothing.
    of.host_before.processors.clear();
    EXPECT_EQ("members", of.subjects());
}

TEST(Explain, HostMemoryOnTheWay)
{
    moment of;
    of.reads(4, 100);
    of.after.volume.mem_direct = 9000;
    of.after.volume.mem_bounce = 900;
    EXPECT_EQ("members", of.subjects());
    of.after.volume.mem_bounce = 1000;
    EXPECT_EQ("route members", of.subjects());
    EXPECT_TRUE(
        of.first().starts_with("10 % of the bytes on registered memory go through host memory, 100 B/s"))
        << of.first();
}

TEST(Explain, CommandsThatQosHolds)
{
    moment of;
    of.reads(4, 100);
    of.before.qos.on = of.after.qos.on = true;
    of.before.qos.members.resize(4);
    of.after.qos.members.resize(4);
    EXPECT_EQ("members", of.subjects());
    of.after.qos.feed_latency = 500;
    of.after.qos.members[1].classes[1].ios = 10000;
    of.after.qos.members[1].classes[1].stalls = 200;
    EXPECT_EQ("members", of.subjects());
    of.after.qos.members[1].classes[1].ios = 1000;
    of.after.qos.members[1].classes[1].held = 3;
    EXPECT_EQ("qos members", of.subjects());
    EXPECT_EQ(
        "background commands wait for QoS, 20 per second and 3 now: feed commands should take at most 500 us",
        of.first());
    of.after.qos.max_bytes[1] = 1 << 20;
    EXPECT_TRUE(of.first().ends_with(": they may move 1 MiB/s, feed commands should take at most 500 us"))
        << of.first();
    // What slows all of it down comes first.
    of.reads(3, 16, 1000);
    EXPECT_EQ("member qos members", of.subjects());
}

} // namespace
