// SPDX-License-Identifier: GPL-2.0-only
#include "metrics.hpp"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <sstream>

namespace
{

using namespace weft;

load_samples a_volume(bool qos)
{
    load_sample one;
    one.volume.name = "data";
    one.volume.state = "live";
    one.volume.ownership = "held";
    one.volume.lease_left_ms = 7500;
    one.volume.size = 1 << 30;
    one.volume.member_count = 1;
    one.volume.mem_bounce = 4096;
    member_status member;
    member.state = "ok";
    member.reads = {10, 40960, 2500000000};
    path_status path;
    path.disk = "weft-rdma0n1";
    path.controller = "weft-rdma0";
    path.target = "10.0.0.1:4420";
    path.usable = true;
    path.errors = 2;
    path.ends = {{"timeout", 2}};
    member.paths = {path, {}};
    one.volume.members = {member};
    one.qos.on = qos;
    if (qos) {
        one.qos.feed_latency = 500;
        one.qos.members.resize(1);
        auto& feed = one.qos.members[0].classes[0];
        feed.latency.resize(32);
        feed.latency[0] = 1;
        feed.latency[8] = 5;
        feed.latency[31] = 2;
        one.qos.members[0].classes[1].latency.resize(32);
        one.qos.members[0].rate = one.qos.members[0].window = 1 << 20;
    }
    return {{"data", one}};
}

const node_status a_node{
    {{"late", 1700000000, "member 0 is missing"}},
    {{0, "GPU-0", "a GPU", 0.25}, {1, "GPU-1", "a GPU", {}}},
    {{"mlx5_0", "1", "eth1", true, 12500000000, 4096, 512, {{"out_of_sequence", 3}}, {{"rx_prio3_pause", 7}}},
     {"rxe0", "1", "eth2", false, {}, {}, {}, {{"sent_pkts", 9}}, {}}}};

bool has(const std::string& text, const std::string& line)
{
    return ("\n" + text).contains("\n" + line + "\n");
}

TEST(Metrics, AreInBaseUnits)
{
    const auto text = metrics_text(a_volume(false), a_node, "1.2.3");
    for (
        const char* line :
        {R"(weft_build_info{version="1.2.3"} 1)", R"(weft_volume_state{volume="data",state="live"} 1)",
         R"(weft_volume_size_bytes{volume="data"} 1073741824)",
         R"(weft_memory_io_bytes_total{volume="data",route="bounce"} 4096)",
         R"(weft_member_ios_total{volume="data",member="0",operation="read"} 10)",
         R"(weft_member_io_seconds_total{volume="data",member="0",operation="read"} 2.5)",
         R"(weft_member_paths{volume="data",member="0"} 2)",
         R"(weft_member_usable_paths{volume="data",member="0"} 1)",
         R"(weft_path_errors_total{volume="data",member="0",path="weft-rdma0n1"} 2)",
         R"(weft_path_association_ends_total{volume="data",member="0",path="weft-rdma0n1",reason="timeout"} 2)"})
        EXPECT_TRUE(has(text, line)) << line << "\n" << text;
    EXPECT_FALSE(text.contains("weft_class")) << text;
}

TEST(Metrics, ALatencyHistogramGrowsToItsCount)
{
    const auto text = metrics_text(a_volume(true), {}, "1");
    for (const char* line :
         {R"(weft_qos_feed_latency_target_seconds{volume="data"} 0.0005)",
          R"(weft_class_latency_seconds_bucket{volume="data",class="feed",le="8.192e-06"} 1)",
          R"(weft_class_latency_seconds_bucket{volume="data",class="feed",le="0.000131072"} 1)",
          R"(weft_class_latency_seconds_bucket{volume="data",class="feed",le="0.000262144"} 6)",
          R"(weft_class_latency_seconds_bucket{volume="data",class="feed",le="+Inf"} 8)",
          R"(weft_class_latency_seconds_count{volume="data",class="feed"} 8)",
          R"(weft_class_latency_seconds_count{volume="data",class="background"} 0)"})
        EXPECT_TRUE(has(text, line)) << line << "\n" << text;
}

TEST(Metrics, EachFamilyStandsOnce)
{
    auto samples = a_volume(true);
    samples["other"] = samples["data"];
    samples["other"].volume.name = "other";
    const auto text = metrics_text(samples, a_node, "1");
    std::istringstream lines(text);
    std::set<std::string> heads, series;
    std::string family;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# HELP ")) {
            family = line.substr(7, line.find(' ', 7) - 7);
            EXPECT_TRUE(heads.insert(family).second) << line;
        } else if (!line.starts_with("#")) {
            EXPECT_TRUE(line.starts_with(family)) << line;
            EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
        }
    }
    EXPECT_GT(series.size(), 100U);
}

// promtool checks the example, and the alerts and the dashboard may use its metrics alone
// (tests/lint-prometheus).
TEST(Metrics, AreThoseOfTheExample)
{
    std::ifstream file(METRICS_EXAMPLE);
    const std::string example{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(metrics_text(a_volume(true), a_node, "1"), example);
}

// Names of mlx5, bnxt_en, ice, e1000e, and some that only look alike.
TEST(Metrics, FlowControlIsKnownByItsNames)
{
    for (const char* name : {"rx_prio3_pause", "tx_pause_ctrl_phy", "rx_prio3_pause_duration",
                             "tx_pfc_ena_frames_pri3", "rx_priority_3_xoff.nic", "rx_flow_control_xon"})
        EXPECT_TRUE(is_about_flow_control(name)) << name;
    for (const char* name : {"rx_packets", "tx_queue_0_bytes", "rx_prio3_bytes"})
        EXPECT_FALSE(is_about_flow_control(name)) << name;
}

TEST(Metrics, LabelsAreEscaped)
{
    auto samples = a_volume(false);
    samples["data"].volume.members[0].paths[0].target = "a\"b\\c\ne";
    EXPECT_TRUE(metrics_text(samples, a_node, "1").contains(R"(target="a\"b\\c\ne")"));
}

TEST(Metrics, WithoutVolumesTheVersionIsThere)
{
    EXPECT_EQ(metrics_text({}, {}, "1"), "# HELP weft_build_info The version of weftctl, 1.\n"
                                         "# TYPE weft_build_info gauge\nweft_build_info{version=\"1\"} 1\n");
}

} // namespace
