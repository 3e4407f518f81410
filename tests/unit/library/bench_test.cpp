// SPDX-License-Identifier: GPL-2.0-only
#include "run.hpp"
#include "support.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace weft::test
{

namespace
{

/// Runs it and reads its JSON.
nlohmann::json figures(const std::string& options, const std::string& before = "")
{
    const TemporaryFile json(1), svg(1);
    const auto output = run(before + BENCH " " + options + " --json " + json.path() + " --svg " + svg.path());
    EXPECT_EQ(output.status, 0) << output.text;
    const auto picture = svg.read();
    const std::string text(reinterpret_cast<const char*>(picture.data()), picture.size());
    EXPECT_EQ(text.rfind("<svg ", 0), 0U);
    EXPECT_NE(text.find("</svg>"), std::string::npos);
    std::ifstream file(json.path());
    return nlohmann::json::parse(file);
}

nlohmann::json route(const nlohmann::json& all, const std::string& name)
{
    for (const auto& one : all["routes"])
        if (one["asked"] == name)
            return one;
    return {};
}

TEST(Bench, EveryRouteToHostMemory)
{
    const TemporaryFile file(9 * mib + 512);
    const auto all = figures(file.path());
    for (const auto* name : {"direct", "staged", "pread"}) {
        const auto one = route(all, name);
        EXPECT_EQ(one["ran"], true) << one;
        EXPECT_GE(one["bytes"], 9 * mib);
        EXPECT_GT(one["gb_per_second"], 0);
        EXPECT_GE(one["latency_us"]["p99"], one["latency_us"]["p50"]);
    }
    EXPECT_EQ(route(all, "staged")["route"], "staged");
    EXPECT_EQ(route(all, "cufile")["ran"], false);
    EXPECT_NE(route(all, "cufile")["why"].get<std::string>().find("GPU"), std::string::npos);
}

TEST(Bench, GpuMemory)
{
    const TemporaryFile file(4 * mib);
    const std::string libraries = "WEFT_CUFILE_LOG=none LD_LIBRARY_PATH=" STANDIN ":" CUFILE " ";
    const auto all = figures(file.path() + " --gpu 0 --block 256K --depth 4", libraries);
    EXPECT_EQ(route(all, "direct")["ran"], false);
    EXPECT_NE(route(all, "direct")["why"].get<std::string>().find("no dma-buf"), std::string::npos);
    EXPECT_EQ(route(all, "staged")["bytes"], 4 * mib);
    EXPECT_EQ(route(all, "pread")["bytes"], 4 * mib);
    EXPECT_EQ(route(all, "pread")["route"], "pinned host memory, and a copy, 4 threads");
    EXPECT_EQ(route(all, "cufile")["bytes"], 4 * mib) << route(all, "cufile");
    EXPECT_EQ(route(all, "cufile")["route"], "staged, by weft's libcufile, 4 threads");
    EXPECT_EQ(all["memory"], "gpu");
    const auto written =
        figures(file.path() + " --gpu 0 --write --destroy --routes cufile --block 64K", libraries);
    EXPECT_EQ(route(written, "cufile")["bytes"], 4 * mib);
    EXPECT_EQ(file.read(), std::vector<std::byte>(4 * mib)) << "what new memory of a GPU is here";
}

TEST(Bench, WritingAndRanges)
{
    const TemporaryFile file(4 * mib);
    const auto all = figures(file.path() + " --write --destroy --offset 1M --size 2M --routes direct");
    EXPECT_EQ(all["routes"].size(), 1U);
    EXPECT_EQ(route(all, "direct")["bytes"], 2 * mib);
    const auto now = file.read();
    EXPECT_EQ(now[mib - 1], file.data()[mib - 1]);
    EXPECT_EQ(now[mib], std::byte{0});
    EXPECT_EQ(now[3 * mib - 1], std::byte{0});
    EXPECT_EQ(now[3 * mib], file.data()[3 * mib]);
}

TEST(Bench, NothingIsOverwrittenUnasked)
{
    const TemporaryFile file(mib);
    const auto asked = run(BENCH " " + file.path() + " --write");
    EXPECT_NE(asked.status, 0);
    EXPECT_NE(asked.text.find("--destroy"), std::string::npos) << asked.text;
    EXPECT_EQ(file.read(), file.data());
    const auto loop = LoopDevice::of(file);
    if (!loop)
        GTEST_SKIP() << "a loop device takes root, and a kernel that has them";
    // As a mounted filesystem has it.
    const OwnedFd held(::open(loop->path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(held);
    for (const auto* name : {"direct", "staged", "pread"}) {
        const auto busy = run(BENCH " " + loop->path() + " --write --destroy --routes " + name);
        EXPECT_NE(busy.text.find("Device or resource busy"), std::string::npos) << busy.text;
    }
    EXPECT_EQ(file.read(), file.data());
}

TEST(Bench, ItsStatusSaysWhetherAllWasMeasured)
{
    const TemporaryFile file(mib);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " " + file.path()).status), 0) << "cuFile was not asked for";
    EXPECT_EQ(WEXITSTATUS(run(BENCH " " + file.path() + " --routes direct,cufile").status), 3);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " " + file.path() + " --routes cufile").status), 3);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " --help").status), 0);
    EXPECT_EQ(WEXITSTATUS(run(BENCH).status), 2);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " " + file.path() + " --bogus").status), 2);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " " + file.path() + " --depth 5000").status), 2);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " " + file.path() + " --write").status), 2);
    EXPECT_EQ(WEXITSTATUS(run(BENCH " /no/where").status), 1);
}

TEST(Bench, ThePlainWayHasAsManyInFlight)
{
    const TemporaryFile file(4 * mib);
    const auto all = figures(file.path() + " --routes pread --block 64K --depth 8");
    EXPECT_EQ(route(all, "pread")["route"], "host memory, and a copy, 8 threads");
    EXPECT_EQ(route(all, "pread")["bytes"], 4 * mib);
}

TEST(Bench, WhatCannotBe)
{
    const auto fails = [](const std::string& options, const std::string& why) {
        const auto output = run(BENCH " " + options);
        EXPECT_NE(output.status, 0);
        EXPECT_NE(output.text.find(why), std::string::npos) << output.text;
    };
    const TemporaryFile file(mib);
    fails("/no/where", "/no/where: No such file");
    fails(file.path() + " --offset 2M", "ends at byte");
    fails(file.path() + " --routes nonsense", "nonsense");
    fails(file.path() + " --block 2G", "1 GiB at most");
    fails(file.path() + " --block 0", "and --block not 0");
    if (run("ldconfig -p | grep -q libcuda.so.1").status)
        fails(file.path() + " --gpu 0", "there is no libcuda.so.1 here");
    fails("/dev/null", "neither a block device nor a file");
}

} // namespace

} // namespace weft::test
