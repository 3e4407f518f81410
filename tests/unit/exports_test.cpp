// SPDX-License-Identifier: GPL-2.0-only
#include "exports.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace
{

using namespace weft;
using nlohmann::json;

json entry()
{
    return {{"device", "/dev/nvme1n1"},
            {"subnqn", "nqn.2014-08.org.example:a"},
            {"uuid", "1b4e28ba-2fa1-11d2-883f-0016d3cca427"},
            {"transport", "tcp"},
            {"address", "10.0.0.1"},
            {"port", 4420},
            {"any_host", true},
            {"hosts", json::array()},
            {"p2pmem", "off"},
            {"size", 1048576},
            {"own_port", true},
            {"own_hosts", json::array()}};
}

result<std::vector<export_spec>> parse(const json& exports)
{
    return parse_exports(json{{"version", 1}, {"exports", exports}}.dump(), "a file");
}

TEST(exports, are_what_was_saved)
{
    const auto all = parse(json::array({entry()}));
    ASSERT_TRUE(all) << all.error().text;
    ASSERT_EQ(all->size(), 1U);
    ASSERT_EQ(all->front().addresses.size(), 1U);
    EXPECT_EQ(all->front().addresses[0].at, (nvme_address{"tcp", "10.0.0.1", 4420}));
    EXPECT_TRUE(all->front().addresses[0].own_port);
    EXPECT_EQ(all->front().size, 1048576U);
}

TEST(exports, have_no_unknown_key)
{
    auto one = entry();
    one["tls_keyfile"] = "/etc/weft/key";
    const auto all = parse(json::array({one}));
    ASSERT_FALSE(all);
    EXPECT_NE(all.error().text.find("tls_keyfile is not a key of an export"), std::string::npos)
        << all.error().text;
}

TEST(exports, have_several_addresses)
{
    auto one = entry();
    one["other_addresses"] =
        json::array({json{{"address", "10.1.0.1"}, {"port", 4421}, {"own_port", false}}});
    const auto all = parse(json::array({one}));
    ASSERT_TRUE(all) << all.error().text;
    ASSERT_EQ(all->front().addresses.size(), 2U);
    EXPECT_EQ(all->front().addresses[1].at, (nvme_address{"tcp", "10.1.0.1", 4421}));
    EXPECT_FALSE(all->front().addresses[1].own_port);

    for (const auto& [name, bad] : {std::pair{"address", json("10.0.0.1")},
                                    {"address", json("node7")},
                                    {"port", json(0)},
                                    {"port", json(70000)}}) {
        auto other = json{{"address", "10.1.0.1"}, {"port", 4420}, {"own_port", false}};
        other[name] = bad;
        one["other_addresses"] = json::array({other});
        EXPECT_FALSE(parse(json::array({one}))) << other;
    }
}

TEST(exports, have_numbers_that_fit)
{
    for (const auto& port : {json(99999999), json(65536), json(0), json(-1), json(4420.5), json("4420")}) {
        auto one = entry();
        one["port"] = port;
        const auto all = parse(json::array({one}));
        ASSERT_FALSE(all) << port;
        EXPECT_EQ(all.error().code, exit_code::damaged);
        EXPECT_NE(all.error().text.find("port"), std::string::npos) << all.error().text;
    }
    auto one = entry();
    one["size"] = -1;
    EXPECT_FALSE(parse(json::array({one})));
}

TEST(exports, are_there_once)
{
    const auto twice = parse(json::array({entry(), entry()}));
    ASSERT_FALSE(twice);
    EXPECT_NE(twice.error().text.find("twice"), std::string::npos);
}

TEST(exports, are_of_a_disk)
{
    auto one = entry();
    one["identity"] = "dm/uuid LVM-1";
    const auto all = parse(json::array({one}));
    ASSERT_TRUE(all) << all.error().text;
    const auto& spec = all->front();
    EXPECT_EQ(spec.identity, "dm/uuid LVM-1");
    EXPECT_TRUE(check_same_disk(spec, {"dm/uuid LVM-1"}));
    // A later kernel tells another identifier first.
    EXPECT_TRUE(check_same_disk(spec, {"wwid eui.1", "dm/uuid LVM-1"}));
    for (const auto& now : {std::vector<std::string>{"dm/uuid LVM-2"}, {"wwid LVM-1"}, {}}) {
        const auto done = check_same_disk(spec, now);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, exit_code::busy);
        EXPECT_NE(done.error().text.find("another disk is there: it has "), std::string::npos);
        EXPECT_NE(done.error().text.find("had dm/uuid LVM-1; "), std::string::npos) << done.error().text;
    }
    // Of an older version, or of a disk without an identifier.
    const auto unknown = parse(json::array({entry()}));
    ASSERT_TRUE(unknown) << unknown.error().text;
    EXPECT_EQ(unknown->front().identity, "");
    EXPECT_TRUE(check_same_disk(unknown->front(), {"dm/uuid LVM-2"}));
    EXPECT_TRUE(check_same_disk(unknown->front(), {}));
}

TEST(exports, have_the_uuid_of_their_disk)
{
    export_spec one, other;
    one.device = "/dev/disk/by-id/dm-name-vg-old";
    other.device = "/dev/disk/by-id/dm-name-vg-new";
    EXPECT_NE(uuid_name(one), uuid_name(other)) << "without an identifier, its path counts";
    EXPECT_TRUE(check_other_disk(other, {one}));
    one.identity = other.identity = "dm/uuid LVM-1";
    EXPECT_EQ(uuid_name(one), uuid_name(other)) << "the volume was renamed";
    const auto again = check_other_disk(other, {one});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, exit_code::busy);
    EXPECT_NE(again.error().text.find("dm-name-vg-old, which is exported already"), std::string::npos);
    other.device = one.device;
    other.identity = "dm/uuid LVM-2";
    EXPECT_NE(uuid_name(one), uuid_name(other)) << "it was made anew";
    EXPECT_TRUE(check_other_disk(other, {one}));
}

TEST(exports, have_the_path_that_stays)
{
    const std::string folder = "/dev/disk/by-id/";
    const auto picked = [&](const std::vector<std::string>& names) {
        std::vector<std::string> links;
        for (const auto& name : names)
            links.push_back(folder + name);
        return most_stable(links).substr(folder.size());
    };
    EXPECT_EQ(picked({"dm-name-vg-lv", "dm-uuid-LVM-1"}), "dm-uuid-LVM-1");
    EXPECT_EQ(picked({"md-name-host:0", "md-uuid-1:2:3:4"}), "md-uuid-1:2:3:4");
    EXPECT_EQ(picked({"dm-name-mpatha", "scsi-3600", "wwn-0x600"}), "wwn-0x600");
    EXPECT_EQ(picked({"ata-model_serial", "wwn-0x5000"}), "wwn-0x5000");
    EXPECT_EQ(picked({"nvme-model_serial", "nvme-eui.1", "nvme-model_serial_1"}), "nvme-eui.1");
    EXPECT_EQ(picked({"dm-name-a", "scsi-model_serial"}), "scsi-model_serial");
    EXPECT_EQ(picked({"virtio-b", "virtio-a"}), "virtio-a");
}

} // namespace
