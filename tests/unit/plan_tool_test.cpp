// SPDX-License-Identifier: GPL-2.0-only
/// weft-plan as a user runs it, and what it reads: units, fields, presets, measurements.
#include "library/run.hpp"

#include <calibrate.hpp>
#include <chart.hpp>
#include <fields.hpp>
#include <words.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace weft::plan
{

namespace
{

using nlohmann::json;

test::Output plan(const std::string& arguments)
{
    return test::run(PLAN " --profiles " PROFILES " " + arguments);
}

int status_of(const test::Output& output)
{
    return WIFEXITED(output.status) ? WEXITSTATUS(output.status) : -1;
}

/// The first plan of the document; null if it failed.
json first(const std::string& arguments)
{
    const auto output = plan(arguments + " --json");
    EXPECT_EQ(status_of(output), 0) << output.text;
    const auto document = json::parse(output.text, nullptr, false);
    EXPECT_TRUE(document.is_object()) << output.text;
    return document.is_object() ? document.at("plans").at(0) : json();
}

class Folder
{
public:
    Folder()
    {
        char name[] = "/tmp/weft-plan-XXXXXX";
        if (const auto* made = ::mkdtemp(name))
            path_ = made;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name, const std::string& text) const
    {
        const auto path = path_ / name;
        std::ofstream(path) << text;
        return path.string();
    }
    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

TEST(PlanUnits, AreReadAsWritten)
{
    EXPECT_DOUBLE_EQ(parse_value(kind::size, "42GB").value(), 42e9);
    EXPECT_DOUBLE_EQ(parse_value(kind::size, "40 GiB").value(), 40 * 0x1p30);
    EXPECT_DOUBLE_EQ(parse_value(kind::rate, "400Gbit/s").value(), 50e9);
    EXPECT_DOUBLE_EQ(parse_value(kind::rate, "4GB/s").value(), 4e9);
    EXPECT_DOUBLE_EQ(parse_value(kind::time, "1.5h").value(), 5400);
    EXPECT_DOUBLE_EQ(parse_value(kind::quantity, "70B").value(), 70e9);
    EXPECT_DOUBLE_EQ(parse_value(kind::percent, "0.44%").value(), 0.0044);
}

TEST(PlanUnits, AreNeverGuessed)
{
    const std::pair<kind, const char*> wrong[] = {
        {kind::size, "42"},      {kind::size, "42G"},        {kind::size, "42Gb"},
        {kind::size, "42gb"},    {kind::size, "42GB/s"},     {kind::rate, "4GB"},
        {kind::rate, "400Gbps"}, {kind::rate, "400"},        {kind::time, "5m"},
        {kind::time, "5"},       {kind::percent, "0.44"},    {kind::number, "1.5"},
        {kind::number, "8B"},    {kind::quantity, "70 G"},   {kind::size, "nanGB"},
        {kind::size, "infGB"},   {kind::size, "1e999GB"},    {kind::size, ""},
        {kind::size, "GB"},      {kind::quantity, "1e308T"}, {kind::factor, "1 part"},
        {kind::number, "1e300"}};
    for (const auto& [what, text] : wrong)
        EXPECT_FALSE(parse_value(what, text)) << text;
}

TEST(PlanUnits, AreShownWithThreeDigits)
{
    EXPECT_EQ(show(bytes(42e9)), "42 GB");
    EXPECT_EQ(show(bytes(1.008e12)), "1.01 TB");
    EXPECT_EQ(show(bytes(999.9e9)), "1 TB");
    EXPECT_EQ(show(bytes(0)), "0 B");
    EXPECT_EQ(show(bytes(131072)), "128 KiB");
    EXPECT_EQ(show_value(kind::bit_rate, 50e9), "400 Gbit/s");
    EXPECT_EQ(show(bytes_per_second(166.7e9)), "167 GB/s");
    EXPECT_EQ(show(seconds(45)), "45 s");
    EXPECT_EQ(show(seconds(5400)), "1.5 h");
    EXPECT_EQ(show_part(0.0044), "0.44 %");
    EXPECT_EQ(show_quantity(70e9), "70 B");
}

TEST(PlanFields, EachHasAnOptionThatTakesWhatItShows)
{
    inputs of;
    of.trained.parameters = 70e9;
    for (const auto& one : fields()) {
        EXPECT_FALSE(one.help.empty()) << one.name;
        const double value = one.get(of);
        if (std::isnan(value) || value == 0 || one.what == kind::word)
            continue;
        EXPECT_GE(value, one.least) << one.name;
        EXPECT_LE(value, one.most) << one.name;
        inputs copy;
        one.put(copy, value);
        EXPECT_EQ(one.get(copy), value) << one.name;
    }
}

TEST(PlanTool, TheCommandOfTheManPage)
{
    const auto of = first("--parameters 70e9 --precision fp16 --optimizer adamw --interval 1h");
    EXPECT_DOUBLE_EQ(of.at("checkpoint").at("size").get<double>(), 420e9);
    EXPECT_DOUBLE_EQ(of.at("checkpoint").at("bytes_a_day").get<double>(), 10.08e12);
    EXPECT_EQ(of.at("sentences").size(), 3U);
    EXPECT_TRUE(of.at("storage").at("needed").at("possible").get<bool>());
}

TEST(PlanTool, TheTextNamesTheLimit)
{
    const auto output = plan("--model llama-70b --gpus 1024 --targets 4 --rails 1");
    EXPECT_EQ(status_of(output), 0);
    EXPECT_NE(output.text.find("the targets' network is the limit"), std::string::npos) << output.text;
}

TEST(PlanTool, BadInputIsOneSentenceAndStatus2)
{
    const std::pair<const char*, const char*> wrong[] = {
        {"", "the model is unknown"},
        {"--parameters 0", "--parameters 0: it must be more than 0"},
        {"--parameters -7e9", "--parameters -7e9: it must be more than 0"},
        {"--parameters nan", "write a finite number"},
        {"--parameters inf", "write a finite number"},
        {"--parameters 1e400", "too large"},
        {"--parameters 1e30", "the maximum is"},
        {"--parameters 7e9 --feed 4GB", "--feed 4GB: write GB/s (bytes) or Gbit/s (bits)"},
        {"--parameters 7e9 --rail-rate 400GB/s", "is the unit right? GB/s are bytes, Gbit/s are bits"},
        {"--parameters 7e9 --gpu-memory 80", "write a unit"},
        {"--parameters 7e9 --gpu-memory 80G", "write which"},
        {"--parameters 7e9 --interval 5m", "write min"},
        {"--parameters 7e9 --ssd-afr 0.44", "write percent"},
        {"--parameters 7e9 --gpus 1.5", "write a whole number"},
        {"--parameters 7e9 --precision fp17", "write one of fp32, bf16, fp16, fp8"},
        {"--parameters 7e9 --gpus 64 --tensor 8 --pipeline 2 --data 8", "are 128 GPUs, but --gpus is 64"},
        {"--model llama-71b", "llama-70b, llama-7b"},
        {"--parameters 7e9 --ssd none-such", "micron-9400-pro"},
        {"--parameters 7e9 --what-if +2-things", "write +2-nodes"},
        {"--parameters 7e9 --what-if -900-nodes", "nothing would be left"},
        {"--parameters 7e9 --what-if wish=1", "'wish' is not an input"},
        {"--parameters 7e9 --watch 5s", "--watch needs --from"},
        {"--parameters 7e9 --fio /tmp", "--fio needs --from"},
        {"--parameters 7e9 --no-such-option", "--no-such-option"},
        {"--compare /dev/null /dev/null --what-if +1-nodes", "--compare takes two plans"},
    };
    for (const auto& [arguments, sentence] : wrong) {
        const auto output = plan(arguments);
        EXPECT_EQ(status_of(output), 2) << arguments << ": " << output.text;
        EXPECT_NE(output.text.find(sentence), std::string::npos) << arguments << ": " << output.text;
        EXPECT_TRUE(output.text.starts_with("weft-plan: ")) << output.text;
        EXPECT_EQ(std::ranges::count(output.text, '\n'), 1) << output.text;
    }
}

TEST(PlanTool, FilesThatAreMissingAndOutputThatFails)
{
    EXPECT_EQ(status_of(plan("--plan /no/such.toml")), 4);
    EXPECT_EQ(status_of(plan("--profiles /no/such.toml --list")), 4);
    EXPECT_EQ(status_of(plan("--parameters 7e9 --report /no/such/folder/plan.html")), 1);
    EXPECT_EQ(status_of(plan("--parameters 7e9 >/dev/full")), 1);
}

TEST(PlanTool, PlansOfFilesSideBySide)
{
    const Folder folder;
    const auto a =
        folder.file("a.toml", "model = \"llama-70b\"\ngpus = 1024\nfeed = \"4GB/s\"\nssd = \"pm1743\"\n");
    const auto b =
        folder.file("b.toml", "model = \"llama-70b\"\ngpus = 1024\nfeed = \"1GB/s\"\nssd-read = \"5GB/s\"\n");
    const auto output = plan("--compare " + a + " " + b);
    EXPECT_EQ(status_of(output), 0) << output.text;
    EXPECT_NE(output.text.find("4.1 TB/s"), std::string::npos) << output.text;
    EXPECT_NE(output.text.find("1.02 TB/s"), std::string::npos) << output.text;
    const auto broken = folder.file("c.toml", "model = \"llama-70b\"\nfeed = \"4GB\"\n");
    const auto refused = plan("--plan " + broken);
    EXPECT_EQ(status_of(refused), 2);
    EXPECT_NE(refused.text.find("c.toml: --feed 4GB"), std::string::npos) << refused.text;
    const auto unknown = plan("--plan " + folder.file("d.toml", "wishes = 3\n"));
    EXPECT_EQ(status_of(unknown), 2);
    EXPECT_NE(unknown.text.find("'wishes' is not an input"), std::string::npos) << unknown.text;
    const auto syntax = plan("--plan " + folder.file("e.toml", "\n\nfeed = = 3\n"));
    EXPECT_EQ(status_of(syntax), 2);
    EXPECT_NE(syntax.text.find("e.toml, line 3"), std::string::npos) << syntax.text;
}

TEST(PlanTool, WhatIfKeepsTheTargets)
{
    const auto output = plan("--model llama-70b --gpus 1024 --feed 4GB/s --what-if +2-nodes --json");
    ASSERT_EQ(status_of(output), 0) << output.text;
    const auto document = json::parse(output.text);
    const auto& before = document.at("plans").at(0);
    const auto& after = document.at("plans").at(1);
    EXPECT_EQ(after.at("inputs").at("gpus"), 1040);
    EXPECT_EQ(after.at("storage").at("targets"), before.at("storage").at("targets"));
    EXPECT_GT(after.at("feed").at("wanted"), before.at("feed").at("wanted"));
    const auto interval = plan("--model llama-70b --what-if interval=30min --what-if +2-targets --json");
    ASSERT_EQ(status_of(interval), 0) << interval.text;
    const auto other = json::parse(interval.text).at("plans");
    EXPECT_EQ(other.at(1).at("inputs").at("interval"), 1800);
    EXPECT_EQ(other.at(1).at("storage").at("targets"),
              other.at(0).at("storage").at("targets").get<int>() + 2);
}

TEST(PlanTool, PricesAndEpochsWhereTheyAreAskedFor)
{
    const std::string arguments = "--model llama-7b --gpus 16 --targets 2 --rails 1 --ssds 8 --node-rails 2";
    const auto bare = first(arguments);
    EXPECT_TRUE(bare.at("storage").at("price").is_null());
    EXPECT_TRUE(bare.at("epoch").is_null());
    const auto of =
        first(arguments + " --price-target 10000 --price-ssd 1500 --price-rail 1200 --price-gpu-hour 2.5"
                          " --samples 1.2B --sample-size 64KiB --batch 4096 --step 1s");
    // Two targets with 8 SSDs and a rail each, and two nodes with two rails.
    EXPECT_DOUBLE_EQ(of.at("storage").at("price").get<double>(), 2 * 10000 + 16 * 1500 + 6 * 1200);
    EXPECT_GT(of.at("storage").at("lost_gpu_time_price").get<double>(), 0);
    EXPECT_DOUBLE_EQ(of.at("epoch").at("iops_of_a_member").get<double>(), 4096 * 1.5 / 16);
}

TEST(PlanTool, PresetsHaveSources)
{
    const auto all = read_profiles(PROFILES);
    ASSERT_TRUE(all) << all.error().text;
    for (const auto& one : *all) {
        EXPECT_GT(one.source.size(), 15U) << one.name;
        const auto output =
            plan((one.family == "model" ? "--model " : "--parameters 7e9 --" + one.family + " ") + one.name);
        EXPECT_EQ(status_of(output), 0) << one.name << output.text;
    }
    const auto listed = plan("--list");
    EXPECT_NE(listed.text.find("--ssd micron-9400-pro\n  Micron 9400 PRO product brief"), std::string::npos)
        << listed.text;
    const Folder folder;
    const auto bare =
        plan("--profiles " + folder.file("p.toml", "[gpu.mine]\ngpu-memory = \"96GB\"\n") + " --list");
    EXPECT_EQ(status_of(bare), 2);
    EXPECT_NE(bare.text.find("gpu.mine has no source"), std::string::npos) << bare.text;
}

TEST(PlanTool, PublishedFiguresAndPlots)
{
    const auto published = plan("--published");
    EXPECT_EQ(status_of(published), 0);
    EXPECT_NE(published.text.find("70B: about 420 GB with AdamW states\n  420 GB by the formulas"),
              std::string::npos)
        << published.text;
    EXPECT_EQ(published.text.find("does not follow"), std::string::npos);
    const auto plots = plan("--model llama-70b --gpus 1024 --feed 4GB/s --plot --sensitivity");
    EXPECT_NE(plots.text.find("Interval against lost GPU time"), std::string::npos);
    EXPECT_NE(plots.text.find("Targets against feed"), std::string::npos);
    EXPECT_NE(plots.text.find("\n  gpu-mtbf"), std::string::npos) << plots.text;
}

TEST(PlanTool, SensitivityIsSortedAndKnowsWhatMatters)
{
    const auto of = first("--model llama-70b --gpus 1024 --sensitivity").at("sensitivity");
    double before = 1e9;
    std::string names;
    for (const auto& one : of) {
        EXPECT_LE(one.at("swing").get<double>(), before);
        before = one.at("swing");
        names += one.at("input").get<std::string>() + " ";
    }
    EXPECT_NE(names.find("gpu-mtbf "), std::string::npos);
    EXPECT_NE(names.find("interval "), std::string::npos);
    // The SSDs' room is not what limits this plan.
    EXPECT_EQ(names.find("ssd-capacity "), std::string::npos);
}

constexpr auto volume = R"({"schema":1,"errors":[],"volumes":[{"name":"data","iostats":true,
"chunk_size":131072,"members":[
 {"size":1000000000000,"read":{"ios":1,"bytes":4096,"nsecs":1},"write":{"ios":1,"bytes":8192,"nsecs":1},
  "paths":[{"target":"10.0.0.1:4420","rail":"mlx5_0"},{"target":"10.1.0.1:4420","rail":"mlx5_1"}]},
 {"size":2000000000000,"read":{"ios":1,"bytes":4096,"nsecs":1},"write":{"ios":1,"bytes":0,"nsecs":1},
  "paths":[{"target":"10.0.0.1:4420","rail":"mlx5_0"},{"target":"10.1.0.1:4420","rail":"mlx5_1"}]},
 {"size":1000000000000,"read":{"ios":1,"bytes":0,"nsecs":1},"write":{"ios":1,"bytes":0,"nsecs":1},
  "paths":[{"target":"10.0.0.2:4420","rail":"mlx5_0"}]}]}]})";

std::string value_in(const settings& among, std::string_view name)
{
    for (const auto& [key, value] : among)
        if (key == name)
            return value;
    return "";
}

TEST(PlanMeasured, AVolumeIsMembersTargetsAndRails)
{
    const auto found = measured_of(volume, "data");
    ASSERT_TRUE(found) << found.error().text;
    EXPECT_EQ(found->members, 3U);
    EXPECT_EQ(found->read_bytes, 8192);
    EXPECT_EQ(value_in(found->values, "targets"), "2");
    EXPECT_EQ(value_in(found->values, "rails"), "2");
    EXPECT_EQ(value_in(found->values, "ssds"), "2");
    EXPECT_EQ(value_in(found->values, "node-rails"), "2");
    EXPECT_EQ(value_in(found->values, "ssd-capacity"), "1000000000000B");
    EXPECT_EQ(value_in(found->values, "chunk"), "131072B");
}

TEST(PlanMeasured, AnythingElseIsRefused)
{
    for (const auto* text :
         {"", "no JSON", "[]", "{}", R"({"volumes":[]})", R"({"volumes":[{"name":"data"}]})",
          R"({"volumes":[{"name":"data","members":[{"size":"x"}]}]})", R"({"volumes":7})",
          R"({"errors":[{"code":4,"text":"the module is not loaded"}]})", R"({"errors":3})"})
        EXPECT_FALSE(measured_of(text, "data")) << text;
    EXPECT_FALSE(measured_of(volume, "other"));
}

TEST(PlanMeasured, FioGivesWhatAMemberDoes)
{
    const Folder folder;
    folder.file("checkpoint-write.json",
                R"(fio: a warning
{"jobs":[{"jobname":"checkpoint-write","read":{"bw_bytes":0,"iops":0},"write":{"bw_bytes":12000000000,"iops":100}}]})");
    folder.file(
        "restore.json",
        R"({"jobs":[{"jobname":"restore","read":{"bw_bytes":15000000000,"iops":9},"write":{"bw_bytes":0,"iops":0}}]})");
    folder.file("run.json", "{}");
    const auto found = fio_settings(folder.path(), 3);
    ASSERT_TRUE(found) << found.error().text;
    EXPECT_EQ(value_in(*found, "ssd-write"), "4000000000B/s");
    EXPECT_EQ(value_in(*found, "ssd-read"), "5000000000B/s");
    const auto of = first("--parameters 7e9 --targets 1 --ssds 3 --fio " + folder.path());
    EXPECT_EQ(of.at("inputs").at("ssd-write"), 4e9);
    EXPECT_FALSE(fio_settings(folder.file("odd.json", R"({"jobs":[{"jobname":3}]})"), 3));
    EXPECT_FALSE(fio_settings(folder.file("none.txt", "nothing"), 3));
    EXPECT_FALSE(fio_settings("/no/such", 3));
}

TEST(PlanMeasured, AJobThatHasFailedIsNamed)
{
    const Folder folder;
    const auto failed = folder.file(
        "restore.json",
        R"({"jobs":[{"jobname":"restore","error":5,"read":{"bw_bytes":15000000000,"iops":9},"write":{"bw_bytes":0,"iops":0}}]})");
    const auto output = plan("--parameters 7e9 --targets 1 --ssds 3 --fio " + folder.path());
    EXPECT_EQ(status_of(output), 1) << output.text;
    EXPECT_EQ(output.text,
              "weft-plan: " + failed + ": the job restore has failed (Input/output error); run it again\n");
}

TEST(PlanMeasured, TheToolAsksWeftctl)
{
    const Folder folder;
    const auto document = folder.file("volume.json", volume);
    const auto command =
        folder.file("weftctl", "#!/bin/sh\n[ \"$*\" = 'status data --json' ] && exec cat " + document +
                                   "\necho '{\"errors\":[{\"code\":4,\"text\":\"no volume\"}]}'; exit 4\n");
    std::filesystem::permissions(command, std::filesystem::perms::owner_all);
    const auto with = [&](const std::string& arguments) {
        return test::run("PATH=" + folder.path() + ":$PATH " PLAN " " + arguments);
    };
    const auto output = with("--parameters 7e9 --from data --watch 10ms --json");
    ASSERT_EQ(status_of(output), 0) << output.text;
    const auto of = json::parse(output.text).at("plans").at(0);
    EXPECT_EQ(of.at("storage").at("targets"), 2);
    EXPECT_EQ(of.at("storage").at("rails"), 2);
    EXPECT_EQ(of.at("feed").at("wanted"), 0);
    const auto missing = with("--parameters 7e9 --from other");
    EXPECT_EQ(status_of(missing), 4);
    EXPECT_NE(missing.text.find("--from other: no volume"), std::string::npos) << missing.text;
    const auto without = test::run("PATH=/no/such " PLAN " --parameters 7e9 --from data");
    EXPECT_EQ(status_of(without), 4);
    EXPECT_NE(without.text.find("weft-tools"), std::string::npos) << without.text;
}

TEST(PlanWords, EachProblemHasASentence)
{
    inputs of;
    of.trained.parameters = 1e12;
    of.gpus = 8;
    of.targets = 1;
    of.rails = 1;
    of.volumes = 100;
    of.interval = minute;
    const auto made = evaluate(of);
    ASSERT_TRUE(made) << made.error().text;
    EXPECT_GE(made->problems.size(), 4U);
    for (const auto what : made->problems)
        EXPECT_TRUE(sentence_of(what, *made).ends_with('.')) << name_of(what);
}

TEST(PlanWords, TextIsSafeInHtml)
{
    EXPECT_EQ(escaped("<b>&\"x\""), "&lt;b&gt;&amp;&quot;x&quot;");
}

} // namespace

} // namespace weft::plan
