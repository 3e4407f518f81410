// SPDX-License-Identifier: GPL-2.0-only
#include "volume_file.hpp"

#include <gtest/gtest.h>

namespace
{

using namespace weft;

result<volume_file> parse(std::string_view text)
{
    return parse_volume_file(text, "data", "data.toml");
}

/// The sentence that the file is refused with.
std::string refusal(std::string_view text)
{
    const auto file = parse(text);
    return file ? "it is taken" : file.error().text;
}

constexpr auto whole = R"(uuid = "2c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11"
members = [
    "rdma://10.0.0.1/nqn.2014-08.org.example:a",
    { at = "rdma://10.1.0.1/nqn.2014-08.org.example:a", host_address = "10.1.0.9", tos = 8 },
    "/dev/disk/by-id/nvme-eui.0025388b710116a1",
]
follow = [ "rdma://10.0.0.1:4420", "rdma://[fd00::1]:8009" ]
read_only = true
iostats = false
iopolicy = "numa"
no_path_timeout = -1

[connect]
keep_alive = 7
tos = 104

[qos]
feed_latency = "500us"
background_weight = 20
background_max = "2G/s"
feed_cgroup = "/training"
)";

TEST(volume_file, has_all_that_is_written)
{
    const auto file = parse(whole);
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file->name, "data");
    EXPECT_EQ(file->uuid, "2c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11");
    ASSERT_EQ(file->paths.size(), 3U);
    EXPECT_EQ(file->paths[0].at, "rdma://10.0.0.1/nqn.2014-08.org.example:a");
    EXPECT_EQ(file->paths[0].options.keep_alive, 7);
    EXPECT_EQ(file->paths[0].options.tos, 104);
    EXPECT_EQ(file->paths[1].options.keep_alive, 7);
    EXPECT_EQ(file->paths[1].options.tos, 8) << "its own option comes before the common one";
    EXPECT_EQ(file->paths[1].options.host_address, "10.1.0.9");
    EXPECT_EQ(file->follow, (std::vector<std::string>{"rdma://10.0.0.1:4420", "rdma://[fd00::1]:8009"}));
    EXPECT_EQ(file->connect.keep_alive, 7);
    EXPECT_TRUE(file->read_only);
    EXPECT_FALSE(file->iostats);
    EXPECT_EQ(file->iopolicy, "numa");
    EXPECT_EQ(file->no_path_timeout, -1);
    ASSERT_TRUE(file->qos);
    const auto request = parse_qos(*file->qos, "data");
    ASSERT_TRUE(request);
    EXPECT_EQ(request->feed_latency, 500U);
    EXPECT_EQ(request->background_weight, 20U);
    EXPECT_EQ(request->max_bytes[1], 2ULL << 30);
    EXPECT_EQ(request->cgroup[0], "/training");
    EXPECT_EQ(request->cgroup[1], "") << "a cgroup that the file does not name is taken away";
}

TEST(volume_file, that_is_written_is_read_as_the_same)
{
    const auto file = parse(whole);
    ASSERT_TRUE(file);
    const auto text = format_volume_file(*file);
    const auto again = parse(text);
    ASSERT_TRUE(again) << again.error().text << "\n" << text;
    ASSERT_EQ(again->paths.size(), file->paths.size());
    for (std::size_t i = 0; i < 2; i++) {
        EXPECT_EQ(again->paths[i].at, file->paths[i].at);
        EXPECT_EQ(again->paths[i].options.tos, file->paths[i].options.tos);
        EXPECT_EQ(again->paths[i].options.keep_alive, file->paths[i].options.keep_alive);
        EXPECT_EQ(again->paths[i].options.host_address, file->paths[i].options.host_address);
    }
    EXPECT_EQ(again->follow, file->follow);
    EXPECT_EQ(again->connect.keep_alive, 7);
    EXPECT_EQ(again->connect.tos, 104) << "services are connected by it, although a path has another";
    EXPECT_EQ(again->no_path_timeout, file->no_path_timeout);
    EXPECT_EQ(again->read_only, file->read_only);
    EXPECT_EQ(format_volume_file(*again), text);
}

TEST(volume_file, of_two_lines_is_enough)
{
    const auto file = parse("members = [\n \"/dev/nvme1n1\", \"/dev/nvme2n1\" ]\n");
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_TRUE(file->iostats);
    EXPECT_FALSE(file->read_only);
    EXPECT_FALSE(file->qos);
    EXPECT_TRUE(file->uuid.empty());
}

TEST(volume_file, takes_a_uuid_in_capitals)
{
    const auto file =
        parse("uuid = \"2C9A6B6E-6C4E-4F0E-9D5B-0D6A4F0A7B11\"\nmembers = [ \"/dev/nvme1n1\" ]\n");
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file->uuid, "2c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11");
}

TEST(volume_file, keeps_a_name_with_quotes)
{
    volume_file file;
    file.name = "data";
    file.paths.push_back({"/dev/disk/by-id/a\"b\\c", {}});
    const auto again = parse(format_volume_file(file));
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_EQ(again->paths.front().at, file.paths.front().at);
}

TEST(volume_file, is_refused_with_line_and_column)
{
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\nread_only = \"yes\"\n"),
              "data.toml:2:13: read_only must be true or false");
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\n[connect]\nkeep_alive = 0\n"),
              "data.toml:3:14: keep_alive must be a whole number from 1 to 86400");
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\n[connect]\nkeep_alive = 4294967301\n"),
              "data.toml:3:14: keep_alive must be a whole number from 1 to 86400");
    EXPECT_EQ(refusal("members = [\n\"nvme1n1\" ]\n").substr(0, 35), "data.toml:2:1: 'nvme1n1' is neither");
    EXPECT_EQ(refusal("members = [ \"/dev/a\",\n\"/dev/a\" ]\n"), "data.toml:2:1: /dev/a is there twice");
    EXPECT_EQ(refusal("uuid = \"1\"\nmembers = [ \"/dev/a\" ]\n"), "data.toml:1:8: '1' is not a UUID");
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\n[qos]\nfeed_latency = 500\n"),
              "data.toml:2:1: '500' is not a time; write it as 500us, 2ms or 1s");
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\n[qos]\nreads = \"fast\"\n"),
              "data.toml:2:1: 'fast' is not a class; use feed or background");
    EXPECT_EQ(refusal("members = [ { at = \"/dev/a\", tos = 300 } ]\n"),
              "data.toml:1:36: tos must be a whole number from 0 to 255");
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\n[connect]\ndhchap_secret_file = \"secret\"\n"),
              "data.toml:3:22: dhchap_secret_file must be the full name of a file, or keyring:DESCRIPTION");
    EXPECT_EQ(refusal("members = [ \"/dev/a\" ]\nfollow = \"rdma://10.0.0.1\"\n"),
              "data.toml:2:10: follow = [ \"rdma://ADDRESS:PORT\", ... ] lists discovery services");
    EXPECT_TRUE(refusal("members = [ \"/dev/a\" ]\nfollow = [ 3 ]\n").starts_with("data.toml:2:12: "));
    EXPECT_EQ(refusal("members = [ { tos = 3 } ]\n"),
              "data.toml:1:13: the table of a member must have at = \"URI or device\"");
    EXPECT_TRUE(refusal("members = [ \"/dev/a\" ]\nread-only = true\n")
                    .starts_with("data.toml:2:1: read-only is not a key here; valid keys are: connect, "
                                 "follow, iopolicy, iostats, members"));
    EXPECT_TRUE(refusal("read_only = true\n").starts_with("data.toml: the file names no members"));
    EXPECT_TRUE(refusal("members = [ \"/dev/a\"\n").starts_with("data.toml:"));
    EXPECT_TRUE(refusal("members = \"/dev/a\"\n").starts_with("data.toml: the file names no members"));
    EXPECT_TRUE(
        refusal("members = [ \"/dev/a\" ]\nqos = 3\n").starts_with("data.toml:2:7: qos must be a table"));
    EXPECT_TRUE(refusal("members = [ \"/dev/a\" ]\nconnect = 3\n")
                    .starts_with("data.toml:2:11: connect must be a table"));
}

TEST(volume_file, is_of_the_volume_that_is_assembled)
{
    volume_file file;
    file.name = "data";
    file.uuid = "2c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11";
    volume_status volume;
    volume.name = "data";
    // The kernel tells no UUID while another command has not ended, and that ends by itself.
    for (const auto* state : {"assembling", "stopping"}) {
        volume.state = state;
        for (const auto& uuid : {file.uuid, std::string()}) {
            file.uuid = uuid;
            const auto done = check_assembled(file, volume);
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().code, exit_code::missing);
            EXPECT_NE(done.error().text.find("volume data is assembled already"), std::string::npos)
                << done.error().text;
        }
        file.uuid = "2c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11";
    }
    for (const auto* state : {"live", "failed"}) {
        volume.state = state;
        volume.uuid = file.uuid;
        EXPECT_TRUE(check_assembled(file, volume));
        volume.uuid[0] = '3';
        const auto done = check_assembled(file, volume);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, exit_code::busy);
        EXPECT_EQ(done.error().text,
                  "another volume called data is assembled, 3c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11");
    }
}

} // namespace
